"""What a public file holds, as frozen values.  Times are microseconds since 1970 in UTC.

Everything here follows from the declaration, the public clock and noisy measurements.  No time at which a
process did something is among it: how long a tick takes depends on how many rows changed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Self

from tidegauge.model.calendar import Zone
from tidegauge.model.quantity import Span, moment, rfc3339
from tidegauge.model.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

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
    constraint: Mapping[str, Any]
    """As it was declared: at_most, within, on_excess, by and cases; empty without one."""
    protects: str
    sentence: str
    """The guarantee in one sentence."""
    warnings: tuple[str, ...] = ()
    simulated: bool = False
    """Whether the noise was simulated, which protects no unit."""


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
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Read what `as_json` wrote; keys of a later version are ignored."""
        known = {one.name for one in fields(cls)}
        values = {name: value for name, value in found.items() if name in known}
        groups = tuple((name, tuple(declared)) for name, declared in found["groups"])
        zone = found.get("zone")
        if zone is not None:
            zone = Zone(zone["name"], tuple((since, ahead) for since, ahead in zone["offsets"]))
        return cls(**(values | {"groups": groups, "cells": tuple(found["cells"]), "zone": zone}))

    def as_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    def time_of(self, number: int) -> int:
        """When reading `number`, counted from 0, is due."""
        return self._timetable.bin_end(number)

    @cached_property
    def _timetable(self) -> Schedule:
        return Schedule(self.start, _span(self.every), self.count, None, self.zone)


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

    def as_json(self) -> dict[str, Any]:
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

    def as_json(self) -> dict[str, Any]:
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
    body: Mapping[str, Any]
    previous: str
    hash: str

    def as_json(self) -> dict[str, Any]:
        """The entry as `ledger --json` prints it."""
        return vars(self).copy()


@dataclass(frozen=True)
class Seal:
    """The seal of everything measured up to an instant; `time` is None in what the oldest stores wrote."""

    seq: int
    time: int | None
    hash: str


@dataclass(frozen=True)
class Document:
    """Everything in a public file but the readings and the seals."""

    about: About
    guarantee: Guarantee
    releases: tuple[ReleaseInfo, ...]
    ledger: tuple[LedgerEntry, ...]
    plan: Mapping[str, Any] = field(default_factory=dict)
    """What `plan --json` prints."""

    def release(self, name: str) -> ReleaseInfo | None:
        """The series of this name."""
        return next((one for one in self.releases if one.name == name), None)
