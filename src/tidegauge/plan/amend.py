"""From a declaration with added releases to the plan that commits them against the reserve.  [T19]"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from tidegauge.errors import BudgetExceeded, PlanChanged, QueryError, SpecError
from tidegauge.plan.planner import Room, Since, consider, decide
from tidegauge.plan.spec.change import added, changed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tidegauge.plan.plan import Plan
    from tidegauge.plan.spec.declaration import ConstraintSpec, GaugeSpec


def amendment(
    spec: GaugeSpec,
    whole: Plan,
    *,
    table: str,
    columns: Mapping[str, str],
    now: int,
    reached: int,
    cache: Path | None = None,
) -> Plan:
    """The plan of the releases that a declaration adds to a committed gauge.  Spends nothing.

    `whole`: all that was committed.  `columns`: those that the source has now.  `reached`: everything up to
    this instant was measured.  Raises PlanChanged, SpecError or BudgetExceeded where it cannot be committed.
    """
    names = _require_added(spec, whole)
    first = whole.parts[0] if whole.parts else whole
    alone = spec.model_copy(
        update={
            "release": {name: one for name, one in spec.release.items() if name in names},
            "constraint": _constraint(spec, first),
        }
    )
    usable = {name: first.columns[name] for name in first.program.keeps}
    try:
        considered = consider(
            alone,
            table=table,
            columns=usable,
            now=now,
            cache=cache,
            since=Since(reached, first.program.terms),
        )
    except QueryError as error:
        there = {name.lower() for name in {*first.columns, *columns} - set(usable)}
        if error.unknown is not None and error.unknown.lower() in there:
            stop = "" if str(error).endswith("?") else "."
            raise QueryError(
                f"{error}{stop} The table has this column, but added releases can use only the columns that "
                "the gauge keeps since its first day ([budget] reserve_columns). Nothing was committed or "
                "spent"
            ) from None
        raise
    plan = decide(alone, considered, columns=usable, room=_room(alone, whole))
    program = replace(plan.program, keeps=(), partial=())
    previous = (whole.parts or (whole,))[-1].hash
    plan = replace(
        plan,
        declaration=spec.canonical(),
        columns=first.columns,
        program=program,
        protects=first.protects,
        amends=previous,
    )
    for name in sorted(program.used):
        if columns.get(name) != first.columns[name]:
            raise SpecError(
                f"column '{name}' is no longer in the table as it was when the gauge was committed. Nothing "
                "was committed or spent",
                key="source",
            )
    return plan


def _require_added(spec: GaugeSpec, whole: Plan) -> list[str]:
    """The names of the releases that the declaration adds; raises where it does something else."""
    names = added(whole.declaration, spec)
    others = [
        line
        for line in changed(whole.declaration, spec)
        if line not in {f"release.{name}: was added" for name in names}
    ]
    if others:
        raise PlanChanged(
            "only added releases can be committed, but the declaration was changed:\n  "
            + "\n  ".join(others)
            + "\nNothing was committed or spent. Put these keys back as they were. To go on with a release "
            "that has ended, or to publish it in another way, declare it again under another name."
        )
    if not names:
        raise PlanChanged(
            "there is nothing to add: the declaration has no release that is not committed. Declare one "
            "under [release.NAME], then run: tidegauge amend"
        )
    if whole.budget.reserve is None:
        raise PlanChanged(
            "this gauge was committed without [budget] reserve, so its budget is spent and its store does "
            f"not keep the rows that {', '.join(names)} would begin with. Nothing was committed or spent. "
            "Take the release out again, or start another gauge with a store of its own (tidegauge run "
            "--store other.db); the privacy losses of both gauges add up, and a shared [ledger] limits them "
            "together"
        )
    for name, one in spec.derived.items():
        if name in names and one.of not in names:
            raise SpecError(
                f"'{one.of}' is committed, and what is derived from it was committed with it. Derive from a "
                "release that is added together with it",
                key=f"release.{name}.of",
            )
    return names


def _room(spec: GaugeSpec, whole: Plan) -> Room:
    """What is left of the reserve.  Raises BudgetExceeded where the added releases need more."""
    left = whole.held_back / whole.total
    needed = sum((one.share for one in spec.measured.values() if one.share is not None), Fraction(0))
    if needed > left or left == 0:
        raise BudgetExceeded(
            f"[budget] reserve: {', '.join(spec.measured)}",
            measure=whole.measure,
            needed=needed * whole.total,
            left=left * whole.total,
            advice="Give the added releases smaller shares. The budget of a gauge is never raised: for "
            "more, start another gauge with a store of its own; the privacy losses of both add up."
            if left
            else "Everything is reserved. Start another gauge with a store of its own; the privacy losses "
            "of both add up.",
        )
    return Room(whole.total, left)


def _constraint(spec: GaugeSpec, first: Plan) -> ConstraintSpec | None:
    """The constraint of added releases: the declared one, or the one that was drawn for the first plan."""
    if spec.constraint is None or first.choice is None or first.choice.chosen is None:
        return spec.constraint
    most, mode = first.choice.chosen
    return spec.constraint.chosen(most, mode)
