"""What is published: values, groups, times and intervals of small gauges, from the rows themselves.

Without noise every reading is the exact number of its rows, computed here from the log by its definition.
With real noise the intervals of many groups cover the exact numbers as often as they say.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from zoneinfo import ZoneInfo

import numpy as np
from scipy import stats

from tidegauge.audit.findings import require
from tidegauge.audit.installed.exercises import COLUMNS, Exercise, toggles
from tidegauge.audit.worlds.rehearsal import MemoryLog, SetClock
from tidegauge.audit.worlds.world import Random, Table
from tidegauge.errors import SpecError
from tidegauge.mechanism.aggregates.mean import Mean
from tidegauge.mechanism.registry import STRATEGIES
from tidegauge.run.gauge import Gauge
from tidegauge.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from tidegauge.audit.worlds.world import Event, Row
    from tidegauge.mechanism.noise.samplers import Noise
    from tidegauge.model.reading import Reading

    Floats = NDArray[np.float64]

_LEVELS: Final = (0.5, 0.8, 0.95, 0.99)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO: Final = timedelta(microseconds=1)


class Silent:
    """A sampler without noise."""

    simulated: Final = True

    def draw(self, noise: Noise, count: int) -> list[int]:
        """Zeros."""
        del noise
        return [0] * count


def _log() -> list[Event]:
    """Rows that enter, leave and change, over eight bins."""
    rng, table = Random(3), Table(None)
    for at in range(3, 79, 2):
        key = f"k{rng.randrange(7)}"
        if key in table.rows and rng.random() < 0.2:
            table.delete((at, at), key)
        else:
            row: Row = {"s": rng.choice("abc"), "k": rng.choice("pq"), "x": rng.choice((1, 4, 9, 30, None))}
            table.put((at, at), key, row | {"owner": None})
    return table.log


def _rows_at(log: Sequence[Event], time: int) -> list[Row]:
    """The rows that exist at an instant."""
    rows: dict[str, Row] = {}
    for event in log:
        if event.stamp <= time and event.key is not None:
            rows.pop(event.key, None)
            if event.row is not None:
                rows[event.key] = event.row
    return list(rows.values())


def _clamped(row: Row) -> float | None:
    return None if row["x"] is None else float(min(max(int(str(row["x"])), 2), 9))


def _count(rows: Sequence[Row]) -> float:
    return float(len(rows))


def _sum(rows: Sequence[Row]) -> float:
    return sum(value for row in rows if (value := _clamped(row)) is not None)


def _mean(rows: Sequence[Row]) -> float | None:
    values = [value for row in rows if (value := _clamped(row)) is not None]
    return sum(values) / len(values) if values else None


_EVERY: Final = {"start": "1970-01-01T00:00:00.000010Z", "every": "10 microseconds", "for": "70 microseconds"}
_GROUPED: Final = {
    "sql": "SELECT s, k, COUNT(*) FROM t GROUP BY s, k",
    "groups": {"s": ["b", "a"], "k": ["p", "q"]},
}
_SQUARE: Final = {"bounds": {"x": [2, 9]}, "grid": {"x": "1/2"}}


def _stepping(start: int, window: int) -> dict[str, str]:
    """Windows that overlap, or leave gaps."""
    return {
        "start": f"1970-01-01T00:00:00.0000{start}Z",
        "every": "20 microseconds",
        "window": f"{window} microseconds",
        "for": f"{80 - start} microseconds",
    }


_RELEASES: Final[dict[str, dict[str, Any]]] = {
    "grouped": _GROUPED | _EVERY,
    "total": {"sql": "SELECT SUM(x) FROM t", **_SQUARE, **_EVERY},
    "mean": {"sql": "SELECT AVG(x) FROM t", **_SQUARE, **_EVERY},
    "change": {"of": "total", "window": "20 microseconds"},
    "rolled": {"of": "total", "every": "20 microseconds", "window": "20 microseconds"},
    "steps": {"sql": "SELECT SUM(x) FROM t", **_SQUARE, **_EVERY, **_stepping(40, 30)},
    "wider": {"of": "steps", "window": "40 microseconds"},
    "gaps": {"sql": "SELECT SUM(x) FROM t", **_SQUARE, **_EVERY, **_stepping(20, 10)},
    "coming": {"sql": "SELECT COUNT(*) FROM changes(t) WHERE after.s = 'a' AND before.s IS NULL", **_EVERY},
}


def _right(log: Sequence[Event], release: str, time: int, group: Mapping[str, object] | None) -> float | None:
    """The exact number that a reading is of."""
    rows = _rows_at(log, time)
    match release:
        case "grouped":
            assert group is not None
            return _count([row for row in rows if all(row[name] == group[name] for name in ("s", "k"))])
        case "total":
            return _sum(rows)
        case "mean":
            return _mean(rows)
        case "change" | "rolled":
            return _sum(rows) - _sum(_rows_at(log, time - 20))
        case "steps" | "wider" | "gaps":
            return _sum(rows) - _sum(_rows_at(log, time - {"steps": 30, "wider": 40, "gaps": 10}[release]))
    return _count([one.row for one in log if time - 10 < one.stamp <= time and one.row
                   and one.row["s"] == "a" and (one.before is None or one.before["s"] is None)])  # fmt: skip


def _times(release: str) -> set[int]:
    """When a release is due."""
    first = {"change": 30, "rolled": 30, "steps": 40, "wider": 60, "gaps": 20}.get(release, 10)
    return set(range(first, 81, 20 if release in {"rolled", "steps", "wider", "gaps"} else 10))


def read_all(
    releases: Mapping[str, Mapping[str, object]],
    log: Sequence[Event],
    passes: Sequence[int],
    budget: Mapping[str, object],
    **more: Any,
) -> list[Reading]:
    """Every reading of a gauge that reads this log at these passes of the clock."""
    source = MemoryLog("t", COLUMNS, Random(0), owner=None, informed=False)
    found: list[Reading] = []
    since = -1
    with ScratchFolder() as folder:
        for at in passes:
            source.write([event for event in log if since < event.arrival <= at])
            since = at
            gauge = Gauge(
                source=source, budget=budget, releases=releases, store=Path(folder.name) / "store.db",
                now=SetClock(at), **({"constraint": {"at_most": 60}} | more),
            )  # fmt: skip
            found += list(gauge.run())
    return found


def _instant(reading: Reading) -> int:
    return (reading.time - _EPOCH) // _MICRO


def check_without_noise() -> None:
    """Every reading of a gauge without noise is exact and published when it is due.  Raises Discrepancy."""
    log = _log()
    readings = read_all(_RELEASES, log, (35, 45, 90), {"rho": 10**6}, sampler=Silent())
    seen = defaultdict[str, set[int]](set)
    for one in readings:
        at = _instant(one)
        right = _right(log, one.release, at, one.group)
        near = right is not None and one.value is not None and abs(one.value - right) < 1e-6
        require(near or right is one.value, f"'{one.release}' publishes another value than that of its rows")
        seen[one.release].add(at)
    for name in _RELEASES:
        cells = 4 if name == "grouped" else 1
        require(seen[name] == _times(name), f"'{name}' has readings at other times than are due")
        count = sum(one.release == name for one in readings)
        require(count == cells * len(_times(name)), f"'{name}' has another number of readings")


def check_calendar() -> None:
    """Days of a zone begin and end at its midnights, also when clocks change.  Raises Discrepancy."""
    zone, table, days = ZoneInfo("Europe/Berlin"), Table(None), 5
    first = datetime(2024, 3, 29, tzinfo=zone)
    midnights = [datetime(2024, 3, 29 + n, tzinfo=zone) for n in range(3)] + [
        datetime(2024, 4, 1 + n, tzinfo=zone) for n in range(days - 3)
    ]
    ends = [(one.astimezone(UTC) - _EPOCH) // _MICRO for one in midnights]
    for n, end in enumerate(ends):
        for shift in (0, 1):  # a microsecond later is the next day
            table.put((end + shift, end + shift), f"k{n}{shift}", {"s": "a", "k": "p", "x": 1, "owner": None})
    release = {
        "sql": "SELECT COUNT(*) FROM t",
        "start": first.date().isoformat(),
        "every": "1 day",
        "for": "4 days",
    }
    readings = read_all(
        {"r": release},
        table.log,
        (ends[-1] + 10**6,),
        {"rho": 10**6},
        sampler=Silent(),
        time_zone="Europe/Berlin",
    )
    found = [(_instant(one), one.value) for one in readings]
    require([at for at, _ in found] == ends, "days of a zone do not end at its midnights")
    require([value for _, value in found] == [2 * n + 1 for n in range(days)], "a row counts on another day")


_CELLS: Final = 1500


def check_intervals(alpha: float) -> None:
    """Intervals of real readings cover the exact values as often as they say.  Raises Discrepancy."""
    groups = {"s": [f"g{n}" for n in range(_CELLS)]}
    each = {"start": _EVERY["start"], "every": "10 microseconds", "for": "10 microseconds", "groups": groups}
    sums = {"bounds": {"x": [0, 10]}, "grid": {"x": 1}}
    releases: dict[str, dict[str, object]] = {
        "count": {"sql": "SELECT s, COUNT(*) FROM t GROUP BY s", "share": "1/3", **each},
        "mean": {"sql": "SELECT s, AVG(x) FROM t GROUP BY s", "share": "2/3", **each, **sums},
    }
    table = Table(None)
    for n in range(_CELLS):
        row: Row = {"s": f"g{n}", "x": (2, 8)[n % 2], "k": "p", "owner": None}
        table.put((5, 5), f"k{n}", row)
    for budget in ({"rho": 400}, {"epsilon": 70}):
        readings = read_all(releases, table.log, (90,), budget, constraint={"at_most": 2})
        for name in releases:
            last = [one for one in readings if one.release == name][-_CELLS:]
            _require_covered(name, last, alpha / 24)


def _require_covered(name: str, readings: Sequence[Reading], alpha: float) -> None:
    exact = [1.0 if name == "count" else (2.0, 8.0)[n % 2] for n in range(len(readings))]
    shown = sum(one.value is not None and bool(one.stderr) for one in readings)
    require(shown >= len(readings) * (1 if name == "count" else 0.8), f"'{name}' publishes too few values")
    for level in _LEVELS:
        ends = [one.interval(level) for one in readings]
        covered = sum(low <= right <= high for (low, high), right in zip(ends, exact, strict=True))
        few = stats.binom.cdf(covered, len(readings), level)
        # a mean that noise hides has its bounds as interval, which always cover it
        many = 1.0 if name == "mean" else stats.binom.sf(covered - 1, len(readings), level)
        require(
            min(few, many) >= alpha / len(_LEVELS),
            f"the {level:.0%} intervals of '{name}' do not cover {level:.0%}",
        )
    if name == "count":
        errors = np.array([(one.value or 0) - right for one, right in zip(readings, exact, strict=True)])
        spread = np.array([one.stderr or 0 for one in readings])
        off = abs(float(np.mean((errors / spread) ** 2)) - 1) / sqrt(5 / len(readings))
        require(
            off <= stats.norm.isf(alpha / 8) + 1,
            f"the standard errors of '{name}' are not those of its readings",
        )


_WIDE: Final = 3000
_NOISES: Final = (({"rho": "1/50"}, 3), ({"epsilon": "1/5"}, 6))
"""Budgets, and the kurtosis of their noise."""
_SHAPES: Final[tuple[tuple[dict[str, Any], dict[str, Any]], ...]] = (
    ({"at_most": 2}, {"for": "ever"}),
    ({"at_most": 2}, {"window": "20 microseconds", "start": "1970-01-01T00:00:00.000030Z"}),
    ({"at_most": 2, "renews": "30 microseconds"}, {}),
)


def check_errors(alpha: float, strategy: str) -> int:
    """Standard errors of a kind of strategy are those of its real noise; returns the number of gauges.

    The table is empty, so every reading is an error.  Raises Discrepancy.
    """
    release = {
        "sql": "SELECT s, COUNT(*) FROM t GROUP BY s",
        "groups": {"s": [f"g{n}" for n in range(_WIDE)]},
        "strategy": strategy,
        **_EVERY,
    }
    gauges = 0
    for (budget, kurtosis), (limit, more) in product(_NOISES, _SHAPES):
        try:
            readings = read_all({"r": release | more}, [], (90,), budget, constraint=limit)
        except SpecError:  # not a strategy for this release
            continue
        gauges += 1
        squares = np.array([((one.value or 0.0) / (one.stderr or 1.0)) ** 2 for one in readings])
        off = np.abs(squares.reshape(-1, _WIDE).mean(axis=1) - 1) / sqrt((kurtosis - 1) / _WIDE)
        most = stats.norm.isf(alpha / (8 * len(off))) + 2  # squares are skewed
        require(
            off.max() <= most, f"standard errors of the strategy {strategy} are not those of its readings"
        )
    require(gauges, "no small gauge uses this strategy")
    return gauges


def check_consistent() -> None:
    """Parts add up to their whole by least squares, and their errors follow.  Raises Discrepancy."""
    from tidegauge.mechanism.estimate import add_up, not_negative  # noqa: PLC0415

    parts, variances, whole, spread = np.array([3.0, -1.0, 7.5]), np.array([1.0, 4.0, 0.25]), 11.0, 2.0
    found = add_up(parts, whole, variances, spread)
    known, noise = np.append(parts, whole), np.diag(np.append(variances, spread))
    design = np.vstack([np.eye(3), np.ones(3)])
    weights = np.linalg.inv(noise)
    cover = np.linalg.inv(design.T @ weights @ design)
    best = cover @ design.T @ weights @ known
    near = np.allclose(found.parts, best) and np.isclose(found.whole, best.sum())
    near = near and np.allclose(found.part_variances, np.diag(cover))
    require(near and np.isclose(found.whole_variance, cover.sum()), "parts do not add up by least squares")
    for value, stderr in ((0.0, 2.0), (1.5, 3.0), (-4.0, 1.0)):
        grid = np.linspace(-12, 12, 200_001) * stderr
        centre = max(value, 0.0)
        mean = np.trapezoid(np.maximum(centre + grid, 0) * stats.norm.pdf(grid, scale=stderr), grid)
        cut = not_negative(value, stderr)
        right = cut.value == centre and abs(cut.bias - (mean - centre)) < 1e-6 * stderr
        require(right, "a count that is cut off at 0 states another bias")


_MEAN: Final = {"sql": "SELECT AVG(x) FROM t", "bounds": {"x": [-1000, 1000]}, "grid": {"x": 1}}


class _Errors(NamedTuple):
    """Errors of two estimates; their 95 % half-width is twice the standard error."""

    stderrs: Floats

    def half_widths(self, level: float) -> Floats:
        """The half-widths."""
        del level
        return 2 * self.stderrs


def check_means() -> None:
    """A mean, its error and its interval are those of their definitions.  Raises Discrepancy."""
    (release,) = Exercise(toggles(), _MEAN).subject().plan.releases
    query = release.release.query
    totals, counts = np.array([[40.0, -90.0]]), np.array([[50.0, 8.0]])
    errors = _Errors(np.array([12.0])), _Errors(np.array([2.0]))
    found = Mean().estimates(query, [totals, counts], cast("Any", errors))
    centre = float(query.components[0].centre)
    means, noise, spread = totals / counts, 12.0, 2.0
    require(np.allclose(found.values - centre, means), "a mean is not the ratio of its sum and its count")
    slope = np.hypot(noise, means * spread) / counts  # to first order
    require(np.allclose(found.stderrs, slope), "the standard error of a mean is not that of its ratio")
    for ends in (found.lows, found.highs):  # Fieller (1954)
        ratio = ends - centre
        off = np.abs(totals - ratio * counts) / np.hypot(2 * noise, ratio * 2 * spread)
        require(np.allclose(off, 1), "the interval of a mean does not end where its noise does")
    require(bool((found.lows < found.highs).all()), "the interval of a mean is empty")


def published_checks(alpha: float) -> dict[str, Callable[[], object]]:
    """All of them, by name; `alpha`: the chance of a false alarm that they may have together."""
    return {
        "readings without noise": check_without_noise,
        "days of a zone": check_calendar,
        "intervals with noise": lambda: check_intervals(alpha),
        "parts of a whole": check_consistent,
        "means and their intervals": check_means,
    } | {
        f"strategy {kind.name}, standard errors": partial(check_errors, alpha / 100, kind.name)
        for kind in STRATEGIES
    }
