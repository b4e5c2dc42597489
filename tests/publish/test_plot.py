"""Charts in the terminal: axes, unit, legend, and never wider than the terminal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tidegauge.model.reading import Reading
from tidegauge.publish.plot import plot


def reading(day: float, value: float | None, half: float = 48) -> Reading:
    time = datetime(2025, 1, 1, tzinfo=UTC) + timedelta(days=day)
    middle = value or 0.0
    return Reading("a", time, None, value, half / 2, lambda _: (middle - half, middle + half))


def test_axis_unit_and_legend() -> None:
    text = plot([reading(day, 1000 + day) for day in range(365)], unit="patients")
    head, legend, *lines, axis, dates = text.splitlines()
    assert head == "a"
    assert legend == "● published  ░ noise interval (95 %)   in patients"
    assert any(line.lstrip().startswith("1,200 ┤") for line in lines)
    assert axis.lstrip().startswith("└")
    assert dates.split() == ["Jan", "2025", "Apr", "Jul", "Oct"]


@pytest.mark.parametrize("width", [40, 78, 120])
def test_no_line_is_wider_than_asked(width: int) -> None:
    for readings in (
        [reading(day, 123_456 + day) for day in range(365)],
        [reading(0, 5)],
        [reading(day / 24, -5) for day in range(3)],
    ):
        assert max(map(len, plot(readings, width=width).splitlines()[2:])) <= width


def test_the_truth_is_drawn_where_it_is_known() -> None:
    assert "─ truth" in plot([reading(0, 5), reading(1, 6)], [5.0, 6.0])


def test_nothing_to_show() -> None:
    assert plot([]) == "Nothing has been published yet. See: tidegauge status"
    assert plot([reading(0, None)]) == "a\n  too small to tell, all the time"


def test_a_short_release_says_when_it_is() -> None:
    assert plot([reading(0.5, 5)]).splitlines()[-1].strip() == "1 Jan 2025, 12:00 UTC"
