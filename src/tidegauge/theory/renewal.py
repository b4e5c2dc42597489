"""T15: the constraint on everything that one unit does in one term, or in several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tidegauge.errors import SpecError
from tidegauge.model.constraint import AtMost, Both, Either, Unconstrained, Within
from tidegauge.theory._arguments import length, whole
from tidegauge.theory.paths.cases import constraint_cases

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegauge.model.constraint import Constraint
    from tidegauge.model.quantity import Exact
    from tidegauge.theory._arguments import Length
    from tidegauge.theory.paths.cases import ConstraintCase


def renewed(
    constraint: Constraint,
    *,
    kind: Literal["stock", "flow"],
    length_of_terms: Length,
    touched: Callable[[Exact], int],
    terms: int = 1,
) -> Constraint:
    """The constraint on the changes that one unit causes by what it does in `terms` consecutive terms.  [T15]

    `length_of_terms`: of the longest such terms together.  `touched`: most bins that a closed interval of
    this length touches.
    Requires: the constraint is enforced in every term, and renews when a term begins.
    Counts:   bins in which the unit changes, where only a length of time bounds a term.
    Tight:    a unit that is not there before and after, and is frozen when each of the terms ends.
    Proof:    docs/theory/T15.md
    """
    m = whole(terms, key="terms", least=1)
    longest = length(length_of_terms, key="length_of_terms")
    found: list[Constraint] = []
    for case in constraint_cases(constraint):
        if case.mutations is None and case.bound is None:
            return Unconstrained()
        found.append(_renewed(case, kind, longest, touched, m))
    first, *others = found
    for other in others:
        first = Either(first, other)
    return first


def _renewed(
    case: ConstraintCase,
    kind: Literal["stock", "flow"],
    longest: Exact,
    touched: Callable[[Exact], int],
    terms: int,
) -> Constraint:
    k, bound = case
    if bound is not None and bound.temporal != longest.temporal:
        raise SpecError("give plain numbers only, or times and durations only")
    span = longest
    if kind == "flow":
        most = None if k is None else terms * k
        if bound is not None and terms == 1:
            span = min(bound, longest)
    else:
        counts = [] if k is None else [terms * (k + 1) + 1]
        counts += [] if bound is None else [terms * (touched(bound) + 1)]
        most = min(counts)
    within = Within(f"{span.value} microseconds" if span.temporal else span.value)
    return within if most is None else Both(AtMost(most), within)
