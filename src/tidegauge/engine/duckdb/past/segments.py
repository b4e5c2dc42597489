"""Segments: some blocks of divided changes in a file of pieces."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from tidegauge.model.history import Piece

_HEAD: Final = b"head"


@dataclass(frozen=True)
class Seen:
    """What was seen in some blocks besides their changes."""

    places: tuple[tuple[int, int], ...]
    """The first change of each block, and how many it has."""
    combinations: tuple[pa.Table, ...]
    """Of each block: its distinct rows, numbered."""
    earliest: int
    follow: bool
    """Whether digests follow from keys and used columns, as far as is known from these blocks."""

    @property
    def segment(self) -> memoryview:
        """Piece 0 of a segment."""
        said = {"places": self.places, "earliest": self.earliest, "follow": self.follow}
        table = pa.concat_tables(self.combinations)
        return packed(table.replace_schema_metadata({_HEAD: json.dumps(said)}))

    @classmethod
    def of(cls, segment: Piece) -> Seen:
        """From piece 0 of a segment."""
        table = unpacked(segment)
        said = json.loads(table.schema.metadata[_HEAD])
        places = tuple((first, count) for first, count in said["places"])
        return cls(places, (table.replace_schema_metadata(None),), said["earliest"], said["follow"])

    def __add__(self, other: Seen) -> Seen:
        return Seen(
            (*self.places, *other.places),
            (*self.combinations, *other.combinations),
            min(self.earliest, other.earliest),
            self.follow and other.follow,
        )


def packed(table: pa.Table) -> memoryview:
    """A table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue()).cast("B")


def unpacked(piece: Piece) -> pa.Table:
    """The table."""
    with pa.ipc.open_stream(pa.py_buffer(piece)) as reader:
        return reader.read_all()
