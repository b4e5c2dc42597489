"""From a declaration to a plan: find the valid strategies, predict their errors, choose the best."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from tidegauge.errors import BudgetExceeded, SpecError
from tidegauge.mechanism.search.task import Search
from tidegauge.model.calendar import committed_zone, is_local
from tidegauge.model.constraint import Unconstrained
from tidegauge.model.program import Limit, Program, Release, Scope
from tidegauge.model.quantity import DAY
from tidegauge.model.schedule import Schedule
from tidegauge.model.terms import terms_from
from tidegauge.plan.certify import accounted, enforced, exposure
from tidegauge.plan.choose import more_if_asked, options
from tidegauge.plan.derive import able, derive, derived_spans
from tidegauge.plan.plan import Plan, ReleasePlan
from tidegauge.plan.spec.start import next_round
from tidegauge.plan.sql.compile import compile_query
from tidegauge.plan.warn import warnings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tidegauge.model.calendar import Zone
    from tidegauge.model.constraint import Constraint
    from tidegauge.model.quantity import Span
    from tidegauge.plan.candidate import Measure
    from tidegauge.plan.choice import Choice
    from tidegauge.plan.choose import Option
    from tidegauge.plan.spec.declaration import ConstraintSpec, GaugeSpec


_HINT = (
    "There is a numerical optimum for this release, which can take minutes to find: "
    "tidegauge plan --optimise finds and keeps it, and run then takes it if it is better"
)


def make_plan(
    spec: GaugeSpec,
    *,
    table: str,
    columns: Mapping[str, str],
    now: int,
    leaves_out: int | None = None,
    cache: Path | None = None,
    ask: bool = False,
) -> Plan:
    """The plan of a declared gauge.  Reads no data and spends nothing.

    `leaves_out`: size in bytes from which the source may leave out values that did not change.
    `cache`: the folder of optimised matrices.  `ask`: search for them even if the search takes minutes.
    Raises SpecError or BudgetExceeded if the declaration cannot be carried out.
    """
    considered = consider(spec, table=table, columns=columns, now=now, cache=cache, ask=ask)
    return decide(spec, considered, columns=columns, leaves_out=leaves_out)


@dataclass(frozen=True)
class Considered:
    """Every valid strategy of every release, before the budget is split; equal for all sizes of a budget."""

    releases: Mapping[str, Release]
    spans: Mapping[str, Mapping[str, int | None]]
    """By release, then by derived series: how many bins a reading sums."""
    found: Mapping[str, tuple[list[Option], str]]
    """By release: its options, the best first, and a hint about longer searches."""

    def program(self, spec: GaugeSpec, columns: Mapping[str, str], leaves_out: int | None = None) -> Program:
        """What an engine has to do for the declaration."""
        return _program(spec, tuple(self.releases.values()), columns, leaves_out)


def consider(
    spec: GaugeSpec,
    *,
    table: str,
    columns: Mapping[str, str],
    now: int,
    cache: Path | None = None,
    ask: bool = False,
) -> Considered:
    """The strategies that can carry out a declaration.  Raises SpecError if there is none for a release."""
    releases = {name: _release(name, spec, table=table, columns=columns, now=now) for name in spec.measured}
    program = _program(spec, tuple(releases.values()), columns, None)
    spans = {name: derived_spans(spec.derived, release) for name, release in releases.items()}
    pure = spec.budget.budget.pure
    found = {
        name: _options(release, spec, program, spans[name], pure=pure, cache=cache, ask=ask)
        for name, release in releases.items()
    }
    return Considered(releases, spans, found)


def decide(
    spec: GaugeSpec,
    considered: Considered,
    *,
    columns: Mapping[str, str],
    leaves_out: int | None = None,
    choice: Choice | None = None,
) -> Plan:
    """The plan with the best of the considered strategies; `choice` takes its part of the budget first."""
    budget = spec.budget.budget
    measure: Measure = "epsilon" if budget.pure else "rho"
    total = accounted(budget)
    left = total if choice is None else total - choice.cost
    spans, found = considered.spans, considered.found
    shares = split(spec, {name: valid[0] for name, (valid, _) in found.items()})
    plans, derived = [], []
    for name, (valid, hint) in found.items():
        loss = shares[name] * left
        possible = [option for option in valid if option.possible(loss)]
        if not possible:
            raise SpecError(
                f"its privacy loss ({measure} = {float(loss):.3g}) needs noise wider than 2^52 steps of "
                "the grid; raise [budget] or its share, or declare narrower bounds or a coarser grid",
                key=f"release.{name}",
            )
        plans.append(_plan_release(possible, loss=loss, hint=hint))
        derived += [
            derive(also, spec.derived[also], span=span, plan=plans[-1], options=possible)
            for also, span in spans[name].items()
        ]
    return Plan(
        declaration=spec.canonical(),
        budget=budget,
        measure=measure,
        total=total,
        columns=dict(columns),
        program=considered.program(spec, columns, leaves_out),
        releases=tuple(plans),
        protects=_protects(spec),
        warnings=warnings(spec, budget, plans, columns),
        derived=tuple(derived),
        choice=choice,
    )


def _program(
    spec: GaugeSpec, releases: tuple[Release, ...], columns: Mapping[str, str], leaves_out: int | None
) -> Program:
    program = Program(
        releases,
        _scopes(spec, columns),
        spec.source.max_rows,
        spec.source.unit,
        terms=_terms(spec, [release.schedule for release in releases]),
    )
    if leaves_out is None:
        return program
    long = {name: columns[name] for name in sorted(program.used)}
    partial = tuple(
        (name, leaves_out if kind == "VARCHAR" else 0)
        for name, kind in long.items()
        if kind == "VARCHAR" or kind.startswith("DECIMAL")
    )
    return replace(program, partial=partial)


def _terms(spec: GaugeSpec, schedules: Sequence[Schedule]) -> Schedule | None:
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


def split(spec: GaugeSpec, best: Mapping[str, Option]) -> dict[str, Fraction]:
    """Each release's share of the budget: the declared one, or a part of the rest.

    Releases without a share get equal relative errors: error times weight, over the most that one unit can
    contribute.  An error is inversely proportional to the loss (pure) or to the square root of the loss.
    """
    given = {name: release.share for name, release in spec.measured.items() if release.share is not None}
    left = 1 - sum(given.values(), Fraction(0))
    others = [name for name in spec.measured if name not in given]
    if left < 0 or (others and left == 0):
        raise BudgetExceeded("the sum of all shares", measure="share", needed=1 - left, left=Fraction(1))
    wants = {}
    for name in others:
        declared = spec.measured[name]
        relative = float(declared.weight) * best[name].relative_error(declared.minimise)
        wants[name] = Fraction(relative if best[name].pure else relative**2).limit_denominator(10**9)
    whole = sum(wants.values(), Fraction(0))
    return {name: given[name] if name in given else left * wants[name] / whole for name in spec.measured}


def _release(name: str, gauge: GaugeSpec, *, table: str, columns: Mapping[str, str], now: int) -> Release:
    spec, key = gauge.measured[name], f"release.{name}"
    query = compile_query(
        spec.sql,
        table=table,
        columns=columns,
        groups=spec.groups,
        bounds=spec.bounds,
        grids=spec.grid,
        dialect=gauge.source.speaks,
        key=f"{key}.sql",
    )
    if spec.clip is not None and query.kind != "flow":
        raise SpecError(
            "belongs to a flow (FROM changes(...)); remove it: a running value needs no clip",
            key=f"{key}.clip",
        )
    if query.kind == "flow" and spec.window is None:
        spec = spec.model_copy(update={"window": spec.every})
    try:
        duration = None if spec.for_ == "ever" else spec.for_
        local = gauge.calendar.time_zone
        start = next_round(now, spec.every, local) if spec.start is None else spec.start
        zone = _zone(local, start, spec.every, duration, spec.window)
        schedule = Schedule.lasting(start, spec.every, duration, spec.window, zone)
    except SpecError as error:
        raise SpecError(str(error), key=None if error.key else key) from None
    return Release(name, query, schedule, spec.clip)


def _zone(
    name: str | None, start: int, every: Span, duration: Span | None, window: Span | None
) -> Zone | None:
    """The zone whose days or months a release counts; None where it counts none."""
    if name is None or not is_local(every):
        return None
    first = start if window is None else window.after(start, -1)
    return committed_zone(name, first - 2 * DAY, None if duration is None else duration.after(start))


def _scopes(spec: GaugeSpec, columns: Mapping[str, str]) -> tuple[Scope, ...]:
    shared = tuple(name for name, release in spec.measured.items() if release.constraint is None)
    own = [((name,), release.constraint) for name, release in spec.measured.items() if release.constraint]
    scopes = ([(shared, spec.constraint)] if shared else []) + own
    return tuple(_scope(names, constraint, columns) for names, constraint in scopes)


def _scope(releases: tuple[str, ...], spec: ConstraintSpec | None, columns: Mapping[str, str]) -> Scope:
    if spec is None:
        return Scope(releases, ((None, Limit()),))
    if spec.by is not None and spec.by not in columns:
        raise SpecError(
            f"there is no column '{spec.by}'; there are: {', '.join(sorted(columns))}", key="constraint.by"
        )
    return Scope(releases, spec.limits, spec.by, retire=spec.on_excess == "retire")


def _constraint(spec: GaugeSpec, name: str) -> Constraint:
    declared = spec.measured[name].constraint or spec.constraint
    return Unconstrained() if declared is None else declared.constraint


def _options(
    release: Release,
    spec: GaugeSpec,
    program: Program,
    spans: Mapping[str, int | None],
    *,
    pure: bool,
    cache: Path | None,
    ask: bool,
) -> tuple[list[Option], str]:
    """Every valid strategy that also gives the derived series (`spans`), and a hint about longer searches."""
    name = release.name
    constraint, declared = enforced(program, name), spec.measured[name]
    if isinstance(constraint, Unconstrained) and release.schedule.count is None:
        raise SpecError(
            "without a [constraint] every reading adds to the loss, so the loss of a release without an end "
            "has no bound; "
            "declare at_most or within, or give it an end with 'for'",
            key=f"release.{name}",
        )
    exposures = [exposure(release, part, constraint, program) for part in release.query.components]
    worst = declared.minimise == "worst"
    search = Search(release.schedule, exposures[0], pure=pure, worst=worst, cache=cache, ask=ask)
    try:
        found = options(release, exposures, search, pinned=declared.pinned)
    except SpecError as error:
        raise SpecError(str(error), key=None if error.key else f"release.{name}") from None
    return able(found, spans, declared.minimise), _HINT if more_if_asked(search, found) else ""


def _plan_release(possible: list[Option], *, loss: Fraction, hint: str) -> ReleasePlan:
    best = next((option for option in possible if option.exact(loss)), possible[0])
    return ReleasePlan(
        release=best.release,
        loss=loss,
        component_plans=best.component_plans(loss),
        chosen=best.candidate(loss),
        candidates=tuple(option.candidate(loss) for option in possible),
        promise=promise(pure=best.pure, adaptive=best.strategy.adaptive),
        hint=hint,
    )


def promise(*, pure: bool, adaptive: bool) -> str:
    """The guarantee to readers, as one sentence."""
    account = "pure epsilon (basic composition)" if pure else "zero-concentrated (rho)"
    data = (
        "also when the data react to what was published"
        if adaptive
        else "for data that do not react to what was published"
    )
    return f"{account}; holds {data}"


def _protects(spec: GaugeSpec) -> str:
    unit, rows = spec.source.unit, spec.source.max_rows
    who = (
        f"one row of the table, identified by its '{spec.source.key}', over its whole lifetime"
        if unit is None
        else f"one '{unit}' with all the rows it ever owns, of which at most {rows} count at any time"
    )
    reveals = "everything published together reveals at most the declared budget about"
    if spec.constraint is not None and (renews := spec.constraint.renews) is not None:
        who = who.replace(", over its whole lifetime", "").replace("it ever owns", "it owns")
        return f"{who}, in one term of {renews}: {reveals} everything it does in one term."
    return f"{who}: {reveals} it."
