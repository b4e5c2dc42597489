"""Values are rounded to their noise, and called too small to tell where noise hides them."""

from __future__ import annotations

import itertools

import pytest

from tidegauge.model.quantity import instant
from tidegauge.publish.view import (
    Point,
    Series,
    day_text,
    every_text,
    half_text,
    interval_text,
    spoken,
    thinned,
    time_text,
    titled,
    value_text,
)


def point(value: float | None, half: float, at: int = 0) -> Point:
    middle = value or 0.0
    return Point(at, value, middle - half, middle + half, middle - half / 3, middle + half / 3)


def series(*, nothing: bool = True, never: bool = False) -> Series:
    return Series(
        "a", "A", "running value", "patients", "1 day", (), zero_is_nothing=nothing, never_negative=never
    )


@pytest.mark.parametrize(
    ("value", "half", "shown", "margin"),
    [
        (394.2, 48.3, "394", "48"),
        (-394.2, 48.3, "−394", "48"),
        (12_345_678.9, 1_234.5, "12,345,679", "1,234"),
        (54.68, 1.42, "54.7", "1.4"),
        (0.5231, 0.0123, "0.523", "0.012"),
        (-0.2, 48, "0", "48"),
        (9600.33, 0.0, "9,600.33", "0"),
        (7.0, 0.0, "7", "0"),
    ],
)
def test_values_are_rounded_to_their_noise(value: float, half: float, shown: str, margin: str) -> None:
    assert value_text(point(value, half)) == shown
    assert half_text(half) == margin


def test_too_small_to_tell() -> None:
    sum_, mean, count = series(), series(nothing=False), series(never=True)
    assert sum_.hides(point(21, 49))
    assert not mean.hides(point(21, 49))
    assert not sum_.hides(point(50, 49))
    assert sum_.hides(point(-21, 49))
    assert not sum_.hides(point(-50, 49))
    assert count.hides(point(-50, 49))  # an exact count is never below 0
    assert mean.hides(point(None, 49))
    assert not count.hides(point(0, 0))  # without noise 0 is 0


def test_in_words() -> None:
    assert spoken(series(), point(394, 48)) == "394 patients, 95 % noise interval 346 to 442"
    assert spoken(series(), point(21, 49)) == "too small to tell (21 patients, 95 % noise interval −28 to 70)"
    assert spoken(series(nothing=False), point(None, 49)) == "too small to tell"
    assert interval_text(point(7, 0)) == "7"


def test_times() -> None:
    at = instant("2026-01-05T13:30:00Z")
    assert day_text(at) == "5 Jan 2026"
    assert time_text(at) == "5 Jan 2026, 13:30 UTC"
    assert time_text(at + 1_500_000) == "5 Jan 2026, 13:30:01 UTC"
    assert time_text(at, daily=True) == "5 Jan 2026"
    assert every_text("1 day") == "every day"
    assert every_text("7 days") == "every 7 days"
    assert every_text("1 month 2 days") == "every month 2 days"


def test_titles() -> None:
    assert titled("infected_now") == "Infected now"
    assert titled("_") == "_"


@pytest.mark.parametrize(("count", "most"), [(1, 1), (10, 10), (730, 400), (17_520, 400), (7, 2)])
def test_the_newest_point_is_always_drawn(count: int, most: int) -> None:
    points = [point(1, 1, at) for at in range(count)]
    found = thinned(points, most)
    assert len(found) <= most
    assert found[-1] == points[-1]
    steps = {later.time - earlier.time for earlier, later in itertools.pairwise(found)}
    assert len(steps) <= 1
