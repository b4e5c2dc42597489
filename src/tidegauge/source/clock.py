"""Times in the order in which things happened."""

from __future__ import annotations

from typing import Final

from tidegauge.model.quantity import SECOND

STEP: Final = SECOND
"""Neighbouring commits are stamped up to a few hundred microseconds out of order; more is a clock that was set."""


class Clock:
    """Time stamps, in the order of a log, made to never fall.

    A fall of more than STEP means that the clock behind the stamps was set back.  Its times are then taken as they are:
    to hold on to the old time would stop the gauge until the clock has caught up.
    """

    def __init__(self, at: int) -> None:
        self.at = at

    def read(self, stamp: int, now: int | None = None) -> int:
        """The time of the next thing in the log; nothing in it is later than the moment `now` of reading it."""
        time = stamp if now is None else min(stamp, now)
        return time if self.at - time > STEP else max(self.at, time)

    def set(self, at: int) -> None:
        """Accept a time that was read."""
        self.at = at
