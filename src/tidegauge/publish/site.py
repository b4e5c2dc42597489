"""The kind `site`: a folder of pages, charts and data that any web server, object store or Pages host serves.

    index.html  guarantee.html  ledger.html  releases/NAME.html  charts/NAME.svg  data/NAME.csv  assets/

The folder also holds data/public.db, the public file from which its pages are made.  So a site can be
continued from what is in it, and readers can take the whole data set as one file.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import quote

from tidegauge.model.declared import Name
from tidegauge.model.publisher import Delivery, Place, PublisherKind
from tidegauge.publish import pages
from tidegauge.publish.atomic import put
from tidegauge.publish.batch import Batch
from tidegauge.publish.feed import feed
from tidegauge.publish.formats import to_csv, to_json, to_parquet
from tidegauge.publish.metadata import FORMATS, dataset
from tidegauge.publish.pages.links import METADATA, file_name, static
from tidegauge.publish.public.kind import DescribedSpec
from tidegauge.publish.public.reader import PublicFile
from tidegauge.publish.public.writer import held, write

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from tidegauge.publish.public.values import Document

PUBLIC: Final = "data/public.db"
_MADE: Final = ".made"
"""Says by which version and from which document the pages were made."""


class SiteSpec(DescribedSpec):
    """[publish.NAME] with kind = "site"."""

    kind: Literal["site"]
    path: Name = "site"


def site_files(public: PublicFile, releases: Collection[str]) -> Iterator[tuple[str, bytes]]:
    """Name and content of the site's files, those of other releases left out; the overview comes last.

    A page is written after all that it links to.
    """
    for name, asset in pages.ASSETS.items():
        yield f"assets/{name}", asset.content
    for info in public.releases:
        if info.name not in releases:
            continue
        found = pages.release_site(public, info.name)
        assert found is not None
        readings, name = public.readings(info.name), file_name(info.name)
        yield f"data/{name}.csv", to_csv(readings)
        yield f"data/{name}.json", to_json(readings)
        yield f"data/{name}.parquet", to_parquet(readings)
        yield f"charts/{name}.svg", pages.release_chart(found[1]).encode()
        yield f"releases/{name}.html", pages.release(*found, static(1)).encode()
    base = f"{public.about.url}/" if public.about.url else ""  # else relative to the top of the site
    data = dataset(public, lambda name, form: f"{base}data/{_quoted(name)}.{form}")
    described = {one.file: one.text(data) for one in FORMATS.values()}
    for name, text in described.items():
        yield name, text.encode()
    yield "feed.xml", feed(public, lambda name: f"{base}releases/{_quoted(name)}.html", f"{base}feed.xml")
    site = pages.whole_site(public, described[METADATA])
    yield "guarantee.html", pages.guarantee(site, static()).encode()
    yield "ledger.html", pages.ledger(site, static()).encode()
    yield "index.html", pages.overview(site, static()).encode()


def _quoted(name: str) -> str:
    return quote(file_name(name), safe="")


@dataclass(frozen=True)
class SitePublisher:
    """Adds batches to a site and writes the pages that they change."""

    path: Path

    def deliver(self, what: Batch) -> Delivery:
        """Write what is new; a file whose content is the same is left alone."""
        write(self.path / PUBLIC, what)
        made = _made(what.document).encode()
        marker = self.path / _MADE
        same = marker.is_file() and marker.read_bytes() == made
        names = [one.name for one in what.document.releases]
        changed = {reading.release for reading in what.readings} if same else set(names)
        changed |= {
            name for name in names if not (self.path / "releases" / f"{file_name(name)}.html").is_file()
        }
        with PublicFile(self.path / PUBLIC) as public:
            for name, content in site_files(public, changed):
                put(self.path / name, content)
        put(marker, made)
        return Delivery(len(what.readings), self.path.name)


def _made(document: Document) -> str:
    """Changes with the version, the style of the pages, the plan, the ledger and the description."""
    parts = [version("tidegauge"), *(asset.version for asset in pages.ASSETS.values())]
    parts.append(json.dumps(asdict(document), sort_keys=True, default=dict))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest() + "\n"


class SiteKind(PublisherKind[SiteSpec, Batch]):
    """Writes a static site."""

    spec = SiteSpec
    documents = True

    def open(self, spec: SiteSpec, place: Place) -> SitePublisher:
        """The publisher of this folder."""
        return SitePublisher(place.base / spec.path)

    def target(self, spec: SiteSpec) -> str:
        """The folder."""
        return spec.path

    def holds(self, spec: SiteSpec, place: Place) -> Mapping[str, int] | None:
        """What the site's public file has."""
        return held(place.base / spec.path / PUBLIC)


KIND: Final = SiteKind()
