"""Where things are: the same page is part of a static site or comes from `serve`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

API: Final = "/api/v1"
METADATA: Final = "dataset.jsonld"


@dataclass(frozen=True)
class Links:
    """Addresses as a page writes them.

    `root`: what is put before every address: '' at the top of a static site, '../' one folder down, '' or a
    prefix such as '/gauge' for `serve`.
    """

    root: str
    files: bool
    """Whether pages are files of a static site."""

    @property
    def home(self) -> str:
        """The overview."""
        return f"{self.root}index.html" if self.files else f"{self.root}/"

    @property
    def guarantee(self) -> str:
        """The page about the guarantee."""
        return f"{self.root}guarantee.html" if self.files else f"{self.root}/guarantee"

    @property
    def ledger(self) -> str:
        """The page of the ledger."""
        return f"{self.root}ledger.html" if self.files else f"{self.root}/ledger"

    @property
    def feed(self) -> str:
        """The Atom feed of new readings."""
        return f"{self.root}feed.xml" if self.files else f"{self.root}/feed.xml"

    @property
    def metadata(self) -> str:
        """The description of the data set for catalogues (schema.org)."""
        return f"{self.root}{METADATA}" if self.files else f"{self.root}{API}/metadata/{METADATA}"

    @property
    def forms(self) -> tuple[str, ...]:
        """The formats in which all readings of a release can be had."""
        return ("csv", "json", "parquet") if self.files else ("csv", "parquet", "arrow", "json")

    @property
    def events(self) -> str | None:
        """Server-sent events; a static site has none."""
        return None if self.files else f"{self.root}{API}/events"

    def release(self, name: str) -> str:
        """The page of a release."""
        return (
            f"{self.root}releases/{_file(name)}.html"
            if self.files
            else f"{self.root}/releases/{_quoted(name)}"
        )

    def readings(self, name: str, form: str) -> str:
        """The readings of a release in one of the formats; json from `serve` comes in pages."""
        if self.files:
            return f"{self.root}data/{_file(name)}.{form}"
        return f"{self.root}{API}/releases/{_quoted(name)}/readings.{form}"

    def chart(self, name: str) -> str:
        """The chart of a release as an SVG file."""
        return (
            f"{self.root}charts/{_file(name)}.svg"
            if self.files
            else f"{self.root}/charts/{_quoted(name)}.svg"
        )

    def asset(self, name: str, version: str) -> str:
        """A file of the pages: style sheet, script, icon."""
        return f"{self.root}assets/{name}" if self.files else f"{self.root}/assets/{name}?v={version}"


def served(prefix: str = "") -> Links:
    """The addresses of `serve`, below a prefix where a proxy has one."""
    return Links(prefix.rstrip("/"), files=False)


def static(depth: int = 0) -> Links:
    """The addresses in a static site, as a page so many folders down writes them."""
    return Links("../" * depth, files=True)


def _quoted(name: str) -> str:
    return quote(name, safe="")


def file_name(name: str) -> str:
    """The name of a release as the name of a file: no folder, no special name, no two alike."""
    return quote(name, safe=" ").replace(".", "%2E")


def _file(name: str) -> str:
    return quote(file_name(name), safe="")
