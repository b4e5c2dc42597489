"""From the journal to readings: measurements as arrays, and every reading that follows from them."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Final

import numpy as np

from tidegauge.model.tick import Published

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tidegauge.mechanism.decoding.windows import Decoding
    from tidegauge.plan.plan import Plan, ReleasePlan
    from tidegauge.plan.series import Series
    from tidegauge.store.public.part import PublicPart

    Rows = list[NDArray[np.float64]]
    """Measurements of a release: per component, rows by cells."""

_AT_A_TIME: Final = 4096
"""Readings that are decoded together."""


def decodings(plan: ReleasePlan, measured: Rows | None = None) -> list[Decoding]:
    """The decoding of each component, from what was measured so far (None: nothing)."""
    cells = len(plan.release.query.cells)
    found = [component_plan.strategy.decoding(cells) for component_plan in plan.component_plans]
    for decoding, rows in zip(found, measured or (), strict=False):
        decoding.add(rows)
    return found


def as_arrays(plan: ReleasePlan, measured: Sequence[Sequence[int]]) -> Rows:
    """The noisy integers of each component, given row after row, as arrays of rows by cells."""
    cells = len(plan.release.query.cells)
    return [np.array(column, dtype=np.float64).reshape(-1, cells) for column in measured]


def measured_rows(public: PublicPart, plan: ReleasePlan) -> Rows:
    """Everything measured so far of a release."""
    return as_arrays(plan, public.measured(plan.release.name, len(plan.component_plans)))


def decode(
    series: Series, measured: Sequence[Decoding], bins: range, *, through: int | None = None
) -> list[Published]:
    """The readings of a series at the ends of these bins, which follow from what was measured.

    `through`: use the measurements of all bins up to this one, later ones included (smoothed).
    """
    readings = series.readings(bins)
    found: list[Published] = []
    for start in range(0, len(readings), _AT_A_TIME):
        some = readings[start : start + _AT_A_TIME]
        windows = series.windows(some, through=through)
        estimates = series.decoder.estimates(windows, measured)
        ends = [series.plan.release.schedule.bin_end(bin_) for bin_ in windows.last.tolist()]
        columns = [part.tolist() for part in estimates]
        found += [
            Published(series.name, reading, cell, end, _known(value), _known(stderr), low, high)
            for reading, end, *row in zip(some, ends, *columns, strict=True)
            for cell, (value, stderr, low, high) in enumerate(zip(*row, strict=True))
        ]
    return found


def _known(number: float) -> float | None:
    return None if isnan(number) else number


def all_readings(public: PublicPart, plan: Plan, *, smoothed: bool = False) -> dict[str, list[Published]]:
    """Every reading that follows from the journal, by the name it is published under.

    `smoothed`: re-estimate past values with later measurements.
    """
    found: dict[str, list[Published]] = {}
    for release in plan.releases:
        measured = decodings(release, measured_rows(public, release))
        bins = public.next_bin(release.release.name)
        through = bins - 1 if smoothed else None
        for series in plan.series_of(release):
            found[series.name] = decode(series, measured, range(bins), through=through)
    return found
