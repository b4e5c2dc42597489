"""Windows measured one by one: the months that are measured decide how many of them a unit changes."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest

from tidegauge.errors import SpecError
from tidegauge.mechanism.strategies.disjoint import Disjoint, bin_folds
from tidegauge.mechanism.strategy import Exposure
from tidegauge.model.constraint import AtMost, Unconstrained, Within
from tidegauge.model.quantity import DAY, Span, instant
from tidegauge.model.schedule import Schedule


@pytest.mark.parametrize("window", [None, Span(months=2)])
@pytest.mark.parametrize("month", range(1, 13))
@pytest.mark.parametrize("count", [1, 2, 4, 9])
def test_no_unit_changes_more_of_the_months_that_are_measured(
    window: Span | None, month: int, count: int
) -> None:
    start = instant(datetime(2026, month, 1, tzinfo=UTC))
    schedule = Schedule(start, Span(months=1), count, window=window)
    assert schedule.bins is not None
    ends = [schedule.bin_end(index) for index in range(schedule.bins)]
    for days in (1, 28, 59, 60, 61, 89, 90, 92):
        lives = [(first, first + days * DAY) for first in ends]
        touched = [
            sum(
                begins <= end and (index == 0 or ends[index - 1] < stops)
                for index, end in enumerate(ends)
                if index >= schedule.base
            )
            for begins, stops in lives
        ]
        exposure = Exposure(
            constraint=Within(f"{days} days"), schedule=schedule, kind="stock", lower=0, upper=1
        )
        found = Disjoint(schedule.base).sensitivity(exposure)
        assert found.l1 == found.l2_squared == max(touched)  # on or off, in turn, in each of them
        assert Disjoint(schedule.base).folds(exposure) == max(touched)


@pytest.mark.parametrize("months", [1, 7, 12, 1200])
def test_months_without_end_are_as_many_as_a_unit_may_change(months: int) -> None:
    schedule = Schedule(instant(datetime(2026, 1, 1, tzinfo=UTC)), Span(months=months))
    for most in (3, 9, 801, 20_000):
        assert bin_folds(AtMost(most), schedule, None) == most
        assert bin_folds(AtMost(most) | Within("3 days"), schedule, None) == max(most, 2)
        assert bin_folds(AtMost(most) & Within("3 days"), schedule, None) == 2
    with pytest.raises(SpecError, match="nothing bounds the loss"):
        bin_folds(Unconstrained(), schedule, None)


@pytest.mark.parametrize(("months", "days", "most"), [(1, 59, 3), (1, 60, 4), (7, 211, 2), (7, 213, 3)])
def test_months_without_end_may_begin_with_any_month(months: int, days: int, most: int) -> None:
    """28 + 31 days are the shortest two months, 212 (February to August) the shortest seven."""
    for month in range(1, 13):
        schedule = Schedule(instant(datetime(2026, month, 1, tzinfo=UTC)), Span(months=months))
        assert bin_folds(Within(f"{days} days"), schedule, None) == most
    long = Within("200000 days")
    assert bin_folds(long, schedule, None) >= 200_000 // 31 // months


@pytest.mark.parametrize("month", range(1, 13))
def test_the_last_month_that_an_interval_touches_may_end_in_the_third_cycle(month: int) -> None:
    """Bins of 4,700 months are a day longer or shorter, by where they begin."""
    schedule = Schedule(instant(datetime(2026, month, 1, tzinfo=UTC)), Span(months=4700))
    ends = [schedule.bin_end(index) for index in range(20)]
    shortest = min(later - end for end, later in pairwise(ends))
    assert bin_folds(Within(f"{shortest} microseconds"), schedule, None) == 2
    assert bin_folds(Within(f"{shortest + 1} microseconds"), schedule, None) == 3
