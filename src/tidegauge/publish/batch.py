"""What a publisher is handed: readings that it does not have yet, and what belongs to them."""

from __future__ import annotations

from dataclasses import dataclass

from tidegauge.model.tick import Seal
from tidegauge.publish.public.values import Document, ModelReading, PublicReading


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
    denoised: tuple[ModelReading, ...] = ()
    """A model's estimates beside all readings so far; for publishers that ask for them.  Empty in a batch
    that does not reach the newest reading."""
