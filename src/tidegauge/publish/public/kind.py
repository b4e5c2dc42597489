"""The kind `public`: one SQLite file that a web process reads, here or on another machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from tidegauge.model.declared import Name, PublisherSpec
from tidegauge.model.publisher import Delivery, Place, PublisherKind
from tidegauge.publish.batch import Batch
from tidegauge.publish.public.values import About
from tidegauge.publish.public.writer import held, write

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class DescribedSpec(PublisherSpec):
    """A publisher that also hands on what the data are: for titles, citations and catalogues."""

    title: str = ""
    description: str = ""
    creator: str = ""
    contact: str = ""
    license: str = ""
    url: str = ""
    keywords: tuple[str, ...] = ()
    denoised: bool = False
    """Publish a model's estimate beside every reading: costs no privacy, but computing time."""

    @property
    def about(self) -> About:
        """What is said of the data."""
        return About(
            title=self.title,
            description=self.description,
            creator=self.creator,
            contact=self.contact,
            license=self.license,
            url=self.url.rstrip("/"),
            keywords=self.keywords,
        )


class PublicSpec(DescribedSpec):
    """[publish.NAME] with kind = "public"."""

    kind: Literal["public"]
    path: Name = "public.db"


@dataclass(frozen=True)
class PublicPublisher:
    """Adds batches to a public file."""

    path: Path

    def deliver(self, what: Batch) -> Delivery:
        """Put a file with this batch in place of the last."""
        write(self.path, what)
        return Delivery(len(what.readings), self.path.name)


class PublicKind(PublisherKind[PublicSpec, Batch]):
    """Writes a public file."""

    spec = PublicSpec
    documents = True

    def open(self, spec: PublicSpec, place: Place) -> PublicPublisher:
        """The publisher of this file."""
        return PublicPublisher(place.base / spec.path)

    def target(self, spec: PublicSpec) -> str:
        """The file."""
        return spec.path

    def holds(self, spec: PublicSpec, place: Place) -> Mapping[str, int]:
        """What the file has."""
        return held(place.base / spec.path)


KIND: Final = PublicKind()
