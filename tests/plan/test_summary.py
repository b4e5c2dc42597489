"""`plan` for people: one line a release, at 80 columns, with what is protected and what it costs."""

from __future__ import annotations

from typing import Any

import pytest

from tidegauge.plan.explain import explain
from tidegauge.plan.plan import Plan
from tidegauge.plan.planner import make_plan
from tidegauge.plan.spec.declaration import GaugeSpec
from tidegauge.plan.summary import rounded
from tidegauge.plan.wording import wrapped

COLUMNS = {"id": "VARCHAR", "ward": "VARCHAR", "age": "BIGINT", "person_id": "VARCHAR"}
COUNT: dict[str, Any] = {
    "sql": "SELECT ward, COUNT(*) FROM t GROUP BY ward",
    "groups": {"ward": ["a", "b", "c"]},
    "start": "2026-01-01",
    "every": "1 day",
    "for": "30 days",
}
MEAN: dict[str, Any] = {
    "sql": "SELECT AVG(age) FROM t",
    "bounds": {"age": [0, 100]},
    "start": "2026-01-01T06:00",
    "every": "1 week",
    "for": "9 weeks",
}
FLOW: dict[str, Any] = {
    "sql": "SELECT COUNT(*) FROM changes(t) WHERE before.ward IS NULL",
    "start": "2026-01-01",
    "every": "1 hour",
    "for": "9 hours",
    "clip": 1,
}


def planned(**declared: Any) -> Plan:
    whole = {
        "source": {"kind": "object", "table": "t", "key": "id"},
        "constraint": {"at_most": 4},
        "budget": {"epsilon": 1, "delta": "1e-6"},
        "release": {"wards": COUNT, "week": {"of": "wards", "window": "7 days"}, "age": MEAN, "new": FLOW},
        **declared,
    }
    return make_plan(GaugeSpec.parse(whole), table="t", columns=COLUMNS, now=0)


def test_one_line_a_release_that_a_person_understands() -> None:
    plan = planned()
    lines = str(plan).splitlines()
    assert max(map(len, lines)) <= 80
    worst = {one.release.name: one.chosen.half_width_worst for one in plan.releases}
    noise = rounded(worst["wards"])
    (line,) = (line for line in lines if line.startswith("wards: "))
    assert line.startswith(f"wards: expect ± {noise} per group, daily; within 10 % for groups above ")
    size = float(line.rsplit(" ", 1)[1].replace(",", ""))
    assert size == pytest.approx(10 * worst["wards"], rel=0.05)
    assert "  3 groups; 31 readings from 2026-01-01" in lines
    text = explain(plan)
    assert "week: expect ± " in text
    assert "change over 7 days; 3 groups; 24 readings from 2026-01-08; derived from wards at no cost" in text
    assert "(of a mean over 1,000 rows in the middle of its bounds), weekly" in text
    assert "10 readings from 2026-01-01T06:00:00Z" in text
    assert "new: expect ± " in text
    assert "total over 1 hour" in text


def test_a_roll_up_is_read_in_its_own_time_and_zone() -> None:
    releases = {"wards": COUNT | {"for": "100 days"}, "monthly": {"of": "wards", "every": "1 month"}}
    text = " ".join(explain(planned(release=releases, calendar={"time_zone": "Europe/Berlin"})).split())
    assert "per group, monthly; within 10 %" in text
    assert "4 readings from 2026-01-01 (Europe/Berlin); derived from wards at no cost" in text


def test_what_is_protected_accepted_and_paid() -> None:
    text = explain(planned())
    assert "Protects  one row (one 'id'). All readings of the gauge's whole lifetime reveal at most" in text
    assert "A person who owns several rows is not protected as a whole." in text
    assert "it keeps its last accepted contribution (freeze), so counts can be too high." in text
    assert "Costs     the whole budget (epsilon = 1, delta = 1e-06)." in text
    units = {"source": {"kind": "object", "table": "t", "key": "id", "unit": "person_id", "max_rows": 2}}
    text = explain(planned(**units, constraint={"at_most": 4, "within": "30 days", "on_excess": "retire"}))
    assert "one 'person_id' with all its rows, of which at most 2 count at a time." in text
    assert "not protected as a whole" not in text
    assert (
        "at most 4 changes of one 'person_id' within 30 days after the first, the first one included" in text
    )
    assert "it leaves with its last accepted change (retire), so counts can be too low." in text


def test_a_release_without_end_says_that_its_noise_grows() -> None:
    ever = {key: value for key, value in COUNT.items() if key != "for"}
    text = explain(planned(release={"wards": ever}))
    assert "readings without end from 2026-01-01; the noise is that of the first 1,000 readings" in text
    assert "grows slowly" not in explain(planned())


def test_strategies_are_explained_on_request_alone() -> None:
    plan = planned()
    assert "disjoint" not in explain(plan)
    text = explain(plan, why=True, width=80)
    assert max(map(len, text.splitlines())) <= 80
    for word in ("disjoint", "rho", "memory:", "adaptive:", "noise:", "Why "):
        assert word in text


def test_warnings() -> None:
    short = {"release": {"once": {**COUNT, "for": "1 hour"}}}
    plan = planned(**short, budget={"epsilon": 500, "delta": "0.5"})
    assert [warning.split()[0] for warning in plan.warnings] == [
        "epsilon",
        "delta",
        "A",
        "release.once",
    ]
    assert plan.warnings[-1] == (
        "release.once has only one reading: 'for' (1 hour) is shorter than 'every' (1 day)."
    )
    assert "A row is protected, not a person: column 'person_id'" in plan.warnings[2]
    assert all(f"Warning   {warning}" in explain(plan) for warning in plan.warnings)


def test_without_noise_it_is_called_exact() -> None:
    assert "wards: exact, without noise, daily" in explain(planned(budget={"epsilon": 10**9}))


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.123, "0.12"), (5.04, "5"), (9.96, "10"), (56.2, "56"), (546.1, "546"), (12345, "12,300")],
)
def test_sizes_of_noise_have_two_or_three_digits(value: float, text: str) -> None:
    assert rounded(value) == text


def test_expressions_stay_whole_where_lines_are_broken() -> None:
    lines = wrapped("Label  ", "epsilon = 2 and delta = 1e-06 and more words than fit", 20)
    assert lines[0] == "Label  epsilon = 2"
    assert all(line.startswith("       ") for line in lines[1:])
    assert "delta = 1e-06" in "\n".join(lines)
