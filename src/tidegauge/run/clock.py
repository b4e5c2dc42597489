"""The public clock: the time of day, compared with a clock that cannot be set.

What is measured stays measured, so a clock that is an hour ahead for a few seconds must not close the windows
of that hour.  A jump of the time of day is therefore believed only once it has lasted a while.  Until then
the earlier of two times counts: what the clock shows, and what it would show if it had not jumped.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from tidegauge.model.quantity import SECOND, rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("tidegauge")

TOLERANCE: Final = 2 * SECOND
"""A clock that is adjusted by less than this is simply followed."""
SETTLED: Final = 60 * SECOND
"""How long a jump must last before it is believed."""


def steady() -> float:
    """Seconds on a clock that cannot be set; sleep of the machine counts where the system reports it."""
    try:
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    except (AttributeError, OSError):  # a system without it
        return time.monotonic()


class PublicClock:
    """The time that counts.

    `now`: the time of day in microseconds.  `steady`: seconds of a clock that cannot be set; None: believe
    every jump.
    """

    def __init__(self, now: Callable[[], int], steady: Callable[[], float] | None) -> None:
        self._now, self._steady = now, steady
        self._anchor: tuple[int, int] | None = None
        """A time of day that is believed, and the steady time at which it was read."""
        self._jump: tuple[int, int] | None = None
        """By how much the clock has jumped, and the steady time at which that was first seen."""

    def __call__(self) -> int:
        """The time that counts."""
        if self._steady is None:
            return self._now()
        shown, passed = self._read(self._steady)
        if self._anchor is None:
            self._anchor = shown, passed
        expected = self._anchor[0] + passed - self._anchor[1]
        apart = shown - expected
        if abs(apart) <= TOLERANCE:
            if self._jump is not None:
                log.info("clock is back", extra={"clock": rfc3339(shown)})
            self._believe(shown, passed)
        elif self._jump is None or abs(apart - self._jump[0]) > TOLERANCE:
            self._jump = apart, passed
            log.warning(
                "clock jumped",
                extra={
                    "seconds": round(apart / SECOND),
                    "clock": rfc3339(shown),
                    "goes_on_from": rfc3339(min(shown, expected)),
                    "believed_in_seconds": SETTLED // SECOND,
                },
            )
        elif passed - self._jump[1] >= SETTLED:
            log.warning("clock believed", extra={"clock": rfc3339(shown)})
            self._believe(shown, passed)
            return shown
        return min(shown, expected) if self._jump is not None else shown

    def _read(self, steady: Callable[[], float]) -> tuple[int, int]:
        """Both clocks at one moment: read again where the process was held up in between."""
        for _ in range(100):
            before = steady()
            shown, after = self._now(), steady()
            if after - before < 0.5:
                break
        return shown, round(after * SECOND)

    def _believe(self, shown: int, passed: int) -> None:
        self._anchor, self._jump = (shown, passed), None
