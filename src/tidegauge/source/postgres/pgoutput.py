"""The messages of PostgreSQL's pgoutput, protocol 1.  Many messages are decoded at once, column by column.

Every row message has a letter, the relation's number, and one or two tuples.  A tuple has a count and, for
each column, a letter; after the letter 't' come a length and text.  Where a column begins depends on the
lengths of the columns before it, so the decoder goes from column to column.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from tidegauge.errors import SourceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.source.postgres.messages import Letters, Messages, Places

    Flags = NDArray[np.bool_]

BEGIN, COMMIT, RELATION, TRUNCATE = b"BCRT"
INSERT, UPDATE, DELETE = b"IUD"
_OLD_KEY, _OLD_ROW = b"KO"
_NULL, _UNCHANGED, _TEXT = b"nut"
_POSTGRES_EPOCH: Final = 946_684_800_000_000
_LONG: Final = 100
"""From this average number of bytes on, copying whole values is faster than copying single bytes."""


@dataclass(frozen=True)
class Field:
    """A column in the log.  `key`: whether it is part of the replica identity."""

    name: str
    type: int
    modifier: int
    key: bool


@dataclass(frozen=True)
class Relation:
    """A table as the following messages of the log describe it."""

    oid: int
    schema: str
    name: str
    fields: tuple[Field, ...]


def relation(message: bytes) -> Relation:
    """Read a Relation message."""
    (oid,) = struct.unpack_from("!I", message, 1)
    schema, name, rest = message[5:].split(b"\0", 2)
    (count,) = struct.unpack_from("!H", rest, 1)
    at, fields = 3, []
    for _ in range(count):
        end = rest.index(0, at + 1)
        kind, modifier = struct.unpack_from("!Ii", rest, end + 1)
        fields.append(Field(rest[at + 1 : end].decode(), kind, modifier, bool(rest[at] & 1)))
        at = end + 9
    return Relation(oid, schema.decode() or "pg_catalog", name.decode(), tuple(fields))


def begin(message: bytes) -> tuple[int, int]:
    """The place of a transaction's commit in the log, and its time (microseconds since 1970)."""
    place, stamp = struct.unpack_from("!Qq", message, 1)
    return place, stamp + _POSTGRES_EPOCH


def commit(message: bytes) -> int:
    """The place in the log after the transaction."""
    return int(struct.unpack_from("!Q", message, 10)[0])


def truncated(message: bytes) -> tuple[int, ...]:
    """The relations that a Truncate message empties."""
    (count,) = struct.unpack_from("!I", message, 1)
    return struct.unpack_from(f"!{count}I", message, 6)


@dataclass(frozen=True)
class Tuples:
    """One tuple of each message, or none; arrays are [column, message]."""

    data: Letters
    kinds: Letters
    starts: Places
    lengths: Places

    def unchanged(self, column: int) -> Flags:
        """Where the server left the value out because it had not changed."""
        flags: Flags = self.kinds[column] == _UNCHANGED
        return flags

    def filled_from(self, other: Tuples, here: Flags) -> Tuples:
        """Take unchanged values from the other tuple, in the messages where that tuple is a whole row."""
        take = (self.kinds == _UNCHANGED) & here
        return Tuples(
            self.data,
            np.where(take, other.kinds, self.kinds),
            np.where(take, other.starts, self.starts),
            np.where(take, other.lengths, self.lengths),
        )

    def text(self, column: int) -> pa.Array:
        """A column's text; null where it is null, unchanged, or there is no tuple."""
        lengths, starts = self.lengths[column], self.starts[column]
        ends = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=ends[1:])
        valid = np.packbits(self.kinds[column] == _TEXT, bitorder="little")
        if ends[-1] < _LONG * len(lengths):
            text = pa.py_buffer(self.data[np.arange(ends[-1]) + np.repeat(starts - ends[:-1], lengths)])
        else:
            cuts = zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
            data = self.data.tobytes()
            text = pa.py_buffer(b"".join([data[start:end] for start, end in cuts]))
        return pa.Array.from_buffers(
            pa.string(), len(lengths), [pa.py_buffer(valid), pa.py_buffer(ends.astype(np.int32)), text]
        )


@dataclass(frozen=True)
class Changes:
    """Row messages of one relation: the kind of each change, and its old and new tuple."""

    letters: Letters
    old: Tuples
    new: Tuples
    old_is_row: Flags
    """Where the old tuple is the whole row and not just its key."""
    old_is_key: Flags

    def keyed(self) -> Changes:
        """The same changes, but only the key is taken from old tuples."""
        return replace(
            self, old_is_row=np.zeros_like(self.old_is_row), old_is_key=self.old_is_key | self.old_is_row
        )


def rows_of(messages: Messages, relation: int) -> Flags:
    """Which messages change rows of this relation."""
    data, letters = messages.data, messages.letters
    flags: Flags = (letters == INSERT) | (letters == UPDATE) | (letters == DELETE)
    flags &= _number(data, np.where(flags, messages.starts + 1, 0), 4) == relation
    for index in np.flatnonzero(letters == TRUNCATE).tolist():
        flags[index] = relation in truncated(messages[index])
    return flags


def decode(messages: Messages, fields: int) -> Changes:
    """Decode Insert, Update, Delete and Truncate messages of a relation with this many columns."""
    data, starts = messages.data, messages.starts
    letters = data[starts]
    marks = np.where(letters == TRUNCATE, 0, data[starts + 5])
    old_is_row, old_is_key = marks == _OLD_ROW, marks == _OLD_KEY
    has_old = old_is_row | old_is_key
    old, behind = _walk(data, starts + 6, has_old, fields)
    # After an old tuple, the new tuple begins with a letter of its own.
    new_starts = np.where(has_old, behind + 1, starts + 6)
    new, _ = _walk(data, new_starts, (letters == INSERT) | (letters == UPDATE), fields)
    return Changes(letters, old, new, old_is_row, old_is_key)


def _walk(data: Letters, at: Places, here: Flags, fields: int) -> tuple[Tuples, Places]:
    """Read the tuples that begin at these places, in the messages that have one; also return their ends."""
    at = np.where(here, at, 0)
    if np.any(here & (_number(data, at, 2) != fields)):
        raise SourceError(
            "a row of the change stream does not have the columns that were announced for it. "
            "Nothing of it was "
            'read. Run again; if that does not help, read the table whole: [source] on_lost = "reload"'
        )
    where, count = at.copy(), len(at)
    where[here] += 2
    kinds = np.zeros((fields, count), np.uint8)
    starts, lengths = np.zeros((fields, count), np.int64), np.zeros((fields, count), np.int64)
    for column in range(fields):
        kinds[column] = np.where(here, data[where], 0)
        is_text = kinds[column] == _TEXT
        lengths[column] = np.where(is_text, _number(data, where + 1, 4), 0)
        starts[column] = where + 5
        where += here * 1 + is_text * (4 + lengths[column])
    return Tuples(data, kinds, starts, lengths), where


def _number(data: Letters, at: Places, size: int) -> Places:
    """Big-endian numbers at these places."""
    value = np.zeros(len(at), np.int64)
    for place in range(size):
        value = value << 8 | data[at + place]
    return value
