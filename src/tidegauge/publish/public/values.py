"""What a public file holds, as frozen values.  Times are microseconds since 1970 in UTC.

Everything here follows from the declaration, the public clock and noisy measurements.  No time at which a
process did something is among it: how long a tick takes depends on how many rows changed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple, Self

from tidegauge.model.calendar import Zone
from tidegauge.model.json import as_flag, as_list, as_number, as_object, as_scalar, as_text, as_whole, lists
from tidegauge.model.quantity import Span, moment, rfc3339
from tidegauge.model.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from tidegauge.model.json import Json, JsonObject
    from tidegauge.model.query import Value


_span = lru_cache(maxsize=64)(Span.parse)


@dataclass(frozen=True)
class About:
    """What the publisher says of the data: for titles, citations and catalogues; empty where nothing is."""

    title: str = ""
    description: str = ""
    creator: str = ""
    """The organisation that publishes."""
    contact: str = ""
    """An e-mail address or a web address."""
    license: str = ""
    """The address of the licence, or its SPDX name."""
    url: str = ""
    """Where the pages are on the web, without a slash at the end."""
    keywords: tuple[str, ...] = ()


@dataclass(frozen=True)
class Guarantee:
    """What everything published together may reveal about one unit, in numbers and in words."""

    plan: str
    """The hash of the committed plan."""
    epsilon: float | None
    delta: float | None
    rho: float | None
    """The declared budget: epsilon, epsilon and delta, or rho."""
    measure: str
    """What the loss is accounted in: epsilon or rho."""
    total: float
    """The whole budget in that measure, ..."""
    reserved: float
    """... and what the plan uses of it, over the gauge's whole lifetime."""
    epsilon_at: float
    """Epsilon at `delta_at`: the declared one, or what rho amounts to at delta = 1e-6."""
    delta_at: float
    table: str
    unit: str | None
    """The column that names the unit; None where a unit is one row."""
    max_rows: int | None
    constraint: JsonObject
    """As it was declared: at_most, within, on_excess, by and cases; empty without one."""
    protects: str
    sentence: str
    """The guarantee in one sentence."""
    warnings: tuple[str, ...] = ()
    simulated: bool = False
    """Whether the noise was simulated, which protects no unit."""


def _values(found: Json) -> tuple[Value, ...]:
    return tuple(one if isinstance(one, str | bool) else as_whole(one) for one in as_list(found))


def _group(found: JsonObject) -> dict[str, Value]:
    return dict(zip(found, _values(tuple(found.values())), strict=True))


def _zone(found: JsonObject) -> Zone:
    offsets = tuple((as_whole(since), as_whole(ahead)) for since, ahead in lists(found["offsets"]))
    return Zone(as_text(found["name"]), offsets)


@dataclass(frozen=True)
class ReleaseInfo:
    """A series that is published: a release, or one derived from its measurements."""

    name: str
    of: str | None
    """The release from whose measurements it is derived; None for a release itself."""
    sql: str
    aggregate: str
    """count, sum, avg, ..."""
    what: str
    """`running value`, `change over 14 days`, `total over 1 day`, `running total`."""
    unit: str
    """What values and errors are counted in, such as `rows`."""
    groups: tuple[tuple[str, tuple[Value, ...]], ...]
    """The name and the declared values of each group column."""
    cells: tuple[Mapping[str, Value] | None, ...]
    """The group of each cell, by cell number; (None,) without groups."""
    start: int
    every: str
    window: str | None
    count: int | None
    """How many times it is read; None: without end."""
    level: bool
    """Whether it is a running value and not a change."""
    never_negative: bool
    """Whether a value below 0 can only be noise."""
    strategy: str
    parameters: Mapping[str, int | float | str]
    noise: str
    """The law of the noise: `discrete Gaussian` or `discrete Laplace`."""
    noise_scale: float
    """Standard deviation of the noise of one measurement, in published units."""
    folds: int | None
    """Measurements that one unit can change, where the strategy counts them."""
    loss: float
    """In the measure of the guarantee; 0 for a derived series."""
    half_width_worst: float
    half_width_mean: float
    """Predicted half-widths of the 95 % noise interval."""
    adaptive: bool
    """Whether the guarantee also holds if the data react to what was published."""
    promise: str
    sensitivity: float | None = None
    """The most that one unit can change all measurements of one component, in published units: L1 where the
    noise is Laplace, L2 where it is Gaussian.  None for a derived series, and in older files."""
    zone: Zone | None = None
    """The time zone whose days and months are counted; None is UTC."""

    @classmethod
    def from_json(cls, found: JsonObject) -> Self:
        """Read what `as_json` wrote; keys of a later version are ignored."""
        of, window, count, folds = (found[name] for name in ("of", "window", "count", "folds"))
        sensitivity, zone = found.get("sensitivity"), found.get("zone")
        return cls(
            name=as_text(found["name"]),
            of=None if of is None else as_text(of),
            sql=as_text(found["sql"]),
            aggregate=as_text(found["aggregate"]),
            what=as_text(found["what"]),
            unit=as_text(found["unit"]),
            groups=tuple((as_text(name), _values(declared)) for name, declared in lists(found["groups"])),
            cells=tuple(None if one is None else _group(as_object(one)) for one in as_list(found["cells"])),
            start=as_whole(found["start"]),
            every=as_text(found["every"]),
            window=None if window is None else as_text(window),
            count=None if count is None else as_whole(count),
            level=as_flag(found["level"]),
            never_negative=as_flag(found["never_negative"]),
            strategy=as_text(found["strategy"]),
            parameters={name: as_scalar(one) for name, one in as_object(found["parameters"]).items()},
            noise=as_text(found["noise"]),
            noise_scale=as_number(found["noise_scale"]),
            folds=None if folds is None else as_whole(folds),
            loss=as_number(found["loss"]),
            half_width_worst=as_number(found["half_width_worst"]),
            half_width_mean=as_number(found["half_width_mean"]),
            adaptive=as_flag(found["adaptive"]),
            promise=as_text(found["promise"]),
            sensitivity=None if sensitivity is None else as_number(sensitivity),
            zone=None if zone is None else _zone(as_object(zone)),
        )

    def as_json(self) -> dict[str, Json]:
        """Plain values for JSON."""
        return asdict(self)

    def time_of(self, number: int) -> int:
        """When reading `number`, counted from 0, is due."""
        return self._timetable.bin_end(number)

    @cached_property
    def _timetable(self) -> Schedule:
        return Schedule(self.start, _span(self.every), self.count, None, self.zone)


class PublicRow(NamedTuple):
    """A reading as the file has it: the release and the groups are named elsewhere."""

    number: int
    cell: int
    time: int
    value: float | None
    stderr: float | None
    low: float
    high: float
    low_50: float
    high_50: float


@dataclass(frozen=True)
class PublicReading:
    """One published number with its error; `value` is None where the noise hides it."""

    release: str
    number: int
    """Counts the readings of the release from 0."""
    cell: int
    time: int
    group: Mapping[str, Value] | None
    value: float | None
    stderr: float | None
    low: float
    high: float
    """The 95 % noise interval."""
    low_50: float
    high_50: float
    """The 50 % noise interval."""

    @property
    def moment(self) -> datetime:
        """The time as a datetime in UTC."""
        return moment(self.time)

    def as_json(self) -> dict[str, Json]:
        """The reading as every verb prints it."""
        return {
            "release": self.release,
            "time": rfc3339(self.time),
            "group": None if self.group is None else dict(self.group),
            "value": self.value,
            "stderr": self.stderr,
            "low": self.low,
            "high": self.high,
        }


@dataclass(frozen=True)
class ModelReading:
    """What a model makes of one reading and all others: an estimate, and no measurement."""

    release: str
    number: int
    cell: int
    time: int
    group: Mapping[str, Value] | None
    value: float
    stderr: float
    low: float
    high: float
    """The 95 % model interval: right as far as the model is."""

    def as_json(self) -> dict[str, Json]:
        """The estimate as the API gives it."""
        return {
            "release": self.release,
            "time": rfc3339(self.time),
            "group": None if self.group is None else dict(self.group),
            "value": self.value,
            "stderr": self.stderr,
            "low": self.low,
            "high": self.high,
        }


@dataclass(frozen=True)
class LedgerEntry:
    """One entry of the ledger, sealed with all before it."""

    seq: int
    time: str
    kind: str
    body: JsonObject
    previous: str
    hash: str

    def as_json(self) -> dict[str, Json]:
        """The entry as `ledger --json` prints it."""
        return vars(self).copy()


@dataclass(frozen=True)
class Document:
    """Everything in a public file but the readings and the seals."""

    about: About
    guarantee: Guarantee
    releases: tuple[ReleaseInfo, ...]
    ledger: tuple[LedgerEntry, ...]
    plan: JsonObject = field(default_factory=dict)
    """What `plan --json` prints."""

    def release(self, name: str) -> ReleaseInfo | None:
        """The series of this name."""
        return next((one for one in self.releases if one.name == name), None)
