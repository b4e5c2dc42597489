"""The privacy loss of a plan, computed again from its measurements, its noise and the enforced constraint."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SpecError, StoreCorrupt
from tidegauge.mechanism.aggregates import aggregate_of
from tidegauge.mechanism.noise.samplers import DiscreteGaussian, DiscreteLaplace
from tidegauge.mechanism.strategy import Exposure
from tidegauge.model.budget import Budget
from tidegauge.model.constraint import AtMost, Both, Either, Unconstrained, Within
from tidegauge.model.expression import Native
from tidegauge.model.json import as_object, tables
from tidegauge.model.quantity import Exact, Span
from tidegauge.model.terms import longest, most_in_a_bin
from tidegauge.plan.choose import fitting
from tidegauge.plan.outline import not_a_plan, require_reserved
from tidegauge.plan.plan import Plan
from tidegauge.theory.accounting.conversion import epsilon_to_rho
from tidegauge.theory.paths.path import bins_ending, bins_touched
from tidegauge.theory.renewal import renewed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidegauge.mechanism.encode import ComponentPlan
    from tidegauge.mechanism.strategy import Strategy
    from tidegauge.model.constraint import Constraint
    from tidegauge.model.json import JsonObject
    from tidegauge.model.ledger import Reservation
    from tidegauge.model.program import Allowance, Program, Release
    from tidegauge.model.query import Component
    from tidegauge.plan.plan import ReleasePlan
    from tidegauge.theory.sensitivity import Sensitivity


DUST: Final = Fraction(1, 10**9)
"""Tolerance of the loss of a release: searches may round differently on different machines."""
OLDER: Final = Fraction(1, 1000)
"""The same for plans with stored SQL: some older bounds were up to 3/10,000 below those proved now."""


_TOO_LITTLE: Final = (
    "If an earlier version of Tidegauge committed this plan, that version computed too little noise: the "
    "privacy loss of its readings is the larger number (CHANGELOG.md lists such errors). Keep this store as "
    "a record, and declare a new gauge, with another store and a budget that is smaller by that number. "
    "Otherwise the store was altered or damaged: do not publish from it, and restore the newest copy that "
    "tidegauge verify accepts."
)


def certified(record: JsonObject, commits: Iterable[Reservation]) -> Plan:
    """The committed plan of this record, after its privacy loss was computed again.

    `commits`: everything that the ledger reserved.  Raises StoreCorrupt if the plan needs more than the
    ledger reserved, also if a record was changed and hashed again.
    """
    commits = list(commits)
    reserved = require_reserved(record, commits)
    try:
        plan = Plan.from_record(record)
        certify(plan)
        covered = sum((one.reserved for one in reserved), Fraction(0))
        same = all(one.measure == plan.measure for one in reserved)
        if plan.choice is not None:
            drawn = [one for one in commits if one.choice and one.measure == plan.measure]
            same = same and sum((one.reserved for one in drawn), Fraction(0)) >= plan.choice.cost
    except (SpecError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
        raise not_a_plan() from None
    if not same or covered < plan.needed:
        raise StoreCorrupt("the ledger reserved less than the plan needs; nothing was read or spent")
    return plan


def certify(plan: Plan) -> None:
    """Raise StoreCorrupt if a release adds too little noise, or if the plan exceeds its budget."""
    _require_declared(plan)
    _require_chosen(plan)
    _require_terms(plan)
    room = plan.budget.held_back if plan.amends is not None else 1 - plan.budget.held_back
    if plan.reserved > plan.total * room:
        raise StoreCorrupt("the plan needs more than the budget; nothing was read or spent")
    known: dict[tuple[Strategy, Exposure], Sensitivity] = {}
    for release in plan.releases:
        _require_fitting(release)
        older = isinstance(release.release.query.cell, Native)
        most = release.loss * (1 + (OLDER if older else DUST))
        if {_measure(one) for one in release.component_plans} != {plan.measure}:
            raise StoreCorrupt(
                f"release '{release.release.name}' has other noise than the plan's {plan.measure} asks for; "
                "nothing was read or spent"
            )
        needed = loss(release, plan.program, known)
        if needed > most:
            raise StoreCorrupt(
                f"release '{release.release.name}' adds too little noise for the {plan.measure} it was "
                f"given: it has {float(release.loss):.6g} and needs {float(needed):.6g}. Nothing was read or "
                "spent",
                advice=_TOO_LITTLE,
            )


def accounted(budget: Budget) -> Fraction:
    """The budget as one number: epsilon if the budget is pure, else rho."""
    if budget.rho is not None:
        return budget.rho
    assert budget.epsilon is not None
    return budget.epsilon if budget.delta is None else epsilon_to_rho(budget.epsilon, delta=budget.delta)


def _require_declared(plan: Plan) -> None:
    """Raise StoreCorrupt unless budget and protected unit are those of the declaration."""
    source = as_object(plan.declaration["source"])
    declared = Budget.from_json(as_object(plan.declaration["budget"]))
    protected = source.get("unit"), source.get("max_rows")
    if (
        plan.budget != declared
        or plan.total > accounted(declared) * (1 + DUST)
        or plan.measure != ("epsilon" if declared.pure else "rho")
        or (plan.program.owner, plan.program.max_rows) != protected
    ):
        raise StoreCorrupt(
            "the committed plan protects another unit, or has another budget, than its declaration; "
            "nothing was read or spent"
        )


def _require_chosen(plan: Plan) -> None:
    """Raise StoreCorrupt unless a constraint that was left to be chosen is enforced as it was drawn."""
    declared = as_object(plan.declaration.get("constraint") or {})
    if plan.amends is not None:  # what was drawn for the first plan; see tidegauge.plan.grow
        return
    if bool(declared.get("auto")) != (plan.choice is not None):
        raise StoreCorrupt("the committed plan and its declaration disagree on who chose at_most")
    if plan.choice is None or plan.choice.chosen is None:
        return
    most, mode = plan.choice.chosen
    own = {name for name, one in tables(plan.declaration["release"]).items() if one.get("constraint")}
    for scope in plan.program.scopes:
        if own.isdisjoint(scope.releases) and (
            any(allowance.at_most != most for _, allowance in scope.allowances)
            or scope.retire != (mode == "retire")
        ):
            raise StoreCorrupt(
                "the committed plan enforces another constraint than the one that was drawn; nothing was "
                "read or spent"
            )


def _require_terms(plan: Plan) -> None:
    """Raise StoreCorrupt unless constraints renew as declared, from the first reading on."""
    declared = as_object(plan.declaration.get("constraint", {})).get("renews")
    terms = plan.program.terms
    if terms is None and declared is None:
        return
    starts = [release.release.schedule.bin_end(0) for release in plan.releases]
    if (
        terms is None
        or declared is None
        or terms.every != Span.from_json(as_object(declared))
        or (terms.count, terms.window) != (None, None)
        or terms.start - min(starts) > longest(terms)
    ):
        raise StoreCorrupt(
            "the committed plan renews its constraints at other times than its declaration says; "
            "nothing was read or spent"
        )


def _require_fitting(plan: ReleasePlan) -> None:
    """Raise StoreCorrupt unless each component has one plan, on a grid, for the windows of the release."""
    query = plan.release.query
    parts = aggregate_of(query.aggregate).parts
    if not len(plan.component_plans) == len(query.components) == len(parts):
        raise StoreCorrupt(f"release '{plan.release.name}' does not measure what it publishes")
    if any(part.grid <= 0 for part in query.components):
        raise StoreCorrupt(f"release '{plan.release.name}' measures on a grid that does not exist")
    for component_plan in plan.component_plans:
        if type(component_plan.refine) is not int or component_plan.refine < 1:
            raise StoreCorrupt(f"release '{plan.release.name}' measures on a grid that does not exist")
        if component_plan.strategy.ahead is not None and not isinstance(
            component_plan.noise, DiscreteLaplace
        ):
            raise StoreCorrupt(f"release '{plan.release.name}' draws noise ahead that is not Laplace noise")
        try:
            fitting(component_plan.strategy, plan.release)
        except SpecError:
            raise StoreCorrupt(
                f"release '{plan.release.name}' has a strategy for other windows than its own; "
                "nothing was read or spent"
            ) from None


def loss(
    plan: ReleasePlan,
    program: Program,
    known: dict[tuple[Strategy, Exposure], Sensitivity] | None = None,
    *,
    constraint: Constraint | None = None,
    terms: int | None = 1,
) -> Fraction:
    """The privacy loss of one unit (in one term) from all measurements of a release together.

    `known`: sensitivities computed so far, shared by releases with equal strategies; updated in place.
    `constraint`: another constraint than the enforced one.  `terms`: the loss of a unit in so many terms;
    None: the constraint never renews.
    """
    if constraint is None:
        constraint = enforced(program, plan.release.name, terms=terms or 1)
    found = {} if known is None else known
    total = Fraction(0)
    for component_plan, part in zip(plan.component_plans, plan.release.query.components, strict=True):
        key = component_plan.strategy, exposure(plan.release, part, constraint, program, terms=terms)
        if key not in found:
            found[key] = component_plan.strategy.sensitivity(key[1])
        total += _cost(component_plan, found[key])
    return total


def exposure(
    release: Release, part: Component, constraint: Constraint, program: Program, *, terms: int | None = 1
) -> Exposure:
    """The bounds on the changes of one unit to one component of a release.

    `terms`: by what it does in so many terms, where constraints renew; None: as if they did not.
    """
    returns = None
    if program.terms is not None and terms is not None and not isinstance(constraint, Unconstrained):
        whole = Exact(Fraction(longest(program.terms, terms)), temporal=True)
        returns = bins_ending(whole, release.schedule)
    clip = release.clip
    if clip is not None and program.terms is not None and terms is not None and terms > 1:
        clip *= min(terms, most_in_a_bin(program.terms, release.schedule))  # each term has its own
    return Exposure(
        constraint=constraint,
        schedule=release.schedule,
        kind=release.query.kind,
        lower=part.lower,
        upper=part.upper,
        grouped=len(release.query.cells) > 1,
        rows=program.max_rows or 1,
        clip=clip,
        cells=len(release.query.cells),
        returns_after=returns,
    )


def enforced(program: Program, release: str, *, terms: int = 1) -> Constraint:
    """The enforced constraint on the units of this release.  A unit may have any of several labels.

    Where constraints renew, the constraint on what a unit does in so many `terms`.
    """
    if program.terms is None:
        return constraint_on(program, release)
    (found,) = (one for one in program.releases if one.name == release)
    return renewed(
        constraint_on(program, release),
        kind=found.query.kind,
        length_of_terms=timedelta(microseconds=longest(program.terms, terms)),
        touched=partial(bins_touched, schedule=found.schedule),
        terms=terms,
    )


def constraint_on(program: Program, release: str) -> Constraint:
    """The constraint on the units of this release, over their lifetime or in each term."""
    (scope,) = (scope for scope in program.scopes if release in scope.releases)
    labels = [label for label, _ in scope.allowances]
    if (labels != [None]) if scope.by is None else (None in labels or len(set(labels)) < len(labels)):
        raise SpecError(
            "a constraint applies to all units or, with by, to the units with one label, each once"
        )
    first, *others = (_constraint(allowance) for _, allowance in scope.allowances)
    for other in others:
        first = Either(first, other)
    return first


def _constraint(allowance: Allowance) -> Constraint:
    parts: list[Constraint] = [] if allowance.at_most is None else [AtMost(allowance.at_most)]
    parts += [] if allowance.within is None else [Within(f"{allowance.within} microseconds")]
    return Both(*parts) if len(parts) == 2 else parts[0] if parts else Unconstrained()


def _measure(component_plan: ComponentPlan) -> str:
    return "epsilon" if isinstance(component_plan.noise, DiscreteLaplace) else "rho"


def _cost(component_plan: ComponentPlan, sensitivity: Sensitivity) -> Fraction:
    noise = component_plan.noise
    if isinstance(noise, DiscreteLaplace):
        return sensitivity.l1 * component_plan.refine / noise.scale
    assert isinstance(noise, DiscreteGaussian)
    return sensitivity.l2_squared * component_plan.refine**2 / (2 * noise.sigma_squared)
