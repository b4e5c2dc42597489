"""What a unit loses that stays for several terms, side by side with a constraint that never renews.  [T15]

A unit that stays for m terms is certified as one: its loss is not m times the loss of one term.  The other
column is a constraint over the whole lifetime that allows as many changes as m terms do and loses as much,
measured by the same strategy (or by the best other one, where that strategy needs terms): its noise follows
from the ratio of the two sensitivities.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SpecError
from tidegauge.mechanism.registry import build
from tidegauge.model.constraint import AtMost, Both, Either, Within
from tidegauge.plan.certify import constraint_on, enforced, exposure, loss
from tidegauge.plan.choose import component_plan
from tidegauge.theory.paths.cases import constraint_cases

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from tidegauge.model.constraint import Constraint
    from tidegauge.model.json import Json
    from tidegauge.plan.candidate import Candidate
    from tidegauge.plan.plan import Plan, ReleasePlan

TERMS: Final = (1, 5, 10)
"""Terms for which the loss of a unit that stays is shown."""


@dataclass(frozen=True)
class Alternative:
    """One release under renewal, and under a constraint that never renews and loses as much."""

    release: str
    half_width: float
    """The worst 95 % half-width of the noise under renewal."""
    at_most: int | None
    """Changes that the other constraint allows over the whole lifetime; None: it bounds no number."""
    lifetime_half_width: float | None
    """Its half-width; None: it has no bound."""

    @property
    def better(self) -> str:
        """The constraint with less noise."""
        other = self.lifetime_half_width
        return "lifetime" if other is not None and other < self.half_width else "renewal"


@dataclass(frozen=True)
class Stay:
    """A unit that stays for so many terms."""

    terms: int
    loss: Fraction
    """The most that it loses over all of them."""
    alternatives: tuple[Alternative, ...]

    def as_json(self, measure: str) -> dict[str, Json]:
        """The fields that plan --json shows."""
        return {
            "terms": self.terms,
            measure: float(self.loss),
            "releases": {
                one.release: {
                    "half_width_worst": one.half_width,
                    "lifetime_at_most": one.at_most,
                    "lifetime_half_width_worst": one.lifetime_half_width,
                    "better": one.better,
                }
                for one in self.alternatives
            },
        }


def stays(plan: Plan) -> Iterator[Stay]:
    """The loss of a unit that stays for one term and for several; nothing where constraints do not renew."""
    if plan.program.terms is None:
        return
    for terms in TERMS:
        losses = {one.release.name: _loss(one, plan, terms) for one in plan.releases}
        yield Stay(
            terms,
            sum(losses.values(), start=plan.needed * 0),
            tuple(_alternative(one, plan, terms, losses[one.release.name]) for one in plan.releases),
        )


def _loss(release: ReleasePlan, plan: Plan, terms: int) -> Fraction:
    """Certified as one unit; in pure privacy no more than the sum over the terms."""
    if terms == 1:
        return release.loss
    found = loss(release, plan.program, terms=terms)
    most = terms * release.loss if plan.measure == "epsilon" else terms**2 * release.loss
    return min(found, most)


def _alternative(release: ReleasePlan, plan: Plan, terms: int, whole: Fraction) -> Alternative:
    name, width = release.release.name, release.chosen.half_width_worst
    lifetime = _lifetime(constraint_on(plan.program, name), terms)
    counts = [case.mutations for case in constraint_cases(lifetime)]
    at_most = None if None in counts else max(count for count in counts if count is not None)
    found = _lifetime_width(release, plan, lifetime, whole)
    if found is None:  # the chosen strategy needs terms: the best of the others
        others = (_measured(one, release, plan) for one in release.candidates if one != release.chosen)
        widths = [_lifetime_width(one, plan, lifetime, whole) for one in others if one is not None]
        found = min((one for one in widths if one is not None), default=None)
    return Alternative(name, width, at_most, found)


def _lifetime_width(release: ReleasePlan, plan: Plan, lifetime: Constraint, whole: Fraction) -> float | None:
    """The half-width under a constraint that never renews and loses as much; None: it has no bound."""
    try:
        ratio = loss(release, plan.program, constraint=lifetime, terms=None) / whole
    except SpecError:  # without renewal nothing bounds this release
        return None
    return release.chosen.half_width_worst * (float(ratio) if plan.measure == "epsilon" else sqrt(ratio))


def _measured(candidate: Candidate, release: ReleasePlan, plan: Plan) -> ReleasePlan | None:
    """The release, measured by another strategy that was considered; None if a plan names it no more."""
    try:
        strategy = build(candidate.strategy, dict(candidate.parameters))
        constraint = enforced(plan.program, release.release.name)
        parts = release.release.query.components
        plans = tuple(
            component_plan(
                strategy,
                strategy.sensitivity(exposure(release.release, part, constraint, plan.program)),
                release.loss / len(parts),
                pure=plan.measure == "epsilon",
            )
            for part in parts
        )
    except (SpecError, TypeError, ValueError, KeyError):
        return None
    return replace(release, component_plans=plans, chosen=candidate)


def _lifetime(constraint: Constraint, terms: int) -> Constraint:
    """The constraint with as many changes as so many terms allow."""
    match constraint:
        case AtMost(mutations):
            return AtMost(terms * mutations)
        case Both(left, right):
            return Both(_lifetime(left, terms), _lifetime(right, terms))
        case Either(left, right):
            return Either(_lifetime(left, terms), _lifetime(right, terms))
        case Within(bound=bound):
            return Within(f"{terms * int(bound)} microseconds")
        case _:
            return constraint
