"""From a committed plan to what a public file says of it.

The committed record itself is not public: it names every column of the source's table.  What is published is
what `plan --json` prints, the guarantee, and each release with its SELECT, schedule, strategy and noise.
"""

from __future__ import annotations

from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING, Any, Final

from tidegauge.mechanism.aggregates import aggregate_of
from tidegauge.mechanism.noise.samplers import DiscreteLaplace
from tidegauge.model.json import as_object
from tidegauge.publish.public.values import (
    About,
    Document,
    Guarantee,
    LedgerEntry,
    ModelReading,
    ReleaseInfo,
)
from tidegauge.publish.readings import plan_reading
from tidegauge.theory.accounting.conversion import rho_to_epsilon

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidegauge.model.ledger import LedgerEntry as Reserved
    from tidegauge.plan.plan import Plan
    from tidegauge.plan.series import Series
    from tidegauge.store.public.part import PublicPart

_DELTA: Final = Fraction(1, 10**6)
"""At which rho is shown as epsilon where no delta was declared."""


def describe(plan: Plan, ledger: Iterable[Reserved], about: About, *, simulated: bool) -> Document:
    """Everything that a public file says besides readings and seals."""
    named = About(**(vars(about) | {"title": about.title or f"Statistics of {_table(plan)}"}))
    return Document(
        about=named,
        guarantee=guarantee(plan, simulated=simulated),
        releases=tuple(_release(plan, series) for series in plan.series.values()),
        ledger=tuple(_entry(entry) for entry in ledger),
        plan=plan.as_json(),
    )


def _entry(entry: Reserved) -> LedgerEntry:
    return LedgerEntry(entry.seq, entry.time, entry.kind, entry.body.as_json(), entry.previous, entry.hash)


def _table(plan: Plan) -> str:
    return plan.releases[0].release.query.table


def guarantee(plan: Plan, *, simulated: bool = False) -> Guarantee:
    """The guarantee of a plan, in numbers and words."""
    budget = plan.budget
    delta = Fraction(0) if budget.pure else budget.delta or _DELTA
    epsilon = rho_to_epsilon(budget.rho, delta=delta) if budget.rho is not None else budget.epsilon
    assert epsilon is not None
    return Guarantee(
        plan=plan.hash,
        epsilon=_float(budget.epsilon),
        delta=_float(budget.delta),
        rho=_float(budget.rho),
        measure=plan.measure,
        total=float(plan.total),
        reserved=float(plan.reserved),
        epsilon_at=float(epsilon),
        delta_at=float(delta),
        table=_table(plan),
        unit=plan.program.owner,
        max_rows=plan.program.max_rows,
        constraint=as_object(plan.declaration.get("constraint") or {}),
        protects=plan.protects,
        sentence=_sentence(plan, simulated=simulated),
        warnings=plan.warnings,
        simulated=simulated,
    )


def _sentence(plan: Plan, *, simulated: bool) -> str:
    if simulated:
        return "The noise of these readings was simulated: nothing is protected."
    owner = plan.program.owner
    who = "row of the table" if owner is None else f"'{owner}'"
    terms = plan.program.terms
    about = "" if terms is None else f"everything that is done in one term of {terms.every} by "
    return (
        f"Everything published together, over the gauge's whole lifetime, reveals at most {plan.budget} "
        f"about {about}any one {who}."
    )


def _release(plan: Plan, series: Series) -> ReleaseInfo:
    release, timetable = series.plan.release, series.timetable
    aggregate = aggregate_of(release.query.aggregate)
    derived = next((one for one in plan.derived if one.name == series.name), None)
    chosen = series.plan.chosen if derived is None else derived.chosen
    noise = series.plan.component_plans[0].noise
    return ReleaseInfo(
        name=series.name,
        of=None if derived is None else derived.of,
        sql=release.query.text,
        aggregate=release.query.aggregate,
        what=_what(series),
        unit=aggregate.unit,
        groups=tuple((group.name, group.values) for group in release.query.groups),
        cells=release.query.cells,
        start=timetable.start,
        every=str(timetable.every),
        window=None if series.window is None else str(series.window),
        count=timetable.count,
        level=series.running,
        never_negative=series.outline.never_negative,
        strategy=chosen.strategy,
        parameters=dict(chosen.parameters),
        noise="discrete Laplace" if isinstance(noise, DiscreteLaplace) else "discrete Gaussian",
        noise_scale=chosen.noise,
        folds=chosen.folds,
        loss=0.0 if derived is not None else float(series.plan.loss),
        half_width_worst=chosen.half_width_worst,
        half_width_mean=chosen.half_width_mean,
        adaptive=chosen.adaptive,
        promise=series.plan.promise,
        sensitivity=None if derived is not None else _sensitivity(series, chosen.noise),
        zone=timetable.zone,
    )


def _sensitivity(series: Series, noise: float) -> float:
    """The most that one unit can change the measurements of a component together, in published units.

    The noise was chosen for it and the loss of the component: L1 = scale x epsilon of Laplace noise,
    L2 = deviation x sqrt(2 rho) of Gaussian noise.
    """
    plans = series.plan.component_plans
    loss = float(series.plan.loss) / len(plans)
    laplace = isinstance(plans[0].noise, DiscreteLaplace)
    return noise / sqrt(2) * loss if laplace else noise * sqrt(2 * loss)


def model_readings(plan: Plan, part: PublicPart) -> tuple[ModelReading, ...]:
    """What a model makes of each reading and all others."""
    from tidegauge.publish.denoise.readings import with_model  # noqa: PLC0415  (slow to load)

    rows = part.readings()
    found = with_model(plan, [plan_reading(plan, row) for row in rows], rows, part, past=False)
    return tuple(
        ModelReading(
            row.release,
            plan.series[row.release].index_of(row.number),
            row.cell,
            row.time,
            one.group,
            one.model.value,
            one.model.stderr,
            one.model.low,
            one.model.high,
        )
        for row, one in zip(rows, found, strict=True)
        if one.model is not None and one.model.value is not None and one.model.stderr is not None
    )


def _what(series: Series) -> str:
    flow = series.plan.release.query.kind == "flow"
    if series.running:
        return "running total" if flow else "running value"
    return f"{'total' if flow else 'change'} over {series.window}"


def _float(value: Any) -> float | None:
    return None if value is None else float(value)
