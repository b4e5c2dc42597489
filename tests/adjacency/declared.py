"""Random gauges: what they publish, by which strategy, with which noise, under which constraint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.adjacency.world import Times
from tidegauge.model.quantity import DAY, Span, instant, rfc3339
from tidegauge.model.schedule import Schedule

if TYPE_CHECKING:
    import random

BOUNDS = ([0, 3], [-2, 3], [2, 5], [-5, -1], [0, 1], [-3, 0])


@dataclass(frozen=True)
class Declared:
    """A gauge without its source, and the times at which it is run."""

    gauge: dict[str, Any]
    times: Times
    owned: bool
    values: tuple[int | None, ...]


def declare(rng: random.Random, *, tuned: bool = False) -> Declared:
    """`tuned`: also strategies that the planner finds itself, which takes longer."""
    months = rng.random() < 0.15
    tick = 3 * DAY if months else 1
    origin = instant("2024-01-31T00:00:00Z") if months else 0
    readings = rng.randint(2, 7)
    end = 10 * (readings + rng.randint(0, 2))
    passes = [*sorted({rng.randint(1, end) for _ in range(rng.randint(0, 3))}), end + 20]
    times = Times(tuple(passes), 10, tick, origin)
    owned, pure = rng.random() < 0.5, rng.random() < 0.4
    releases: dict[str, Any] = {}
    for n in range(rng.choice((1, 1, 2, 3))):
        name = f"r{n}"
        releases[name] = _release(rng, times, readings, pure=pure, months=months, tuned=tuned)
        if rng.random() < 0.2:
            releases[name]["constraint"] = _constraint(rng, tick)
    budget = {"epsilon": "1"} if pure else {"rho": "1/2"}
    gauge: dict[str, Any] = {"budget": budget, "releases": releases}
    if rng.random() < 0.95:
        gauge["constraint"] = _constraint(rng, tick)
    if owned:
        gauge |= {"unit": "owner", "max_rows": rng.choice((1, 1, 2, 3))}
    return Declared(gauge, times, owned, _values(releases))


def _values(releases: dict[str, Any]) -> tuple[int | None, ...]:
    """Both ends of every range, and a little beyond, where clamping must hold."""
    found: set[int] = {0, 1}
    for release in releases.values():
        for low, high in release.get("bounds", {}).values():
            found |= {low, high, low - 7, high + 7}
    return (*sorted(found), None)


def _limit(rng: random.Random, tick: int) -> dict[str, Any]:
    most, reach = rng.choice((1, 2, 2, 3, 4)), rng.choice((0, 5, 9, 10, 11, 25))
    within = f"{reach * tick} microseconds" if reach else "1 microsecond"
    match rng.randrange(5):
        case 0:
            return {"within": within}
        case 1:
            return {"at_most": most, "within": within}
        case _:
            return {"at_most": most}


def _constraint(rng: random.Random, tick: int) -> dict[str, Any]:
    excess = {"on_excess": rng.choice(("freeze", "freeze", "retire"))}
    if rng.random() < 0.25:
        cases = {label: _limit(rng, tick) for label in ("p", "q")}
        return {"by": "k", "cases": cases, **excess}
    return {**_limit(rng, tick), **excess}


def _release(
    rng: random.Random, times: Times, readings: int, *, pure: bool, months: bool, tuned: bool
) -> dict[str, Any]:
    flow, grouped = rng.random() < 0.3, rng.random() < 0.5
    table = "changes(t)" if flow else "t"
    row = "after." if flow else ""
    aggregate = rng.choice(("COUNT(*)", "COUNT(*)", f"SUM({row}x)", f"AVG({row}x)"))
    groups = f"{row}s AS s, " if grouped else ""
    release: dict[str, Any] = {"sql": f"SELECT {groups}{aggregate} FROM {table}"}
    if flow:
        release["sql"] += rng.choice(("", " WHERE before.s = 'a'", " WHERE after.x > 0"))
        if rng.random() < 0.5:
            release["clip"] = rng.choice((1, 2))
    elif rng.random() < 0.4:
        release["sql"] += rng.choice((" WHERE s = 'a'", " WHERE x > 0", " WHERE k <> 'q'"))
    if grouped:
        release["sql"] += " GROUP BY s"
        release["groups"] = {"s": ["a", "b"] if rng.random() < 0.7 else ["a", "b", "c"]}
    if not aggregate.startswith("COUNT"):
        release["bounds"] = {f"{row}x": rng.choice(BOUNDS)}
    start = times.origin + rng.choice((0, 0, 10)) * times.tick
    if months:
        every, window = "1 month", rng.choice((None, None, "1 month", "2 months"))
        lasting = f"{readings - 1} months" if readings > 1 else None
    else:
        step = rng.choice((10, 10, 10, 5))
        every = f"{step} microseconds"
        window = rng.choice((None, None, None, every, "20 microseconds", "15 microseconds", "5 microseconds"))
        lasting = f"{step * (readings - 1)} microseconds"
    release |= {"start": rfc3339(start), "every": every}
    if rng.random() < 0.9 and lasting:
        release["for"] = lasting
    if window:
        release["window"] = window
    span = Span.parse(window or every) if window or flow else None
    duration = Span.parse(release["for"]) if "for" in release else None
    schedule = Schedule.lasting(start, Span.parse(every), duration, span)
    strategy = _strategy(rng, schedule, pure=pure, tuned=tuned)
    if strategy is not None:
        release["strategy"] = strategy
    return release


def _strategy(rng: random.Random, schedule: Schedule, *, pure: bool, tuned: bool) -> Any:
    bins, base, span = schedule.bins, schedule.base, schedule.span
    if tuned and rng.random() < 0.5:
        return rng.choice((None, "hierarchy", "disjoint"))
    if bins is None:
        return rng.choice(({"name": "disjoint", "base": base}, _hierarchy(rng, schedule), _epochs(rng)))
    kinds: list[dict[str, Any]] = [
        {"name": "disjoint", "base": base},
        _hierarchy(rng, schedule),
        _ahead(rng, schedule) if pure else _hierarchy(rng, schedule),
        {
            "name": "autoregressive",
            "bins": bins,
            "first": base,
            "memory": rng.choice((0, 30000, 60000, 65536)),
            "shared_noise": rng.choice(("0", "1/2", "3/2", "3")),
        },
        {
            "name": "damped",
            "bins": bins,
            "first": base,
            "beta": rng.choice((0.5, 0.9, 1.0)),
            "white": rng.choice((0.0, 0.5)),
            "offset": rng.choice((0.0, 1.0, 4.0)),
        },
        {
            "name": "buffered",
            "bins": bins,
            "first": base,
            "buffers": rng.choice(("1:0.1", "0.5:0.3 0.5:0.01", "0.25:1 0.75:0")),
            "offset": rng.choice((0.0, 0.5, 2.0)),
        },
    ]
    if schedule.sliding:
        kinds += [
            {"name": "sliding", "span": span, "stride": schedule.stride, "readings": schedule.count},
            _toeplitz(rng.choice(("banded", "window")), schedule),
        ]
    else:
        kinds.append(_toeplitz("root", schedule))
    return rng.choice(kinds)


def _toeplitz(shape: str, schedule: Schedule) -> dict[str, Any]:
    width = 0 if shape == "root" else schedule.span
    return {
        "name": "toeplitz", "shape": shape, "bins": schedule.bins, "first": schedule.base, "beta": 1.0,
        "width": width, "white": 0.0,
    }  # fmt: skip


def _hierarchy(rng: random.Random, schedule: Schedule) -> dict[str, Any]:
    height = rng.randint(1, 3)
    found = {
        "name": "hierarchy",
        "branching": rng.choice((2, 2, 3)),
        "height": height,
        "bins": "ever" if schedule.bins is None else schedule.bins,
        "load": "none" if schedule.base else rng.choice(("apart", "leaf")),
    }
    if rng.random() < 0.5:
        found["scales"] = " ".join(rng.choice(("1", "2", "1/2", "3/2")) for _ in range(height + 1))
    return found


def _ahead(rng: random.Random, schedule: Schedule) -> dict[str, Any]:
    height = rng.randint(1, 3)
    found = {"name": "ahead", "branching": rng.choice((2, 3)), "height": height, "bins": schedule.bins}
    found |= {"first": schedule.base}
    if rng.random() < 0.7:
        found["scales"] = " ".join(rng.choice(("1", "2", "1/2", "3/2")) for _ in range(height))
    return found


def _epochs(rng: random.Random) -> dict[str, Any]:
    return {
        "name": "epochs",
        "start": rng.choice((1, 2, 4)),
        "branching": rng.choice((0, 2)),
        "pure": rng.choice((0, 1)),
    }
