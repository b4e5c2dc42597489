"""The clock and the randomness of a gauge, which are arguments so that tests can hold them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypedDict

from tidegauge.model.quantity import instant

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegauge.mechanism.noise.samplers import Sampler


class Setting(TypedDict, total=False):
    """The arguments; each has a default."""

    now: Callable[[], int]
    """The time of day, in microseconds."""
    sleep: Callable[[float], None]
    steady: Callable[[], float] | None
    """Seconds of a clock that cannot be set.  Without it, and with `now` given, jumps of the time of day are
    not noticed."""
    sampler: Sampler


def system_now() -> int:
    """The time of day of this machine, in microseconds."""
    return instant(datetime.now(UTC))
