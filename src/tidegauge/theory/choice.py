"""A private choice among public candidates, by the bias that each leaves; no unit counts for much of it."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

from tidegauge.errors import SpecError

_PART = 8
"""A unit that is wrong by all that it can contribute, all the time, counts for at least one in so many."""


def choice_clip(
    *, readings: int, cells: int, contribution: int, spread: Fraction, renews: bool = False
) -> int:
    """C^2: the square of the most that one unit may count for, over all readings and cells.  [T22]

    The largest for which a unit moves M by at most `spread`, but no more than a unit can be wrong, and no
    less than one part in 8 of that.  Any positive number is sound.
    `contribution`: the most that a unit contributes to a cell, in whole steps; `spread`: in steps.
    Proof:    docs/theory/T22-clip.md
    """
    if readings < 1 or cells < 1 or contribution < 1 or spread < 0:
        raise SpecError("readings, cells and contribution must be 1 or more, and spread not negative")
    whole = readings * min(2, cells) * contribution**2
    wanted = spread**2 * readings * cells / (4 if renews else 1)
    return max(1, whole // _PART**2, min(whole, wanted.numerator // wanted.denominator))


def choice_spread_squared(clip: int, *, readings: int, cells: int, renews: bool = False) -> Fraction:
    """D^2: the square of the most by which one unit moves M, in squared steps; `clip`: C^2.  [T22]

    M = |b|_2 / sqrt(readings cells), b[t, g] = what a candidate leaves out of cell g at reading t.
    Requires: each unit's part in b has a norm of at most C.
    Tight:    for b = 0 and a unit whose part has the norm C (without terms).
    Proof:    docs/theory/T22.md
    """
    if clip < 1 or readings < 1 or cells < 1:
        raise SpecError("clip, readings and cells must be 1 or more")
    return Fraction((4 if renews else 1) * clip, readings * cells)


def choice_steps(squares: Fraction, *, readings: int, cells: int, weight: Fraction) -> int:
    """weight M in whole steps, rounded down; `squares` is |b|_2^2.  [T22]

    `weight`: steps of a score for M = 1.
    Proof:    docs/theory/T22-steps.md
    """
    if squares < 0 or readings < 1 or cells < 1 or weight < 0:
        raise SpecError("give at least one reading and cell; squares and weights must not be negative")
    scaled = weight**2 * squares / (readings * cells)
    return isqrt(scaled.numerator // scaled.denominator)


def choice_sensitivity(spread_squared: Fraction, *, weight: Fraction) -> int:
    """The most whole steps by which one unit raises or lowers the rounded weight M.  [T22]

    Proof:    docs/theory/T22-steps.md
    """
    scaled = weight**2 * spread_squared
    return isqrt(scaled.numerator // scaled.denominator) + 1


def choice_rate(cost: Fraction, *, pure: bool) -> Fraction:
    """e, the length of the interval in which log-ratios of probabilities may lie, for this loss.  [T22]

    Pure epsilon: e itself.  rho: e^2 / 8, and so e = sqrt(8 rho), rounded down.
    Proof:    docs/theory/T22-draw.md
    """
    if cost <= 0:
        raise SpecError("the privacy loss of a choice must be above 0: raise choice_share or the budget")
    if pure:
        return cost
    fine = 2**40
    return Fraction(isqrt(8 * cost.numerator * fine**2 // cost.denominator), fine)
