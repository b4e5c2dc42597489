"""The changelog: what a source delivers and every engine reads.

A batch is an Arrow table in order of arrival with the columns

    time     int64    microseconds since the epoch, not null
    entry    string   the row's key, not null
    unit     string   what privacy protects; null where it is the entry itself
    before   struct   the old row, null for an insertion or where the source does not know it
    after    struct   the new row, null for a deletion
    informed bool     whether `before` was delivered (an insertion says so with a null)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa


@dataclass(frozen=True)
class Batch:
    """Mutations, and how far the source has now come."""

    rows: pa.Table
    upto: int
    """Every mutation up to this instant has been delivered; later news about it is late."""
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
        """
        ...
