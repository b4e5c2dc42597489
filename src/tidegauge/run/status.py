"""How far a gauge has come, as `tidegauge status` and the operator's pages show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegauge.model.quantity import rfc3339
from tidegauge.model.tick import NOTHING_YET

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegauge.plan.plan import Plan
    from tidegauge.store import Store


def empty_status() -> dict[str, Any]:
    """The status of a gauge that was never run."""
    return {"plan": None, "simulated": False, "processed_to": None, "releases": {}, "operator_only": {}}


def status_of(
    store: Store, plan: Plan | None, publishers: Mapping[str, Any], counts: Mapping[str, int]
) -> dict[str, Any]:
    """The status of a store; `operator_only` holds exact numbers that are not for the public.

    publishers: what each still has to deliver.  counts: what the source could not use.
    """
    releases = {}
    for name, series in {} if plan is None else plan.series.items():
        release = series.plan.release
        schedule, first = release.schedule, store.public.next_bin(release.name)
        done = max(series.first, -(-(first - schedule.offset) // schedule.stride))
        finished = schedule.count is not None and done >= schedule.count
        upcoming = None if finished else rfc3339(schedule.bin_end(schedule.bin_of_reading(done)))
        releases[name] = {
            "readings": done - series.first,
            "readings_total": series.timetable.count,
            "next": upcoming,
        }
    reached = store.secret.clock.watermark
    return {
        "plan": None if plan is None else plan.hash,
        "simulated": store.public.simulated,
        "processed_to": rfc3339(reached) if reached > NOTHING_YET else None,
        "releases": releases,
        **({"publishers": dict(publishers)} if publishers else {}),
        "operator_only": store.secret.counts() | dict(counts),
    }
