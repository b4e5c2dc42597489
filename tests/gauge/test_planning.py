"""What the planner does with a whole declaration."""

from __future__ import annotations

from time import thread_time
from typing import Any

import pytest

from tidegauge.plan.certify import loss
from tidegauge.plan.plan import Plan
from tidegauge.plan.planner import make_plan
from tidegauge.plan.spec import GaugeSpec

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
            "release": {f"r{i}": {**release, **every} for i, release in enumerate(releases)},
        }
    )
    return make_plan(spec, table="t", columns={"c": "VARCHAR", "v": "BIGINT"}, now=0)


def test_a_strategy_whose_grid_is_too_fine_for_its_noise_is_not_offered() -> None:
    made = plan({"epsilon": 1}, {"within": "900 days"}, MEAN)
    assert made.releases[0].chosen.strategy == "hierarchy"
    assert "autoregressive" not in {candidate.strategy for candidate in made.releases[0].candidates}
    plain = plan({"epsilon": 1}, {"within": "900 days"}, COUNT)
    assert plain.releases[0].chosen.strategy == "autoregressive"


@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"rho": "0.5"}], ids=["pure", "gaussian"])
@pytest.mark.parametrize(
    ("constraint", "for_"),
    [
        ({"at_most": 8, "within": "30 days"}, "ever"),
        ({"at_most": 500}, "3649 days"),
        ({"by": "c", "cases": {"a": {"at_most": 4}, "b": {"within": "30 days"}}}, "3649 days"),
    ],
    ids=["both, ever", "many", "either"],
)
def test_several_releases_with_groups_are_planned_in_time_and_as_private_as_declared(
    budget: dict[str, Any], constraint: dict[str, Any], for_: str
) -> None:
    """Twice the time that is allowed, in seconds of one processor that may be busy with other things."""
    begun = thread_time()
    made = plan(budget, constraint, GROUPS, COUNT, MEAN, {**COUNT, "window": "7 days"}, for_=for_)
    assert thread_time() - begun < 10
    assert made.needed <= made.total
    for release in made.releases:
        assert loss(release, made.program) <= release.loss
        assert release.chosen == min(release.candidates, key=lambda one: one.half_width_worst)
