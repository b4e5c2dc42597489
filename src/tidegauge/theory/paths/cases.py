"""Cases of a constraint: AtMost, Within and their combinations as a list of (k, B)."""

from __future__ import annotations

from typing import NamedTuple

from tidegauge.errors import SpecError
from tidegauge.model.constraint import AtMost, Both, Constraint, Either, Unconstrained, Within
from tidegauge.model.quantity import Exact, alike


class ConstraintCase(NamedTuple):
    """At most `mutations` changes, all in a closed interval of length `bound`; None is no limit."""

    mutations: int | None = None
    bound: Exact | None = None


def constraint_cases(constraint: Constraint | None) -> tuple[ConstraintCase, ...]:
    """The cases of a constraint; a unit obeys the constraint if it obeys one of them.  [T2]

    Requires: the constraint is enforced; None is no constraint.
    Exact:    a unit obeys the constraint if and only if it obeys one of the cases.
    Proof:    docs/theory/T2-cases.md
    """
    match constraint:
        case None | Unconstrained():
            return (ConstraintCase(),)
        case AtMost():
            return (ConstraintCase(mutations=constraint.mutations),)
        case Within():
            return (ConstraintCase(bound=Exact(constraint.bound, constraint.temporal)),)
        case Either():
            return tuple(
                dict.fromkeys(constraint_cases(constraint.left) + constraint_cases(constraint.right))
            )
        case Both():
            pairs = (
                (left, right)
                for left in constraint_cases(constraint.left)
                for right in constraint_cases(constraint.right)
            )
            return tuple(dict.fromkeys(_both(left, right) for left, right in pairs))
    raise SpecError(f"{type(constraint).__name__} is not a constraint: use AtMost, Within, & and |, or None")


def _both(left: ConstraintCase, right: ConstraintCase) -> ConstraintCase:
    mutations = [count for count in (left.mutations, right.mutations) if count is not None]
    bounds = [bound for bound in (left.bound, right.bound) if bound is not None]
    alike(*bounds)
    return ConstraintCase(min(mutations, default=None), min(bounds, default=None))
