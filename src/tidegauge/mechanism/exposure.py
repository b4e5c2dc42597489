"""The changes of one unit to a release, in the form from which strategies compute their sensitivity."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING, Final, NamedTuple

from tidegauge.theory.accounting.precise import above
from tidegauge.theory.paths.path import BinCase, Domain, bin_cases
from tidegauge.theory.paths.tree import Costs
from tidegauge.theory.sensitivity import Sensitivity, most_counted, sensitivity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tidegauge.mechanism.strategy import Exposure


class Flow(NamedTuple):
    """Most changes of one row that a flow counts: in total, in one bin, and the most bins with changes."""

    total: int
    each: int
    bins: int | None


def over_cases(
    exposure: Exposure,
    *,
    stock: Callable[[BinCase], tuple[Fraction, Fraction]],
    flow: Callable[[Flow], tuple[Fraction, Fraction]],
) -> Sensitivity:
    """The largest sensitivity of a row over all cases of the constraint, times the rows of a unit.  [T1]

    `stock`, `flow`: L1 and squared L2 sensitivity of one row, for one case.
    """
    allowed = bin_cases(exposure.constraint, exposure.schedule)
    if exposure.kind == "flow":
        found = [flow(_flow(exposure, case)) for case in allowed]
    else:
        found = [stock(case) for case in allowed]
    return Sensitivity(
        l1=exposure.rows * max(l1 for l1, _ in found),
        l2_squared=exposure.rows**2 * max(square for _, square in found),
    )


def _flow(exposure: Exposure, case: BinCase) -> Flow:
    each = most_counted(mutations=case.changes, clip=exposure.clip)
    bins = exposure.schedule.bins if case.bins is None else case.bins
    most = [count for count in (case.changes, bins and each * bins) if count is not None]
    return Flow(min(most), each, bins)


_ENOUGH_GROUPS: Final = 3
"""In a hierarchy, three groups have the sensitivity of any larger number: neighbors differ with three."""


def costs(exposure: Exposure, *, coarse: bool = False) -> tuple[Costs, Costs]:
    """Costs of a changed measurement of a stock, in L1 and in squared L2.  [T1]

    `coarse`: assume the largest distance between any two contributions.
    """
    values = sorted({0, min(exposure.lower, 0), max(exposure.upper, 0)}, key=bool)
    groups = min(exposure.groups, _ENOUGH_GROUPS)
    if groups > 1 and (coarse or (groups == _ENOUGH_GROUPS and len(values) < 3)):
        change = sensitivity(lower=exposure.lower, upper=exposure.upper, grouped=True)
        (_, largest), nothing = spread(exposure), Fraction(0)
        return (
            Costs(((nothing, largest), (largest, nothing)), change.l1),
            Costs(((nothing, largest**2), (largest**2, nothing)), change.l2_squared),
        )
    states = [(0, 0), *((group, value) for group in range(groups) for value in values[1:])]
    return tuple(  # type: ignore[return-value]
        Costs(tuple(tuple(_cost(*start, *end, power) for end in states) for start in states))
        for power in (1, 2)
    )


def _cost(group: int, value: int, other: int, after: int, power: int) -> Fraction:
    """Cost of a row that changes its group or value, over the measurements of both groups."""
    if group == other:
        return Fraction(abs(after - value) ** power)
    return Fraction(abs(value) ** power + abs(after) ** power)


def spread(exposure: Exposure) -> tuple[Fraction, Fraction]:
    """S, the largest distance of two contributions of a row, and M, the largest size of one.  [T1]"""
    low, high = exposure.lower, exposure.upper
    return (
        sensitivity(lower=low, upper=high).l1,
        sensitivity(kind="flow", mutations=1, lower=low, upper=high).l1,
    )


def most_changes(case: BinCase, bins: int | None) -> int:
    """Most bins in which a row can change, out of `bins` (None: without end)."""
    return min(most for most in (*case, bins) if most is not None)


def stock_square(
    exposure: Exposure, case: BinCase, *, first: int, most: Callable[[BinCase, Domain], float]
) -> Fraction:
    """Squared L2 sensitivity of a stock, from the bound `most` for a row whose largest value is 1.  [T10]

    `first`: the first measured bin; if it is not bin 0, the row may exist before it.
    """
    _, M = spread(exposure)
    return M**2 * Fraction(most(case, domain(exposure, first))) if M else Fraction(0)


def domain(exposure: Exposure, first: int) -> Domain:
    """The values and groups of a row, in units of its largest value; rounded up."""
    _, M = spread(exposure)
    high, low = (above(Fraction(max(end, 0)) / (M or 1)) for end in (exposure.upper, -exposure.lower))
    return Domain(high, low, exposure.groups, loaded=bool(first))


def in_grid_units(exposure: Exposure, first: int) -> Domain:
    """The values and groups of a row in grid units, exactly: bounds are at most 2^50 units."""
    return Domain(float(max(exposure.upper, 0)), float(max(-exposure.lower, 0)), exposure.groups, bool(first))


def root_above(square: Fraction | int) -> Fraction:
    """The square root, rounded up by at most one part in 2^60."""
    top, bottom = square.as_integer_ratio()
    shift = max(0, 128 - top.bit_length() + bottom.bit_length())
    return Fraction(isqrt((top << 2 * shift) // bottom) + 1, 1 << shift) if square else Fraction(0)


def square_of(units: Iterable[int]) -> int:
    """The sum of the squares of integers of any size."""
    return sum(unit * unit for unit in units)
