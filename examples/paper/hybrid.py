"""Theorem 4.10: a database with tickets for k rides and monthly passes costs what the worse
of the two costs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from figure import Line, Panel, main

from tidegauge import AtMost, Within
from tidegauge.theory import dcr_folds

DAYS, VALID = 365, 31
SMALL_DAYS, SMALL_VALID = 9, 3


def brute_force(rides: int) -> int:
    """The most windows that one entry changes in a small world,
    over all sets of days on which it may change."""
    days = range(SMALL_DAYS)
    tickets = (chosen for chosen in combinations(days, min(rides, SMALL_DAYS)))
    passes = (
        chosen
        for size in range(1, SMALL_VALID + 2)
        for chosen in combinations(days, size)
        if chosen[-1] - chosen[0] <= SMALL_VALID
    )
    return max(len(set(chosen)) for life in (tickets, passes) for chosen in life)


def folds(constraint: AtMost | Within, days: int) -> int:
    return dcr_folds(constraint, width=1, count=days)


def panels(small: bool) -> Sequence[Panel]:
    rides = range(1, 21 if small else 61)
    few = range(1, 8)
    year = [
        Line("tickets alone: at most k", [(k, folds(AtMost(k), DAYS)) for k in rides]),
        Line("passes alone: within 31 days", [(k, folds(Within(VALID), DAYS)) for k in rides]),
        Line("both", [(k, dcr_folds(AtMost(k) | Within(VALID), width=1, count=DAYS)) for k in rides]),
    ]
    week = [
        Line(
            "bound", [(k, dcr_folds(AtMost(k) | Within(SMALL_VALID), width=1, count=SMALL_DAYS)) for k in few]
        ),
        Line("every set of days tried", [(k, brute_force(k)) for k in few], dots=True),
    ]
    return [
        Panel("Daily windows that one entry changes, over a year", "rides k of a ticket", "windows", year),
        Panel("The same over nine days, passes valid for three", "rides k of a ticket", "windows", week),
    ]


if __name__ == "__main__":
    main("hybrid.svg", "Windows that one entry of a database with two kinds of constraint changes", panels)
