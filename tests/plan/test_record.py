"""A committed plan is known by its stored record, whatever later versions add to the values in it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from tidegauge.model.program import Program, Release
from tidegauge.model.query import Query
from tidegauge.plan import plan as plans
from tidegauge.plan.certify import certify
from tidegauge.plan.outline import address
from tidegauge.plan.plan import Plan
from tidegauge.plan.planner import make_plan
from tidegauge.plan.spec.declaration import GaugeSpec


def made(**strategy: Any) -> Plan:
    declared = {
        "source": {"kind": "object", "table": "t"},
        "budget": {"epsilon": 1},
        "constraint": {"at_most": 3},
        "release": {
            "ages": {
                "sql": "SELECT AVG(v) FROM t",
                "bounds": {"v": [0, 9]},
                "start": "2026-01-01",
                "every": "1 day",
                "for": "9 days",
                **strategy,
            }
        },
    }
    return make_plan(GaugeSpec.parse(declared), table="t", columns={"v": "BIGINT"}, now=0)


@dataclass(frozen=True)
class LaterQuery(Query):
    rounding: str = "half away from zero"


@dataclass(frozen=True)
class LaterRelease(Release):
    query: LaterQuery
    note: str = ""


@dataclass(frozen=True)
class LaterProgram(Program):
    releases: tuple[LaterRelease, ...]
    calendar: tuple[str, ...] = field(default=())


def stored(plan: Plan) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(plan.record()))
    return found


def test_a_field_with_a_default_that_a_later_version_adds_changes_no_hash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = made()
    record, known = stored(before), before.hash
    monkeypatch.setattr(plans, "_PROGRAM", TypeAdapter(LaterProgram))
    loaded = Plan.from_record(record)
    release = loaded.program.releases[0]
    assert isinstance(release, LaterRelease)
    assert release.query.rounding == "half away from zero"
    assert loaded.hash == known == address(record)
    assert loaded.record() == record
    # What is computed from the values themselves would have another hash: that is what the record is for.
    assert replace(loaded, warnings=loaded.warnings).hash != known


def test_a_plan_that_is_changed_after_loading_has_its_own_hash() -> None:
    loaded = Plan.from_record(stored(made()))
    assert replace(loaded, protects="another unit").hash != loaded.hash
    assert replace(loaded).hash == loaded.hash


def test_an_older_name_of_a_parameter_is_read_and_kept() -> None:
    """Plans of earlier versions call the shared noise of an autoregressive strategy a veil."""
    pin = {"name": "autoregressive", "bins": 10, "memory": 60000, "shared_noise": "3/4", "first": 0}
    plan = made(strategy=pin)
    record = stored(plan)
    older = json.loads(json.dumps(record).replace('"shared_noise"', '"veil"'))
    loaded = Plan.from_record(older)
    certify(loaded)
    assert loaded.releases[0].component_plans == plan.releases[0].component_plans
    assert loaded.hash == address(older) != plan.hash
    assert (
        made(strategy={"veil" if key == "shared_noise" else key: pin[key] for key in pin})
        .releases[0]
        .component_plans
        == plan.releases[0].component_plans
    )
