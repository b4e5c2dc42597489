"""Series: what is published of the measurements of a release, when, and over which window."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.mechanism.decode import Decoder
from tidegauge.mechanism.decoding.windows import Windows
from tidegauge.model.schedule import Schedule, roll_up
from tidegauge.plan.outline import Outline, outline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidegauge.model.quantity import Span
    from tidegauge.plan.plan import ReleasePlan


@dataclass(frozen=True)
class Series:
    """The readings under one name: those of a release, or of another window of its measurements."""

    name: str
    plan: ReleasePlan
    """The release that is measured."""
    window: Span | None
    span: int | None
    """Bins that a reading sums; None is all.  Where windows are not equally long, the most."""
    first: int = 0
    """The first reading of the release whose window lies within the measurements."""
    own: Schedule | None = None
    """When it is read, where it is read less often than the release."""

    @cached_property
    def decoder(self) -> Decoder:
        """Decodes the measurements into readings."""
        release = self.plan.release
        return Decoder(release.query, release.schedule, self.plan.component_plans, self.span)

    def windows(self, readings: Sequence[int], *, through: int | None = None) -> Windows:
        """What these readings of the release sum.  `through`: the last bin that is used; None: their own."""
        schedule = self.plan.release.schedule
        bins = np.array([schedule.bin_of_reading(reading) for reading in readings], dtype=np.int64)
        found = Windows.of(bins, self.span, through=through)
        if self.own is None or self.window is None:
            return found
        after = [
            schedule.bin_at(self.own.before(self.window, schedule.bin_end(bin_))) for bin_ in bins.tolist()
        ]
        return replace(found, after=np.array(after, dtype=np.int64))

    def half_width(self, reading: int, stderr: float, level: float) -> float:
        """Half-width of the noise interval, at this level, of a reading with this standard error."""
        return self.decoder.half_width(self.windows([reading]), stderr, level)

    def readings(self, bins: range) -> list[int]:
        """The readings of the release at the ends of these bins that the series has too."""
        schedule = self.plan.release.schedule
        if self.own is not None:
            return [
                reading
                for bin_ in self._own_bins(bins)
                if (reading := schedule.reading_of_bin(bin_)) is not None
            ]
        first = max(self.first, -(-(bins.start - schedule.offset) // schedule.stride))
        stop = (bins.stop - 1 - schedule.offset) // schedule.stride + 1
        return list(range(first, stop if schedule.count is None else min(stop, schedule.count)))

    def _own_bins(self, bins: range) -> Iterator[int]:
        """Those of these bins with which its own periods end."""
        schedule, own = self.plan.release.schedule, self.own
        if own is None or not bins:
            return
        number, last = own.bin_at(schedule.bin_end(bins.start)), schedule.bin_end(bins.stop - 1)
        while (own.count is None or number < own.count) and (end := own.bin_end(number)) <= last:
            bin_ = schedule.bin_at(end)
            if schedule.bin_end(bin_) == end:
                yield bin_
            number += 1

    @property
    def running(self) -> bool:
        """Whether it is a running value and not a change."""
        return self.window is None

    @cached_property
    def outline(self) -> Outline:
        """What those need of it who read it."""
        query = self.plan.release.query
        grids = [component.grid for component in query.components]
        return outline(query.aggregate, query.kind, query.groups, grids, running=self.running)

    def index_of(self, reading: int) -> int:
        """Of its own readings, counted from 0, the one with this reading of the release."""
        if self.own is None:
            return reading - self.first
        schedule = self.plan.release.schedule
        return self.own.bin_at(schedule.bin_end(schedule.bin_of_reading(reading)))

    def reading_of(self, index: int) -> int:
        """The reading of the release with which its own reading of this index is published."""
        if self.own is None:
            return self.first + index
        schedule = self.plan.release.schedule
        found = schedule.reading_of_bin(schedule.bin_at(self.own.bin_end(index)))
        assert found is not None, "a roll-up is read with readings of its release"
        return found

    def progress(self, next_bin: int) -> tuple[int, int | None]:
        """How many readings there are before this bin is measured, and when the next is due.

        None: there is no further one.
        """
        schedule, own = self.plan.release.schedule, self.own
        if own is None:
            done = max(self.first, -(-(next_bin - schedule.offset) // schedule.stride))
            finished = schedule.count is not None and done >= schedule.count
            upcoming = None if finished else schedule.bin_end(schedule.bin_of_reading(done))
            return done - self.first, upcoming
        last = schedule.bin_end(next_bin - 1) if next_bin else own.start - 1
        done = own.bin_at(last + 1) if last >= own.start else 0
        if own.count is not None and done >= own.count:
            return own.count, None
        return done, own.bin_end(done)

    @property
    def timetable(self) -> Schedule:
        """When it is read; its window is `window`."""
        if self.own is not None:
            return self.own
        schedule = self.plan.release.schedule
        start = schedule.bin_end(schedule.bin_of_reading(self.first))
        count = None if schedule.count is None else schedule.count - self.first
        return Schedule(start, schedule.every, count, self.window, schedule.zone)

    @property
    def schedule_text(self) -> str:
        """When it is read and over what, in words."""
        over = "" if self.own is None or self.window is None else f", change over {self.window}"
        return f"{self.timetable}{over}"


def derived_series(name: str, plan: ReleasePlan, window: Span | None, every: Span | None) -> Series:
    """A series that is derived from a release."""
    schedule = plan.release.schedule
    if every is None:
        span = None if window is None else schedule.bins_in(window)
        return Series(name, plan, window, span, schedule.first_telling(span))
    rolled = roll_up(schedule, every, window)
    return Series(name, plan, window, rolled.span, own=rolled.times)
