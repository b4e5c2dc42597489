"""Constraints: how often, and for how long, one unit may change what it contributes."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from tidegauge.errors import SpecError
from tidegauge.model.quantity import Span, exact

if TYPE_CHECKING:
    from datetime import timedelta

    from tidegauge.model.quantity import Number


class Constraint:
    """A known, enforceable fact about every unit's changes; combine with & (both) and | (either)."""

    def __and__(self, other: Constraint) -> Constraint:
        return Both(self, other)

    def __or__(self, other: Constraint) -> Constraint:
        return Either(self, other)


@dataclass(frozen=True)
class AtMost(Constraint):
    """At most this many changes of a unit, its first (the insertion) included."""

    mutations: int

    def __post_init__(self) -> None:
        if isinstance(self.mutations, bool) or not isinstance(self.mutations, int) or self.mutations < 1:
            raise SpecError("a unit needs at least one change, its insertion: at_most must be 1 or more")

    def __str__(self) -> str:
        return f"at most {self.mutations} change{'' if self.mutations == 1 else 's'}"


@dataclass(frozen=True)
class Within(Constraint):
    """All changes of a unit lie in [t, t + bound], where t is the time of its first change.

    `bound`: a plain number or a duration.
    """

    bound: Fraction
    temporal: bool

    def __init__(self, bound: Number | timedelta | str | Span) -> None:
        value, temporal = exact(str(bound) if isinstance(bound, Span) else bound)
        if value < 0:
            raise SpecError("within must not be negative")
        object.__setattr__(self, "bound", value)
        object.__setattr__(self, "temporal", temporal)

    def __str__(self) -> str:
        if not self.temporal:
            return f"within {self.bound}"
        return f"within {Span(micros=int(self.bound))}" if self.bound else "within no time"


@dataclass(frozen=True)
class Both(Constraint):
    """Every unit obeys left and right."""

    left: Constraint
    right: Constraint

    def __str__(self) -> str:
        return f"{_nested(self.left)} and {_nested(self.right)}"


@dataclass(frozen=True)
class Either(Constraint):
    """Every unit obeys left or right; a column says which (enforcement needs to know)."""

    left: Constraint
    right: Constraint

    def __str__(self) -> str:
        return f"{_nested(self.left)} or {_nested(self.right)}"


@dataclass(frozen=True)
class Unconstrained(Constraint):
    """Nothing is enforced: the loss grows with the number of windows."""

    def __str__(self) -> str:
        return "no constraint"


def _nested(part: Constraint) -> str:
    return f"({part})" if isinstance(part, Both | Either) else str(part)
