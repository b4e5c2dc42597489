"""What a publisher is: it takes readings that are committed and hands them on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.model.reading import Reading


@dataclass(frozen=True)
class Delivery:
    """What a publisher handed on."""

    readings: int
    to: str
    """Where they went, in words that may be logged: no password, no address with one."""


class Publisher(Protocol):
    """Hands readings on.  It gets nothing else: no store, no source, no exact number."""

    def deliver(self, readings: Sequence[Reading]) -> Delivery:
        """Hand these on; what raises was not delivered, and is delivered again later."""
        ...
