"""How far a release has come, from the bins that are measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.model.status import ReleaseStatus

if TYPE_CHECKING:
    from tidegauge.plan.plan import Series


def release_status(series: Series, next_bin: int) -> ReleaseStatus:
    """The status of a published series once all bins before `next_bin` are measured."""
    schedule = series.plan.release.schedule
    done = max(series.first, -(-(next_bin - schedule.offset) // schedule.stride))
    finished = schedule.count is not None and done >= schedule.count
    return ReleaseStatus(
        readings=done - series.first,
        readings_total=series.timetable.count,
        next=None if finished else schedule.bin_end(schedule.bin_of_reading(done)),
    )
