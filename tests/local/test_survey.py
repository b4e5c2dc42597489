"""The survey: what it refuses, what it writes, what it plans."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.printed import printed
from tidegauge.errors import LocalError
from tidegauge.local import Collector, Reporter, Survey
from tidegauge.local.groups import Response
from tidegauge.local.survey import PROTOCOLS


def make(**more: Any) -> Survey:
    values: dict[str, Any] = {"answers": ["a", "b", "c"], "windows": 8, "changes": 2, "epsilon": 2}
    return Survey(**(values | more))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"answers": []}, "1 to 254"),
        ({"answers": "abc"}, "1 to 254"),
        ({"answers": ["a", "a"]}, "all different"),
        ({"answers": ["a", ""]}, "none of them empty"),
        ({"answers": [str(i) for i in range(255)]}, "1 to 254"),
        ({"windows": 0}, "windows"),
        ({"groups": (Response(share=1, branching=1, layers=2),)}, "no device would take part"),
        ({"changes": 0}, "at least 1"),
        ({"epsilon": 0}, "above 0"),
        ({"epsilon": float("nan")}, "above 0"),
        ({"epsilon": "two"}, "above 0"),
        ({"protocol": "telepathy"}, "there is no protocol"),
        ({"protocol": "memoized"}, "reveals_change_times=True"),
        ({"protocol": "snapshots", "options": {"map": "sign"}}, "has no option 'map'"),
        ({"start": datetime(2026, 1, 1, tzinfo=UTC)}, "give both start and every"),
        ({"start": datetime(2026, 1, 1, tzinfo=UTC), "every": timedelta(0)}, "must be positive"),
    ],
)
def test_what_it_refuses(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(LocalError, match=why):
        make(**wrong)


@pytest.mark.parametrize("epsilon", [0.1, "0.1", Decimal("0.1"), Fraction(1, 10)])
def test_epsilon_is_the_number_that_was_written(epsilon: Any) -> None:
    assert make(epsilon=epsilon).epsilon == Fraction(1, 10)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_it_is_written_and_read_back(protocol: str) -> None:
    survey = make(
        protocol=protocol,
        reveals_change_times=protocol == "memoized",
        seed="s",
        start=datetime(2026, 1, 1, tzinfo=UTC),
        every=timedelta(days=1),
    )
    again = Survey.from_json(survey.to_json())
    assert again == survey
    assert again.hash == survey.hash
    assert again.to_json() == survey.to_json()
    assert Collector(again).estimate().num_rows == 24


def test_any_change_changes_the_hash() -> None:
    hashes = {
        make(**more).hash
        for more in (
            {},
            {"windows": 9},
            {"changes": 3},
            {"epsilon": 3},
            {"seed": "x"},
            {"answers": ["a", "b"]},
            {"protocol": "tilted"},
        )
    }
    assert len(hashes) == 7


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 1}'])
def test_what_is_no_survey(text: str) -> None:
    with pytest.raises(LocalError, match="not the JSON of a survey"):
        Survey.from_json(text)


def test_json_that_was_rewritten_is_refused() -> None:
    with pytest.raises(LocalError, match="its hash"):
        Survey.from_json(json.dumps(json.loads(make().to_json()), indent=1))


def test_it_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        make().windows = 9  # type: ignore[misc]


def test_when_its_windows_are() -> None:
    survey = make(start=datetime(2026, 1, 1), every=timedelta(hours=6))  # noqa: DTZ001  (no zone means UTC)
    assert survey.window_at(datetime(2026, 1, 1, tzinfo=UTC)) == 0
    assert survey.window_at(datetime(2026, 1, 2, 23, 59, tzinfo=UTC)) == 7
    for outside in (datetime(2025, 12, 31, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC)):
        with pytest.raises(LocalError, match="does not run"):
            survey.window_at(outside)
    with pytest.raises(LocalError, match="does not say"):
        make().window_at(datetime(2026, 1, 1, tzinfo=UTC))


# -- the plan ------------------------------------------------------------------------------------------


def test_the_plan_takes_the_least_predicted_error() -> None:
    plan = Survey.plan(answers=["a", "b", "c"], windows=32, changes=2, epsilon=2, people=1000)
    errors = {each.survey.protocol: each.half_widths[0] for each in plan.candidates}
    assert "memoized" not in errors
    assert plan.survey.protocol == min(errors, key=lambda name: errors[name])
    assert make(windows=32, protocol=None).protocol == plan.survey.protocol
    assert str(plan).count("\n") > 8
    assert printed(plan.to_dict())["chosen"]["strategy"] == plan.survey.protocol
    with_memory = Survey.plan(
        answers=["a", "b"], windows=32, changes=2, epsilon=200, reveals_change_times=True
    )
    assert "memoized" in str(with_memory)
    assert "not when they changed" in with_memory.promise


@pytest.mark.parametrize(("windows", "epsilon"), [(2, 1), (16, 2), (48, 4), (48, 8)])
def test_the_default_is_never_much_worse_than_what_it_is_made_of(windows: int, epsilon: int) -> None:
    error = {
        name: make(windows=windows, epsilon=epsilon, protocol=name).predicted_variance().mean()
        for name in ("snapshots+tilted", "snapshots", "tilted")
    }
    assert error["snapshots+tilted"] <= 1.05 * min(error.values())


@pytest.mark.parametrize(
    "more",
    [
        {"windows": 1},
        {"answers": ["a"]},
        {"changes": 30},
        {"epsilon": 10**9},
        {"epsilon": "1/1000"},
        {"windows": 7, "changes": 1},
    ],
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_ends_of_what_can_be_asked(protocol: str, more: dict[str, Any]) -> None:
    survey = make(**more, protocol=protocol, reveals_change_times=protocol == "memoized")
    assert (survey.predicted_variance() > 0).all()
    collector, reports = Collector(survey), []
    for _ in range(200):
        reporter = Reporter(survey, {})
        reports += [reporter.report(window, "a") for window in range(survey.windows)]
    assert collector.add(reports).accepted == len(reports)
    assert np.isfinite(collector.histogram().value).all()


def test_parameters_can_be_looked_at() -> None:
    survey = make(windows=32)
    for group in printed(survey.parameters):
        assert group["kind"] in {"tilted", "snapshot"}
        if group["kind"] == "tilted":
            law = survey.laws[group["level"]]
            assert group["gap"] == float(law.gap)
            assert group["nu"] == float(law.nu)
    assert sum(group["share"] for group in printed(survey.parameters)) == pytest.approx(1)
    assert survey.law is survey.laws[min(survey.laws)]
    response = printed(make(protocol="response-dcr").parameters)[0]
    assert response["cells"] == 16
    assert Fraction(response["epsilon_per_report"]) == Fraction(2, 4)
    assert response["p"] / response["q"] == pytest.approx(np.exp(0.5))
    with pytest.raises(LocalError, match="no tilted law"):
        _ = make(protocol="snapshots").law


def test_options_overrule_the_planner() -> None:
    assert {group["map"] for group in make(protocol="tilted", options={"map": "pair"}).parameters} == {"pair"}
    assert set(make(protocol="tilted", options={"levels": 1}).laws) == {0}
    assert make(protocol="snapshots", options={"oracle": "oue"}).parameters[0]["oracle"] == "oue"
    assert make(protocol="response-hdcr", options={"branching": 4}).parameters[0]["branching"] == 4
