"""What a publisher is handed: readings that it does not have yet, and what belongs to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegauge.model.tick import Seal
from tidegauge.publish.public.values import Document, PublicReading

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Batch:
    """Readings of whole instants, oldest first.

    A batch that was not delivered is handed over again, unchanged and with the same key, also by a later
    process.  A batch may be without readings: then the document has changed.
    """

    key: str
    """The idempotency key: no other batch of any gauge has it."""
    readings: tuple[PublicReading, ...]
    document: Document
    seals: tuple[Seal, ...] = ()
    """The seals up to the last reading, from the first that was not handed over."""
    smoothed: Mapping[str, tuple[PublicReading, ...]] = field(default_factory=dict)
    """All past values of these releases, estimated again; for publishers that ask for them."""
