"""A table that is read whole, every so often, and compared with how it was."""

from __future__ import annotations

import json
import time as clock
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from tidegauge.errors import SourceError, SpecError
from tidegauge.model.mutation import Batch
from tidegauge.model.quantity import Span
from tidegauge.model.source import Check, FollowedSource
from tidegauge.source.batch.names import quote
from tidegauge.source.batch.rows import schema
from tidegauge.source.snapshots.images import Images, Pictured

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from tidegauge.source.snapshots.readers import Reader


@dataclass(frozen=True)
class Place:
    """The image that was last delivered, and its time."""

    generation: int
    time: int

    @classmethod
    def parse(cls, position: str) -> Place:
        """Read a stored position."""
        try:
            return cls(**json.loads(position))
        except (TypeError, ValueError):
            raise SourceError("the stored position is not one of a source of snapshots") from None

    def __str__(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))


def wall_clock() -> int:
    """Microseconds since the epoch."""
    return clock.time_ns() // 1000


def used(reader: Reader, selected: frozenset[str] | None, needed: Sequence[str]) -> dict[str, str]:
    """The delivered columns and their types; every needed one must be there."""
    columns = reader.columns
    if missing := [name for name in (*needed, *sorted(selected or ())) if name not in columns]:
        raise SourceError(
            f"{quote(reader.table)} has no column {', '.join(map(quote, missing))}: it was dropped or renamed, or never there. "
            "Nothing was read."
        )
    return {name: kind for name, kind in columns.items() if selected is None or name in selected}


class Snapshots(FollowedSource):
    """Compares a table with its last image; what happened in between and was undone is not seen.

    `folder` keeps the images, beside the store and as secret; `every` is the time from one look to the next (at every
    read, if not given).  A change counts from the moment it is seen.
    """

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
        self._reader = reader
        self._entry = (entry,) if isinstance(entry, str) else tuple(entry)
        if not self._entry:
            raise SpecError("name the columns of the primary key", key="source.entry")
        self._unit = unit
        self._images = Images(folder)
        self._every = None if every is None else Span.parse(every)
        self._now = now
        self._selected: frozenset[str] | None = None

    @property
    def table(self) -> str:
        """The table's name in SQL."""
        return self._reader.table

    @property
    def columns(self) -> Mapping[str, str]:
        """The table's columns as they are now."""
        return self._reader.columns

    def select(self, columns: Collection[str]) -> None:
        """Look at these columns only."""
        self._selected = frozenset(columns)

    def doctor(self, position: str | None = None) -> list[Check]:  # noqa: ARG002
        """Whether the table can be read."""
        try:
            self._kinds()
        except SourceError as refusal:
            return [Check("table", ok=False, detail=str(refusal))]
        return [Check("table", ok=True, detail=f"{quote(self.table)} can be read")]

    def rehearse(self) -> None:
        """Read the table once."""
        pictured = Pictured(self._kinds(), self._entry, self._unit)
        for _ in self._reader.scan(pictured.text, pictured.kinds):
            pass

    def _kinds(self) -> dict[str, str]:
        return used(self._reader, self._selected, [*self._entry, *([self._unit] if self._unit else [])])

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

    def acknowledge(self, position: str) -> None:
        """Forget the images before this one."""
        self._images.forget(Place.parse(position).generation)
