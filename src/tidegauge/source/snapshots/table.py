"""The common part of snapshots and history tables: a table that is read whole, and an image of it."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from tidegauge.errors import SourceError, SpecError
from tidegauge.model.source import Check, FollowedSource
from tidegauge.source.batch.names import quote
from tidegauge.source.files.unread import unread_check
from tidegauge.source.snapshots.images import Images, Pictured
from tidegauge.source.snapshots.place import Place
from tidegauge.source.snapshots.text import TextReader

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from tidegauge.source.snapshots.readers import Reader


class WholeTable(FollowedSource):
    """A table that is read whole.  `folder` keeps an image of it, beside the store and as secret."""

    def __init__(
        self, reader: Reader, *, key: str | Sequence[str], folder: str | Path, unit: str | None
    ) -> None:
        self._reader = reader
        self._text = reader if isinstance(reader, TextReader) else None
        self._key = (key,) if isinstance(key, str) else tuple(key)
        if not self._key:
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
        """The present columns of the table, without those that only this source reads."""
        columns = self._reader.columns
        self._require(self._named, columns)
        return self._without_extra(columns)

    @property
    def _named(self) -> list[str]:
        """The columns that the declaration names for the source itself."""
        return [*self._key, *self._extra, *([self._unit] if self._unit else [])]

    @property
    @abstractmethod
    def _extra(self) -> tuple[str, ...]:
        """Columns that the source reads and does not deliver."""

    def _without_extra(self, columns: Mapping[str, str]) -> dict[str, str]:
        return {name: kind for name, kind in columns.items() if name not in self._extra}

    def select(self, columns: Collection[str]) -> None:
        """Deliver these columns only."""
        self._selected = frozenset(columns)

    def doctor(self, position: str | None = None) -> list[Check]:
        """Whether the table can be read and has the declared columns, and which values do not parse."""
        try:
            kinds = self._kinds()
            if self._text is not None:
                for _ in self._scan(Pictured(kinds, self._key, self._unit)):
                    pass
        except SourceError as refusal:
            return [Check("table", ok=False, detail=str(refusal))]
        checks = [Check("table", ok=True, detail=f"{quote(self.table)} can be read")]
        if self._text is not None and self._text.unread:
            checks.append(unread_check(self._text.unread, first_run=position is None))
        return checks

    def rehearse(self) -> None:
        """Read the table once.  Raises SourceError if a row cannot be read or many values do not parse."""
        for _ in self._scan(Pictured(self._kinds(), self._key, self._unit)):
            pass
        if self._text is not None:
            self._text.require_readable()

    def _place(self, generation: int, time: int) -> Place:
        """The position after a read."""
        unread = {} if self._text is None else self._text.unread
        bad = {name: (one.values, one.of) for name, one in unread.items() if one.values}
        return Place(generation, time, bad)

    @abstractmethod
    def _scan(self, pictured: Pictured) -> Iterator[list[pa.Array]]:
        """All rows with the columns that the source reads."""

    def _kinds(self) -> dict[str, str]:
        """The delivered columns and their types.  Raises SourceError where a column is missing."""
        columns, chosen = self._reader.columns, self._selected
        self._require([*self._named, *sorted(chosen or ())], columns)
        kept = {name: kind for name, kind in columns.items() if chosen is None or name in chosen}
        return self._without_extra(kept)

    def _require(self, needed: Sequence[str], columns: Mapping[str, str]) -> None:
        if missing := [name for name in needed if name not in columns]:
            there = (
                "" if set(missing) == set(needed) else f"; the columns are {', '.join(map(quote, columns))}"
            )
            hint = None if self._text is None else self._text.delimiter_hint()
            raise SourceError(
                f"{quote(self.table)} has no column {', '.join(map(quote, missing))}{there}. "
                "Nothing was read. " + (hint or "Correct [source] or the SELECT.")
            )

    def acknowledge(self, position: str) -> None:
        """Remove the images before this one."""
        self._images.forget(Place.parse(position).generation)
