"""Bins and terms of a calendar: the bounds that a plan computes, against every bin and term of some years.

Local midnights come from the time zone data directly, and are then counted one by one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import UTC, datetime, timedelta, tzinfo
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from tidegauge.audit.findings import require
from tidegauge.audit.installed.published import Silent, read_all
from tidegauge.audit.worlds.world import Table
from tidegauge.model.calendar import beginnings, committed_zone
from tidegauge.model.quantity import Exact, Span
from tidegauge.model.schedule import Schedule
from tidegauge.model.terms import longest, most_in_a_bin
from tidegauge.theory.paths.path import bins_ending, bins_touched

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO: Final = timedelta(microseconds=1)
_HOUR: Final = 3600 * 10**6
_DAY: Final = 24 * _HOUR
_YEARS: Final = 5
_ZONES: Final = ("Europe/Berlin", "Australia/Lord_Howe", "UTC")
"""Clocks that change by an hour, by half an hour, and not at all."""


def _instant(local: datetime) -> int:
    return (local.astimezone(UTC) - _EPOCH) // _MICRO


@cache
def _beginnings(zone: str, months: int, days: int, hour: int = 0) -> tuple[int, ...]:
    """Every local midnight, or later hour, with which a period of so many months or days begins."""
    begin, info = datetime(2024, 1, 1, hour), ZoneInfo(zone)  # noqa: DTZ001  (a local time)
    if months:
        firsts = [begin.replace(year=2024 + n // 12, month=n % 12 + 1) for n in range(0, 12 * _YEARS, months)]
    else:
        firsts = [begin + timedelta(days=n) for n in range(0, 366 * _YEARS, days)]
    return tuple(_instant(first.replace(tzinfo=info)) for first in firsts)


def _schedule(zone: str, ends: Sequence[int], every: Span, count: int | None) -> Schedule:
    """The schedule with these ends; its bins are checked one by one."""
    found = Schedule(ends[0], every, count, None, committed_zone(zone, ends[0] - 2 * _DAY, ends[-1] + _DAY))
    require(
        all(found.bin_end(n) == end for n, end in enumerate(ends)),
        "bins of a zone do not end when its clock says",
    )
    return found


def _touched(ends: Sequence[int], length: int) -> int:
    """Most bins that a closed interval of this length touches; it begins where a bin ends."""
    return max(
        bisect_left(ends, end + length) - n + 1 for n, end in enumerate(ends) if end + length <= ends[-1]
    )


def _ending(ends: Sequence[int], length: int) -> int:
    """Most bins whose ends lie in a half-open interval of this length."""
    return max(bisect_left(ends, end + length) - n for n, end in enumerate(ends) if end + length <= ends[-1])


_CALENDARS: Final = ((0, 1), (0, 7), (1, 0), (3, 0))
"""Months and days of a bin."""
_LENGTHS: Final = tuple(
    days * _DAY + hours * _HOUR for days in (1, 7, 28, 31, 91, 365) for hours in (-1, 0, 1)
)


def check_calendar_bins() -> None:
    """No interval touches more bins of a calendar than a plan counts, with an end or without.  [T10]"""
    for zone in _ZONES:
        for months, days in _CALENDARS:
            ends = _beginnings(zone, months, days)
            every = Span(months=months, micros=days * _DAY)
            for count in (len(ends), None):
                schedule = _schedule(zone, ends, every, count)
                for length in _LENGTHS:
                    bound = Exact(Fraction(length), temporal=True)
                    touched, ending = bins_touched(bound, schedule), bins_ending(bound, schedule)
                    require(
                        touched >= _touched(ends, length), "an interval touches more bins than are counted"
                    )
                    require(ending >= _ending(ends, length), "more bins end in an interval than are counted")


_TERMS: Final = ((1, 0), (3, 0), (0, 7), (12, 0))
_BINS: Final = ((0, 1), (0, 7), (1, 0))


def check_calendar_terms() -> None:
    """Terms of a calendar are at most as long, and meet a bin at most as often, as a plan says.  [T15]"""
    for zone in _ZONES:
        for months, days in _TERMS:
            begins = _beginnings(zone, months, days)
            terms = _schedule(zone, begins, Span(months=months, micros=days * _DAY), None)
            for count in (1, 2, 4):
                right = max(after - before for before, after in zip(begins, begins[count:], strict=False))
                require(longest(terms, count) >= right, "terms are longer than is counted")
            for width in _BINS:
                ends = _beginnings(zone, *width, hour=7)
                schedule = _schedule(zone, ends, Span(months=width[0], micros=width[1] * _DAY), None)
                inside = [
                    _meeting(begins, before, after) for before, after in pairwise(ends) if after < begins[-1]
                ]
                found = most_in_a_bin(terms, schedule)
                require(found >= max(inside), "a bin has instants of more terms than are counted")


def _meeting(begins: Sequence[int], after: int, until: int) -> int:
    """The terms with an instant in (after, until]; the instant at which a term begins does not count."""
    first = bisect_right(begins, after + 1) - 1
    return bisect_left(begins, until) - first


_CLOCKS: Final = (
    ("Europe/Berlin", 2024), ("Australia/Lord_Howe", 2024), ("America/Sao_Paulo", 2018),
    ("America/Havana", 2024),
)  # fmt: skip
"""Clocks that change at night, and clocks that change at midnight."""
_QUARTER: Final = _HOUR // 4


def check_clocks() -> None:
    """Local times of a committed zone are those of its clock, around every change.  Raises Discrepancy."""
    for name, year in _CLOCKS:
        info, begin = ZoneInfo(name), datetime(year, 1, 1, tzinfo=UTC)
        zone = committed_zone(name, *(_instant(begin + timedelta(days=365 * n)) for n in (0, 2)))

        def shown(at: int, info: ZoneInfo = info) -> datetime:
            return (_EPOCH + at * _MICRO).astimezone(info).replace(tzinfo=None, fold=0)

        for since, _ in zone.offsets[1:]:
            grid = [since + n * _QUARTER for n in range(-60, 61)]
            for at in (at + shift for at in grid for shift in (-1, 0, 1)):
                require(zone.wall(at) == shown(at), "a clock shows another time than its zone says")
            for n in range(-16, 17):
                wanted = shown(since) + n * timedelta(minutes=15)
                first = next(at for at in grid if shown(at) >= wanted)
                require(zone.instant(wanted) == first, "a local time is another instant than its zone says")


_BEGINNINGS: Final = (
    (Span(months=1), "2024-03-01"), (Span(months=2), "2024-03-01"), (Span(months=3), "2024-04-01"),
    (Span(months=6), "2024-04-01"), (Span(months=12), "2025-01-01"), (Span(months=24), "2025-01-01"),
    (Span(micros=_DAY), "2024-02-10"), (Span(micros=7 * _DAY), "2024-02-12"),
    (Span(micros=14 * _DAY), "2024-02-12"),
)  # fmt: skip
"""Periods, and when the first begins from Saturday, 2024-02-10."""
_MONTHS: Final = {"2024-03-01": 29, "2024-04-01": 31, "2024-05-01": 30}
"""Days before these, and the days of the months that end then."""


def check_months() -> None:
    """Periods begin with the calendar's, and a month is as long as it is.  Raises Discrepancy."""
    for zone in (None, committed_zone("Europe/Berlin", 0, None)):
        info = UTC if zone is None else ZoneInfo(zone.name)

        def midnight(day: str, info: tzinfo = info) -> int:
            return _instant(datetime.fromisoformat(day).replace(tzinfo=info))

        for period, first in _BEGINNINGS:
            found = next(beginnings(period, midnight("2024-02-10"), zone))
            require(found == midnight(first), f"a period of {period} does not begin with the calendar's")
    table = Table(None)
    for n in range(120):
        at = midnight("2024-01-10") + n * _DAY + 12 * _HOUR
        table.put((at, at), f"k{n}", {"s": "a", "k": "p", "x": 1, "owner": None})
    days = {"sql": "SELECT COUNT(*) FROM t", "start": "2024-01-15", "every": "1 day", "for": "110 days"}
    releases = {"r": days, "m": {"of": "r", "every": "1 month", "window": "1 month"}}
    readings = read_all(
        releases, table.log, (midnight("2024-05-06"),), {"rho": 10**6}, sampler=Silent(),
        time_zone="Europe/Berlin",
    )  # fmt: skip
    right = {midnight(day): value for day, value in _MONTHS.items()}
    of_months = {_instant(one.time): one.value for one in readings if one.release == "m"}
    require(of_months.keys() == right.keys(), "months are read at other times than they end")
    near = all(abs((of_months[at] or 0) - value) < 1e-6 for at, value in right.items())
    require(near, "the change over a month is not that of its days")


CALENDARS: dict[str, Callable[[], None]] = {
    "bins of a calendar": check_calendar_bins,
    "terms of a calendar": check_calendar_terms,
    "clocks of a zone": check_clocks,
    "months of a zone": check_months,
}
