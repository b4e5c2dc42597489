"""What snapshots and history have in common: a table that is read whole, and an image of it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tidegauge.errors import SourceError, SpecError
from tidegauge.model.source import Check, FollowedSource
from tidegauge.source.batch.names import quote
from tidegauge.source.batch.position import Position
from tidegauge.source.snapshots.images import Images, Pictured

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from tidegauge.source.snapshots.readers import Reader


@dataclass(frozen=True)
class Place(Position):
    """The image that was last delivered, and its time."""

    SOURCE: ClassVar[str] = "a source of snapshots"

    generation: int
    time: int


class WholeTable(FollowedSource):
    """A table that is read whole.  `folder` keeps an image of it, beside the store and as secret."""

    def __init__(
        self, reader: Reader, *, entry: str | Sequence[str], folder: str | Path, unit: str | None
    ) -> None:
        self._reader = reader
        self._entry = (entry,) if isinstance(entry, str) else tuple(entry)
        if not self._entry:
            raise SpecError("name the columns of the primary key", key="source.key")
        self._unit = unit
        self._images = Images(folder)
        self._selected: frozenset[str] | None = None

    @property
    def table(self) -> str:
        """The table's name in SQL."""
        return self._reader.table

    @property
    def columns(self) -> Mapping[str, str]:
        """The table's columns as they are now, without those that only this source reads."""
        return self._without_extra(self._reader.columns)

    @property
    @abstractmethod
    def _extra(self) -> tuple[str, ...]:
        """Columns that the source reads and does not deliver."""

    def _without_extra(self, columns: Mapping[str, str]) -> dict[str, str]:
        return {name: kind for name, kind in columns.items() if name not in self._extra}

    def select(self, columns: Collection[str]) -> None:
        """Deliver these columns only."""
        self._selected = frozenset(columns)

    def doctor(self, position: str | None = None) -> list[Check]:  # noqa: ARG002
        """Whether the table can be read and has its columns."""
        try:
            self._kinds()
        except SourceError as refusal:
            return [Check("table", ok=False, detail=str(refusal))]
        return [Check("table", ok=True, detail=f"{quote(self.table)} can be read")]

    def rehearse(self) -> None:
        """Read the table once."""
        for _ in self._scan(Pictured(self._kinds(), self._entry, self._unit)):
            pass

    @abstractmethod
    def _scan(self, pictured: Pictured) -> Iterator[list[pa.Array]]:
        """All rows as the source reads them."""

    def _kinds(self) -> dict[str, str]:
        """The delivered columns and their types.  Raises SourceError where a column is missing."""
        columns, chosen = self._reader.columns, self._selected
        needed = [*self._entry, *self._extra, *([self._unit] if self._unit else []), *sorted(chosen or ())]
        if missing := [name for name in needed if name not in columns]:
            raise SourceError(
                f"{quote(self.table)} has no column {', '.join(map(quote, missing))}: it was dropped or renamed, "
                "or never there. Nothing was read."
            )
        kept = {name: kind for name, kind in columns.items() if chosen is None or name in chosen}
        return self._without_extra(kept)

    def acknowledge(self, position: str) -> None:
        """Remove the images before this one."""
        self._images.forget(Place.parse(position).generation)
