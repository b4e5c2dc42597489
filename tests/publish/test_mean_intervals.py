"""The intervals of a mean at one of its bounds: the noise moves it beyond, where no mean is."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.publish.invented import INFO
from tidegauge.errors import StoreCorrupt
from tidegauge.mechanism.noise.samplers import SimulationSampler
from tidegauge.publish.outbox import public_reading
from tidegauge.publish.reading import ends, nested
from tidegauge.publish.registry import FORMATS, FilePublisher
from tidegauge.publish.series import series_of_readings
from tidegauge.publish.verify import compare
from tidegauge.run.gauge import Gauge
from tidegauge.testing import Clock, Script

if TYPE_CHECKING:
    from tidegauge.model.reading import Reading
    from tidegauge.model.tick import Published

DAYS: Final = 40
KINDS: Final = [f"kind {n}" for n in range(25)]
LOW, HIGH = 0.0, 100.0


def gauge(folder: Path, fee: int) -> Gauge:
    """Animals that all have the same fee, which is one of the bounds."""
    life: list[Any] = [(0, f"a{n:04}", {"fee": fee, "kind": KINDS[n % 25]}) for n in range(5000)]
    return Gauge(
        source=Script({"fee": "BIGINT", "kind": "VARCHAR"}, life),
        constraint={"at_most": 4},
        budget={"rho": "0.02"},
        releases={
            "fees": {
                "sql": "SELECT kind, AVG(fee) FROM t GROUP BY kind",
                "groups": {"kind": KINDS},
                "bounds": {"fee": [LOW, HIGH]},
                "start": "1970-01-01",
                "every": "1 microsecond",
                "for": f"{DAYS} microseconds",
            }
        },
        store=folder / "store.db",
        now=Clock(1000),
        sampler=SimulationSampler(3),
    )


@pytest.fixture(scope="module", params=[0, 100], ids=["lower bound", "upper bound"])
def published(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Gauge, list[Reading], list[Published]]:
    """A gauge, what it published, and the rows of its store, some with ends the wrong way round."""
    one = gauge(tmp_path_factory.mktemp("means"), request.param)
    readings = list(one.run())
    with one.reader.store.public() as store:
        rows = store.readings()
    assert any(row.low > row.high for row in rows)
    return one, readings, rows


def test_the_ends_of_every_interval_are_in_order(
    published: tuple[Gauge, list[Reading], list[Published]],
) -> None:
    one, readings, rows = published
    for reading in [*readings, *one.published(), *one.published(smoothed=True)]:
        low, high = reading.interval()
        assert LOW <= low < high <= HIGH
        if reading.value is not None:
            assert low <= reading.value <= high
    for model in (reading.model for reading in one.published(denoised="all")):
        assert model is not None
        assert model.low < model.high
    series = one.plan().series["fees"]
    for public in (public_reading(series, row) for row in rows):
        assert LOW <= public.low <= public.low_50 < public.high_50 <= public.high <= HIGH


def test_only_intervals_beyond_a_bound_are_replaced(
    published: tuple[Gauge, list[Reading], list[Published]],
) -> None:
    _, readings, rows = published
    for reading, row in zip(sorted(readings, key=_place), sorted(rows, key=_row_place), strict=True):
        if row.low <= row.high:
            assert reading.interval() == (row.low, row.high)
        else:
            assert row.stderr is not None
            low, high = reading.interval()
            assert high - low == pytest.approx(1.959964 * row.stderr)


def _place(reading: Reading) -> tuple[object, int]:
    assert reading.group is not None
    return reading.time, KINDS.index(str(reading.group["kind"]))


def _row_place(row: Published) -> tuple[int, int]:
    return row.time, row.cell


def test_intervals_of_lower_levels_lie_inside(
    published: tuple[Gauge, list[Reading], list[Published]],
) -> None:
    for reading in published[1]:
        nested = [reading.interval(level) for level in (0.95, 0.9, 0.5, 0.1)]
        assert all(wide[0] <= narrow[0] <= narrow[1] <= wide[1] for wide, narrow in pairwise(nested))


def test_a_chart_has_the_intervals_of_each_mean(
    published: tuple[Gauge, list[Reading], list[Published]],
) -> None:
    one, readings, _ = published
    cells = one.plan().series["fees"].outline.cells
    info = replace(INFO, name="fees", aggregate="avg", never_negative=False, cells=cells)
    drawn = series_of_readings(info, readings, table="t")
    points = {(line.label, point.time): point for line in drawn.lines for point in line.points}
    for reading in readings:
        assert reading.group is not None
        point = points[str(reading.group["kind"]), _instant(reading)]
        assert (point.low, point.high) == reading.interval()
        assert (point.low50, point.high50) == pytest.approx(reading.interval(0.5), abs=0.01 * point.half)


def _instant(reading: Reading) -> int:
    return round(reading.time.timestamp() * 1e6)


def test_exports_of_earlier_versions_agree(
    published: tuple[Gauge, list[Reading], list[Published]], tmp_path: Path
) -> None:
    """They have the ends as the store has them."""
    _, readings, rows = published
    ordered = zip(sorted(readings, key=_place), sorted(rows, key=_row_place), strict=True)
    old = [replace(reading, _interval=_fixed(row.low, row.high)) for reading, row in ordered]
    path = tmp_path / "old.csv"
    FilePublisher(FORMATS.named("csv"), path).deliver(old)
    assert compare(path, readings) == len(rows)
    FilePublisher(FORMATS.named("csv"), path).deliver(
        [replace(one, _interval=_fixed(one.interval()[0], HIGH + 1)) for one in readings]
    )
    with pytest.raises(StoreCorrupt, match="other values"):
        compare(path, readings)


def _fixed(low: float, high: float) -> Any:
    return lambda _: (low, high)


def test_ends_beyond_a_bound() -> None:
    assert ends(0.0, 1.0, 0.0, -0.5) == pytest.approx((0.0, 1.959964))
    assert ends(9.0, 1.0, 9.5, 9.0) == pytest.approx((9 - 1.959964, 9.0))
    assert ends(5.0, 1.0, 3.0, 7.0) == (3.0, 7.0)
    assert ends(None, None, 0.0, 9.0) == (0.0, 9.0)
    assert nested(0.0, 9.5, (0.0, 17.2)) == (0.0, 9.5)
