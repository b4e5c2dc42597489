"""How far a gauge has come, as `tidegauge status` and the operator's pages show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.model.status import ReleaseStatus, Status
from tidegauge.model.tick import NOTHING_YET
from tidegauge.run.whole_error import whole_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegauge.plan.plan import Plan
    from tidegauge.plan.series import Series
    from tidegauge.store.store import Store


def status_of(
    store: Store, plan: Plan | None, publishers: Mapping[str, int], counts: Mapping[str, float]
) -> Status:
    """The status of a store; `operator_only` holds exact numbers that are not for the public.

    publishers: how many readings each still has to deliver.  counts: what the source could not use.
    """
    reached = store.secret.clock.watermark
    return Status(
        plan=None if plan is None else plan.hash,
        simulated=store.public.simulated,
        processed_to=reached if reached > NOTHING_YET else None,
        releases={
            name: release_status(series, store.public.next_bin(series.plan.release.name))
            for name, series in ({} if plan is None else plan.series).items()
        },
        publishers=publishers,
        operator_only={**store.secret.counts(), **counts},
        whole_error=None if plan is None else whole_error(plan, store),
    )


def release_status(series: Series, next_bin: int) -> ReleaseStatus:
    """The status of a published series once all bins before `next_bin` are measured."""
    done, upcoming = series.progress(next_bin)
    return ReleaseStatus(readings=done, readings_total=series.timetable.count, next=upcoming)
