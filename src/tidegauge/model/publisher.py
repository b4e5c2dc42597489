"""What a publisher is: it takes readings that are committed and hands them on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from tidegauge.model.declared import PublisherSpec

B_contra = TypeVar("B_contra", contravariant=True)
B = TypeVar("B")
S = TypeVar("S", bound="PublisherSpec")


@dataclass(frozen=True)
class Delivery:
    """What a publisher handed on."""

    readings: int
    to: str
    """Where they went, in words that may be logged: no password, no address with one."""


class Publisher(Protocol[B_contra]):
    """Hands on what it is given.  It gets nothing else: no store, no source, no exact number."""

    def deliver(self, what: B_contra) -> Delivery:
        """Hand this on; what raises was not delivered, and is delivered again later."""
        ...


@dataclass(frozen=True)
class Place:
    """What a publisher may know of where the gauge is."""

    name: str
    """The publisher's own name."""
    base: Path
    """The folder of the declaration; paths are relative to it."""
    secret: Callable[[str, str], str]
    """The value of a secret (env:NAME), and the key that names it, for the message if it is not set."""


class PublisherKind(ABC, Generic[S, B]):
    """A kind of publisher: one file or folder in publish/, and one line in publish/kinds.py."""

    spec: type[S]
    """What its [publish.NAME] table may say."""
    documents: ClassVar[bool] = False
    """Whether it also hands on plan, guarantee and ledger, and so wants a batch when one of them changes."""

    keyed: ClassVar[bool] = False
    """Whether a batch that is delivered again must be the very same: where the receiver tells batches apart by
    their key, and not readings by their release, time and group."""

    @abstractmethod
    def open(self, spec: S, place: Place) -> Publisher[B]:
        """The publisher.  Nothing is connected or written before it delivers.

        Raises SpecError where a secret is missing.
        """

    def target(self, spec: S) -> str:
        """What identifies where it publishes to; where that changes, everything is delivered again.

        Empty: the name of the publisher alone does.
        """
        del spec
        return ""

    def holds(self, spec: S, place: Place) -> Mapping[str, int] | None:
        """How many readings of each release are there already, where that can be seen; else None.

        What is missing there is delivered again, whatever the outbox remembers.
        """
        del spec, place
        return None
