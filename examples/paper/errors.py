"""The places where the printed formulas understate the loss, beside the truth by brute force."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil

from figure import Line, Panel, main

from tidegauge import Within
from tidegauge.theory import hdcr_folds, most_span, sensitivity

TIMES = [0, 6, 12, 13, 21]
HEIGHT, BRANCHING = 3, 2


def printed_span(times: Sequence[int], bound: int) -> int:
    """MostSpan as the paper describes it: only pairs of times at least `bound` apart are looked at."""
    found = 0
    for first in range(len(times) - 1):
        reached = [last for last in range(first + 1, len(times)) if times[last] - times[first] >= bound]
        found = max(found, reached[0] - first + 1 if reached else 0)
    return found


def true_span(times: Sequence[int], bound: int) -> int:
    """The most windows that a closed interval of this length meets, by trying where it begins."""
    ends = [-(10**6), *times]
    return max(
        sum(start < begin + bound and begin <= end for start, end in zip(ends, times, strict=False))
        if bound
        else 1
        for begin in range(times[0] - bound, times[-1] + 1)
    )


def printed_folds(bound: int) -> Fraction:
    """Theorem 4.3 as printed, for W = 1."""
    return sum((Fraction(ceil(bound), BRANCHING**layer) + 1 for layer in range(HEIGHT)), Fraction(0))


def true_folds(bound: int) -> int:
    """The most nodes that changes in [begin, begin + bound] meet, by trying where they begin."""
    return max(
        sum(
            len({-(-time // BRANCHING**layer) for time in range(begin, begin + bound + 1)})
            for layer in range(HEIGHT)
        )
        for begin in range(1, BRANCHING**HEIGHT + 1)
    )


def panels(small: bool) -> Sequence[Panel]:
    bounds = range(10 if small else 31)
    few = range(6 if small else 17)
    highs = range(50, 201, 25)
    spans = [
        Line("printed", [(b, printed_span(TIMES, b)) for b in bounds]),
        Line("T2", [(b, most_span(TIMES, b)) for b in bounds]),
        Line("brute force", [(b, true_span(TIMES, b)) for b in bounds], dots=True),
    ]
    layers = [
        Line("printed", [(b, float(printed_folds(b))) for b in few]),
        Line(
            "T4",
            [
                (b, hdcr_folds(Within(b), width=1, branching=BRANCHING, height=HEIGHT, initial=False))
                for b in few
            ],
        ),
        Line("brute force", [(b, true_folds(b)) for b in few], dots=True),
    ]
    values = [
        Line("printed: |b - a|", [(b, b - 50) for b in highs]),
        Line("T1", [(b, float(sensitivity(lower=50, upper=b).l1)) for b in highs]),
        Line("one insertion of the value b", [(b, b) for b in highs], dots=True),
    ]
    return [
        Panel("MostSpan of the times 0, 6, 12, 13, 21", "bound B", "windows that one entry changes", spans),
        Panel(
            "Theorem 4.3: a hierarchy of 3 layers, c = 2, W = 1",
            "bound B",
            "nodes that one entry changes",
            layers,
        ),
        Panel(
            "Linear query with values from 50 to b",
            "upper bound b",
            "most that one entry moves the sum",
            values,
        ),
    ]


if __name__ == "__main__":
    main("errors.svg", "Printed formulas that understate the loss, and corrected ones", panels)
