"""Sensitivity of one window: T1."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, isqrt, nextafter
from typing import TYPE_CHECKING

from tidegauge.errors import SpecError
from tidegauge.model.quantity import fraction
from tidegauge.theory._arguments import whole

if TYPE_CHECKING:
    from tidegauge.model.quantity import Number
    from tidegauge.model.query import Kind


@dataclass(frozen=True)
class Sensitivity:
    """The most that one unit can move a vector of measurements, in both norms."""

    l1: Fraction
    l2_squared: Fraction

    @property
    def l2(self) -> float:
        """The square root of l2_squared, rounded up."""
        top, bottom = self.l2_squared.as_integer_ratio()
        shift = max(0, 128 - top.bit_length() + bottom.bit_length())
        root = Fraction(isqrt((top << 2 * shift) // bottom), 1 << shift)
        value = float(root)
        while Fraction(value) ** 2 < self.l2_squared:
            value = nextafter(value, inf)
        return value


def sensitivity(
    *,
    kind: Kind = "stock",
    lower: Number | str,
    upper: Number | str,
    grouped: bool = False,
    rows: int = 1,
    mutations: int | None = None,
    clip: int | None = None,
) -> Sensitivity:
    """The most that one unit can move one window.  [T1]

    Stock:    the change of the sum of f in [lower, upper] over the rows that exist; a missing row counts 0.
    Flow:     the sum of g in [lower, upper] over changes, at most `mutations` in all and `clip` in a window.
    Grouped:  a row is in at most one group at a time, a change in at most one group.
    Rows:     the most rows of a unit that count at any time.
    Tight:    a change between two groups, or from one end of the range to the other.
    Proof:    docs/theory/T1.md
    """
    low, high, count = fraction(lower), fraction(upper), whole(rows, key="rows", least=1)
    if low > high:
        raise SpecError("must not be above upper", key="lower")
    magnitude, spread = max(abs(low), abs(high)), max(high, Fraction(0)) - min(low, Fraction(0))
    match kind:
        case "stock" if grouped:
            l1, l2_squared = 2 * magnitude, max(2 * magnitude**2, spread**2)
        case "stock":
            l1, l2_squared = spread, spread**2
        case "flow":
            l1 = magnitude * most_counted(mutations=mutations, clip=clip)
            l2_squared = l1**2
        case _:
            raise SpecError("must be 'stock' or 'flow'", key="kind")
    return Sensitivity(l1=count * l1, l2_squared=count**2 * l2_squared)


def most_counted(*, mutations: int | None, clip: int | None) -> int:
    """Most changes of a row that one window of a flow counts.  [T1]

    Requires: at least one of the two limits, because a flow does not telescope; otherwise SpecError.
    Proof:    docs/theory/T1.md
    """
    limits = [
        whole(limit, key=key, least=1)
        for key, limit in (("mutations", mutations), ("clip", clip))
        if limit is not None
    ]
    if not limits:
        raise SpecError(
            "nothing bounds what one unit adds to a flow in one window: declare at_most, or a clip"
        )
    return min(limits)
