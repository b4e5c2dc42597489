"""Axes have room for every value, few ticks, and round labels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.model.quantity import DAY, HOUR, MINUTE, SECOND, instant
from tidegauge.publish.chart.scale import Scale, extent, nice_step, tick_text, ticks, time_ticks

values = st.floats(-1e9, 1e9, allow_nan=False).map(lambda value: round(value, 3))


@given(st.lists(values, min_size=1, max_size=9), st.integers(2, 8))
def test_every_value_has_room(found: list[float], most: int) -> None:
    low, high, step = extent(found, found, most)
    slack = 1e-6 * max(1.0, abs(low), abs(high))
    assert low - slack <= min(found)
    assert max(found) <= high + slack
    assert 1 <= len(ticks(low, high, step)) <= most + 2
    assert len({tick_text(value, step) for value in ticks(low, high, step)}) == len(ticks(low, high, step))


def test_an_axis_begins_at_0_unless_values_are_far_above() -> None:
    assert extent([120], [1000], 5)[0] == 0
    assert extent([800], [1000], 5)[0] > 0
    assert extent([-5], [1000], 5)[0] < 0
    assert extent([-5], [1000], 5)[0] > -100  # not a whole step for a few below 0


def test_labels() -> None:
    assert [tick_text(value, 250) for value in ticks(-250, 500, 250)] == ["−250", "0", "250", "500"]
    assert tick_text(0.5, 0.25) == "0.50"
    assert tick_text(1500, 500) == "1,500"
    assert tick_text(40_000, 20_000) == "40k"
    assert tick_text(3_000_000, 1_000_000) == "3M"
    assert tick_text(2.5e9, 5e8) == "2,500M"
    assert nice_step(0, 5) == 1


def test_a_scale_without_width_draws_in_the_middle() -> None:
    assert Scale(1, 1, 0, 10)(1) == 5
    assert Scale(0, 4, 0, 10)(1) == 2.5


@pytest.mark.parametrize(
    ("first", "last", "labels"),
    [
        ("2025-01-01", "2025-12-31", ["Jan 2025", "Mar", "May", "Jul", "Sep", "Nov"]),
        ("2024-11-10", "2026-03-01", ["Jan 2025", "Apr", "Jul", "Oct", "Jan 2026"]),
        ("2025-12-29", "2026-01-03", ["29 Dec", "30 Dec", "31 Dec", "1 Jan 2026", "2 Jan", "3 Jan"]),
        ("2026-01-05T22:00", "2026-01-06T02:00", ["5 Jan 22:00", "23:00", "6 Jan", "01:00", "02:00"]),
        ("2026-01-05T19:50:27", "2026-01-05T19:50:43", ["5 Jan 19:50:30", "19:50:35", "19:50:40"]),
        ("2000-01-01", "2030-01-01", ["2000", "2005", "2010", "2015", "2020", "2025", "2030"]),
    ],
)
def test_dates(first: str, last: str, labels: list[str]) -> None:
    found = time_ticks(instant(first), instant(last), 7)
    assert [label for _, label in found] == labels
    assert all(instant(first) <= at <= instant(last) for at, _ in found)


@given(
    st.integers(instant("1900-01-01"), instant("2100-01-01")),
    st.integers(0, 200 * 365 * DAY) | st.sampled_from([0, SECOND, MINUTE, HOUR, DAY]),
    st.integers(2, 12),
)
def test_there_are_never_too_many_dates(first: int, width: int, most: int) -> None:
    found = time_ticks(first, first + width, most)
    assert len(found) <= most
    assert [at for at, _ in found] == sorted({at for at, _ in found})
