"""All plans of a gauge as one: the first, and those that added releases.  [T19]"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from tidegauge.errors import StoreCorrupt
from tidegauge.model.json import tables
from tidegauge.plan.certify import certified, constraint_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tidegauge.model.json import JsonObject
    from tidegauge.model.ledger import Reservation
    from tidegauge.model.program import Program
    from tidegauge.plan.plan import Plan


def all_certified(records: Sequence[JsonObject], commits: Iterable[Reservation]) -> Plan:
    """All committed plans as one, after the privacy loss of each was computed again.

    `commits`: everything that the ledger reserved.  Raises StoreCorrupt where a plan needs more than was
    reserved for it, or does not continue those before it.
    """
    reserved = list(commits)
    plans = [certified(record, reserved) for record in records]
    require_growth(plans)
    return combined(plans)


def combined(plans: Sequence[Plan]) -> Plan:
    """All plans of a gauge as one, with the declaration of the last; a single plan is itself."""
    first, *more = plans
    if not more:
        return first
    ordered = _in_order(plans)
    whole = replace(
        first,
        declaration=more[-1].declaration,
        program=program_of_all(ordered),
        releases=tuple(release for plan in ordered for release in plan.releases),
        warnings=tuple(dict.fromkeys(warning for plan in plans for warning in plan.warnings)),
        derived=tuple(derived for plan in ordered for derived in plan.derived),
        parts=tuple(plans),
    )
    object.__setattr__(whole, "committed", {"plans": [plan.record() for plan in plans]})
    return whole


def in_order(whole: Plan) -> tuple[Plan, ...]:
    """The plans of a gauge in the order in which they begin, which is that of the engine and the state.

    A plan that is committed later can begin earlier, but never before one that has begun.
    """
    return _in_order(whole.parts or (whole,))


def _in_order(plans: Sequence[Plan]) -> tuple[Plan, ...]:
    return (plans[0], *sorted(plans[1:], key=lambda plan: plan.begins))


def begun(whole: Plan, watermark: int) -> tuple[Plan, ...]:
    """The plans that have begun once everything up to the watermark was folded; always the first."""
    first, *more = in_order(whole)
    return (first, *(plan for plan in more if plan.begins < watermark))


def program_of_all(plans: Sequence[Plan]) -> Program:
    """The programs of several plans as one; numbers of releases, scopes and labels only ever grow."""
    first, *more = (plan.program for plan in plans)
    if not more:
        return first
    labels: list[str] = []
    for program in (first, *more):
        named = {scope.by for scope in program.scopes if scope.by is not None}
        labels += sorted(named - set(labels))
    return replace(
        first,
        releases=tuple(release for program in (first, *more) for release in program.releases),
        scopes=tuple(scope for program in (first, *more) for scope in program.scopes),
        labels=tuple(labels),
    )


def require_growth(plans: Sequence[Plan]) -> None:
    """Raise StoreCorrupt unless each plan only adds releases to those before, within the reserve."""
    first, previous = plans[0], plans[0]
    names, spent = set(first.series), Fraction(0)
    if first.amends is not None:
        raise StoreCorrupt("the first plan of the store adds to another; nothing was read or spent")
    for plan in plans[1:]:
        spent += plan.needed
        same = (
            plan.amends == previous.hash
            and (plan.budget, plan.measure, plan.total) == (first.budget, first.measure, first.total)
            and (plan.columns, plan.choice) == (first.columns, None)
            and _enforces(plan.program, first.program)
            and plan.program.used <= set(first.program.keeps)
            and names.isdisjoint(plan.series)
            and _as_drawn(plan, first)
        )
        if not same:
            raise StoreCorrupt(
                "an added plan does not continue the plans before it; nothing was read or spent"
            )
        names |= plan.series.keys()
        previous = plan
    if spent > first.total * first.budget.held_back:
        raise StoreCorrupt("the added releases need more than the reserve; nothing was read or spent")


def _enforces(program: Program, first: Program) -> bool:
    """Whether units, terms and rows are those of the first program."""
    wanted = (first.max_rows, first.owner, first.terms)
    return (program.max_rows, program.owner, program.terms) == wanted


def _as_drawn(plan: Plan, first: Plan) -> bool:
    """Whether releases without a constraint of their own have the one that was drawn, if one was."""
    if first.choice is None:
        return True
    declared = tables(plan.declaration["release"])
    own = {name for name, one in declared.items() if one.get("constraint")}
    shared = [release.release.name for release in plan.releases if release.release.name not in own]
    before = next(
        (name for scope in first.program.scopes for name in scope.releases if name not in own), None
    )
    if before is None:
        return True
    return all(constraint_on(plan.program, name) == constraint_on(first.program, before) for name in shared)
