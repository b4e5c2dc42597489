"""A table that is read whole at intervals and compared with its last image."""

from __future__ import annotations

import time as clock
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegauge.model.mutation import Batch
from tidegauge.model.quantity import Span
from tidegauge.source.batch.rows import schema
from tidegauge.source.snapshots.images import Pictured, require_keys, workshop
from tidegauge.source.snapshots.place import Place
from tidegauge.source.snapshots.table import WholeTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tidegauge.source.snapshots.readers import Reader


def wall_clock() -> int:
    """Microseconds since the epoch."""
    return clock.time_ns() // 1000


class Snapshots(WholeTable):
    """Compares a table with its last image; a change that was undone in between is not seen.

    `every` is the time from one read of the table to the next; without it, every read of the gauge reads the
    table.  A change counts from the moment at which it is seen.
    """

    _extra = ()

    def __init__(
        self,
        reader: Reader,
        *,
        key: str | Sequence[str],
        folder: str | Path,
        unit: str | None = None,
        every: str | None = None,
        now: Callable[[], int] = wall_clock,
    ) -> None:
        super().__init__(reader, key=key, folder=folder, unit=unit)
        self._every = None if every is None else Span.parse(every)
        self._now = now

    def _scan(self, pictured: Pictured) -> Iterator[list[pa.Array]]:
        return self._reader.scan(pictured.text, pictured.kinds)

    def rehearse(self) -> None:
        """Read the table once.  Raises also if two rows have the same key."""
        super().rehearse()
        pictured = Pictured({}, self._key, None)
        with workshop() as db:
            db.execute("CREATE TABLE keys (e VARCHAR)")
            for arrays in self._reader.scan(self._key, {}):
                db.register("chunk", pa.table({"e": pictured.arrays(arrays)[0]}))
                db.execute("INSERT INTO keys SELECT e FROM chunk WHERE e <> ''")
            require_keys(db, "keys", self._key)

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        """The differences from the last image, if a new one is due."""
        place = None if position is None else Place.parse(position)
        old = self._images.path(place.generation) if place else None
        pictured = Pictured(self._kinds(), self._key, self._unit, old)
        if place and self._every and self._every.after(place.time) > until:
            yield Batch(schema(pictured.kinds).empty_table(), until, str(place))
            return
        generation = place.generation + 1 if place else 1
        pictured.take(self._reader, self._images, generation)
        at = min(self._now(), until)
        rows = pictured.changes(old, self._images.path(generation), at)
        yield Batch(rows, until, str(self._place(generation, at)))
