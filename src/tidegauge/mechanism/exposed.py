"""What one unit can do to a release, in the terms in which strategies compute their sensitivity."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

from tidegauge.theory.paths import Limits, limits
from tidegauge.theory.sensitivity import Sensitivity, most_counted, sensitivity
from tidegauge.theory.tree_paths import Costs

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegauge.mechanism.strategy import Exposure


class Flow(NamedTuple):
    """Mutations of one row that a flow counts: in a life, in one bin, and in how many bins at most."""

    total: int
    each: int
    bins: int | None


def over_lives(
    exposure: Exposure,
    *,
    stock: Callable[[Limits], tuple[Fraction, Fraction]],
    flow: Callable[[Flow], tuple[Fraction, Fraction]],
) -> Sensitivity:
    """The larger of what each kind of life can do (in L1 and squared L2, one row), times the rows of a unit.  [T1]"""
    allowed = limits(exposure.constraint, exposure.schedule)
    if exposure.kind == "flow":
        found = [flow(_flow(exposure, limit)) for limit in allowed]
    else:
        found = [stock(limit) for limit in allowed]
    return Sensitivity(
        l1=exposure.rows * max(l1 for l1, _ in found),
        l2_squared=exposure.rows**2 * max(square for _, square in found),
    )


def _flow(exposure: Exposure, limit: Limits) -> Flow:
    each = most_counted(mutations=limit.jumps, clip=exposure.clip)
    bins = exposure.schedule.bins if limit.bins is None else limit.bins
    most = [count for count in (limit.jumps, bins and each * bins) if count is not None]
    return Flow(min(most), each, bins)


def costs(exposure: Exposure) -> tuple[Costs, Costs]:
    """What a changed measurement of a stock costs in L1 and in squared L2: from nothing to the ends of the range.  [T1]"""
    if exposure.grouped:
        change = sensitivity(lower=exposure.lower, upper=exposure.upper, grouped=True)
        (_, largest), nothing = spread(exposure), Fraction(0)
        return (
            Costs(((nothing, largest), (largest, nothing)), change.l1),
            Costs(((nothing, largest**2), (largest**2, nothing)), change.l2_squared),
        )
    values = sorted({0, min(exposure.lower, 0), max(exposure.upper, 0)}, key=bool)
    apart = [[Fraction(abs(end - start)) for end in values] for start in values]
    return (
        Costs(tuple(tuple(row) for row in apart)),
        Costs(tuple(tuple(cost**2 for cost in row) for row in apart)),
    )


def spread(exposure: Exposure) -> tuple[Fraction, Fraction]:
    """S, how far apart two contributions of a row can lie, and M, the size of the largest.  [T1]"""
    low, high = exposure.lower, exposure.upper
    return (
        sensitivity(lower=low, upper=high).l1,
        sensitivity(kind="flow", mutations=1, lower=low, upper=high).l1,
    )


def most_changes(limit: Limits, bins: int | None) -> int:
    """Bins in which an entry can change, of so many (None: without end)."""
    return min(most for most in (*limit, bins) if most is not None)


def stock_square(
    exposure: Exposure,
    limit: Limits,
    *,
    paths: Callable[[Limits], float],
    groups: Callable[[Limits], float],
    signs: Callable[[Limits, float, float], float] | None = None,
) -> Fraction:
    """The squared L2 of a stock, from the most that alternating changes by 1, or moves between groups, add up to.  [T10]"""
    S, M = spread(exposure)
    both_signs = S > M
    once = limit.jumps == 1 or limit.bins == 1
    if exposure.grouped:  # above and below nothing are as two groups, of which each weighs on the other
        return M * (S if both_signs and not once else M) * upward(groups(limit))
    if not both_signs:
        return S**2 * upward(paths(limit))
    most, fewer = limit.jumps, 0.0
    if not once:
        fewer = paths(limit if most is None else limit._replace(jumps=most - 1))
    # from nothing to M, then to and fro by S: M / S of a path that begins with S, and the rest of one that skips it
    triangle = upward(float(M) * sqrt(paths(limit)) + float(S - M) * sqrt(fewer)) ** 2
    if once:
        return triangle
    if signs is not None:
        return min(
            triangle, upward(signs(limit, float(max(exposure.upper, 0)), float(-min(exposure.lower, 0))))
        )
    return min(triangle, M * S * upward(groups(limit)))


def upward(value: float) -> Fraction:
    """The number, and more than a few roundings in double precision beyond it."""
    return Fraction(value) * (1 + Fraction(1, 2**40))
