"""Turns the messages of the stream into batches of whole transactions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from tidegauge.model.json import as_list, as_object, as_text, as_whole
from tidegauge.model.mutation import Batch
from tidegauge.source.batch.names import quote
from tidegauge.source.batch.position import Position
from tidegauge.source.batch.rows import schema
from tidegauge.source.batch.spool import Spool
from tidegauge.source.postgres import pgoutput
from tidegauge.source.postgres.catalog import Changed, sql_type
from tidegauge.source.postgres.messages import NONE, Messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from tidegauge.model.json import JsonObject
    from tidegauge.source.postgres.rows import Layout

_CONTROL: Final = np.array([pgoutput.BEGIN, pgoutput.COMMIT, pgoutput.RELATION], np.uint8)
_CHUNK: Final = 16384
_CHUNK_BYTES: Final = 32 << 20
_BATCH: Final = 200_000


@dataclass(frozen=True)
class Place(Position):
    """A position in the log of a server, and the types that the needed columns have there."""

    SOURCE: ClassVar[str] = "a PostgreSQL source"

    lsn: int
    system: str
    relation: int
    columns: dict[str, list[int]]

    @classmethod
    def from_stored(cls, stored: JsonObject) -> Place:
        """The position with these fields; older ones also have a time, which is not needed."""
        columns = as_object(stored["columns"]).items()
        return cls(
            lsn=as_whole(stored["lsn"]),
            system=as_text(stored["system"]),
            relation=as_whole(stored["relation"]),
            columns={name: [as_whole(part) for part in as_list(kind)] for name, kind in columns},
        )


class _Held:
    """Our rows among some messages, and the times of their transactions."""

    def __init__(self, messages: Messages, rows: NDArray[np.intp]) -> None:
        self._messages, self._rows = messages, rows
        self._at = self.count = 0
        self._runs: list[tuple[int, int, int]] = []

    def advance(self, stop: int, time: int | None) -> None:
        """Take the rows before this place with this time; None: pass over them."""
        if stop > self._at:
            if time is not None:
                self._runs.append((self._at, stop, time))
                self.count += stop - self._at
            self._at = stop

    def take(self) -> tuple[Messages, NDArray[np.int64]]:
        """The rows that were taken since the last call, and their times."""
        begins, ends, times = np.array(self._runs, np.int64).reshape(-1, 3).T
        counts = ends - begins
        places = np.arange(self.count) + np.repeat(begins - np.cumsum(counts) + counts, counts)
        self._runs, self.count = [], 0
        return self._messages.at(self._rows[places]), np.repeat(times, counts)


class Transactions:
    """Collects the rows of our table from `place` on.  Transactions that were stored before are skipped.

    One chunk of messages is in memory.  Rows become columns, and go to disk if a transaction is large.
    """

    def __init__(
        self,
        layout: Layout,
        place: Place,
        *,
        schema_name: str,
        table: str,
        base_type: Callable[[int, int], tuple[int, int]],
    ) -> None:
        self._begin = place
        self._lsn = place.lsn
        self.waiting = NONE
        """Messages after the target; they begin with a transaction."""
        self.inside = False
        """Whether a transaction has begun and not ended."""
        self._layout = layout
        self._name = (schema_name, table)
        self._base_type = base_type
        self._time = 0
        self._fields: list[str] = []
        self._new = False
        self._parts: list[Messages] = []
        self._times: list[NDArray[np.int64]] = []
        self._count = self._size = 0
        self._spool = Spool(schema(layout.columns))

    def feed(self, messages: Messages, target: int) -> Iterator[Batch]:
        """Take messages until they end, or until a transaction was committed at or after `target`.

        Yields a batch when it is full.
        """
        self.waiting = NONE
        letters = messages.letters
        control = np.flatnonzero(np.isin(letters, _CONTROL))
        rows = np.flatnonzero(pgoutput.rows_of(messages, self._begin.relation))
        behind = np.searchsorted(rows, control)
        held = _Held(messages, rows)
        for index, kind, stop in zip(
            control.tolist(), letters[control].tolist(), behind.tolist(), strict=True
        ):
            held.advance(stop, self._time if self._new else None)
            if kind == pgoutput.BEGIN:
                place, stamp = pgoutput.begin(messages[index])
                if place >= target:
                    self.waiting = messages.since(index)
                    self._hold(held)
                    return
                self.inside, self._new = True, place >= self._lsn
                if self._new:
                    self._time = stamp
                    if self.pending + held.count >= _BATCH:
                        self._hold(held)
                        yield self.batch(None)
            elif kind == pgoutput.COMMIT:
                self.inside = False
                if self._new:
                    self._lsn = pgoutput.commit(messages[index])
            else:
                self._hold(held)
                self._relation(pgoutput.relation(messages[index]))
        held.advance(len(rows), self._time if self._new else None)
        self._hold(held)

    @property
    def place(self) -> Place:
        """Where the last whole transaction ended."""
        return replace(self._begin, lsn=self._lsn)

    @property
    def pending(self) -> int:
        """Number of rows that were collected and not yet delivered."""
        return self._spool.rows + self._count

    def batch(self, upto: int | None, reached: int = 0) -> Batch:
        """The rows collected so far, as whole transactions.

        reached: the log before this place has no other change of our table.
        """
        self._convert()
        self._lsn = max(self._lsn, reached)
        return Batch(rows=self._spool.take(), position=str(self.place), upto=upto)

    def _hold(self, held: _Held) -> None:
        """Keep these rows until there are enough to be converted."""
        rows, times = held.take()
        if not len(rows):
            return
        self._parts.append(rows)
        self._times.append(times)
        self._count += len(rows)
        self._size += len(rows.content)  # it stays in memory, with rows of other tables
        if self._count >= _CHUNK or self._size >= _CHUNK_BYTES:
            self._convert()

    def _convert(self) -> None:
        """Convert messages to columns."""
        if self._count:
            rows, times = Messages.joined(self._parts), np.concatenate(self._times)
            self._spool.append(self._layout.changed(rows, times, self._fields))
        self._parts, self._times, self._count, self._size = [], [], 0, 0

    def _relation(self, found: pgoutput.Relation) -> None:
        """Take over the table's columns.  Raises Changed if the table or a needed column is another one."""
        named = quote(self._name[0]) + "." + quote(self._name[1])
        if (found.oid == self._begin.relation) != ((found.schema, found.name) == self._name):
            raise Changed(f"the table {named} was renamed or replaced by another")
        if found.oid != self._begin.relation:
            return
        self._convert()
        self._fields = [field.name for field in found.fields]
        fields = {field.name: field for field in found.fields}
        for name, (oid, modifier) in self._begin.columns.items():
            if name not in fields:
                raise Changed(
                    f"the column {quote(name)} of {named} was dropped or renamed, or is no longer published"
                )
            now = self._base_type(fields[name].type, fields[name].modifier)
            if now[0] != oid or sql_type(*now) != sql_type(oid, modifier):
                raise Changed(f"the column {quote(name)} of {named} has another type now")
        if not all(fields[name].key for name in self._layout.key):
            raise Changed(f"the replica identity of {named} no longer contains the key")
