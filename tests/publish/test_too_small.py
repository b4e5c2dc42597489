"""One rule says what is too small to tell, and everything that people are shown follows it."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.publish.invented import INFO
from tidegauge.cli.narrate import Narrator
from tidegauge.model.quantity import instant
from tidegauge.model.reading import TOO_SMALL, ModelEstimate, Reading, noise_hides
from tidegauge.publish.arrow_html import table_html
from tidegauge.publish.chart.draw import describe
from tidegauge.publish.feed import _said
from tidegauge.publish.formats import as_table
from tidegauge.publish.notebook import release_html
from tidegauge.publish.pages.layout import value
from tidegauge.publish.pages.release import numbers
from tidegauge.publish.plot import plot
from tidegauge.publish.public.values import PublicReading
from tidegauge.publish.series import series_of_readings
from tidegauge.publish.table import as_text

AT = datetime(2026, 1, 31, tzinfo=UTC)
KINDS = {
    "count": replace(INFO, name="r"),
    "sum": replace(INFO, name="r", aggregate="sum", never_negative=False),
    "change": replace(INFO, name="r", level=False, never_negative=False),
    "mean": replace(INFO, name="r", aggregate="avg", never_negative=False),
}


def reading(kind: str, value: float | None, half: float, model: float | None = None) -> Reading:
    middle = value or 0.0
    estimate = (
        None if model is None else ModelEstimate("all readings", model, 1.0, model - half, model + half)
    )
    return Reading(
        "r", AT, None, value, None if value is None else half / 1.96,
        lambda _: (middle - half, middle + half), model=estimate,
        never_negative=KINDS[kind].never_negative, zero_is_nothing=kind != "mean",
    )  # fmt: skip


def surfaces(kind: str, one: Reading) -> dict[str, bool]:
    """For everything that shows the reading to people: whether it says that it is too small to tell."""
    info, (low, high) = KINDS[kind], one.interval()
    series = series_of_readings(info, [one], table="patients")
    point = series.lines[0].points[0]
    page = numbers(series, None)
    narrator = Narrator(aloud=False)
    narrator.saw(one)
    public = PublicReading(
        "r", 0, 0, instant(AT), None, one.value, one.stderr, low, high, point.low50, point.high50
    )
    small = re.findall(r'data-small="([^"]*)"', page)
    assert set(small) <= {"1"}
    return {
        "Reading.too_small": one.too_small,
        "readings": TOO_SMALL in as_text([replace(one, model=None)]),
        "run": TOO_SMALL in " ".join(narrator.newest()),
        "plot": TOO_SMALL in plot([one]),
        "Arrow table in a notebook": TOO_SMALL in (table_html(as_table([replace(one, model=None)])) or ""),
        "gauge in a notebook": TOO_SMALL in release_html(series).partition("<table")[2],
        "number on a page": TOO_SMALL in value(series, point),
        "table on a page": re.search(r"<td>[^<]*\*</td>", page) is not None,
        "chart on a page": bool(small),
        "chart for a screen reader": TOO_SMALL in describe(series, series.lines),
        "feed": TOO_SMALL in _said(public, info),
    }


@given(
    st.sampled_from(sorted(KINDS)),
    st.none() | st.floats(-1e4, 1e4).map(lambda one: round(one, 1)) | st.just(0.0),
    st.floats(0.1, 1e4).map(lambda one: round(one, 1)) | st.just(0.0),
)
def test_everything_that_people_see_agrees(kind: str, value: float | None, half: float) -> None:
    found = surfaces(kind, reading(kind, value, half))
    assert len(set(found.values())) == 1, found


@pytest.mark.parametrize(
    ("kind", "value", "half", "small"),
    [
        ("count", 21, 49, True),
        ("count", 121, 49, False),
        ("count", -60, 49, True),  # wholly below 0, where no count is
        ("count", 49, 49, True),
        ("count", 0, 0, False),
        ("sum", -60, 49, False),
        ("change", -60, 49, False),
        ("change", -21, 49, True),
        ("mean", 21, 49, False),
        ("mean", None, 49, True),
    ],
)
def test_the_rule(kind: str, value: float | None, half: float, small: bool) -> None:
    assert set(surfaces(kind, reading(kind, value, half)).values()) == {small}


@given(st.sampled_from(sorted(KINDS)), st.floats(-100, 100), st.floats(1, 100))
def test_an_estimate_of_a_model_follows_the_rule_with_its_own_interval(
    kind: str, model: float, half: float
) -> None:
    one = reading(kind, 1e6, half, model)  # noise does not hide the reading itself
    small = noise_hides(
        model, model - half, model + half,
        zero_is_nothing=one.zero_is_nothing, never_negative=one.never_negative,
    )  # fmt: skip
    assert (TOO_SMALL in as_text([one])) == small
    assert (TOO_SMALL in (table_html(as_table([one])) or "")) == small


def test_data_keep_their_numbers() -> None:
    one = reading("count", 21, 49)
    assert one.as_json()["value"] == 21
    assert as_table([one])["value"].to_pylist() == [21]
