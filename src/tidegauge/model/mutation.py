"""The changelog: what a source delivers and every engine reads.

A batch is an Arrow table in order of arrival with the columns

    time     int64    microseconds since the epoch, not null
    entry    string   the row's key, not null
    unit     string   what privacy protects; null where it is the entry itself
    before   struct   the old row, null for an insertion or where the source does not know it
    after    struct   the new row, null for a deletion
    informed bool     whether `before` was delivered (an insertion says so with a null)

and, where a source has something to say by them,

    previous string         the key that the row had before this mutation renamed it, null elsewhere: what is known of
                            the entry `previous` (its state; its counters, where it is its own unit) goes on as `entry`,
                            and there is no entry `previous` any more
    kept     list<string>   names of fields of `after` that the source did not deliver because they did not change (null
                            in `after`): each is as the entry had it just before, in this batch or in the state

A deletion, or a mutation whose unit column was kept, has a null unit: the entry's unit is then the one in the state.
A row whose entry is null is a truncation: at this time every entry that is alive in the state, or came alive earlier in
this batch, is deleted; its other columns are null, `informed` is false.  A truncation followed, at the same time, by the
whole table is how a source that lost its place delivers the difference: only the net effect counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    import pyarrow as pa


@dataclass(frozen=True)
class Batch:
    """Mutations, and how far the source has now come."""

    rows: pa.Table
    upto: int | None
    """Every mutation up to this instant has been delivered; later news about it is late.  None: nothing is complete yet."""
    position: str
    """Where the source goes on after this batch; opaque, stored with what the batch led to."""


class Source(Protocol):
    """Rows change -> mutations."""

    @property
    def table(self) -> str:
        """The table's name in SQL."""
        ...

    @property
    def columns(self) -> Mapping[str, str]:
        """Public schema: column name -> SQL type of the embedded engine ('VARCHAR' where nothing was declared)."""
        ...

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        """Yield what follows `position` with times up to `until`, in batches that never split one instant.

        Times do not fall from one batch to the next, except for late news, which may come in any batch.
        The last batch has `upto == until` and may be empty.

        Without a position a live source delivers the table as it stands, as insertions at that moment, or at `until`
        where this is earlier: how the table stood before, it cannot tell.
        """
        ...


class Live:
    """What a source has besides that holds on to something elsewhere; a source without it needs none of it."""

    leaves_out: int | None = None
    """From how many bytes on a value that did not change may be missing from a new row (`kept`); None: never."""

    def select(self, columns: Collection[str]) -> None:
        """Tell, before the first read, which columns are used; the others may change as they like."""

    def acknowledge(self, position: str) -> None:
        """Tell that everything up to this position is committed: what was held for it may be let go."""

    def close(self) -> None:
        """Let go of connections and files; the next read opens them again."""
