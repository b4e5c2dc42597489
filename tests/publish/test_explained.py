"""What a plan says of itself, and what is said of declarations that cannot be:
one sentence, with its key."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tidegauge.errors import SpecError
from tidegauge.model.quantity import moment
from tidegauge.plan.explain import explain
from tidegauge.run.gauge import Gauge
from tidegauge.testing import Clock, Script

if TYPE_CHECKING:
    from pathlib import Path

    from tidegauge.plan.plan import Plan

COUNT: dict[str, Any] = {
    "sql": "SELECT COUNT(*) FROM t",
    "start": "1970-01-01",
    "every": "1 day",
    "for": "30 days",
}
FLOW: dict[str, Any] = {**COUNT, "sql": "SELECT COUNT(*) FROM changes(t)", "for": "ever"}
DAY = 86_400_000_000


def gauge(
    folder: Path,
    *,
    budget: dict[str, Any] | None = None,
    constraint: dict[str, Any] | None = None,
    more: dict[str, Any] | None = None,
    now: Clock | None = None,
    **release: Any,
) -> Gauge:
    return Gauge(
        source=Script({"v": "BIGINT"}, [(5, "a", {"v": 1})]),
        budget=budget or {"rho": "0.5"},
        constraint=constraint or {"at_most": 2},
        releases={"now": {**COUNT, **release}, **(more or {})},
        store=folder / "store.db",
        now=now or Clock(0),
    )


def plan(folder: Path, **declared: Any) -> Plan:
    return gauge(folder, **declared).plan()


@pytest.mark.parametrize(
    ("declared", "printed"),
    [
        ({"window": 14}, "release.now.window: 14 is not a duration: write it with its unit"),
        ({"for": 30}, "release.now.for: 30 is not a duration: write it with its unit"),
        ({"constraint": {"within": 30}}, "constraint.within: 30 is not a duration: write it with its unit"),
        ({"for": "9000 years"}, "release.now: for = '9000 years' goes beyond the year 9999; shorten it, or"),
        ({"for": "9999999 weeks"},
         "release.now: for = '69999993 days' goes beyond the year 9999; shorten it, or"),
        ({"budget": {"epsilon": "1e400"}}, "budget.epsilon: must be at most 1e300"),
        ({"budget": {"epsilon": float("nan")}}, "budget.epsilon: 'nan' is not a finite number"),
        ({"budget": {"epsilon": "1e-300"}},
         "release.now: its privacy loss (epsilon = 1e-300) needs noise wider than"),
        ({"strategy": 3}, "release.now.strategy: write the name of a strategy, or {"),
        ({"strategy": {"name": "damped", "beta": [1]}},
         "release.now.strategy: write the name of a strategy, or {"),
        ({"strategy": {"bins": 31}}, "release.now.strategy: needs a name"),
        ({"share": 2}, "release.now.share: must be more than 0 and at most 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_sentence(
    tmp_path: Path, declared: dict[str, Any], printed: str
) -> None:
    with pytest.raises(SpecError) as refusal:
        plan(tmp_path, **declared)
    assert str(refusal.value).startswith(printed)
    assert "\n" not in str(refusal.value)


def test_periods_beyond_the_calendar_leave_one_reading(tmp_path: Path) -> None:
    assert plan(tmp_path, every="9999 years").releases[0].release.schedule.count == 1


def test_a_window_far_longer_than_the_release_is_planned(tmp_path: Path) -> None:
    found = plan(tmp_path, window="4000 days").releases[0]
    assert {"buffered", "damped", "sliding"} <= {one.strategy for one in found.candidates}
    assert found.chosen.half_width_worst < 20


@pytest.mark.parametrize("strategy", ["hierarchy", "damped"])
def test_memory_is_the_most_that_is_ever_kept(tmp_path: Path, strategy: str) -> None:
    """Counted in the store: exact changes in all bins, of which one is always 1,
    before each of them is measured."""
    life = [(day * DAY, f"e{day}", {"v": 1}) for day in range(31)]
    clock, most = Clock(0), 0
    one = Gauge(
        source=Script({"v": "BIGINT"}, life),
        budget={"rho": "0.5"},
        constraint={"at_most": 1},
        releases={"now": {**COUNT, "strategy": strategy}},
        store=tmp_path / "store.db",
        now=clock,
    )
    for day in range(31):
        clock.now = day * DAY
        list(one.run(until=moment(clock.now)))
        with closing(sqlite3.connect(tmp_path / "store.db")) as db:
            (kept,) = db.execute("SELECT COUNT(*) FROM totals").fetchone()
        most = max(most, kept + 1 if day < 30 else 0)  # and the bin that comes next
    assert one.plan().releases[0].chosen.memory == most


def test_an_error_that_does_not_grow_is_not_said_to(tmp_path: Path) -> None:
    text = explain(plan(tmp_path, more={"flow": FLOW}, **{"for": "ever"}), why=True)
    of_now, of_flow = text.split("\nflow: flow, ")
    assert "It has no end, and its error grows: ± " in of_now
    assert "It has no end, and its error does not grow." in of_flow
    assert "total over 1 day" in of_flow.splitlines()[0]


def test_the_reason_is_the_real_one(tmp_path: Path) -> None:
    def why(**declared: Any) -> str:
        return explain(plan(tmp_path, **declared), why=True)

    assert "Why dense: it was optimised numerically" in why()
    assert "Why hierarchy: it was pinned. It measures" in why(strategy="hierarchy")
    assert "Why disjoint: for so much privacy loss it has no noise" in why(budget={"epsilon": 10**9})
    assert "Why disjoint: it measures every window once, and each is a reading." in why(more={"f": FLOW})
    assert " times the worst error: it " in why()
    assert " times the mean error: it " in why(minimise="mean")


def test_strategies_of_one_name_are_told_apart(tmp_path: Path) -> None:
    text = explain(plan(tmp_path, constraint={"at_most": 3}, window="4 days"), why=True)
    assert "toeplitz (shape=banded)" in text
    assert "toeplitz (shape=window)" in text


def test_a_plan_reads_the_same_once_it_is_committed(tmp_path: Path) -> None:
    one = gauge(tmp_path, constraint={"at_most": 3})
    before = explain(one.plan(), why=True)
    list(one.run())
    hints = [line for line in before.splitlines() if "--optimise" not in line]
    assert explain(one.plan(), why=True).splitlines() == hints


def test_a_derived_window_that_another_strategy_tells_far_better_is_remarked_on(tmp_path: Path) -> None:
    declared: dict[str, Any] = {"budget": {"epsilon": 1}, "for": "ever"}
    six = {"six": {"of": "now", "window": "6 days"}}
    text = explain(plan(tmp_path, more=six, **declared), why=True)
    assert "six would be ± " in text
    assert "pin it by 'strategy', if that matters more" in text
    assert "six would be" not in explain(plan(tmp_path, strategy="disjoint", more=six, **declared), why=True)


def test_the_worst_half_width_is_that_of_the_worst_reading(tmp_path: Path) -> None:
    """Laplace noise: how many standard deviations the half-width is depends on the reading."""
    derived = {"four": {"of": "now", "window": "4 days"}}
    made = plan(tmp_path, budget={"epsilon": 1}, more=derived, strategy="epochs", **{"for": "ever"})
    decoder = made.series["four"].decoder
    worst = max(decoder.error(0, bin_).half_width(0.95) for bin_ in range(4, 1004))
    assert made.derived[0].chosen.half_width_worst == pytest.approx(worst, rel=0.002)


@pytest.mark.parametrize("days", [2, 3, 4, 5, 6])
def test_an_optimum_for_a_few_windows_in_groups_is_found_without_a_warning(tmp_path: Path, days: int) -> None:
    grouped = {"sql": "SELECT v, COUNT(*) FROM t GROUP BY v", "groups": {"v": [1, 2, 3]}, "strategy": "dense"}
    found = plan(tmp_path, constraint={"at_most": 3}, **grouped, **{"for": f"{days} days"}).releases[0]
    assert 3 < found.chosen.half_width_worst < 5
