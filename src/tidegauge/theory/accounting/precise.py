"""Decimal arithmetic with spare digits, and directed rounding.

Decimal's exp, ln and sqrt are correctly rounded and its exponents reach 10^18, so a formula evaluated here is
off by a few units of its sixtieth digit. ERROR is far more than that; it is added (or subtracted)
before rounding.
"""

from __future__ import annotations

from contextlib import contextmanager
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from math import inf, nextafter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_DIGITS: Final = 60
ERROR: Final = Decimal(1).scaleb(20 - _DIGITS)
"""More than the rounding error of any formula used here, relative to the sum of its terms' sizes."""


@contextmanager
def precisely() -> Iterator[None]:
    """A context in which Decimal arithmetic has spare digits."""
    with localcontext(Context(prec=_DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN)):
        yield


def decimal(value: Fraction | int) -> Decimal:
    """The nearest Decimal of the working precision."""
    return Decimal(value.numerator) / value.denominator


def rounded_up(value: Decimal, digits: int = 18) -> Fraction:
    """The least fraction of this many decimal digits that is not below the value."""
    return Fraction(Context(prec=digits, rounding=ROUND_CEILING, Emax=MAX_EMAX, Emin=MIN_EMIN).plus(value))


def rounded_down(value: Decimal, digits: int = 12) -> Fraction:
    """The largest fraction of this many decimal digits that is not above the value."""
    return Fraction(Context(prec=digits, rounding=ROUND_FLOOR, Emax=MAX_EMAX, Emin=MIN_EMIN).plus(value))


def log1p(value: Decimal) -> Decimal:
    """log(1 + value), also accurate for a tiny value (Kahan's quotient)."""
    one_more = 1 + value
    return value if one_more == 1 else one_more.ln() * value / (one_more - 1)


def root(rising: Callable[[Decimal], Decimal]) -> Decimal:
    """Where a rising function of a positive number is zero, to twelve digits."""
    high = Decimal(1)
    while rising(high.exp()) < 0:
        high *= 2
    low = -high
    while rising(low.exp()) > 0:
        low *= 2
    while high - low > Decimal("1e-12"):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle.exp()) < 0 else (low, middle)
    return high.exp()


def least(valley: Callable[[Decimal], Decimal], *, low: int, high: int) -> Decimal:
    """Where a function that falls, then rises, is least; `low` and `high` bracket the logarithm."""
    golden = (Decimal(5).sqrt() - 1) / 2
    left, right = Decimal(low), Decimal(high)
    one, two = right - golden * (right - left), left + golden * (right - left)
    at_one, at_two = valley(one.exp()), valley(two.exp())
    while right - left > Decimal("1e-8"):
        if at_one <= at_two:
            right, two, at_two = two, one, at_one
            one = right - golden * (right - left)
            at_one = valley(one.exp())
        else:
            left, one, at_one = one, two, at_two
            two = left + golden * (right - left)
            at_two = valley(two.exp())
    return one.exp()


def above(value: Fraction) -> float:
    """The least double that is not below the value."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else nextafter(nearest, inf)


def below(value: Fraction) -> float:
    """The largest double that is not above the value."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else nextafter(nearest, -inf)
