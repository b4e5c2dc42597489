"""The contract of a publisher, which delivers committed readings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.model.reading import Reading


@dataclass(frozen=True)
class Delivery:
    """A completed delivery."""

    readings: int
    to: str
    """The destination, in words that may be logged: without a password."""


class Publisher(Protocol):
    """Delivers readings.  A publisher gets nothing else: no store, no source, no exact number."""

    def deliver(self, readings: Sequence[Reading]) -> Delivery:
        """Deliver these readings.  If this raises, they are delivered again later."""
        ...
