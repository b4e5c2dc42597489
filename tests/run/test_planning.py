"""What the planner does with a whole declaration."""

from __future__ import annotations

from math import inf
from time import thread_time
from typing import TYPE_CHECKING, Any

import pytest

from tidegauge.errors import SpecError
from tidegauge.plan.certify import loss
from tidegauge.plan.plan import Plan
from tidegauge.plan.planner import make_plan
from tidegauge.plan.spec.declaration import GaugeSpec
from tidegauge.run.gauge import Gauge

if TYPE_CHECKING:
    from pathlib import Path

COUNT = {"sql": "SELECT COUNT(*) FROM t"}
GROUPS = {"sql": "SELECT c, COUNT(*) FROM t GROUP BY c", "groups": {"c": [f"g{i}" for i in range(30)]}}
MEAN = {"sql": "SELECT AVG(v) FROM t", "bounds": {"v": [-5, 100]}}


def plan(
    budget: dict[str, Any], constraint: dict[str, Any], *releases: dict[str, Any], for_: str = "3649 days"
) -> Plan:
    every = {"every": "1 day", "for": for_, "start": "2026-01-01"}
    spec = GaugeSpec.parse(
        {
            "source": {"kind": "object", "table": "t"},
            "budget": budget,
            "constraint": constraint,
            "release": {
                f"r{i}": release if "of" in release else {**release, **every}
                for i, release in enumerate(releases)
            },
        }
    )
    return make_plan(spec, table="t", columns={"c": "VARCHAR", "v": "BIGINT"}, now=0)


def test_a_strategy_whose_grid_is_too_fine_for_its_noise_is_not_offered() -> None:
    made = plan({"epsilon": 1}, {"within": "900 days"}, MEAN)
    assert made.releases[0].chosen.strategy == "ahead"
    assert "autoregressive" not in {candidate.strategy for candidate in made.releases[0].candidates}
    plain = plan({"epsilon": 1}, {"within": "900 days"}, COUNT)
    assert "autoregressive" in {candidate.strategy for candidate in plain.releases[0].candidates}


@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"rho": "0.5"}], ids=["pure", "gaussian"])
@pytest.mark.parametrize(
    ("constraint", "for_"),
    [
        ({"at_most": 8, "within": "30 days"}, "ever"),
        pytest.param({"at_most": 500}, "3649 days", marks=pytest.mark.slow),
        pytest.param(
            {"by": "c", "cases": {"a": {"at_most": 4}, "b": {"within": "30 days"}}},
            "3649 days",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["both, ever", "many", "either"],
)
def test_several_releases_with_groups_are_planned_in_time_and_as_private_as_declared(
    budget: dict[str, Any], constraint: dict[str, Any], for_: str
) -> None:
    """Twice the time that is allowed, in seconds of one processor that may be busy with other things."""
    begun = thread_time()
    derived = [
        {"of": "r0", "window": "7 days"},
        {"of": "r1", "window": "28 days"},
        {"of": "r3", "window": "28 days"},
    ]
    made = plan(budget, constraint, GROUPS, COUNT, MEAN, {**COUNT, "window": "7 days"}, *derived, for_=for_)
    assert thread_time() - begun < 10
    assert made.needed <= made.total
    assert len(made.releases) == 4
    assert len(made.derived) == 3
    for release in made.releases:
        assert loss(release, made.program) <= release.loss
        assert release.chosen == min(release.candidates, key=lambda one: one.half_width_worst)


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        ({"name": "hierarchy", "branching": 3, "height": 2, "bins": 5}, "bins must be 31 here"),
        ({"name": "hierarchy", "branching": 3, "height": 2, "bins": "ever"}, "bins must be 31 here"),
        ({"name": "toeplitz", "shape": "root", "bins": 5}, "bins must be 31 here"),
        ({"name": "toeplitz", "shape": "root", "bins": 31, "first": 1}, "first must be 0 here"),
        ({"name": "disjoint", "base": 3}, "base must be 0 here"),
        ({"name": "hierarchy", "branchin": 3}, "does not take these parameters, or needs more"),
        (
            {"name": "hierarchy", "branching": 2.5, "height": 5, "bins": 31, "load": "leaf"},
            "branching is a whole number",
        ),
        ({"name": "toeplitz", "shape": "root", "bins": 31, "beta": 1.5}, "beta must lie between 0 and 1"),
        (
            {"name": "toeplitz", "shape": "root", "bins": 31, "white": -2.0},
            "width must not be negative",
        ),
        (
            {"name": "toeplitz", "shape": "banded", "bins": 31, "width": -3},
            "width must not be negative",
        ),
        ({"name": "magic", "bins": 31}, "there is no strategy called 'magic'"),
        ("sliding", "there are: buffered, damped, disjoint, hierarchy, toeplitz"),
        ({"name": "dense", "first": 0, "digest": "1"}, "has no parameters that can be declared"),
        ({"name": "hierarchy", "branching": 4, "height": 900, "bins": 31}, "lower height or branching"),
        ({"name": "damped", "bins": 31, "beta": 0.9, "white": inf, "offset": 0.0}, "white between 0 and 1e"),
        ({"name": "damped", "bins": 31, "beta": 1.0, "white": 0.0, "offset": 1.7e308}, "and offset between"),
    ],
)
def test_a_pinned_strategy_must_be_one_for_the_declared_windows(strategy: Any, said: str) -> None:
    """One that was made for fewer windows would count fewer changes of a unit than there are,
    and draw too little noise."""
    with pytest.raises(SpecError, match=said) as refusal:
        plan({"rho": "0.5"}, {"at_most": 8}, {**GROUPS, "strategy": strategy}, for_="30 days")
    assert str(refusal.value).startswith("release.r0.strategy: ")


def test_an_optimum_is_refused_where_none_can_be_found() -> None:
    for constraint, for_ in (({"at_most": 40}, "300 days"), ({"at_most": 2}, "ever")):
        with pytest.raises(SpecError, match=r"^release\.r0\.strategy: .*an optimum is found"):
            plan({"rho": "0.5"}, constraint, {**COUNT, "strategy": "dense"}, for_=for_)


def test_a_pinned_strategy_with_what_the_planner_would_give_it_is_taken() -> None:
    free = plan({"rho": "0.5"}, {"at_most": 8}, GROUPS, for_="30 days").releases[0]
    for candidate in free.candidates:
        pinned = {"name": candidate.strategy, **candidate.parameters}
        made = plan({"rho": "0.5"}, {"at_most": 8}, {**GROUPS, "strategy": pinned}, for_="30 days")
        assert made.releases[0].chosen.noise == pytest.approx(candidate.noise)


@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"rho": "0.5"}], ids=["pure", "gaussian"])
def test_a_single_reading_can_be_planned(budget: dict[str, Any]) -> None:
    made = plan(budget, {"at_most": 3}, GROUPS, MEAN, COUNT, for_="3 hours")
    assert [release.chosen.strategy for release in made.releases] == ["disjoint"] * 3
    assert made.needed <= made.total


def test_an_end_that_is_none_is_one_mistake() -> None:
    with pytest.raises(SpecError, match=r"^release\.r0\.for: 'soon' is not a duration[^\n]*$"):
        plan({"epsilon": 1}, {"at_most": 3}, COUNT, for_="soon")


@pytest.mark.parametrize(
    "release",
    [{**COUNT, "window": "110000000 days"}, {**COUNT, "every": "1 second"}],
    ids=["window", "every"],
)
def test_more_bins_than_can_be_planned_are_refused_at_once(release: dict[str, Any]) -> None:
    spec = {"every": "1 day", "for": "3650 days", "start": "2026-01-01", **release}
    with pytest.raises(SpecError, match=r"release\.r: cuts time into [\d,]+ bins .* 4,194,304 is the most"):
        make_plan(
            GaugeSpec.parse(
                {
                    "source": {"kind": "object", "table": "t"},
                    "budget": {"epsilon": 1},
                    "constraint": {"at_most": 2},
                    "release": {"r": spec},
                }
            ),
            table="t",
            columns={"c": "VARCHAR", "v": "BIGINT"},
            now=0,
        )


def test_a_plan_of_another_declaration_is_not_committed(tmp_path: Path) -> None:
    def made(name: str, epsilon: int) -> Gauge:
        return Gauge(
            source={"kind": "files", "path": "t.csv", "table": "t", "time": "at", "key": "id"},
            constraint={"at_most": 2},
            budget={"epsilon": epsilon},
            releases={"n": {"sql": "SELECT COUNT(*) FROM t", "start": "2026-01-01", "every": "1 day",
                            "for": "2 days"}},
            store=tmp_path / name,
            base=tmp_path,
        )  # fmt: skip

    (tmp_path / "t.csv").write_text("at,id\n2026-01-01,a\n")
    one, other = made("one.db", 1), made("other.db", 2)
    with pytest.raises(SpecError, match="was made from another declaration"):
        list(one.run(plan=other.plan()))
    assert not one.committed
    plan = one.plan()
    list(one.run(plan=plan))
    assert one.plan().hash == plan.hash
