"""How far a release has come, from the bins that are measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.model.status import ReleaseStatus

if TYPE_CHECKING:
    from tidegauge.plan.series import Series


def release_status(series: Series, next_bin: int) -> ReleaseStatus:
    """The status of a published series once all bins before `next_bin` are measured."""
    done, upcoming = series.progress(next_bin)
    return ReleaseStatus(readings=done, readings_total=series.timetable.count, next=upcoming)
