"""A private choice among public candidates, by the units that each leaves with a wrong contribution."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

from tidegauge.errors import SpecError


def choice_spread_squared(*, cells: int, rows: int = 1, windows: bool = False) -> Fraction:
    """D^2: the square of the most that one unit can add to M.  [T22]

    M = |s|_2 / sqrt(n cells), s[t, g] = the units whose accepted and true contributions to cell g differ at
    reading t of n.
    Requires: at most `rows` rows of a unit count at any time; `windows`: readings are changes over windows.
    Tight:    a unit that is in other cells than those accepted, at every reading.
    Proof:    docs/theory/T22.md
    """
    if cells < 1 or rows < 1:
        raise SpecError("cells and rows must be 1 or more")
    return Fraction(min((4 if windows else 2) * rows, cells), cells)


def choice_steps(squares: int, *, readings: int, cells: int, weight: Fraction) -> int:
    """weight M in whole steps, rounded down; `squares` is the sum of the squares of s.  [T22]

    `weight`: steps of a score for M = 1.
    Proof:    docs/theory/T22.md
    """
    if squares < 0 or readings < 1 or weight < 0:
        raise SpecError("give at least one reading; squares and weights must not be negative")
    scaled = weight**2 * squares / (readings * cells)
    return isqrt(scaled.numerator // scaled.denominator)


def choice_sensitivity(spread_squared: Fraction, *, weight: Fraction) -> int:
    """The most whole steps by which one unit raises the rounded weight M; no unit lowers it.  [T22]

    Proof:    docs/theory/T22.md
    """
    scaled = weight**2 * spread_squared
    return isqrt(scaled.numerator // scaled.denominator) + 1


def choice_rate(cost: Fraction, *, pure: bool) -> Fraction:
    """e, the most that the logarithm of a probability may move, for this privacy loss.  [T22]

    Pure epsilon: e itself.  rho: e^2 / 8, and so e = sqrt(8 rho), rounded down.
    Proof:    docs/theory/T22.md
    """
    if cost <= 0:
        raise SpecError("the privacy loss of a choice must be above 0: raise choice_share or the budget")
    if pure:
        return cost
    fine = 2**40
    return Fraction(isqrt(8 * cost.numerator * fine**2 // cost.denominator), fine)
