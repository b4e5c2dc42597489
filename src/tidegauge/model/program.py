"""The program of an engine: releases, and the constraint that holds for each scope of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from tidegauge.model.query import Query
from tidegauge.model.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import pyarrow as pa

    Record = list[Any]
    """The rows at a key that was renamed from or to; see tidegauge.engine.duckdb.identity."""
    Texts: TypeAlias = Sequence[str] | pa.Array | pa.ChunkedArray
    """Names of rows or units."""


@dataclass(frozen=True)
class Release:
    """A query and its schedule.  `clip`: the most changes of a unit that count in one bin of a flow."""

    name: str
    query: Query
    schedule: Schedule
    clip: int | None = None


@dataclass(frozen=True)
class Allowance:
    """At most `at_most` changes of a unit, none later than `within` microseconds after the first."""

    at_most: int | None = None
    within: int | None = None


@dataclass(frozen=True)
class Scope:
    """Releases whose changes of a unit are counted together.

    Without `by` there is one allowance, under the label None.  With `by`, the value of this column at the
    unit's first change (or of its first row when a term begins) names the unit's allowance for its whole
    lifetime (or term).  A unit whose label is not declared never counts.
    """

    releases: tuple[str, ...]
    allowances: tuple[tuple[str | None, Allowance], ...]
    by: str | None = None
    retire: bool = False


@dataclass(frozen=True)
class Program:
    """Everything that an engine enforces and folds.  `max_rows` is None where the unit is the row itself."""

    releases: tuple[Release, ...]
    scopes: tuple[Scope, ...]
    max_rows: int | None = None
    owner: str | None = None
    """The column that names the unit, where it is not the row itself."""
    partial: tuple[tuple[str, int], ...] = ()
    """Columns that the source may leave out of a new row if they did not change, each with the length
    in bytes of the shortest value that it leaves out."""
    terms: Schedule | None = None
    """When constraints renew: a term begins at each reading of this schedule.  None: they never do."""
    keeps: tuple[str, ...] = ()
    """Columns whose values the state keeps, so that releases can be added that use them."""
    labels: tuple[str, ...] = ()
    """The columns that name allowances, in the order in which the state numbers them; empty: by name."""

    @property
    def used(self) -> set[str]:
        """The columns that a query or a constraint uses."""
        used = {name for one in self.releases for name in (*one.query.before, *one.query.after)}
        return used | {scope.by for scope in self.scopes if scope.by is not None}

    def wanted(self, columns: Collection[str]) -> set[str]:
        """The columns that a source with these columns delivers: used, or kept if they are still there."""
        return self.used | {name for name in self.keeps if name in columns}


class Total(NamedTuple):
    """The exact change of one cell in one bin."""

    release: str
    component: int
    bin: int
    cell: int
    amount: int


@dataclass(frozen=True)
class Arrived:
    """The result of an arrival, all of it secret."""

    counts: dict[str, int]
    """How many changes did not count, by reason; for the operator alone."""
    keys: dict[str, Record | None]
    """New records of keys; None: the record is deleted."""


@dataclass(frozen=True)
class Folded:
    """The result of folding the changes of some units, all of it secret."""

    totals: list[Total]
    entries: pa.Table
    """New state of the rows that changed and still exist."""
    gone: pa.Table
    """The names of deleted rows: `entry`, and `unit` where `entries` has this column."""
    units: pa.Table
    """New counters of the units that changed."""
    used: pa.Table
    """How much of a flow's clip each unit has used in its open bin."""
    counts: dict[str, int]
    """How many changes did not count, by reason; for the operator alone."""
    dropped: Sequence[Total] = ()
    """Per cell and bin the true change less the accepted one, exactly."""


class State(Protocol):
    """The stored state as an engine reads it.  Every table has the columns that the engine declared."""

    @property
    def watermark(self) -> int:
        """The end of the last measured bin: no change takes effect before it."""
        ...

    def entries(self, names: Texts) -> pa.Table:
        """The rows with these names that exist."""
        ...

    def all_entries(self) -> pa.Table:
        """Every row that exists."""
        ...

    def entries_of(self, units: Texts) -> pa.Table:
        """All rows of these units."""
        ...

    def units(self, units: Texts) -> pa.Table:
        """The counters of these units, in all scopes."""
        ...

    def used(self, units: Texts) -> pa.Table:
        """The clips these units have used."""
        ...

    def expiring(self, upto: int) -> pa.Array:
        """Units that must leave by this instant, as texts."""
        ...

    def waiting(self) -> Iterator[pa.Table]:
        """The changes that have arrived and have not taken effect."""
        ...

    def keys(self, names: Sequence[str] | None) -> dict[str, Record]:
        """The records of those keys (None: of all) that have one."""
        ...

    def any_keys(self) -> bool:
        """Whether any key has a record."""
        ...
