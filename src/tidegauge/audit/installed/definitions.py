"""Theorems against their definitions, by trying everything in small worlds.

A plan relies on these functions; the worlds here share no code with them.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from math import exp, log, sqrt
from typing import TYPE_CHECKING

from tidegauge.audit.findings import require
from tidegauge.model.constraint import AtMost, Within
from tidegauge.theory.accounting.conversion import epsilon_to_rho, rho_to_delta, rho_to_epsilon
from tidegauge.theory.folds import dcr_folds, hdcr_folds, most_span, swcr_folds
from tidegauge.theory.sensitivity import sensitivity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tidegauge.model.constraint import Constraint

    Window = tuple[Fraction, Fraction]
    """Open on the left, closed on the right."""

_BEFORE = Fraction(-1000)


def _lives(constraint: Constraint, times: Sequence[Fraction]) -> Iterable[tuple[Fraction, ...]]:
    """All sets of instants at which one unit may change."""
    if isinstance(constraint, AtMost):
        yield from combinations(times, min(int(constraint.mutations), len(times)))
        return
    assert isinstance(constraint, Within)
    for first in times:  # changing at every instant of the interval changes the most windows
        yield tuple(time for time in times if first <= time <= first + constraint.bound)


def _most_changed(constraint: Constraint, windows: Sequence[Window]) -> int:
    """Most windows that one unit can change, from the definition."""
    edges = sorted({edge for window in windows for edge in window if edge != _BEFORE})
    step = Fraction(1, 4)
    times = sorted({edge + shift for edge in edges for shift in (-step, Fraction(0), step)})
    return max(
        sum(any(begin < time <= end for time in life) for begin, end in windows)
        for life in _lives(constraint, times)
    )


def _disjoint(times: Sequence[int]) -> list[Window]:
    ends = [Fraction(time) for time in times]
    return list(zip([_BEFORE, *ends[:-1]], ends, strict=True))


def check_most_span() -> None:
    """Windows that an interval touches, also the last ones.  [T2]"""
    for times in ((12,), (0, 6, 12, 13, 21), (0, 1, 2, 3), (0, 5, 6, 20, 21, 22)):
        for bound in (1, 3, 7, 13, 23, 40):
            found = most_span(list(times), bound)
            right = _most_changed(Within(bound), _disjoint(times))
            require(found == right, "most_span differs from its definition")


def check_dcr_folds() -> None:
    """Disjoint windows.  [T2]"""
    for count, width in product((1, 3, 5), (2, 3)):
        windows = _disjoint([width * (n + 1) for n in range(count)])
        for constraint in (AtMost(1), AtMost(2), AtMost(7), Within(1), Within(3), Within(6), Within(60)):
            require(
                dcr_folds(constraint, width=width, count=count) == _most_changed(constraint, windows),
                "dcr_folds differs from its definition",
            )


def check_swcr_folds() -> None:
    """Sliding windows.  [T3]"""
    for window, period, count in product((2, 3, 5), (1, 2), (2, 6)):
        windows = [(Fraction(period * n), Fraction(period * n + window)) for n in range(count)]
        for constraint in (AtMost(1), AtMost(2), Within(1), Within(4), Within(9)):
            require(
                swcr_folds(constraint, window=window, period=period, count=count)
                >= _most_changed(constraint, windows),
                "swcr_folds is below its definition",
            )


def check_hdcr_folds() -> None:
    """Hierarchies.  [T4]"""
    for branching, height, count in ((2, 2, 4), (2, 3, 8), (3, 2, 9), (2, 3, 12)):
        windows = [
            (Fraction(branching**layer * i), Fraction(branching**layer * (i + 1)))
            for layer in range(height)
            for i in range(-(-count // branching**layer))
        ]
        for constraint in (AtMost(1), AtMost(2), Within(1), Within(2), Within(5)):
            found = hdcr_folds(
                constraint, width=1, branching=branching, height=height, count=count, initial=False
            )
            require(found >= _most_changed(constraint, windows), "hdcr_folds is below its definition")


def check_sensitivity() -> None:
    """One window: a change between nothing and any value, between values, and between groups.  [T1]"""
    for low, high in ((50, 100), (-2, 3), (0, 1), (-5, -1), (2, 5)):
        for grouped in (False, True):
            places = [(0, 0), *((group, value) for group in (1, 2) for value in (low, high))]
            if not grouped:
                places = [(0, value) for value in (0, low, high)]
            l1, square = Fraction(0), Fraction(0)
            for before, after in product(places, places):
                moved = [after[1] - before[1]] if before[0] == after[0] else [before[1], after[1]]
                l1 = max(l1, Fraction(sum(map(abs, moved))))
                square = max(square, Fraction(sum(one**2 for one in moved)))
            found = sensitivity(lower=low, upper=high, grouped=grouped)
            require((found.l1, found.l2_squared) == (l1, square), "sensitivity differs from its definition")
        for changes, clip in ((1, None), (3, None), (4, 2)):
            most = Fraction(max(abs(low), abs(high)) * min(changes, clip or changes))
            found = sensitivity(kind="flow", lower=low, upper=high, mutations=changes, clip=clip)
            require((found.l1, found.l2_squared) == (most, most**2), "sensitivity of a flow is not k times M")


def check_conversion() -> None:
    """A rho that was found for (epsilon, delta) keeps it, by the textbook formula.  [T8]"""
    for epsilon, delta in ((1, 1e-6), (2, 1e-6), (Fraction(1, 2), 1e-9), (8, 1e-5)):
        rho = float(epsilon_to_rho(Fraction(epsilon), delta=Fraction(delta)))
        plain = (sqrt(log(1 / delta) + float(epsilon)) - sqrt(log(1 / delta))) ** 2
        require(plain * (1 - 1e-9) <= rho, "epsilon_to_rho gives less than the textbook formula")
        require(delta_of(rho, float(epsilon)) <= delta * 1.001, "epsilon_to_rho gives too large a rho")
        back = float(rho_to_epsilon(Fraction(rho), delta=Fraction(delta)))
        require(abs(back / float(epsilon) - 1) < 1e-6, "rho_to_epsilon does not undo epsilon_to_rho")
        stated = float(rho_to_delta(Fraction(rho), epsilon=Fraction(epsilon)))
        near = abs(stated / delta_of(rho, float(epsilon)) - 1) < 1e-2
        require(near, "rho_to_delta differs from its definition")


def delta_of(rho: float, epsilon: float) -> float:
    """The least delta of rho-zCDP at epsilon, over Renyi orders (Canonne, Kamath and Steinke 2020)."""
    best, order = 1.0, 1.0001
    while order < 1e5:
        value = (order - 1) * (order * rho - epsilon) + (order - 1) * log(1 - 1 / order) - log(order)
        best = min(best, exp(min(value, 0.0)))
        order = 1 + (order - 1) * 1.002
    return best


DEFINITIONS: dict[str, Callable[[], None]] = {
    "windows that an interval touches": check_most_span,
    "disjoint windows": check_dcr_folds,
    "sliding windows": check_swcr_folds,
    "hierarchies": check_hdcr_folds,
    "one window": check_sensitivity,
    "epsilon to rho": check_conversion,
}
