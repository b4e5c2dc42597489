"""The order of the rows of a table: by a hash of 64 bits of one of their columns.

The order is stored, so the function never changes.  It is not keyed: who knows a collision can make a lookup
slower, and nothing else, because every lookup compares the values themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Hashes = NDArray[np.uint64]

_WORD: Final = 8
"""Bytes that are mixed in at a time."""
_FIRST: Final = np.uint64(0x9E3779B97F4A7C15)
_SECOND: Final = np.uint64(0xBF58476D1CE4E5B9)
_THIRD: Final = np.uint64(0x94D049BB133111EB)
_SHIFTS: Final = (np.uint64(30), np.uint64(27), np.uint64(31))


def hashed(values: pa.Array | pa.ChunkedArray) -> Hashes:
    """The hash of every value: a text's is over its bytes; an integer is its own.  None may be null."""
    if isinstance(values, pa.ChunkedArray):
        found = [hashed(chunk) for chunk in values.chunks]
        return np.concatenate(found) if found else np.empty(0, np.uint64)
    if pa.types.is_integer(values.type):
        numbers: Hashes = values.cast(pa.int64()).to_numpy(zero_copy_only=False).view(np.uint64)
        return numbers
    return _of_texts(values.cast(pa.large_string()))


def _of_texts(texts: pa.LargeStringArray) -> Hashes:
    count = len(texts)
    if not count:
        return np.empty(0, np.uint64)
    _, ends, content = texts.buffers()
    offsets = np.frombuffer(ends, np.int64, count + 1, texts.offset * 8)
    first, last = int(offsets[0]), int(offsets[-1])
    text = np.zeros(last - first + _WORD, np.uint8)  # so that a word can be read at every byte
    if content is not None:
        text[: last - first] = np.frombuffer(content, np.uint8, last - first, first)
    words: Hashes = np.ndarray(last - first + 1, np.dtype("<u8"), text, strides=(1,))
    starts, lengths = offsets[:-1] - first, np.diff(offsets)
    mixed = _mixed(lengths.astype(np.uint64) + _FIRST)
    longest = int(lengths.max())
    for at in range(0, longest, _WORD):
        some = slice(None) if at < int(lengths.min()) else np.flatnonzero(lengths > at)
        word = words[starts[some] + at]
        left = np.minimum(lengths[some] - at, _WORD).astype(np.uint64)
        word &= np.uint64(2**64 - 1) >> (np.uint64(64) - left * np.uint64(8))
        mixed[some] = _mixed(mixed[some] ^ word)
    return mixed


def _mixed(numbers: Hashes) -> Hashes:
    """Every bit of a number changes about half of the bits of the result (splitmix64)."""
    one, two, three = _SHIFTS
    with np.errstate(over="ignore"):
        numbers = (numbers + _FIRST).astype(np.uint64)
        numbers = (numbers ^ (numbers >> one)) * _SECOND
        numbers = (numbers ^ (numbers >> two)) * _THIRD
    return numbers ^ (numbers >> three)
