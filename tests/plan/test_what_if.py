"""Other values: a grid of them, and what would lower the noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.plan.test_summary import COLUMNS, COUNT
from tests.printed import printed
from tidegauge.errors import SpecError
from tidegauge.plan.planner import make_plan
from tidegauge.plan.spec.declaration import GaugeSpec
from tidegauge.plan.what_if import (
    alternatives,
    grid,
    noise_of,
    parsed,
    smaller,
    suggested,
    with_values,
)

if TYPE_CHECKING:
    from tidegauge.plan.plan import Plan


def spec(**declared: Any) -> GaugeSpec:
    return GaugeSpec.parse(
        {
            "source": {"kind": "object", "table": "t", "key": "id"},
            "constraint": {"at_most": 4},
            "budget": {"epsilon": 1, "delta": "1e-6"},
            "release": {"wards": COUNT, "all": {**COUNT, "sql": "SELECT COUNT(*) FROM t", "groups": {}}},
            **declared,
        }
    )


def planned(declared: GaugeSpec) -> Plan:
    return make_plan(declared, table="t", columns=COLUMNS, now=0)


def width(plan: Plan | None, name: str = "wards") -> float:
    assert plan is not None
    return plan.series[name].plan.chosen.half_width_worst


def test_a_grid_has_the_plan_of_every_combination() -> None:
    one_release = {"all": {**COUNT, "sql": "SELECT COUNT(*) FROM t", "groups": {}, "for": "9 days"}}
    choices = grid(spec(release=one_release), {"epsilon": ["1", "2"], "at_most": ["2", "4"]}, planned)
    assert [tuple(one.values.values()) for one in choices] == [("1", "2"), ("1", "4"), ("2", "2"), ("2", "4")]
    for one in choices:
        declared = spec(
            budget={"epsilon": one.values["epsilon"], "delta": "1e-6"},
            constraint={"at_most": int(one.values["at_most"])},
            release=one_release,
        )
        assert one.plan is not None
        assert one.plan.hash == planned(declared).hash
    assert width(choices[0].plan, "all") < width(choices[1].plan, "all")
    assert printed(choices[1].as_json())["releases"]["all"]["half_width_worst"] == width(
        choices[1].plan, "all"
    )


@pytest.mark.parametrize(
    ("values", "declared"),
    [
        ({"every": "2 days", "for": "10 days"}, {"every": "2 days", "for": "10 days"}),
        ({"within": "30 days"}, None),
    ],
)
def test_values_are_read_as_if_they_were_declared(values: Any, declared: Any) -> None:
    if declared is not None:
        releases = {name: {**COUNT, **declared} for name in ("wards",)}
        changed = with_values(spec(release={"wards": COUNT}), values)
        assert changed.canonical() == spec(release=releases).canonical()
    elif "within" in values:
        assert (
            with_values(spec(), values).canonical()
            == spec(constraint={"at_most": 4, "within": "30 days"}).canonical()
        )


def test_a_combination_that_cannot_be_planned_is_shown_as_refused() -> None:
    declared = spec(release={"wards": {**COUNT, "window": "3 days"}})
    choices = grid(declared, {"every": ["1 day", "1 month"]}, planned)
    assert choices[0].plan is not None
    assert choices[1].plan is None
    assert "calendar months" in choices[1].refused


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["epsilon"], "'epsilon' has no values; write for example epsilon=0.5,1,2"),
        (["epsilon="], "'epsilon=' has no values"),
        (["share=1"], "'share' is not one of epsilon, delta, rho, at_most"),
        (["epsilon=" + ",".join(map(str, range(1, 102)))], "asks for 101 plans; 100 is the most"),
    ],
)
def test_words_that_are_no_values(words: list[str], said: str) -> None:
    with pytest.raises(SpecError, match=r"^--what-if: ") as refused:
        parsed(words)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "values", [{"epsilon": "much"}, {"at_most": "0"}, {"every": "often"}, {"max_rows": "2"}]
)
def test_a_value_that_is_none_is_refused(values: dict[str, str]) -> None:
    with pytest.raises(SpecError, match=r"^--what-if: "):
        with_values(spec(), values)


def test_an_alternative_that_is_refused_is_left_out() -> None:
    declared = spec(constraint={"at_most": 3, "on_excess": "retire"}, release={"wards": COUNT})
    found = alternatives(declared, planned(declared), planned)
    assert [one.label for one in found] == ["epsilon = 2", "weekly"]


def test_what_would_lower_the_noise_is_said_with_numbers() -> None:
    declared = spec()
    plan = planned(declared)
    found = {one.label: one.noise for one in alternatives(declared, plan, planned)}
    assert list(found) == ["epsilon = 2", "at_most = 2", "weekly", "alone"]
    for noise in found.values():
        assert set(noise) == {"wards", "all"}
        assert float(noise["wards"].removeprefix("± ")) < width(plan)


def test_half_the_rows_of_a_unit_have_half_the_noise() -> None:
    people = {"kind": "object", "table": "t", "key": "id", "unit": "person", "max_rows": 4}
    declared = spec(source=people, release={"wards": {**COUNT, "strategy": "disjoint"}})

    def of_people(one: GaugeSpec) -> Plan:
        return make_plan(one, table="t", columns={**COLUMNS, "person": "VARCHAR"}, now=0)

    plan = of_people(declared)
    found = {one.label: one.noise for one in alternatives(declared, plan, of_people)}
    assert list(found) == ["epsilon = 2", "at_most = 2", "max_rows = 2", "weekly"]
    assert float(found["max_rows = 2"]["wards"].removeprefix("± ").replace(",", "")) == pytest.approx(
        width(plan) / 2, rel=0.02
    )


def test_what_an_error_that_never_grows_costs_is_said_with_a_number() -> None:
    endless = {key: value for key, value in COUNT.items() if key != "for"} | {"for": "ever"}
    renewing = {"at_most": 1, "renews": "5 years"}
    declared = spec(constraint=renewing, release={"wards": endless})
    plan = planned(declared)
    found = {one.label: one.noise for one in alternatives(declared, plan, planned)}
    assert float(found["for = 10 years"]["wards"].removeprefix("± ")) < width(plan) / 2
    finite = planned(with_values(declared, {"for": "10 years"}))
    assert finite.releases[0].chosen.strategy != "levels"
    for other in (spec(release={"wards": endless}), spec(constraint=renewing, release={"wards": COUNT})):
        assert all("for" not in one.label for one in alternatives(other, planned(other), planned))


MONTHLY = {**COUNT, "every": "1 month", "for": "2 years"}


@pytest.mark.parametrize(
    ("declared", "words", "said"),
    [
        ({}, ["epsilon=0.5,1,2", "at_most=2,4,8", "every='7 days'"], "a smaller at_most"),
        (
            {"budget": {"rho": "1/30"}, "constraint": {"at_most": 1}},
            ["rho=1/60,1/30,1/15", "at_most=2"],
            "Fewer readings (every) lower",
        ),
        (
            {"budget": {"epsilon": 1}, "constraint": {"within": "30 days", "on_excess": "retire"}},
            ["epsilon=0.5,1,2", "within='15 days,30 days'", "every='7 days'"],
            "a shorter within",
        ),
        (
            {"constraint": {"at_most": 2, "on_excess": "retire"}, "release": {"wards": MONTHLY}},
            ["epsilon=0.5,1,2", "at_most=2,4", "every='7 months'"],
            "a smaller at_most",
        ),
        (
            {"constraint": {"by": "ward", "cases": {"a": {"at_most": 2}, "b": {"within": "9 days"}}}},
            ["epsilon=0.5,1,2", "every='7 days'"],
            "Fewer readings (every) lower",
        ),
        (
            {"release": {"wards": COUNT, "month": {**COUNT, "window": "30 days"}}},
            ["epsilon=0.5,1,2", "at_most=2,4,8"],
            "a smaller at_most",
        ),
    ],
)  # fmt: skip
def test_the_values_that_are_suggested_suit_the_declaration(
    declared: Any, words: list[str], said: str
) -> None:
    asked = spec(**declared)
    found = suggested(asked)
    assert found[: len(words)] == words
    assert said in smaller(asked)
    for choice in grid(asked, parsed([word.replace("'", "") for word in found]), planned):
        assert choice.plan is not None, choice.refused


def test_half_of_the_time_is_an_alternative_where_nothing_else_bounds_the_changes() -> None:
    declared = spec(constraint={"within": "30 days"}, release={"wards": {**COUNT, "strategy": "disjoint"}})
    found = {one.label: one.noise for one in alternatives(declared, planned(declared), planned)}
    assert list(found) == ["epsilon = 2", "within = 15 days", "weekly"]
    half = planned(with_values(declared, {"within": "15 days"}))
    assert found["within = 15 days"] == noise_of(half)
    assert width(half) <= width(planned(declared))
