"""The changelog: the changes that a source delivers and every engine reads.

A batch is an Arrow table in the order of the source's log with the columns

    time     int64    the row's own time stamp, microseconds since the epoch, not null
    entry    string   the row's key, not null
    unit     string   what privacy protects; null where it is the row itself
    before   struct   the old row, null for an insertion or where the source does not know it
    after    struct   the new row, null for a deletion
    informed bool     whether `before` was delivered (an insertion says so with a null)

and, where a source needs them,

    previous string         the key that the row had before this change renamed it, null elsewhere
    kept     list<string>   fields of `after` that the source left out because they did not change.  They are
                            null in `after`; the value is that of the row's latest version in the log

A deletion, or a change whose unit column was kept, has a null unit: the unit is then the one that the row has
in the log. A change whose entry is null is a truncation: every row that exists at this place of the log is
deleted; its other columns are null, `informed` is false.  A truncation followed, at the same time, by the
whole table is how a source that lost its place delivers the difference: only the net effect counts.

docs/decisions/0013 says which row a change belongs to, and docs/decisions/0001 when it takes effect.  A
source that renames a row to the key of an existing row delivers the deletion of the existing row first, as a
change of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa


class RemoteRows:
    """Changes that lie where an engine computes and do not pass through this process.

    Source and engine agree on what they are: `OpenSource.engine` names the engine that takes them.
    """


@dataclass(frozen=True)
class Batch:
    """Changes, and how far the source has come.  The place where a batch is cut has no effect on readings."""

    rows: pa.Table
    upto: int | None
    """Every change up to this instant has been delivered; None: nothing is known to be complete yet."""
    position: str
    """Where the source goes on after this batch; opaque, stored with the changes of the batch."""
    remote: RemoteRows | None = None
    """The changes of the batch, if they are elsewhere; `rows` is empty then."""

    @property
    def places(self) -> int:
        """How many places of the log the batch takes up; changes that are elsewhere share one."""
        return self.rows.num_rows if self.remote is None else 1


class Source(Protocol):
    """Delivers the changes of one table."""

    @property
    def table(self) -> str:
        """The table's name in SQL."""
        ...

    @property
    def columns(self) -> Mapping[str, str]:
        """Public schema: column name -> SQL type of the embedded engine (by default 'VARCHAR')."""
        ...

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        """Yield the changes that follow `position`.  The last batch has `upto == until` and may be empty.

        A source that follows a log delivers everything that is in the log when it is called, in the log's
        order and whatever the time stamps; `upto` is None in every batch but the last.  A source that sorts
        delivers the rows with times up to `until` in order of time (rows that came too late first); `upto` is
        None or an instant up to which everything has been delivered.  Time stamps are never changed because
        of other rows.

        Without a position a live source delivers the table as it is, as insertions at that moment, or at
        `until` where this is earlier: it does not know how the table was before.
        """
        ...
