"""From a declaration to the program of an engine: scopes, terms, and the columns that are kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegauge.errors import SpecError
from tidegauge.model.calendar import committed_zone, is_local
from tidegauge.model.program import Allowance, Program, Scope
from tidegauge.model.quantity import DAY
from tidegauge.model.terms import terms_from

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidegauge.model.program import Release
    from tidegauge.model.schedule import Schedule
    from tidegauge.plan.spec.declaration import ConstraintSpec, GaugeSpec


def program_of(
    spec: GaugeSpec,
    releases: tuple[Release, ...],
    columns: Mapping[str, str],
    terms: Schedule | None,
    leaves_out: int | None = None,
) -> Program:
    """What an engine has to do for the declaration; `terms`: when constraints renew.

    `leaves_out`: size in bytes from which the source may leave out values that did not change.
    """
    program = Program(
        releases,
        _scopes(spec, columns),
        spec.source.max_rows,
        spec.source.unit,
        terms=terms,
        keeps=_keeps(spec, columns),
    )
    if leaves_out is None:
        return program
    long = {name: columns[name] for name in sorted(program.wanted(columns))}
    partial = tuple(
        (name, leaves_out if kind == "VARCHAR" else 0)
        for name, kind in long.items()
        if kind == "VARCHAR" or kind.startswith("DECIMAL")
    )
    return replace(program, partial=partial)


def _keeps(spec: GaugeSpec, columns: Mapping[str, str]) -> tuple[str, ...]:
    """The columns whose values are kept for releases that are added; none without a reserve."""
    if spec.budget.reserve is None:
        return ()
    named = spec.budget.reserve_columns
    if unknown := [name for name in named or () if name not in columns]:
        raise SpecError(
            f"there is no column '{unknown[0]}'; there are: {', '.join(sorted(columns))}",
            key="budget.reserve_columns",
        )
    return tuple(sorted(columns if named is None else set(named)))


def terms_of(spec: GaugeSpec, schedules: Sequence[Schedule]) -> Schedule | None:
    """The terms after which constraints renew; None: they do not."""
    if spec.constraint is None or spec.constraint.renews is None:
        return None
    first = min(schedule.bin_end(0) for schedule in schedules)
    name, zone, renews = spec.calendar.time_zone, None, spec.constraint.renews
    if name is not None and is_local(renews):
        lasts = [None if one.bins is None else one.bin_end(one.bins - 1) for one in schedules]
        end = None if None in lasts else max(last for last in lasts if last is not None)
        zone = committed_zone(name, first - 2 * DAY, end if end is None else renews.after(end))
    return terms_from(renews, first, zone, spec.constraint.renews_from)


def _scopes(spec: GaugeSpec, columns: Mapping[str, str]) -> tuple[Scope, ...]:
    shared = tuple(name for name, release in spec.measured.items() if release.constraint is None)
    own = [((name,), release.constraint) for name, release in spec.measured.items() if release.constraint]
    scopes = ([(shared, spec.constraint)] if shared else []) + own
    return tuple(_scope(names, constraint, columns) for names, constraint in scopes)


def _scope(releases: tuple[str, ...], spec: ConstraintSpec | None, columns: Mapping[str, str]) -> Scope:
    if spec is None:
        return Scope(releases, ((None, Allowance()),))
    if spec.by is not None and spec.by not in columns:
        raise SpecError(
            f"there is no column '{spec.by}'; there are: {', '.join(sorted(columns))}", key="constraint.by"
        )
    return Scope(releases, spec.allowances, spec.by, retire=spec.on_excess == "retire")
