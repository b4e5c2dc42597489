"""Rewrite and erase rows of a block in their place: their bytes are overwritten, and no other byte moves.

Until its block is written again, a row that was erased leaves nothing but the lengths of its texts and the
fact that a row was at this place of the order.  Texts that are no keys have a multiple of 32 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Places = NDArray[np.intp]
    Bytes = NDArray[np.uint8]

HASH: Final = "\x00hash"
ERASED: Final = "\x00erased"
"""Whether a row was erased."""
DELETED: Final = "\x00deleted"
"""Whether its key was erased as well.  No column of a state has one of these names."""

_GRAIN: Final = 32
_FILLING: Final = pa.array(["\x01" + "\0" * (_GRAIN - 1 - length) for length in range(_GRAIN)])
"""By the length of a text modulo the grain: what fills it up."""


@dataclass(frozen=True)
class Values:
    """Values of one column, for writing them a few at a time."""

    present: NDArray[np.bool_]
    """Which of them are not null."""
    numbers: NDArray[np.int64] | None
    texts: pa.Array | None
    """Filled up; None where the values are numbers."""

    @classmethod
    def of(cls, column: pa.Array) -> Values:
        """The values of a column of a table of the state."""
        present = pc.is_valid(column).to_numpy(zero_copy_only=False)
        if pa.types.is_string(column.type):
            return cls(present, None, fill(column))
        return cls(present, pc.fill_null(column, 0).to_numpy(zero_copy_only=False), None)

    def take(self, places: Places) -> Values:
        """The values at these places."""
        texts = None if self.texts is None else self.texts.take(pa.array(places))
        return Values(self.present[places], None if self.numbers is None else self.numbers[places], texts)

    def fit(self, column: pa.Array, places: Places) -> NDArray[np.bool_]:
        """Which of the values can be written to a column of a block at these places."""
        if pa.types.is_null(column.type):
            return ~self.present
        absent = self.present | (column.buffers()[0] is not None)
        if self.numbers is None:
            lengths = pc.fill_null(pc.binary_length(self.texts), 0).to_numpy(zero_copy_only=False)
            ends = np.frombuffer(column.buffers()[1], np.int32)
            fits = ~self.present | (ends[places + 1] - ends[places] == lengths)
        else:
            half = 2 ** (column.type.bit_width - 1)
            fits = (self.numbers >= -half) & (self.numbers <= half - 1)
        both: NDArray[np.bool_] = absent & fits
        return both


class Patch(NamedTuple):
    """What becomes of some rows of a block."""

    rewritten: Places
    """The places of rows that get new values."""
    values: Mapping[str, Values]
    """The new values by column, without the key."""
    replaced: Places
    """The places of rows whose new version is elsewhere: all but their keys are erased."""
    deleted: Places
    """The places of rows that are no longer there, and of what is left of them: all is erased."""
    key: Sequence[str]
    """The columns that name a row."""


def fill(texts: pa.Array) -> pa.Array:
    """Texts filled up to a multiple of 32 bytes."""
    lengths = pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False)
    return pc.binary_join_element_wise(texts, _FILLING.take(pa.array(lengths % _GRAIN)), "")


def unfill(texts: pa.Array) -> pa.Array:
    """Texts as they were before they were filled up."""
    return pc.utf8_slice_codeunits(pc.utf8_rtrim(texts, characters="\0"), 0, -1)


def patch(content: Bytes, batch: pa.RecordBatch, change: Patch) -> Places:
    """Overwrite rows; the places of the bytes that were written, some of them twice.

    `content`: the bytes of a block.  `batch`: its rows, whose columns lie in these bytes.
    """
    work = _Work(content)
    erased = np.concatenate([change.replaced, change.deleted])
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name in (ERASED, DELETED):
            work.flag(column.buffers()[1], erased if name == ERASED else change.deleted)
        elif name != HASH:
            work.clear(column, change.deleted if name in change.key else erased)
            if len(change.rewritten) and name in change.values:
                work.write(column, change.rewritten, change.values[name])
    if len(change.deleted):
        work.move(batch.column(HASH), batch.column(DELETED))
    return np.concatenate(work.written) if work.written else np.empty(0, np.intp)


@dataclass
class _Work:
    content: Bytes
    written: list[Places] = field(default_factory=list)

    def clear(self, column: pa.Array, places: Places) -> None:
        """Write zeros in place of values, and nulls where the column has any."""
        if not len(places) or pa.types.is_null(column.type):
            return
        valid, *parts = column.buffers()
        if valid is not None:
            self._bits(valid, places, np.zeros(len(places), bool))
        if pa.types.is_string(column.type):
            self._put(parts[1], _within(parts[0], places), 0)
        else:
            self._put(parts[0], _spread(places, column.type.bit_width // 8), 0)

    def write(self, column: pa.Array, places: Places, values: Values) -> None:
        """Write values that fit."""
        if pa.types.is_null(column.type):
            return
        valid, *parts = column.buffers()
        present = values.present
        if valid is not None:
            self._bits(valid, places, present)
        if values.numbers is not None:
            width = column.type.bit_width // 8
            numbers = values.numbers.astype(column.type.to_pandas_dtype())
            self._put(parts[0], _spread(places, width), numbers.view(np.uint8))
            return
        self._put(parts[1], _within(parts[0], places[~present]), 0)
        texts = pa.array([]) if values.texts is None else values.texts.drop_null()
        if len(texts):
            ends = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
            text = np.frombuffer(texts.buffers()[2], np.uint8)[ends[0] : ends[-1]]
            self._put(parts[1], _within(parts[0], places[present]), text)

    def flag(self, buffer: pa.Buffer, places: Places) -> None:
        """Set the flags of rows."""
        if len(places):
            self._bits(buffer, places, np.ones(len(places), bool))

    def move(self, hashes: pa.Array, deleted: pa.Array) -> None:
        """Give every row whose key was erased the hash of the row before it, so that the order holds."""
        old = hashes.to_numpy(zero_copy_only=False)
        new = np.maximum.accumulate(np.where(deleted.to_numpy(zero_copy_only=False), np.uint64(0), old))
        places = np.flatnonzero(new != old)
        self._put(hashes.buffers()[1], _spread(places, 8), new[places].view(np.uint8))

    def _bits(self, buffer: pa.Buffer, places: Places, values: NDArray[np.bool_]) -> None:
        where, bits = self._start(buffer) + places // 8, np.left_shift(1, places % 8).astype(np.uint8)
        np.bitwise_or.at(self.content, where[values], bits[values])
        np.bitwise_and.at(self.content, where[~values], ~bits[~values])
        self.written.append(where)

    def _put(self, buffer: pa.Buffer, places: Places, values: Bytes | int) -> None:
        if len(places):
            where = self._start(buffer) + places
            self.content[where] = values
            self.written.append(where)

    def _start(self, buffer: pa.Buffer) -> int:
        start = int(buffer.address) - self.content.ctypes.data
        assert 0 <= start <= len(self.content) - buffer.size, "Arrow reads columns where they are"
        return start


def _spread(places: Places, width: int) -> Places:
    """The places of the bytes of values of this width."""
    return (places[:, None] * width + np.arange(width)).ravel()


def _within(ends: pa.Buffer, places: Places) -> Places:
    """The places of the bytes of texts."""
    offsets = np.frombuffer(ends, np.int32)
    first, lengths = offsets[places].astype(np.intp), (offsets[places + 1] - offsets[places]).astype(np.intp)
    before = np.cumsum(lengths) - lengths
    return np.repeat(first - before, lengths) + np.arange(int(lengths.sum()))
