"""Terms: the periods after which a constraint renews.  [T15]

Terms are a schedule without an end whose readings are the beginnings of terms.  Everything before the first
of them is one term as well.  A plan commits the schedule together with the offsets of its time zone, so terms
never follow changed time zone data.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SpecError
from tidegauge.model.calendar import beginnings, is_local
from tidegauge.model.quantity import instant, moment, rfc3339
from tidegauge.model.schedule import Schedule

if TYPE_CHECKING:
    from tidegauge.model.calendar import Zone
    from tidegauge.model.quantity import Span

_CYCLE: Final = 400 * 12
"""Months after which the calendar repeats."""


def terms_from(renews: Span, first: int, zone: Zone | None, renews_from: int | None = None) -> Schedule:
    """The terms of a gauge whose first bin ends at `first`; they begin with the calendar's periods.

    A period that is no whole number of days has no place in the calendar, and begins at `first`.

    `renews_from`: when the first term begins instead.  Raises SpecError where this would leave a first term
    that is longer than the others.
    """
    local = zone if is_local(renews) else None
    if renews_from is None and not is_local(renews):
        return Schedule(first, renews)
    if renews_from is None:
        return Schedule(next(beginnings(renews, _midnight(first, local), local)), renews, zone=local)
    latest = Schedule(first, renews, zone=local).bin_end(1)
    if renews_from > latest:
        raise SpecError(
            f"the first term would be longer than {renews}: readings begin at {rfc3339(first)}, so the next "
            f"term must begin by {rfc3339(latest)}",
            key="constraint.renews_from",
        )
    return Schedule(renews_from, renews, zone=local)


def longest(terms: Schedule, count: int = 1) -> int:
    """An upper bound on the length of `count` consecutive terms, in microseconds."""
    every, spread = terms.every, terms.zone.spread if terms.zone is not None else 0
    if not every.months:
        return count * every.micros + spread
    plain = replace(terms, zone=None)
    first = range(_CYCLE // every.months + 2)
    return max(plain.bin_end(n + count) - plain.bin_end(n) for n in first) + spread


def _midnight(at: int, zone: Zone | None) -> int:
    """The first local midnight at or after an instant."""
    wall = moment(at).replace(tzinfo=None) if zone is None else zone.wall(at)
    day = wall.replace(hour=0, minute=0, second=0, microsecond=0)
    day += timedelta(days=1) if day < wall else timedelta()
    return instant(day) if zone is None else zone.instant(day)
