"""When a release starts that declares no start: the next round time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.model.calendar import is_local, zone_named
from tidegauge.model.quantity import DAY, HOUR, MINUTE, SECOND, instant, moment

if TYPE_CHECKING:
    from tidegauge.model.quantity import Span

_ROUND: Final = (DAY, HOUR, MINUTE, SECOND)


def next_round(now: int, every: Span, zone: str | None = None) -> int:
    """The first round time that is not before `now`, in UTC or, for whole days and months, in a time zone.

    Round is the first day of a month for periods of months; midnight for periods of a day or more; a
    multiple of the period if it divides a day; otherwise the next whole hour, minute or second.
    """
    if zone is not None and is_local(every):
        info = zone_named(zone)
        wall = next_round(instant(moment(now).astimezone(info).replace(tzinfo=None)), every)
        return instant(moment(wall).replace(tzinfo=info))
    if every.months:
        today = moment(now)
        first = today.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        if first == today:
            return now
        return instant(first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1))
    if every.micros <= DAY and DAY % every.micros == 0:
        step = every.micros
    else:
        step = next((unit for unit in _ROUND if unit <= every.micros), 1)
    return -(-now // step) * step
