"""The loop: read, fold, measure and commit everything that is due, then wait for the next bin to end."""

from __future__ import annotations

import logging
from itertools import groupby
from typing import TYPE_CHECKING, Final

from tidegauge.model.json import tables
from tidegauge.model.quantity import SECOND, rfc3339
from tidegauge.run.clock import TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidegauge.model.history import History
    from tidegauge.model.schedule import Schedule
    from tidegauge.model.source import OpenSource
    from tidegauge.model.stamp import Stamped
    from tidegauge.model.tick import Published
    from tidegauge.run.tick import Ticker

log = logging.getLogger("tidegauge")
"""What happens, for the operator: never a data value, an exact count or a connection string."""

_STEP: Final = 2.0
"""The longest wait at a time, in seconds: the clock may be set meanwhile, and a live source that is read
often need not hold on to changes."""


def _quietly(_done: int, _total: int) -> None:
    """Show no progress."""


class Loop:
    """Carries a committed plan out until its time limit, or until there is nothing left to publish."""

    def __init__(
        self,
        ticker: Ticker,
        source: OpenSource,
        *,
        now: Callable[[], int],
        sleep: Callable[[float], None],
        progress: Callable[[int, int], None] | None = None,
        released: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._ticker, self._source, self._progress = ticker, source, progress
        self._report = progress or _quietly
        self._released = released
        self._now, self._sleep = now, sleep
        self._behind = False

    def run(self, limit: int | None, *, follow: bool, stamped: Stamped | None = None) -> Iterator[Published]:
        """Catch up, and with `follow` go on until `limit` or the last reading of all.

        `stamped`: the first changes of a store that has read nothing yet; the source goes on after them.
        """
        self._source.select(self._ticker.plan.program.wanted(self._source.columns))
        log.info("started", extra={"plan": self._ticker.plan.hash[:12]})
        if stamped is not None:
            yield from self._publish(self._ticker.backfill(stamped, now=self._now(), report=self._report))
        while True:
            begins = self._source.follows and self._ticker.progress.clock.position is None
            for _ in range(2 if begins else 1):  # again for what came due while the table was loaded
                yield from self._catch_up(limit)
            self._warn_if_behind()
            upcoming = self._next_end()
            if not follow or upcoming is None or (limit is not None and upcoming > limit):
                return
            wait = max(0.05, (upcoming - self._now()) / SECOND)
            self._sleep(min(wait, _STEP))

    def _warn_if_behind(self) -> None:
        """Log, once, that the clock is behind the last reading: nothing is published until then."""
        reached = self._ticker.progress.clock.watermark
        behind = self._now() < reached - TOLERANCE
        if behind and not self._behind:
            log.warning("clock is behind what was published", extra={"published_to": rfc3339(reached)})
        self._behind = behind

    def _catch_up(self, limit: int | None) -> Iterator[Published]:
        """Read the changes that are due and publish every window that has ended, in order.

        A followed source delivers everything in its log.  Its first read ends at the last bin that has ended:
        the rows that exist at the first run then count in the latest due reading, and a new gauge does not
        begin with an empty table.  For a release without a declared start this is the first reading, however
        long planning and loading took.
        """
        clock, now = self._ticker.progress.clock, self._now()
        ends = now if limit is None else min(limit, now)
        due = self._ticker.last_end(ends)
        if due is None and not self._source.follows:
            return
        follows = self._source.follows and clock.position is not None
        until = ends if follows or due is None else self._beginning(due) if self._source.follows else due
        history = self._history(until) if clock.position is None else None
        if history is not None:
            try:
                published = self._ticker.backfill(history, now=now, report=self._report)
            finally:
                history.close()
            self._source.acknowledge(history.position)
            yield from self._publish(published)
            if history.upto < until:  # bins have ended since this history was interrupted
                yield from self._catch_up(limit)
            return
        for batch in self._source.read(clock.position, until):
            published = self._ticker.tick(batch, now=now)
            self._source.acknowledge(batch.position)
            yield from self._publish(published)
            if batch.upto is not None:
                self._show_progress(batch.upto, until)

    def _history(self, until: int) -> History | None:
        """The past of the source as one value, where it has one and the engine can read it."""
        if self._source.follows or not self._ticker.can_backfill:
            return None
        history = self._source.history(until)
        return None if history is None else self._ticker.continued(history)

    def _publish(self, published: list[Published]) -> list[Published]:
        """Let the publishers know of new readings, and log them."""
        if published:
            self._released(self._ticker.progress.clock.watermark)
        for at, readings in groupby(published, key=lambda reading: reading.time):
            log.info("published", extra={"readings": len(list(readings)), "upto": rfc3339(at)})
        return published

    def _show_progress(self, reached: int, until: int) -> None:
        if self._progress is not None:
            begin = min(schedule.bin_end(0) for _, schedule in self._schedules())
            self._progress(max(0, reached - begin), max(1, until - begin))

    def _schedules(self) -> Iterator[tuple[str, Schedule]]:
        return ((plan.release.name, plan.release.schedule) for plan in self._ticker.plan.releases)

    def _beginning(self, due: int) -> int:
        """The first reading of the releases that start with the gauge; `due` if there is none."""
        declared = tables(self._ticker.plan.declaration["release"])
        starts = (
            schedule.start for name, schedule in self._schedules() if declared[name].get("start") is None
        )
        return min([due, *starts])

    def _next_end(self) -> int | None:
        """When the next bin ends, or None if all are measured."""
        ends = []
        for name, schedule in self._schedules():
            first = self._ticker.progress.next_bin(name)
            if schedule.bins is None or first < schedule.bins:
                ends.append(schedule.bin_end(first))
        return min(ends, default=None)
