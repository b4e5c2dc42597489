"""Turns the messages of the stream into batches of whole transactions."""

from __future__ import annotations

import struct
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tidegauge.model.json import JsonObject
    from tidegauge.source.postgres.rows import Layout

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
        self.waiting: Sequence[bytes] = ()
        """Messages after the target; they begin with a transaction."""
        self.inside = False
        """Whether a transaction has begun and not ended."""
        self._layout = layout
        self._name = (schema_name, table)
        self._base_type = base_type
        self._time = 0
        self._fields: list[str] = []
        self._new = False
        self._messages: list[bytes] = []
        self._size = 0
        self._times: list[tuple[int, int]] = []
        self._spool = Spool(schema(layout.columns))

    def feed(self, messages: Sequence[bytes], target: int) -> Iterator[Batch]:
        """Take messages until they end, or until a transaction was committed at or after `target`.

        Yields a batch when it is full.
        """
        ours = struct.pack("!I", self._begin.relation)
        rows = frozenset((pgoutput.INSERT, pgoutput.UPDATE, pgoutput.DELETE))
        self.waiting = ()
        for index, message in enumerate(messages):
            kind = message[0]
            if kind in rows:
                if self._new and message[1:5] == ours:
                    self._append(message)
            elif kind == pgoutput.BEGIN:
                place, stamp = pgoutput.begin(message)
                if place >= target:
                    self.waiting = messages[index:]
                    return
                self.inside, self._new = True, place >= self._lsn
                if self._new:
                    if self.pending >= _BATCH:
                        yield self.batch(None)
                    self._time = stamp
                    self._times.append((len(self._messages), stamp))
            elif kind == pgoutput.COMMIT:
                self.inside = False
                if self._new:
                    self._lsn = pgoutput.commit(message)
            elif kind == pgoutput.RELATION:
                self._relation(pgoutput.relation(message))
            elif (
                kind == pgoutput.TRUNCATE
                and self._new
                and self._begin.relation in pgoutput.truncated(message)
            ):
                self._append(message)

    @property
    def place(self) -> Place:
        """Where the last whole transaction ended."""
        return replace(self._begin, lsn=self._lsn)

    @property
    def pending(self) -> int:
        """Number of rows that were collected and not yet delivered."""
        return self._spool.rows + len(self._messages)

    def batch(self, upto: int | None, reached: int = 0) -> Batch:
        """The rows collected so far, as whole transactions.

        reached: the log before this place has no other change of our table.
        """
        self._convert()
        self._lsn = max(self._lsn, reached)
        return Batch(rows=self._spool.take(), position=str(self.place), upto=upto)

    def _append(self, message: bytes) -> None:
        self._messages.append(message)
        self._size += len(message)
        if len(self._messages) >= _CHUNK or self._size >= _CHUNK_BYTES:
            self._convert()

    def _convert(self) -> None:
        """Convert messages to columns."""
        if self._messages:
            begins = np.array([begin for begin, _ in self._times] + [len(self._messages)])
            times = np.repeat(np.array([time for _, time in self._times]), np.diff(begins))
            self._spool.append(self._layout.changed(self._messages, times, self._fields))
        self._messages, self._size, self._times = [], 0, [(0, self._time)]

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
        if not all(fields[name].key for name in self._layout.entry):
            raise Changed(f"the replica identity of {named} no longer contains the key")
