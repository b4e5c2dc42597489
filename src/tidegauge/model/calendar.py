"""Local calendars: days, months and years of a time zone, through changes of its clock.

A local day begins at local midnight, so it has 23 or 25 hours when the clock changes.  A local time that the
clock skips is the instant at which it skips; of a local time that occurs twice the first counts.

The rules of a zone come from the installed time zone data, which may change in the years of a gauge.  A plan
therefore commits the offsets of its zone (`Zone`), and its bins never change.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SpecError
from tidegauge.model.quantity import DAY, HOUR, SECOND, Span, instant, micros, moment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from zoneinfo import ZoneInfo

_MOST_APART: Final = 3 * HOUR
"""How far apart the offsets of a zone may be: a day that a zone skips would be a bin without length."""
_ENDLESS: Final = Span(months=100 * 12)
"""For how long the offsets of a zone are committed where a schedule has no end."""
_AFTER: Final = 400 * DAY
"""How much longer than the schedule: for messages about what comes after it."""
_LAST: Final = instant("9998-12-31")


@dataclass(frozen=True)
class Zone:
    """A time zone with the offsets that a plan commits."""

    name: str
    offsets: tuple[tuple[int, int], ...]
    """(since when, microseconds that local time is ahead of UTC); the first also counts for all earlier."""

    @property
    def spread(self) -> int:
        """The difference between the largest and the smallest offset, in microseconds."""
        ahead = [offset for _, offset in self.offsets]
        return max(ahead) - min(ahead)

    def wall(self, at: int) -> datetime:
        """What a local clock shows at this instant."""
        since = bisect_right(self.offsets, at, key=lambda one: one[0])
        return moment(at + self.offsets[max(since - 1, 0)][1]).replace(tzinfo=None)

    def instant(self, wall: datetime) -> int:
        """The instant at which a local clock shows this, for the first time or by skipping it."""
        shown = instant(wall)
        at = max(bisect_right(self.offsets, shown - 2 * DAY, key=lambda one: one[0]) - 1, 0)
        while at + 1 < len(self.offsets) and shown - self.offsets[at][1] >= self.offsets[at + 1][0]:
            at += 1
            since, ahead = self.offsets[at]
            if shown - ahead < since:  # skipped
                return since
        return shown - self.offsets[at][1]

    def after(self, span: Span, start: int, times: int) -> int:
        """The instant `times` spans of whole days or months after start, at the same local time of day."""
        begin = self.wall(start)
        if not span.months:
            return self.instant(begin + timedelta(days=times * (span.micros // DAY)))
        year, month = divmod(begin.year * 12 + begin.month - 1 + times * span.months, 12)
        day = min(begin.day, _days_in(year, month + 1))
        return self.instant(begin.replace(year=year, month=month + 1, day=day))


def committed_zone(name: str, start: int, end: int | None) -> Zone:
    """The zone with its offsets from one instant to another and some time after it; None: without end.

    Raises SpecError where there is no such zone, or its clock changes so much that a local day has no length.
    """
    last = min((_ENDLESS.after(start) if end is None else end) + _AFTER, _LAST)
    zone = Zone(name, _offsets(name, start, last))
    if zone.spread > _MOST_APART:
        raise SpecError(
            f"the clock of '{name}' changes by more than {_MOST_APART // HOUR} hours in this time; use a "
            "zone whose clock does not, such as 'UTC'",
            key="calendar.time_zone",
        )
    return zone


@lru_cache(maxsize=64)
def _offsets(name: str, first: int, last: int) -> tuple[tuple[int, int], ...]:
    info = zone_named(name)

    def ahead(at: int) -> int:
        offset = moment(at).astimezone(info).utcoffset()
        assert offset is not None
        return micros(offset)

    first, found = first - first % DAY, [(first - first % DAY, ahead(first - first % DAY))]
    for at in range(first + DAY, last + 2 * DAY, DAY):
        if ahead(at) != found[-1][1]:
            before, after = at - DAY, at
            while after - before > SECOND:
                middle = (before + after) // 2 // SECOND * SECOND
                before, after = (middle, after) if ahead(middle) == found[-1][1] else (before, middle)
            found.append((after, ahead(after)))
    return tuple(found)


@lru_cache(maxsize=64)
def zone_named(name: str) -> ZoneInfo:
    """The time zone with this IANA name.  Raises SpecError where there is none, with a name that is near."""
    from zoneinfo import ZoneInfo, available_timezones  # noqa: PLC0415  (few gauges have a calendar)

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        known = available_timezones()
    if not known:
        raise SpecError(
            "this machine has no time zone data; install them with: pip install tzdata",
            key="calendar.time_zone",
        )
    from difflib import get_close_matches  # noqa: PLC0415  (only for the message)

    full = {one.lower(): one for one in known}
    city = {one.lower().rpartition("/")[2]: one for one in sorted(known)}
    near = [full[one] for one in get_close_matches(name.lower(), full, n=1)]
    near += [city[one] for one in get_close_matches(name.lower().rpartition("/")[2], city, n=1)]
    guess = f"; did you mean '{near[0]}'?" if near else ": write an IANA name such as 'Europe/Berlin'"
    raise SpecError(f"'{name}' is not a time zone{guess}", key="calendar.time_zone")


def is_local(span: Span) -> bool:
    """Whether the span is counted in local days or months, and not in fixed lengths of time."""
    return bool(span.months) or span.micros % DAY == 0


def local_instant(written: str | datetime | date, zone: ZoneInfo | None) -> int:
    """The instant that a date or time means; without an offset it is local time, or UTC without a zone."""
    if isinstance(written, str):
        try:
            written = datetime.fromisoformat(written.strip())
        except ValueError:
            return instant(written)  # refuses it, and says how to write a time
    if not isinstance(written, datetime):
        written = datetime.combine(written, time())
    local = written.tzinfo is None and zone is not None
    return instant(written.replace(tzinfo=zone) if local else written)


def beginnings(period: Span, at: int, zone: Zone | None) -> Iterator[int]:
    """Instants from `at` on, at its local time of day, with which such a period can begin.

    Months begin on their first day, quarters and years with their first month, weeks on Monday.
    """
    begin = moment(at).replace(tzinfo=None) if zone is None else zone.wall(at)
    months = next((size for size in (12, 3, 1) if period.months and period.months % size == 0), None)
    weeks = bool(period.micros) and period.micros % (7 * DAY) == 0
    for days in range(367):
        day = begin + timedelta(days=days)
        if months and not (day.day == 1 and (day.month - 1) % months == 0):
            continue
        if weeks and day.weekday():
            continue
        yield instant(day) if zone is None else zone.instant(day)


def _days_in(year: int, month: int) -> int:
    return (date(year + month // 12, month % 12 + 1, 1) - timedelta(days=1)).day
