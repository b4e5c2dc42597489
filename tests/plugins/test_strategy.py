"""A strategy that is registered from here: planned, explained, committed, run, read again."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest

from tests.golden.dump import Exact
from tidegauge import Gauge
from tidegauge.errors import SpecError, StoreCorrupt
from tidegauge.mechanism.registry import STRATEGIES
from tidegauge.mechanism.strategy import Row, Strategy, StrategyKind, refuse_running_values, says
from tidegauge.plan.explain import explain
from tidegauge.plan.plan import Plan
from tidegauge.testing import Clock, Script
from tidegauge.theory.sensitivity import Sensitivity

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from tidegauge.mechanism.search.task import Search
    from tidegauge.mechanism.strategy import Exposure


@dataclass(frozen=True)
class Prefixes(Strategy):
    """A toy: every running value is measured by itself, so a unit changes all of them."""

    name: ClassVar[str] = "prefixes"
    bins: int

    @property
    def parameters(self) -> dict[str, int | float | str]:
        return {"bins": self.bins}

    def rows(self, bin_: int) -> tuple[Row, ...]:
        return (Row(0, bin_, ((0, bin_, 1),)),)

    def weights(self, bin_: int, span: int | None) -> NDArray[np.float64]:
        if span is not None:
            refuse_running_values()
        last: NDArray[np.float64] = np.eye(bin_ + 1)[bin_]
        return last

    def sensitivity(self, exposure: Exposure) -> Sensitivity:
        most = Fraction(exposure.rows * max(abs(exposure.lower), abs(exposure.upper)))
        return Sensitivity(most * self.bins, most**2 * self.bins)


def _candidates(search: Search) -> Iterator[Prefixes]:
    if search.schedule.bins is not None and search.schedule.span is None and search.exposure.kind == "stock":
        yield Prefixes(search.schedule.bins)


KIND = StrategyKind(Prefixes, says("measures every running value by itself"), _candidates, {"bins": "bins"})
LIFE: list[tuple[Any, ...]] = [
    (1, "p1", {"age": 30}),
    (2, "p2", {"age": 70}),
    (4, "p1", {"age": 40}),
    (5, "p3", {"age": 20}),
    (7, "p2", None),
]
RUNNING = {"start": "1970-01-01T00:00:00.000002Z", "every": "2 microseconds", "for": "6 microseconds"}


@pytest.fixture
def registered() -> Iterator[None]:
    STRATEGIES.register(KIND.name, KIND)
    yield
    STRATEGIES.unregister(KIND.name)


def gauge(folder: Path, **pinned: Any) -> Gauge:
    options: dict[str, Any] = {"now": Clock(9), "sampler": Exact(), "store": folder / "store.db"}
    return Gauge(
        source=Script(columns={"age": "BIGINT"}, changes=LIFE),
        constraint={"at_most": 2},
        budget={"epsilon": 1, "delta": "1e-6"},
        releases={"people": {"sql": "SELECT COUNT(*) FROM t", **RUNNING, **pinned}},
        **options,
    )


@pytest.mark.usefixtures("registered")
def test_it_is_a_candidate_and_is_explained(tmp_path: Path) -> None:
    plan = gauge(tmp_path).plan()
    assert "prefixes" in {one.strategy for one in plan.releases[0].candidates}
    assert "it measures every running value by itself" in explain(plan, why=True)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("pin", ["prefixes", {"name": "prefixes", "bins": 4}])
def test_a_whole_gauge_runs_with_it(tmp_path: Path, pin: object) -> None:
    one = gauge(tmp_path, strategy=pin)
    assert one.plan().releases[0].chosen.strategy == "prefixes"
    list(one.run())
    values = [reading.value for reading in gauge(tmp_path, strategy=pin).published()]
    assert values == [2, 2, 3, 2]
    committed = one.plan().record()
    assert Plan.from_record(committed).releases[0].component_plans[0].strategy == Prefixes(4)


@pytest.mark.usefixtures("registered")
def test_what_the_schedule_fixes_cannot_be_pinned_otherwise(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="bins must be 4 here"):
        gauge(tmp_path, strategy={"name": "prefixes", "bins": 3}).plan()


def test_without_its_registration_it_is_refused_and_a_committed_plan_still_is_explained(
    tmp_path: Path,
) -> None:
    STRATEGIES.register(KIND.name, KIND)
    try:
        one = gauge(tmp_path, strategy="prefixes")
        list(one.run())
        planned = one.plan()
    finally:
        STRATEGIES.unregister(KIND.name)
    assert "is not installed here" in explain(planned, why=True)
    with pytest.raises(StoreCorrupt):
        list(gauge(tmp_path, strategy="prefixes").run())
    with pytest.raises(
        SpecError, match="there is no strategy called 'prefixes'; there are: ahead, autoregressive, "
    ):
        gauge(tmp_path / "other", strategy="prefixes").plan()


def test_the_contract_demands_a_description() -> None:
    with pytest.raises(TypeError, match="describe"):
        StrategyKind(Prefixes, candidates=_candidates, fixed={})  # type: ignore[call-arg]


def test_a_name_is_registered_once() -> None:
    with pytest.raises(SpecError, match="a strategy called 'disjoint' is registered already"):
        STRATEGIES.register("disjoint", KIND)
    assert [kind.name for kind in STRATEGIES] == list(STRATEGIES.names())
