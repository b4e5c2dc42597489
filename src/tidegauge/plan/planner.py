"""From a declaration to a plan: what is valid, what it costs, how well it tells, and which is best."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.errors import BudgetExceeded, SpecError
from tidegauge.mechanism.decode import Decoder
from tidegauge.mechanism.disjoint import Disjoint, bin_folds
from tidegauge.mechanism.encode import Channel
from tidegauge.mechanism.noise import gaussian_for, laplace_for
from tidegauge.mechanism.strategy import Exposure, Strategy
from tidegauge.model.constraint import Unconstrained
from tidegauge.model.program import Limit, Program, Release, Scope
from tidegauge.model.schedule import Schedule
from tidegauge.plan.plan import Candidate, Plan, ReleasePlan
from tidegauge.plan.sql import compile_query
from tidegauge.theory.conversion import epsilon_to_rho

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegauge.model.budget import Budget
    from tidegauge.model.constraint import Constraint
    from tidegauge.model.query import Component
    from tidegauge.plan.plan import Measure
    from tidegauge.plan.spec import ConstraintSpec, GaugeSpec, ReleaseSpec

HORIZON = 1000
"""Readings over which the error of an endless release is predicted."""
_WIDE = 64
"""Steps of the measured grid that the noise should be wide, so that its law is as good as continuous."""
_NIL = Fraction(1, 16)
"""Noise narrower than this many steps is nil; a finer grid would only make it visible."""


def make_plan(spec: GaugeSpec, *, table: str, columns: Mapping[str, str], now: int) -> Plan:
    """Decide everything; refuse whatever cannot be promised.  Reads no data and spends nothing."""
    budget = spec.budget.budget
    measure: Measure = "epsilon" if budget.pure else "rho"
    total = accounted(budget)
    releases = {name: _release(name, one, table, columns, now) for name, one in spec.release.items()}
    shares = split(spec)
    plans = tuple(
        _plan_release(release, spec, name, loss=shares[name] * total, pure=budget.pure)
        for name, release in releases.items()
    )
    return Plan(
        declaration=spec.canonical(),
        budget=budget,
        measure=measure,
        total=total,
        columns=dict(columns),
        program=Program(tuple(releases.values()), _scopes(spec, columns), spec.source.max_rows),
        releases=plans,
        protects=_protects(spec),
        warnings=_warnings(spec, budget),
    )


def accounted(budget: Budget) -> Fraction:
    """The budget in the measure that is accounted in: epsilon if pure, else rho."""
    if budget.rho is not None:
        return budget.rho
    assert budget.epsilon is not None
    return budget.epsilon if budget.delta is None else epsilon_to_rho(budget.epsilon, delta=budget.delta)


def split(spec: GaugeSpec) -> dict[str, Fraction]:
    """Each release's share of the budget: as declared, what is left in equal parts."""
    given = {name: release.share for name, release in spec.release.items() if release.share is not None}
    left = 1 - sum(given.values(), Fraction(0))
    others = [name for name in spec.release if name not in given]
    if left < 0 or (others and left == 0):
        raise BudgetExceeded("the sum of all shares", measure="share", needed=1 - left, left=Fraction(1))
    return {name: given.get(name, left / max(1, len(others))) for name in spec.release}


def _release(name: str, spec: ReleaseSpec, table: str, columns: Mapping[str, str], now: int) -> Release:
    key = f"release.{name}"
    query = compile_query(
        spec.sql,
        table=table,
        columns=columns,
        groups=spec.groups,
        bounds=spec.bounds,
        grids=spec.grid,
        key=f"{key}.sql",
    )
    if spec.clip is not None and query.kind != "flow":
        raise SpecError(
            "belongs to a flow (FROM changes(...)); a stock's contribution needs no clip", key=f"{key}.clip"
        )
    if query.kind == "flow" and spec.window is None:
        spec = spec.model_copy(update={"window": spec.every})
    try:
        duration = None if spec.for_ == "ever" else spec.for_
        schedule = Schedule.lasting(
            now if spec.start is None else spec.start, spec.every, duration, spec.window
        )
    except SpecError as error:
        raise SpecError(str(error), key=key) from None
    return Release(name, query, schedule, spec.clip)


def _scopes(spec: GaugeSpec, columns: Mapping[str, str]) -> tuple[Scope, ...]:
    shared = tuple(name for name, release in spec.release.items() if release.constraint is None)
    own = [((name,), release.constraint) for name, release in spec.release.items() if release.constraint]
    scopes = ([(shared, spec.constraint)] if shared else []) + own
    return tuple(_scope(names, constraint, columns) for names, constraint in scopes)


def _scope(releases: tuple[str, ...], spec: ConstraintSpec | None, columns: Mapping[str, str]) -> Scope:
    if spec is None:
        return Scope(releases, ((None, Limit()),))
    if spec.by is not None and spec.by not in columns:
        raise SpecError(f"there is no column '{spec.by}'", key="constraint.by")
    return Scope(releases, spec.limits, spec.by, retire=spec.on_excess == "retire")


def _constraint(spec: GaugeSpec, name: str) -> Constraint:
    declared = spec.release[name].constraint or spec.constraint
    return Unconstrained() if declared is None else declared.constraint


def _plan_release(release: Release, spec: GaugeSpec, name: str, *, loss: Fraction, pure: bool) -> ReleasePlan:
    constraint = _constraint(spec, name)
    if isinstance(constraint, Unconstrained) and release.schedule.count is None:
        raise SpecError(
            "without a [constraint] every reading adds to the loss, so a release for ever has no bound; "
            "declare at_most or within, or give it an end with 'for'",
            key=f"release.{name}",
        )
    exposures = [
        _exposure(release, part, constraint, spec.source.max_rows or 1) for part in release.query.components
    ]
    strategy = Disjoint(base=release.schedule.base)
    part_loss = loss / len(exposures)
    channels = tuple(_channel(strategy, exposure, part_loss, pure=pure) for exposure in exposures)
    chosen = _candidate(release, strategy, channels, exposures[0], loss)
    return ReleasePlan(
        release=release,
        loss=loss,
        channels=channels,
        chosen=chosen,
        candidates=(chosen,),
        promise=promise(pure=pure),
    )


def promise(*, pure: bool) -> str:
    """What the reader of the releases may rely on."""
    account = "pure epsilon (basic composition)" if pure else "zero-concentrated (rho)"
    return f"{account}; holds also when the data react to what was published"


def _exposure(release: Release, part: Component, constraint: Constraint, rows: int) -> Exposure:
    return Exposure(
        constraint=constraint,
        schedule=release.schedule,
        kind=release.query.kind,
        lower=part.lower,
        upper=part.upper,
        grouped=len(release.query.cells) > 1,
        rows=rows,
        clip=release.clip,
    )


def _channel(strategy: Strategy, exposure: Exposure, loss: Fraction, *, pure: bool) -> Channel:
    """The least noise for this loss, on a grid so fine that the noise is many steps wide (unless it is nil)."""
    sensitivity = strategy.sensitivity(exposure)
    width = sensitivity.l1 / loss if pure else Fraction(sqrt(sensitivity.l2_squared / (2 * loss)))
    refine = 1
    while width >= _NIL and width * refine < _WIDE:
        refine *= 2
    noise = (
        laplace_for(sensitivity.l1 * refine, loss)
        if pure
        else gaussian_for(sensitivity.l2_squared * refine**2, loss)
    )
    return Channel(strategy, refine, noise)


def _candidate(
    release: Release, strategy: Strategy, channels: tuple[Channel, ...], exposure: Exposure, loss: Fraction
) -> Candidate:
    worst, mean = predicted(release, channels)
    measured = None if release.schedule.bins is None else release.schedule.bins - release.schedule.base
    folds = bin_folds(exposure.constraint, release.schedule, measured)
    return Candidate(strategy.name, strategy.parameters, folds, loss, worst, mean, adaptive=True)


def predicted(release: Release, channels: tuple[Channel, ...]) -> tuple[float, float]:
    """The 95 % half-width, worst and mean over the readings (the first thousand of an endless release).

    For a mean it is that of a mean over 1,000 rows.
    """
    count = release.schedule.count or HORIZON
    decoder = Decoder(release.query, release.schedule, channels)
    sampled = np.unique(np.linspace(0, count - 1, min(count, 33)).round().astype(int))
    bins = [release.schedule.bin_of_reading(int(reading)) for reading in sampled]
    widths = np.array([decoder.law(0, bin_).half_width(0.95) for bin_ in bins])
    if release.query.aggregate == "avg":
        widths = widths / 1000
    mean = float(np.interp(np.arange(count), sampled, widths).mean())
    return float(widths.max()), mean


def _protects(spec: GaugeSpec) -> str:
    unit, rows = spec.source.unit, spec.source.max_rows
    who = (
        f"one row of the table, known by its '{spec.source.entry}', through its whole life"
        if unit is None
        else f"one '{unit}' with all the rows it ever owns, of which at most {rows} count at any time"
    )
    return f"{who}: nobody can tell from everything published, for ever, whether it was ever there."


def _warnings(spec: GaugeSpec, budget: Budget) -> tuple[str, ...]:
    warnings = []
    if budget.epsilon is not None and budget.epsilon > 10:
        warnings.append(f"epsilon = {budget.epsilon} is so large that it protects nobody.")
    if budget.delta is not None and budget.delta > Fraction(1, 10_000):
        warnings.append(
            "delta is the chance of no protection at all; keep it far below one over the number of units."
        )
    if any(isinstance(_constraint(spec, name), Unconstrained) for name in spec.release):
        warnings.append(
            "Without a [constraint] a unit may change every reading: the loss is counted for all of them."
        )
    return tuple(warnings)
