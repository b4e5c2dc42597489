"""From the journal to denoised readings: each reading gets the estimate of the model beside its own value."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidegauge.mechanism.aggregate import Estimate
from tidegauge.mechanism.aggregates import aggregate_of
from tidegauge.mechanism.aggregates.linear import Linear
from tidegauge.mechanism.decoding.windows import Windows
from tidegauge.mechanism.noise.error import ErrorDistribution
from tidegauge.mechanism.noise.samplers import DiscreteGaussian
from tidegauge.model.reading import ModelEstimate
from tidegauge.publish.denoise.estimate import Denoised, past_only, smoothed
from tidegauge.publish.denoise.filter import Span
from tidegauge.publish.denoise.measured import measured
from tidegauge.publish.denoise.system import with_rates
from tidegauge.publish.journal import measured_rows
from tidegauge.publish.reading import ends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tidegauge.mechanism.encode import ComponentPlan
    from tidegauge.model.query import Component, Query
    from tidegauge.model.reading import Reading
    from tidegauge.model.tick import Published
    from tidegauge.plan.plan import Plan
    from tidegauge.plan.series import Series
    from tidegauge.publish.journal import Rows
    from tidegauge.store.public.part import PublicPart

    Floats = NDArray[np.float64]

_Z: Final = NormalDist().inv_cdf(0.975)
_EXACT: Final = 1e-9
"""Noise below this standard deviation, in measured integers, is no noise."""
_FINE: Final = 1 << 10
"""Standard deviation of a discrete Gaussian that is normal to all digits shown."""


class _Window(NamedTuple):
    """One reading of a series: its number, its last bin, and the bins that it sums (None: all)."""

    reading: int
    bin: int
    span: int | None


def with_model(
    plan: Plan,
    readings: Sequence[Reading],
    published: Sequence[Published],
    public: PublicPart,
    *,
    past: bool,
) -> list[Reading]:
    """The readings with a model's estimate each.

    readings:  those of the published rows, in the same order
    past:      use for each reading the measurements up to its time alone
    """
    found: dict[tuple[str, int, int], Estimate] = {}
    wanted = {one.release for one in published}
    for release in plan.releases:
        bins = public.next_bin(release.release.name)
        for series in plan.series_of(release):
            windows = _windows(series, bins) if series.name in wanted else []
            if windows:
                found |= _denoised(series, windows, measured_rows(public, release), bins, past=past)
    uses = "past readings" if past else "all readings"
    return [
        reading
        if (estimate := found.get((one.release, one.number, one.cell))) is None
        else replace(
            reading,
            model=_model_estimate(uses, estimate),
        )
        for reading, one in zip(readings, published, strict=True)
    ]


def _model_estimate(uses: str, one: Estimate) -> ModelEstimate:
    return ModelEstimate(uses, one.value, one.stderr, *ends(one.value, one.stderr, one.low, one.high))


def _windows(series: Series, bins: int) -> list[_Window]:
    readings = series.readings(range(bins))
    windows = series.windows(readings)
    return [
        _Window(number, int(bin_), windows.span(at))
        for at, (number, bin_) in enumerate(zip(readings, windows.last, strict=True))
    ]


def _denoised(
    series: Series, windows: list[_Window], rows: Rows, bins: int, *, past: bool
) -> dict[tuple[str, int, int], Estimate]:
    """The estimates of all readings of a series, by name, number and cell."""
    query = series.plan.release.query
    parts = [
        _component(component_plan, component, windows, values, bins, flow=query.kind == "flow", past=past)
        for component_plan, component, values in zip(
            series.plan.component_plans, query.components, rows, strict=True
        )
    ]
    found = {}
    for at, window in enumerate(windows):
        estimates = _decoded(query, [Denoised(part.values[at], part.variances[at]) for part in parts])
        for cell, estimate in enumerate(estimates):
            found[series.name, window.reading, cell] = estimate
    return found


def _component(
    component_plan: ComponentPlan,
    component: Component,
    windows: list[_Window],
    rows: Floats,
    bins: int,
    *,
    flow: bool,
    past: bool,
) -> Denoised:
    """Denoised sums of one component, windows by cells, in units of the component."""
    strategy, grid = component_plan.strategy, float(component.grid / component_plan.refine)
    sd = sqrt(component_plan.noise.variance)
    scale = sd if sd > _EXACT else 1.0
    plain, unit = _plain(component_plan, windows, rows / scale), scale * grid / strategy.denominator
    if sd > _EXACT:
        system, whitened, first = measured(strategy, bins, rows / scale)
        if first is not None and flow:
            system = with_rates(system)
        spans = [_span(window, first) for window in windows]
        found = (past_only if past else smoothed)(system, whitened, spans, plain)
    else:
        found = Denoised(plain.values, np.zeros_like(plain.values))
    variances = np.broadcast_to(found.variances, found.values.shape)
    return Denoised(found.values * unit, variances * unit**2)


def _span(window: _Window, first: int | None) -> Span:
    """The steps of a window; step 0 is bin `first` (None: a step is a reading)."""
    if first is None:
        return Span(None, window.reading)
    start = None if window.span is None else window.bin - window.span - first
    return Span(None if start is None or start < 0 else start, window.bin - first)


def _plain(component_plan: ComponentPlan, windows: list[_Window], rows: Floats) -> Denoised:
    """The plain estimates of windows, in units of the base noise."""
    strategy, decoding = component_plan.strategy, component_plan.strategy.decoding(rows.shape[1])
    decoding.add(rows)
    ends = np.array([window.bin for window in windows], dtype=np.int64)
    after = np.array([-1 if window.span is None else max(window.bin - window.span, -1) for window in windows])
    values = decoding.sums(Windows(after.astype(np.int64), ends, ends)) * strategy.denominator
    variances = np.empty((len(windows), 1))
    for span in {window.span for window in windows}:
        which = [at for at, window in enumerate(windows) if window.span == span]
        variances[which, 0] = strategy.variances(ends[which], span) * float(strategy.denominator) ** 2
    return Denoised(values, variances)


def _decoded(query: Query, parts: Sequence[Denoised]) -> list[Estimate]:
    """One estimate per cell, from the value and variance of each component."""
    aggregate = aggregate_of(query.aggregate)
    if isinstance(aggregate, Linear):
        values, deviations = parts[0].values, np.sqrt(parts[0].variances)
        low, high = values - _Z * deviations, values + _Z * deviations
        return [Estimate(*map(float, numbers)) for numbers in zip(values, deviations, low, high, strict=True)]
    return [
        aggregate.decode(
            query,
            [values[[cell]] for values, _ in parts],
            [_normal(sqrt(variances[cell])) for _, variances in parts],
        )[0]
        for cell in range(len(query.cells))
    ]


def _normal(deviation: float) -> ErrorDistribution:
    """A normal error with this standard deviation."""
    return ErrorDistribution.of([deviation / _FINE], DiscreteGaussian(Fraction(_FINE**2)))
