"""Conversion between rho-zCDP and (epsilon, delta), tight both ways; every rounding raises the stated loss.

Canonne, Kamath and Steinke (2020): rho-zCDP is (epsilon, delta) for every x = alpha - 1 > 0 with

    log(1/delta) = x (epsilon - (1 + x) rho) + x log(1 + 1/x) + log(1 + x).

Each function solves this for one of the three at the best x, which is the zero of a rising function.  Any x
gives a valid bound, so x may be approximate; the bound itself is moved by more than its rounding error.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SpecError
from tidegauge.model.quantity import fraction
from tidegauge.theory.accounting.precise import (
    ERROR,
    decimal,
    log1p,
    precisely,
    root,
    rounded_down,
    rounded_up,
)

if TYPE_CHECKING:
    from tidegauge.model.quantity import Number

LEAST_DELTA: Final = Fraction(1, 10**600)
"""Smaller deltas are returned as this value: the difference does not matter, and digits cost memory."""


def rho_to_epsilon(rho: Number | str, *, delta: Number | str) -> Fraction:
    """The least epsilon for which rho-zCDP is known to be (epsilon, delta).  [T8]

    Rounded:  up, at the 18th digit.
    Proof:    docs/theory/T8-rho-to-epsilon.md
    """
    loss, slack = _not_negative(rho, "rho"), _probability(delta, "delta")
    if not loss:
        return Fraction(0)
    with precisely():
        r, L = decimal(loss), -decimal(slack).ln()
        x = root(lambda x: r * x * x + log1p(x) - L)
        shift, tail, gain = (1 + x) * r, (L - log1p(x)) / x, log1p(1 / x)
        epsilon = shift + tail - gain + ERROR * (shift + (L + log1p(x) + 1) / x + gain)
        return max(Fraction(0), rounded_up(epsilon))


def rho_to_delta(rho: Number | str, *, epsilon: Number | str) -> Fraction:
    """The least delta for which rho-zCDP is known to be (epsilon, delta).  [T8]

    Rounded:  up, at the 18th digit, and never below LEAST_DELTA.
    Proof:    docs/theory/T8-rho-to-delta.md
    """
    loss, bound = _not_negative(rho, "rho"), _not_negative(epsilon, "epsilon")
    if not loss:
        return Fraction(0)
    with precisely():
        r, e = decimal(loss), decimal(bound)
        x = root(lambda x: (1 + 2 * x) * r - e - log1p(1 / x))
        terms = (x * (1 + x) * r, -x * e, -x * log1p(1 / x), -log1p(x))
        exponent = sum(terms) + ERROR * sum(abs(term) for term in terms)
        if exponent < decimal(LEAST_DELTA).ln():
            return LEAST_DELTA
        return min(Fraction(1), rounded_up(exponent.exp() * (1 + ERROR)))


def epsilon_to_rho(epsilon: Number | str, *, delta: Number | str) -> Fraction:
    """The largest rho for which rho-zCDP is known to be (epsilon, delta).  [T8]

    Rounded:  down, at the 12th digit: rho_to_epsilon of the result is at most epsilon.
    Proof:    docs/theory/T8-epsilon-to-rho.md
    """
    bound, slack = _not_negative(epsilon, "epsilon"), _probability(delta, "delta")
    with precisely():
        e, L = decimal(bound), -decimal(slack).ln()
        x = root(lambda x: e + log1p(1 / x) - (L - log1p(x)) * (1 + 2 * x) / (x * x))
        tail, gain = (L - log1p(x)) / x, log1p(1 / x)
        rho = (e - tail + gain - ERROR * (e + (L + log1p(x) + 1) / x + gain)) / (1 + x)
        return rounded_down(rho)


def _not_negative(value: Number | str, name: str) -> Fraction:
    number = fraction(value)
    if number < 0:
        raise SpecError("must not be negative", key=name)
    return number


def _probability(value: Number | str, name: str) -> Fraction:
    number = fraction(value)
    if not 0 < number < 1:
        raise SpecError("must lie between 0 and 1; at 0 no epsilon is finite", key=name)
    return number
