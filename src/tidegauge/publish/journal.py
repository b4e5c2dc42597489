"""From the journal to readings: measurements as arrays, and every reading that follows from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidegauge.model.tick import Published

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tidegauge.plan.plan import Plan, ReleasePlan
    from tidegauge.plan.series import Series
    from tidegauge.store.public.part import PublicPart

    Rows = list[NDArray[np.float64]]
    """Measurements of a release: per component, rows by cells."""


def as_arrays(plan: ReleasePlan, measured: Sequence[Sequence[int]]) -> Rows:
    """The noisy integers of each component, given row after row, as arrays of rows by cells."""
    cells = len(plan.release.query.cells)
    return [np.array(column, dtype=np.float64).reshape(-1, cells) for column in measured]


def measured_rows(public: PublicPart, plan: ReleasePlan) -> Rows:
    """Everything measured so far of a release."""
    return as_arrays(plan, public.measured(plan.release.name, len(plan.component_plans)))


def decode(
    series: Series, rows: Rows, readings: Sequence[int | None], *, through: int | None = None
) -> list[Published]:
    """The readings that follow from what was measured.

    `readings`: their numbers; None, for a bin at whose end nothing is read, is passed over.
    `through`: use the measurements of all bins up to this one, later ones included (smoothed).
    """
    schedule = series.plan.release.schedule
    return [
        Published(
            series.name,
            reading,
            cell,
            schedule.bin_end(schedule.bin_of_reading(reading)),
            estimate.value,
            estimate.stderr,
            estimate.low,
            estimate.high,
        )
        for reading in readings
        if reading is not None and series.read_at(reading)
        for cell, estimate in enumerate(series.decoder_at(reading).estimates(reading, rows, through=through))
    ]


def all_readings(public: PublicPart, plan: Plan, *, smoothed: bool = False) -> dict[str, list[Published]]:
    """Every reading that follows from the journal, by the name it is published under.

    `smoothed`: re-estimate past values with later measurements.
    """
    found: dict[str, list[Published]] = {}
    for release in plan.releases:
        rows, bins = measured_rows(public, release), public.next_bin(release.release.name)
        readings = [release.release.schedule.reading_of_bin(bin_) for bin_ in range(bins)]
        through = bins - 1 if smoothed else None
        for series in plan.series_of(release):
            found[series.name] = decode(series, rows, readings, through=through)
    return found
