"""A block: rows of a table in the order of their hashes, as bytes of Arrow's stream format.

A column is written in the smallest type that holds its values, and as nothing where all of them are null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.store.secret.table.rows import Part

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.store.secret.table.rows import Rows

_HASH: Final = "\x00hash"
_GONE: Final = "\x00gone"
"""Names that no column of a state has."""
_SMALL: Final = (pa.int8(), pa.int16(), pa.int32())


class Block:
    """A block that was read; its columns lie in the bytes that it was made from."""

    def __init__(self, content: bytes | pa.Buffer) -> None:
        with pa.ipc.open_stream(content) as reader:
            batch = reader.read_next_batch()
        self.size = len(content)
        self.hashes = batch.column(_HASH).to_numpy(zero_copy_only=False)
        self._gone: NDArray[np.bool_] | None = None
        if _GONE in batch.schema.names:
            self._gone = batch.column(_GONE).to_numpy(zero_copy_only=False)
        own = [name for name in batch.schema.names if name not in (_HASH, _GONE)]
        self._batch = batch.select(own)
        self._least: dict[str, int | None] = {}

    def __len__(self) -> int:
        return len(self.hashes)

    def part(self, places: slice | NDArray[np.intp]) -> Part:
        """The rows at these places."""
        if isinstance(places, slice):
            first, last, _ = places.indices(len(self))
            batch = self._batch.slice(first, last - first)
        else:
            batch = self._batch.take(pa.array(places))
        return Part(self.hashes[places], batch, False if self._gone is None else self._gone[places])

    def present(self, column: str) -> NDArray[np.intp]:
        """The places of the rows that have a value in this column."""
        found = self._column(column)
        return np.empty(0, np.intp) if found is None else _true(pc.is_valid(found))

    def upto(self, column: str, most: int) -> NDArray[np.intp]:
        """The places of the rows whose value in this column is at most this one."""
        found = self._column(column)
        if column not in self._least:
            self._least[column] = None if found is None else pc.min(found).as_py()
        least = self._least[column]
        if found is None or least is None or least > most:
            return np.empty(0, np.intp)
        fits = pc.less_equal(found.cast(pa.int64()), pa.scalar(most, pa.int64()))
        return _true(pc.fill_null(fits, fill_value=False))

    def _column(self, name: str) -> pa.Array | None:
        """A column; None where every value is null."""
        if name not in self._batch.schema.names:
            return None
        found = self._batch.column(name)
        return None if pa.types.is_null(found.type) else found


def encode(rows: Rows) -> pa.Buffer:
    """A block of these rows, which are in the order of their hashes."""
    names, columns = [_HASH], [pa.array(rows.hashes)]
    if rows.gone.any():
        names.append(_GONE)
        columns.append(pa.array(rows.gone))
    for name, column in zip(rows.table.column_names, rows.table.columns, strict=True):
        names.append(name)
        columns.append(_narrow(_one(column)))
    batch = pa.RecordBatch.from_arrays(columns, names=names)
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


def _true(mask: pa.Array) -> NDArray[np.intp]:
    return np.flatnonzero(mask.to_numpy(zero_copy_only=False))
