"""What readers know of a plan from its record is what the plan itself says."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tidegauge.errors import StoreCorrupt
from tidegauge.plan.outline import address, outlines
from tidegauge.plan.plan import Plan
from tidegauge.plan.planner import make_plan
from tidegauge.plan.spec.declaration import GaugeSpec

TIMES = {"start": "2026-01-01", "every": "1 day", "for": "9 days"}
SQL: Final[dict[str, dict[str, Any]]] = {
    "rows": {
        "sql": "SELECT w, b, COUNT(*) FROM t GROUP BY w, b",
        "groups": {"w": ["x", "y"], "b": [True, False]},
    },
    "week": {"of": "rows", "window": "7 days"},
    "slow": {"of": "rows", "every": "3 days"},
    "total": {"sql": "SELECT SUM(v) FROM t", "bounds": {"v": [0, "0.75"]}},
    "mean": {"sql": "SELECT AVG(v) FROM t", "bounds": {"v": [-1, 9]}},
    "change": {"sql": "SELECT COUNT(*) FROM t", "window": "2 days"},
    "moves": {
        "sql": "SELECT COUNT(*) FROM changes(t) WHERE after.v > before.v",
        "window": "1 day",
        "clip": 1,
    },
}


@pytest.fixture(scope="module")
def plan() -> Plan:
    declared = {
        "source": {"kind": "object", "table": "t"},
        "budget": {"epsilon": 1},
        "constraint": {"at_most": 3},
        "release": {name: one if "of" in one else {**one, **TIMES} for name, one in SQL.items()},
    }
    columns = {"v": "DECIMAL(9,2)", "w": "VARCHAR", "b": "BOOLEAN"}
    return make_plan(GaugeSpec.parse(declared), table="t", columns=columns, now=0)


def stored(plan: Plan) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(plan.record()))
    return found


def test_the_record_says_what_the_plan_says(plan: Plan) -> None:
    found = outlines([stored(plan)], [plan.reservation])
    assert found == {name: series.outline for name, series in plan.series.items()}
    assert list(found) == list(plan.series)
    assert found["rows"].cells[1] == {"w": "x", "b": False}
    assert {name for name, one in found.items() if one.never_negative} == {"rows", "slow", "moves"}
    assert [name for name, one in found.items() if not one.zero_is_nothing] == ["mean"]
    assert [name for name, one in found.items() if one.grid is None] == ["mean"]


def test_a_plan_that_is_not_in_the_ledger_is_refused(plan: Plan) -> None:
    record = stored(plan)
    record["program"]["releases"][0]["query"]["groups"][0]["values"] = ["y", "x"]
    with pytest.raises(StoreCorrupt, match="is not the one that the ledger committed"):
        outlines([record], [plan.reservation])


@pytest.mark.parametrize("query", [{}, {"groups": 1}, {"aggregate": "median"}, {"groups": [{"name": 1}]}])
def test_a_record_that_is_no_plan_is_refused(plan: Plan, query: dict[str, Any]) -> None:
    record = stored(plan)
    known = record["program"]["releases"][0]["query"]
    record["program"]["releases"][0]["query"] = {**known, **query} if query else {}
    forged = {**plan.reservation.as_json(), "plan": address(record)}
    with pytest.raises(StoreCorrupt, match="is not one that can be carried out"):
        outlines([record], [type(plan.reservation).from_json(forged)])
