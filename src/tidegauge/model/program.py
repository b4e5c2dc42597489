"""What an engine has to do: the releases, and whose changes of which view are limited together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tidegauge.model.query import Query
from tidegauge.model.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    Record = list[Any]
    """What is known of a key that rows were renamed from or to; see tidegauge.engine.duckdb.identity."""


@dataclass(frozen=True)
class Release:
    """A query and when it is read; `clip` is the most mutations of a unit that count in one bin of a flow."""

    name: str
    query: Query
    schedule: Schedule
    clip: int | None = None


@dataclass(frozen=True)
class Limit:
    """What one unit may do: `at_most` mutations, all not later than `within` microseconds after the first."""

    at_most: int | None = None
    within: int | None = None


@dataclass(frozen=True)
class Scope:
    """Releases whose joint view of a unit is limited together.

    Without `by` there is one limit, under the label None.  With it, a unit obeys the limit that the column's
    value names when the unit first enters; a unit whose label is not declared never counts.
    """

    releases: tuple[str, ...]
    limits: tuple[tuple[str | None, Limit], ...]
    by: str | None = None
    retire: bool = False


@dataclass(frozen=True)
class Program:
    """Everything an engine needs to enforce and fold; `max_rows` is None where the unit is the row itself."""

    releases: tuple[Release, ...]
    scopes: tuple[Scope, ...]
    max_rows: int | None = None
    owner: str | None = None
    """The column that names the unit, where it is not the row itself."""
    partial: tuple[tuple[str, int], ...] = ()
    """Columns that the source may leave out of a new row if they did not change, from how many bytes on."""

    @property
    def used(self) -> set[str]:
        """The columns that some query or constraint speaks of."""
        used = {name for one in self.releases for name in (*one.query.before, *one.query.after)}
        return used | {scope.by for scope in self.scopes if scope.by is not None}


@dataclass(frozen=True)
class Total:
    """The exact change of one cell in one bin."""

    release: str
    component: int
    bin: int
    cell: int
    amount: int


@dataclass(frozen=True)
class Arrived:
    """What became of a batch when it arrived, all of it secret."""

    counts: dict[str, int]
    """What did not count and why, for the operator alone."""
    keys: dict[str, Record | None]
    """New records of keys; None: the key has none any more."""


@dataclass(frozen=True)
class Folded:
    """What the changes of some units led to, all of it secret."""

    totals: list[Total]
    entries: pa.Table
    """New state of the rows that changed and are alive."""
    gone: pa.Table
    """Rows that were deleted: the columns of `entries` that name a row (`entry`, and `unit` where declared)."""
    units: pa.Table
    """New counters of the units that changed."""
    used: pa.Table
    """How much of a flow's clip each unit has used in its open bin."""
    counts: dict[str, int]
    """What did not count and why, for the operator alone."""


class State(Protocol):
    """What an engine asks of the store; every answer has the columns that the engine declared."""

    def entries(self, names: Sequence[str]) -> pa.Table:
        """The rows with these names that are alive."""
        ...

    def all_entries(self) -> pa.Table:
        """Every row that is alive."""
        ...

    def entries_of(self, units: Sequence[str]) -> pa.Table:
        """All living rows of these units."""
        ...

    def units(self, units: Sequence[str]) -> pa.Table:
        """The counters of these units, in all scopes."""
        ...

    def used(self, units: Sequence[str]) -> pa.Table:
        """The clips these units have used."""
        ...

    def expiring(self, upto: int) -> list[str]:
        """Units that must leave by this instant."""
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
