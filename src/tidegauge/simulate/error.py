"""Noise, bias and whole error of the readings that a gauge would have published."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import ndtr

from tidegauge.mechanism.aggregates import aggregate_of
from tidegauge.mechanism.aggregates.linear import Linear
from tidegauge.mechanism.noise.error import ErrorDistribution

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from tidegauge.mechanism.strategy import Strategy
    from tidegauge.model.program import Release
    from tidegauge.plan.plan import ReleasePlan
    from tidegauge.plan.series import Series

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

_Z: Final = 1.959963984540054
"""Half-width of the 95 % noise interval, in standard deviations."""


@dataclass
class Sums:
    """Exact sums of one release by component, bin and cell, added up from the parts of an engine."""

    release: Release
    bins: int
    """How many bins have ended."""
    tables: list[pa.Table] = field(default_factory=list)

    def array(self, variant: int = 0) -> Integers:
        """The sums of a variant."""
        shape = len(self.release.query.components), self.bins, len(self.release.query.cells)
        found = np.zeros(shape, dtype=np.int64)
        for table in self.tables:
            columns = [table[name].to_numpy() for name in ("component", "bin", "cell", "amount")]
            mine = (table["variant"].to_numpy() == variant) & (columns[1] < self.bins)
            component, bin_, cell, amount = (column[mine] for column in columns)
            np.add.at(found, (component, bin_, cell), amount)
        return found


@dataclass(frozen=True)
class Reading:
    """When a series is read: the bin with which each reading ends, and how many bins it sums (-1: all)."""

    bins: Integers
    spans: Integers


def readings_of(series: Series, bins: int) -> Reading:
    """The readings of a series that end with the first so many bins of its release."""
    windows = series.windows(series.readings(range(bins)))
    return Reading(windows.last, np.where(windows.after < 0, -1, windows.last - windows.after))


def at_readings(sums: Integers, readings: Reading) -> Integers:
    """Sums of bins as the readings have them: (component, reading, cell)."""
    before = np.concatenate([np.zeros_like(sums[:, :1]), np.cumsum(sums, axis=1)], axis=1)
    first = np.where(readings.spans < 0, 0, np.maximum(0, readings.bins + 1 - readings.spans))
    found: Integers = before[:, readings.bins + 1] - before[:, first]
    return found


class Noise:
    """Predicted standard errors of sums; variances for noise of size 1 are computed once a strategy."""

    def __init__(self) -> None:
        self._known: dict[tuple[Strategy, int, bytes], Floats] = {}

    def stderrs(self, plan: ReleasePlan, readings: Reading) -> list[Floats]:
        """By component: the standard error of the sum of each reading."""
        found = []
        for component_plan, part in zip(plan.component_plans, plan.release.query.components, strict=True):
            unit = float(part.grid) / component_plan.refine
            variances = self._variances(component_plan.strategy, readings) * component_plan.noise.variance
            found.append(np.sqrt(variances) * unit)
        return found

    def _variances(self, strategy: Strategy, readings: Reading) -> Floats:
        found = np.zeros(len(readings.bins))
        for span in np.unique(readings.spans):
            mine = readings.spans == span
            key = strategy, int(span), readings.bins[mine].tobytes()
            if key not in self._known:
                self._known[key] = strategy.variances(readings.bins[mine], None if span < 0 else int(span))
            found[mine] = self._known[key]
        return found


@dataclass(frozen=True)
class Errors:
    """Errors of one cell, or of all cells of a release together."""

    noise: float
    bias: float
    coverage: float
    """The share of readings whose 95 % noise interval would contain the plain truth."""

    @property
    def whole(self) -> float:
        """Root mean square of noise and bias together."""
        return sqrt(self.noise**2 + self.bias**2)


def errors(
    series: Series, truth: Integers, accepted: Integers, stderrs: list[Floats], bins: Integers
) -> Iterator[tuple[int | None, Errors]]:
    """Errors of all cells together (None), then by cell where there are several.

    `truth`, `accepted`: by component, reading and cell.  Readings of means without a value are left out.
    """
    bias, noise = _bias_and_noise(series, truth, accepted, stderrs, bins)
    yield None, _errors(bias, noise)
    if bias.shape[1] > 1:
        for cell in range(bias.shape[1]):
            yield cell, _errors(bias[:, cell], noise[:, cell])


def _bias_and_noise(
    series: Series, truth: Integers, accepted: Integers, stderrs: list[Floats], bins: Integers
) -> tuple[Floats, Floats]:
    query = series.plan.release.query
    aggregate = aggregate_of(query.aggregate)
    grids = [float(part.grid) for part in query.components]
    if isinstance(aggregate, Linear):
        bias = (accepted[0] - truth[0]) * grids[0]
        return bias, np.broadcast_to(stderrs[0][:, None], bias.shape)
    exact = [ErrorDistribution() for _ in grids]
    bias, noise = np.full(truth.shape[1:], np.nan), np.full(truth.shape[1:], np.nan)
    for n, bin_ in enumerate(bins):
        noisy = [series.decoder.error(j, int(bin_)) for j in range(len(grids))]
        plain = aggregate.decode(query, [truth[j, n] * grid for j, grid in enumerate(grids)], exact)
        shown = aggregate.decode(query, [accepted[j, n] * grid for j, grid in enumerate(grids)], noisy)
        for cell, (true, ours) in enumerate(zip(plain, shown, strict=True)):
            if true.value is not None and ours.value is not None and ours.stderr is not None:
                bias[n, cell], noise[n, cell] = ours.value - true.value, ours.stderr
    return bias, noise


def _errors(bias: Floats, noise: Floats) -> Errors:
    there = ~np.isnan(bias)
    if not there.any():
        return Errors(float("nan"), float("nan"), float("nan"))
    off, width = bias[there], noise[there]
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.where(width > 0, off / width, np.where(off == 0, 0.0, np.inf))
    covered = np.where(np.isinf(shift), 0.0, ndtr(_Z - shift) - ndtr(-_Z - shift))
    covered[(width == 0) & (off == 0)] = 1.0
    return Errors(
        noise=float(np.sqrt(np.mean(width**2))),
        bias=float(np.sqrt(np.mean(off.astype(np.float64) ** 2))),
        coverage=float(np.mean(covered)),
    )


def collect(release: Release, number: int, bins: int, tables: Iterable[pa.Table]) -> Sums:
    """The sums of one release out of the tables of all."""
    import pyarrow.compute as pc  # noqa: PLC0415  (slow to load)

    return Sums(release, bins, [table.filter(pc.equal(table["release"], number)) for table in tables])
