"""What catalogues want to know of a gauge, as one frozen value that every writer starts from."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from tidegauge.model.quantity import rfc3339
from tidegauge.publish.formats import column

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegauge.publish.public.reader import PublicFile
    from tidegauge.publish.public.values import About, Guarantee, ReleaseInfo

MEDIA_TYPES: Final = {
    "csv": "text/csv",
    "json": "application/json",
    "parquet": "application/vnd.apache.parquet",
}
NOISE_INTERVAL: Final = "95 % noise interval"


@dataclass(frozen=True)
class Column:
    """A column of the CSV file of a release: `kind` is string, time, integer, boolean or number."""

    name: str
    kind: str
    description: str
    required: bool = True


@dataclass(frozen=True)
class File:
    """The readings of one release in one format."""

    release: str
    form: str
    url: str

    @property
    def media_type(self) -> str:
        """Its media type."""
        return MEDIA_TYPES[self.form]


@dataclass(frozen=True)
class Series:
    """A release, how far it has come, and its files."""

    info: ReleaseInfo
    readings: int
    first: str | None
    last: str | None
    files: tuple[File, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of its CSV file, in order."""
        groups = (Column(column(name), _kind(values), f"Group: {name}.") for name, values in self.info.groups)
        return (
            Column("release", "string", "The name of the release."),
            Column("time", "time", "The time of the reading, in UTC."),
            *groups,
            Column("value", "number", f"{self.what}, with noise.", required=False),
            Column("stderr", "number", "Standard error of the noise.", required=False),
            Column("low", "number", f"Lower end of the {NOISE_INTERVAL}."),
            Column("high", "number", f"Upper end of the {NOISE_INTERVAL}."),
        )

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that identify a reading."""
        return ("release", "time", *(column(name) for name, _ in self.info.groups))

    @property
    def what(self) -> str:
        """The series in a few words, with a capital letter."""
        kind = f"{self.info.what[:1].upper()}{self.info.what[1:]}"
        return f"{kind} ({self.info.aggregate}), every {self.info.every}"


@dataclass(frozen=True)
class Dataset:
    """Everything that a catalogue entry needs."""

    about: About
    guarantee: Guarantee
    series: tuple[Series, ...]
    seal: str
    modified: str
    """The time of the last tick; before the first, when the plan was committed."""
    software: str

    @property
    def address(self) -> str:
        """What identifies the data: the declared address, or the hash of the plan."""
        return self.about.url or f"urn:sha256:{self.guarantee.plan}"

    @property
    def description(self) -> str:
        """The declared description, and the guarantee."""
        said = self.about.description or f"Private statistics of the table {self.guarantee.table}."
        return f"{said} {self.guarantee.sentence} Intervals are noise intervals: they cover the noise alone."

    @property
    def license(self) -> str | None:
        """The address of the licence; an SPDX name becomes one."""
        named = self.about.license
        if not named or "://" in named:
            return named or None
        return f"https://spdx.org/licenses/{named}"

    @property
    def span(self) -> tuple[str, str] | None:
        """The first and the last time of any reading."""
        firsts = [one.first for one in self.series if one.first]
        lasts = [one.last for one in self.series if one.last]
        return (min(firsts), max(lasts)) if firsts and lasts else None

    @property
    def keywords(self) -> tuple[str, ...]:
        """The declared keywords and our own."""
        return tuple(dict.fromkeys((*self.about.keywords, "differential privacy", "statistics")))


def dataset(public: PublicFile, address: Callable[[str, str], str]) -> Dataset:
    """What a public file says to a catalogue.

    address: where the readings of a release are, by its name and the format (csv, json, parquet).
    """
    ledger = public.ledger
    committed = ledger[0].time if ledger else "1970-01-01T00:00:00Z"
    last = public.last_tick
    return Dataset(
        about=public.about,
        guarantee=public.guarantee,
        series=tuple(_series(public, info, address) for info in public.releases),
        seal=public.last_seal.hash,
        modified=committed if last is None else rfc3339(last),
        software=f"Tidegauge {version('tidegauge')}",
    )


def _series(public: PublicFile, info: ReleaseInfo, address: Callable[[str, str], str]) -> Series:
    numbers = public.span(info.name)
    return Series(
        info=info,
        readings=len(numbers) * len(info.cells),
        first=rfc3339(info.time_of(numbers[0])) if numbers else None,
        last=rfc3339(info.time_of(numbers[-1])) if numbers else None,
        files=tuple(File(info.name, form, address(info.name, form)) for form in MEDIA_TYPES),
    )


def _kind(values: tuple[object, ...]) -> str:
    """The type of a group's column, as the formats write it."""
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return "boolean"
    return "integer" if kinds == {int} else "string"
