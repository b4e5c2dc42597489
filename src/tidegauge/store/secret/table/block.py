"""A block: rows of a table in the order of their hashes, as bytes of Arrow's stream format.

A column is written in the smallest type that holds its values, and as nothing where all of them are null.
Rows can be rewritten and erased in their place (tidegauge.store.secret.table.patch).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.store.secret.table.patch import DELETED, ERASED, HASH, fill, patch, unfill
from tidegauge.store.secret.table.rows import Part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from tidegauge.store.secret.table.patch import Patch, Values
    from tidegauge.store.secret.table.rows import Rows

_GONE: Final = "\x00gone"
"""In blocks of format 4: the row was deleted, and this one hides what older blocks have of it."""
_OWN: Final = frozenset({HASH, ERASED, DELETED, _GONE})
_SMALL: Final = (pa.int8(), pa.int16(), pa.int32())
_FILLED: Final = {b"filled": b"1"}
"""Texts that are no keys are filled up, because an erased text leaves its length."""


class Block:
    """A block that was read; its columns lie in the bytes that it was made from."""

    def __init__(self, content: bytes | pa.Buffer) -> None:
        self.content = pa.py_buffer(content)
        with pa.ipc.open_stream(self.content) as reader:
            self._whole = reader.read_next_batch()
        self.size = int(self.content.size)
        self.hashes = self._whole.column(HASH).to_numpy(zero_copy_only=False)
        self._gone, self._live = self._flags(_GONE), self._marked()
        self._batch = self._whole.select([name for name in self._whole.schema.names if name not in _OWN])
        self._least: dict[str, int | None] = {}

    def __len__(self) -> int:
        return len(self.hashes)

    def part(self, places: slice | NDArray[np.intp]) -> Part:
        """The rows at these places, without those that were erased."""
        if self._live is not None:
            places = self.living(np.arange(len(self))[places] if isinstance(places, slice) else places)
        if isinstance(places, slice):
            first, last, _ = places.indices(len(self))
            batch = self._batch.slice(first, last - first)
        else:
            batch = self._batch.take(pa.array(places))
        return Part(self.hashes[places], _emptied(batch), False if self._gone is None else self._gone[places])

    def keys(self, places: NDArray[np.intp], key: Sequence[str]) -> pa.Table:
        """The keys of the rows at these places, also of erased ones that have a newer version."""
        return pa.Table.from_batches([self._batch.select(key).take(pa.array(places))])

    def alive(self, places: NDArray[np.intp]) -> NDArray[np.bool_]:
        """For each of these places, whether its row was not erased."""
        return np.ones(len(places), bool) if self._live is None else self._live[places]

    def living(self, places: NDArray[np.intp]) -> NDArray[np.intp]:
        """Those of these places whose rows were not erased."""
        return places if self._live is None else places[self._live[places]]

    def present(self, column: str) -> NDArray[np.intp]:
        """The places of the rows that have a value in this column."""
        found = self._column(column)
        return np.empty(0, np.intp) if found is None else self.living(_true(pc.is_valid(found)))

    def upto(self, column: str, most: int) -> NDArray[np.intp]:
        """The places of the rows whose value in this column is at most this one."""
        found = self._column(column)
        if column not in self._least:
            self._least[column] = None if found is None else pc.min(found).as_py()
        least = self._least[column]
        if found is None or least is None or least > most:
            return np.empty(0, np.intp)
        fits = pc.less_equal(found.cast(pa.int64()), pa.scalar(most, pa.int64()))
        return self.living(_true(pc.fill_null(fits, fill_value=False)))

    def fits(self, places: NDArray[np.intp], values: Mapping[str, Values]) -> NDArray[np.bool_]:
        """Which of these values, by column without the key, can be written at these places."""
        fits = np.ones(len(places), bool)
        for name, column in values.items():
            known = name in self._batch.schema.names
            fits &= column.fit(self._batch.column(name), places) if known else ~column.present
        return fits

    def patched(self, change: Patch) -> tuple[Block, NDArray[np.intp]]:
        """The block after rows were rewritten and erased, and the places of the bytes that changed.

        A copy: what was read of this one stays as it is.
        """
        before = np.frombuffer(self.content, np.uint8)
        content = before.copy()
        block = Block(pa.py_buffer(content))
        written = patch(content, block._whole, change)
        block._live = block._marked()
        return block, written[before[written] != content[written]]

    def _marked(self) -> NDArray[np.bool_] | None:
        """Which rows were not erased; None where none was."""
        erased = self._flags(ERASED)
        return ~erased if erased is not None and erased.any() else None

    def _flags(self, name: str) -> NDArray[np.bool_] | None:
        if name not in self._whole.schema.names:
            return None
        flags: NDArray[np.bool_] = self._whole.column(name).to_numpy(zero_copy_only=False)
        return flags

    def _column(self, name: str) -> pa.Array | None:
        """A column; None where every value is null."""
        if name not in self._batch.schema.names:
            return None
        found = self._batch.column(name)
        return None if pa.types.is_null(found.type) else found


def encode(rows: Rows, key: Sequence[str]) -> pa.Buffer:
    """A block of these rows, which are in the order of their hashes.  `key`: the columns that name a row."""
    none = pa.array(np.zeros(len(rows), bool))
    columns = [pa.array(rows.hashes), none, none]
    fields = [
        pa.field(name, column.type) for name, column in zip((HASH, ERASED, DELETED), columns, strict=True)
    ]
    for name, column in zip(rows.table.column_names, rows.table.columns, strict=True):
        one = _narrow(_one(column))
        filled = pa.types.is_string(one.type) and name not in key
        columns.append(fill(one) if filled else one)
        fields.append(pa.field(name, one.type, metadata=_FILLED if filled else None))
    batch = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _one(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _narrow(column: pa.Array) -> pa.Array:
    if column.null_count == len(column):
        return pa.nulls(len(column))
    if not pa.types.is_integer(column.type):
        return column
    least, most = pc.min_max(column).as_py().values()
    for kind in _SMALL:
        half = 2 ** (kind.bit_width - 1)
        if -half <= least and most < half:
            return column.cast(kind)
    return column


def _emptied(batch: pa.RecordBatch) -> pa.RecordBatch:
    """With texts as they were before they were filled up."""
    for place, field in enumerate(batch.schema):
        if field.metadata and field.metadata.get(b"filled"):
            batch = batch.set_column(place, field.name, unfill(batch.column(place)))
    return batch


def _true(mask: pa.Array) -> NDArray[np.intp]:
    return np.flatnonzero(mask.to_numpy(zero_copy_only=False))
