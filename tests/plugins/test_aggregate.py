"""An aggregate that is registered from here: written in SQL, planned, explained, run, decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from tests.golden.dump import Exact
from tidegauge import Gauge
from tidegauge.errors import SpecError
from tidegauge.mechanism.aggregate import Aggregate, Estimate, Part
from tidegauge.mechanism.aggregates import AGGREGATES, aggregate_of
from tidegauge.plan.explain import explain
from tidegauge.testing import Clock, Script

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tidegauge.mechanism.aggregate import Error, Floats
    from tidegauge.model.query import Query


class Spread(Aggregate):
    """A toy that takes the name of a function: the sum less ten for every row."""

    name: ClassVar[str] = "median"
    parts: ClassVar[tuple[Part, ...]] = ("values", "numbers")
    unit: ClassVar[str] = "years above ten"
    no_windows: ClassVar[str] = "is a toy"
    promise: ClassVar[str] = "of a toy"
    zero_is_nothing: ClassVar[bool] = False

    def decode(self, query: Query, values: Sequence[Floats], errors: Sequence[Error]) -> list[Estimate]:
        error = errors[0].stderr + 10 * errors[1].stderr
        found = [float(total - 10 * count) for total, count in zip(*values, strict=True)]
        return [Estimate(one, error, one - 2 * error, one + 2 * error) for one in found]

    def half_width(self, errors: Sequence[Error], stderr: float, level: float) -> float:
        return 2 * stderr


LIFE: list[tuple[Any, ...]] = [
    (1, "p1", {"ward": "a", "age": 30}),
    (2, "p2", {"ward": "b", "age": 95}),
    (3, "p1", {"ward": "a", "age": 40}),
    (3, "p3", {"ward": "a", "age": None}),
    (5, "p2", None),
]
RUNNING = {"start": "1970-01-01T00:00:00.000002Z", "every": "2 microseconds", "for": "4 microseconds"}


@pytest.fixture
def registered() -> Iterator[None]:
    AGGREGATES.register(Spread.name, Spread())
    yield
    AGGREGATES.unregister(Spread.name)


def gauge(folder: Path, **more: Any) -> Gauge:
    sql = "SELECT ward, MEDIAN(age) FROM t GROUP BY ward"
    options: dict[str, Any] = {"now": Clock(9), "sampler": Exact(), "store": folder / "store.db"}
    declared = {"sql": sql, "groups": {"ward": ["a", "b"]}, "bounds": {"age": [0, 90]}, **RUNNING}
    return Gauge(
        source=Script(columns={"ward": "VARCHAR", "age": "BIGINT"}, changes=LIFE),
        constraint={"at_most": 2},
        budget={"epsilon": 1, "delta": "1e-6"},
        releases={"ages": declared, **more},
        **options,
    )


@pytest.mark.usefixtures("registered")
def test_a_whole_gauge_runs_with_it(tmp_path: Path) -> None:
    one = gauge(tmp_path)
    shown = explain(one.plan(), why=True)
    assert "95 % half-widths in years above ten (of a toy)" in shown
    list(one.run())
    readings = gauge(tmp_path).published()
    assert not any(reading.zero_is_nothing for reading in readings)
    assert [reading.value for reading in readings] == pytest.approx([20, 80, 30, 80, 30, 0], abs=1e-5)
    stderr = readings[0].stderr
    assert stderr is not None
    low, high = readings[0].interval(0.5)
    assert (low, high) == pytest.approx((20 - 2 * stderr, 20 + 2 * stderr), abs=1e-5)


@pytest.mark.usefixtures("registered")
def test_it_says_why_windows_cannot_be_derived(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="'ages' is a toy"):
        gauge(tmp_path, later={"of": "ages", "window": "4 microseconds"}).plan()


def test_without_its_registration_the_function_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="not a sum over the rows"):
        gauge(tmp_path).plan()


def test_a_name_is_registered_once_and_an_unknown_one_is_refused() -> None:
    with pytest.raises(SpecError, match="an aggregate called 'avg' is registered already"):
        AGGREGATES.register("avg", Spread())
    with pytest.raises(SpecError, match="there is no aggregate called 'median'; there are: avg, count, sum"):
        aggregate_of("median")
