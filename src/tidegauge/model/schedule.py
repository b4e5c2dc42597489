"""When a release is read, and over which window.

Time is cut into *bins*: bin 0 is (-inf, t0], bin i is (t(i-1), t(i)].  A reading ends with a bin and is the
sum of its last `span` bins (all of them for a running value).  A release without a window, or whose window is
its period, has one bin a reading; a sliding window has bins of the greatest common width, from one window
before the start, and needs nothing of bin 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SpecError
from tidegauge.model.calendar import Zone, beginnings, is_local
from tidegauge.model.quantity import Span, moment, rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime


MOST_BINS: Final = 1 << 22
"""The most bins of a release.  A release without an end may have more, but not in one window."""


@dataclass(frozen=True)
class Schedule:
    """Readings at start, start + every, ...; `count` of them, or without end if None.

    `zone`: the time zone in which whole days and months are counted; None is UTC.
    """

    start: int
    every: Span
    count: int | None = None
    window: Span | None = None
    zone: Zone | None = None

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 1:
            raise SpecError("a release needs at least one reading: lengthen 'for'")
        if self.window is not None and bool(self.window.months) != bool(self.every.months):
            raise SpecError(
                "a window in calendar months needs a period in calendar months, and the other way round"
            )
        if (cut := max(self.offset, self.bins or 0)) > MOST_BINS:
            raise SpecError(
                f"cuts time into {cut:,} bins (each as long as divides 'every' and 'window' alike), and "
                f"{MOST_BINS:,} is the most: read less often, over a shorter window, for a shorter time, or "
                "for = 'ever'"
            )
        if self.zone is not None and is_local(self.every) and not is_local(self.bin_width):
            raise SpecError(
                f"every = '{self.every}' counts local days of {self.zone.name}, and window = '{self.window}' "
                "is not a whole number of days; make both whole days, or 'every' shorter than a day"
            )

    @classmethod
    def lasting(
        cls,
        start: int,
        every: Span,
        duration: Span | None,
        window: Span | None = None,
        zone: Zone | None = None,
    ) -> Schedule:
        """The schedule whose last reading is not later than start + duration; None: it has no end."""
        if duration is None:
            return cls(start, every, None, window, zone)
        low, high = 0, 1
        end = _end_after(duration, start, zone)
        if end is None:
            raise SpecError(
                f"for = '{duration}' goes beyond the year 9999; shorten it, or write for = 'ever'"
            )
        while _by(end, every, start, zone, high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _by(end, every, start, zone, middle) else (low, middle)
        return cls(start, every, low + 1, window, zone)

    @property
    def sliding(self) -> bool:
        """Whether windows overlap or leave gaps, so that bins are finer than readings."""
        return self.window is not None and self.window != self.every

    @property
    def bin_width(self) -> Span:
        """The greatest width that divides both the period and the window."""
        if not self.sliding:
            return self.every
        assert self.window is not None
        return Span(gcd(self.every.months, self.window.months), gcd(self.every.micros, self.window.micros))

    def _in_bins(self, span: Span) -> int:
        width = self.bin_width
        return span.months // width.months if width.months else span.micros // width.micros

    @property
    def stride(self) -> int:
        """Bins from one reading to the next."""
        return self._in_bins(self.every)

    @property
    def span(self) -> int | None:
        """Bins that a reading sums; None is all since the beginning."""
        return None if self.window is None else self._in_bins(self.window)

    def bins_in(self, window: Span) -> int | None:
        """How many whole bins make up this window; None where they do not."""
        width = self.bin_width
        if bool(window.months) != bool(width.months):
            return None
        count, rest = divmod(window.months or window.micros, width.months or width.micros)
        return None if rest else count

    @property
    def offset(self) -> int:
        """The bin with which the first reading ends."""
        return self._in_bins(self.window) if self.sliding and self.window is not None else 0

    @property
    def bins(self) -> int | None:
        """How many bins there are, the first included."""
        return None if self.count is None else self.offset + (self.count - 1) * self.stride + 1

    @property
    def base(self) -> int:
        """The first bin that any reading needs: 0, or 1 where bin 0 lies before the first window."""
        return 1 if self.sliding else 0

    @property
    def slack(self) -> int:
        """How much shorter consecutive bins can be than as many bins of equal length, in microseconds."""
        return self.zone.spread if self.zone is not None and is_local(self.bin_width) else 0

    def bin_end(self, index: int) -> int:
        """The instant at which this bin ends (and the next begins)."""
        return _after(self.bin_width, self.start, self.zone, index - self.offset)

    def before(self, span: Span, at: int) -> int:
        """The instant one span before another; days and months are those of the zone."""
        return _after(span, at, self.zone, -1)

    def bin_moment(self, index: int) -> datetime:
        """The same instant as theory takes it."""
        return moment(self.bin_end(index))

    def bin_of_reading(self, reading: int) -> int:
        """The bin with which this reading ends."""
        return self.offset + reading * self.stride

    def first_telling(self, span: int | None) -> int:
        """The first reading whose last `span` bins (None: all) are after bin 0, which has no beginning."""
        return 0 if span is None else max(0, -(-(span - self.offset) // self.stride))

    def reading_of_bin(self, index: int) -> int | None:
        """The reading that ends with this bin, if one does."""
        reading, rest = divmod(index - self.offset, self.stride)
        if rest or reading < 0 or (self.count is not None and reading >= self.count):
            return None
        return reading

    def latest_bins(self, measured: int) -> range:
        """The bins of the latest reading once so many bins are measured; empty where there is none.

        A running value sums all bins from the first on.
        """
        reading = (measured - 1 - self.offset) // self.stride
        if reading < 0:
            return range(0)
        stop = self.bin_of_reading(reading) + 1
        return range(0 if self.span is None else stop - self.span, stop)

    def ends(self, first: int, until: int) -> Iterator[tuple[int, int]]:
        """(index, end) of the bins from `first` on that have ended by `until`."""
        index = first
        while (self.bins is None or index < self.bins) and (end := self.bin_end(index)) <= until:
            yield index, end
            index += 1

    def last_end(self, first: int, until: int) -> int | None:
        """The end of the last bin, from `first` on, that has ended by `until`; None where none has."""
        last = self.bin_at(until + 1) - 1
        if self.bins is not None:
            last = min(last, self.bins - 1)
        return self.bin_end(last) if last >= first else None

    def bin_at(self, at: int) -> int:
        """The bin that holds this instant (past the last one where the schedule has ended)."""
        low, high = -1, 1
        while self.bin_end(high) < at:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.bin_end(middle) < at else (low, middle)
        return high

    def covering(self, earliest: int, latest: int) -> Iterator[tuple[int, int]]:
        """(index, end) of the bins that hold the instants from earliest to latest."""
        index = self.bin_at(earliest)
        while self.bins is None or index < self.bins:
            yield index, (end := self.bin_end(index))
            if end >= latest:
                return
            index += 1

    def __str__(self) -> str:
        last = "ever" if self.count is None else f"{self.count} readings"
        window = "" if self.window is None else f", change over {self.window}"
        zone = f" ({self.zone.name})" if self.zone is not None else ""
        return f"every {self.every} from {rfc3339(self.start)}{zone}, {last}{window}"


@dataclass(frozen=True)
class RollUp:
    """Readings of a schedule that is read less often than it is measured."""

    times: Schedule
    """When it is read; it has no window."""
    span: int | None
    """The most bins that a reading sums; None is all."""


_CHECKED: Final = 1000
"""Readings of an endless roll-up whose times are compared with those of its release."""


def roll_up(schedule: Schedule, every: Span, window: Span | None) -> RollUp:
    """The readings of a schedule at the ends of longer periods, from the first whole one on.

    Months, quarters, years and weeks begin with the calendar's.  Raises SpecError where a period or a window
    does not begin and end with bins of the schedule.
    """
    begin = schedule.bin_end(schedule.bin_of_reading(0))
    loaded = schedule.bin_end(0)
    start = first = next(beginnings(every, begin, schedule.zone))
    later = 0
    while window is not None and _after(window, start, schedule.zone, -1) < loaded:
        later += 1
        start = _after(every, first, schedule.zone, later)
    last = None if schedule.count is None else schedule.bin_end(schedule.bin_of_reading(schedule.count - 1))
    if last is not None and start > last:
        raise SpecError(f"the release ends before the first reading, at {rfc3339(start)}")
    times = Schedule(start, every, None, None, schedule.zone)
    if last is not None:
        times = replace(times, count=times.bin_at(last + 1))
    span = None
    for number in range(min(times.count or _CHECKED, _CHECKED)):
        end = schedule.bin_at(at := times.bin_end(number))
        if schedule.bin_end(end) != at or schedule.reading_of_bin(end) is None:
            raise SpecError(
                f"every = '{every}' must be a whole multiple of the release's own, {schedule.every}"
            )
        if window is not None:
            first = schedule.bin_at(before := times.before(window, at))
            if schedule.bin_end(first) != before:
                raise SpecError(f"window = '{window}' must be a whole multiple of {schedule.bin_width}")
            span = max(span or 0, end - first)
    return RollUp(times, span)


def _after(span: Span, start: int, zone: Zone | None, times: int) -> int:
    """The instant so many spans after start; days and months are those of the zone."""
    if zone is None or not is_local(span):
        return span.after(start, times)
    return zone.after(span, start, times)


def _end_after(span: Span, start: int, zone: Zone | None, times: int = 1) -> int | None:
    """The instant so many spans after start; None where no calendar has it."""
    try:
        at = _after(span, start, zone, times)
        moment(at)
    except (ValueError, OverflowError):
        return None
    return at


def _by(end: int, span: Span, start: int, zone: Zone | None, times: int) -> bool:
    """Whether so many spans after start are over by the end."""
    at = _end_after(span, start, zone, times)
    return at is not None and at <= end
