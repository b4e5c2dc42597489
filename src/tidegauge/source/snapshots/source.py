"""A table that is read whole, every so often, and compared with how it was."""

from __future__ import annotations

import time as clock
from typing import TYPE_CHECKING

from tidegauge.model.mutation import Batch
from tidegauge.model.quantity import Span
from tidegauge.source.batch.rows import schema
from tidegauge.source.snapshots.images import Pictured
from tidegauge.source.snapshots.table import Place, WholeTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

    from tidegauge.source.snapshots.readers import Reader


def wall_clock() -> int:
    """Microseconds since the epoch."""
    return clock.time_ns() // 1000


class Snapshots(WholeTable):
    """Compares a table with its last image; what happened in between and was undone is not seen.

    `every` is the time from one look to the next (at every read, if not given).  A change counts from the moment it
    is seen.
    """

    _extra = ()

    def __init__(
        self,
        reader: Reader,
        *,
        entry: str | Sequence[str],
        folder: str | Path,
        unit: str | None = None,
        every: str | None = None,
        now: Callable[[], int] = wall_clock,
    ) -> None:
        super().__init__(reader, entry=entry, folder=folder, unit=unit)
        self._every = None if every is None else Span.parse(every)
        self._now = now

    def _scan(self, pictured: Pictured) -> Iterator[list[pa.Array]]:
        return self._reader.scan(pictured.text, pictured.kinds)

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        """The differences since the last image, where a new one is due."""
        place = None if position is None else Place.parse(position)
        old = self._images.path(place.generation) if place else None
        pictured = Pictured(self._kinds(), self._entry, self._unit, old)
        if place and self._every and self._every.after(place.time) > until:
            yield Batch(schema(pictured.kinds).empty_table(), until, str(place))
            return
        generation = place.generation + 1 if place else 1
        pictured.take(self._reader, self._images, generation)
        at = min(self._now(), until)
        rows = pictured.changes(old, self._images.path(generation), at)
        yield Batch(rows, until, str(Place(generation, at)))
