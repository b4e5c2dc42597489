"""Rewrite and erase rows of a block in their place: their bytes are overwritten, and no other byte moves.

Until its block is written again, a row that was erased leaves nothing but the lengths of its texts and the
fact that a row was at this place of the order.  Texts that are no keys have a multiple of 32 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegauge.store.secret.table.record import Bytes, Flags, Places


class Patch(NamedTuple):
    """What becomes of some rows of a block."""

    rewritten: Places
    """The places of rows that get new values; where no text can change, only those whose records do."""
    records: Bytes
    """Their new records."""
    texts: Mapping[str, pa.Array]
    """Their new texts by column, filled up, and empty where there is none; without the key."""
    replaced: Places
    """The places of rows whose new version is elsewhere: all but their keys are erased."""
    deleted: Places
    """The places of rows that are no longer there, and of what is left of them: all is erased."""

    @property
    def moves_texts(self) -> bool:
        """Whether anything beside the records may change."""
        return bool(len(self.deleted) or (self.texts and (len(self.replaced) or len(self.rewritten))))


@dataclass
class Overwriting:
    """Overwrites what a block has beside its records.  `content`: the bytes that Arrow's columns lie in."""

    content: Bytes
    written: list[Places] = field(default_factory=list)
    """The places of the bytes that were written, some of them twice."""

    def clear(self, column: pa.Array, places: Places) -> None:
        """Write zeros in place of keys or texts."""
        if not len(places) or pa.types.is_null(column.type):
            return
        parts = column.buffers()[1:]
        if pa.types.is_string(column.type):
            self._put(parts[1], _within(parts[0], places), 0)
        else:
            self._put(parts[0], _spread(places, column.type.bit_width // 8), 0)

    def write(self, column: pa.Array, places: Places, texts: pa.Array) -> None:
        """Write texts that fit: zeros fill up the rest of a place."""
        _, ends, content = column.buffers()
        self._put(content, _within(ends, places), 0)
        _, own, text = texts.buffers()
        if text is None:
            return
        offsets = np.frombuffer(own, np.int32)[texts.offset : texts.offset + len(texts) + 1]
        lengths, first = np.diff(offsets).astype(np.intp), np.frombuffer(ends, np.int32)[places]
        self._put(content, _run(first.astype(np.intp), lengths), np.frombuffer(text, np.uint8)[
            offsets[0] : offsets[-1]])  # fmt: skip

    def move(self, hashes: pa.Array, deleted: Flags) -> None:
        """Give every row whose key was erased the hash of the row before it, so that the order holds."""
        old = hashes.to_numpy(zero_copy_only=False)
        new = np.maximum.accumulate(np.where(deleted, np.uint64(0), old))
        places = np.flatnonzero(new != old)
        self._put(hashes.buffers()[1], _spread(places, 8), new[places].view(np.uint8))

    def _put(self, buffer: pa.Buffer, places: Places, values: Bytes | int) -> None:
        if len(places):
            start = int(buffer.address) - self.content.ctypes.data
            assert 0 <= start <= len(self.content) - buffer.size, "Arrow reads columns where they are"
            where = start + places
            self.content[where] = values
            self.written.append(where)


def fitting(column: pa.Array, places: Places, texts: pa.Array) -> Flags:
    """Which of these texts are short enough for the places that a column of a block has for them."""
    ends, own = np.frombuffer(column.buffers()[1], np.int32), np.frombuffer(texts.buffers()[1], np.int32)
    lengths = np.diff(own[texts.offset : texts.offset + len(texts) + 1])
    fits: Flags = lengths <= ends[places + 1] - ends[places]
    return fits


def _spread(places: Places, width: int) -> Places:
    """The places of the bytes of values of this width."""
    return (places[:, None] * width + np.arange(width)).ravel()


def _within(ends: pa.Buffer, places: Places) -> Places:
    """The places of the bytes of texts."""
    offsets = np.frombuffer(ends, np.int32)
    return _run(offsets[places].astype(np.intp), (offsets[places + 1] - offsets[places]).astype(np.intp))


def _run(first: Places, lengths: Places) -> Places:
    """The places from each of these on, so many."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(first - before, lengths) + np.arange(int(lengths.sum()))
