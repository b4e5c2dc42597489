"""The results of the parts of a history, until they are handed over."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.engine.duckdb.identity import MARK, native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from tidegauge.engine.duckdb.past.enforce import Enforced, Ints

ROWS: Final = 1 << 17
"""About this many rows of the state are handed over at a time; the next ones take their memory."""
_AT_ONCE: Final = 1 << 15
"""So many keys are hashed at a time, in the cache of a processor."""
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_DENSE: Final = 1 << 20
"""Up to so many pairs of contributions are looked up in a table of all pairs."""
_DIGITS: Final = 17
"""An integer padded with zeros to this many digits, together with its number of digits, fits into 64 bits."""


@dataclass(frozen=True)
class Part:
    """The result for the keys of one part."""

    keys: Ints | pa.Array
    """The keys, as the source has them."""
    place: NDArray[np.int32]
    """Of each row that exists: the place of its key ..."""
    picture: NDArray[np.int32] | Ints
    row: NDArray[np.uint32] | Ints
    """... its distinct row, and where in the scan its last version is."""
    enforced: tuple[Enforced, ...]
    counts: Mapping[str, int]
    outside: int
    columns: Mapping[str, pa.Array] = field(default_factory=dict)
    """Further columns of the state, for the rows that exist."""
    digests: Ints | None = None
    """The digests of the rows that exist; None where they follow from keys and used columns."""
    stamps: tuple[pa.Table, ...] = ()
    """The stamped changes, if they were requested."""


def unstamped(part: Part, write: Callable[[pa.Table], None] | None) -> Part:
    """The part without its stamped changes, which `write` takes."""
    for table in part.stamps:
        assert write is not None
        write(table)
    return replace(part, stamps=())


@dataclass(frozen=True)
class Texts:
    """The text of `units.excess` for every pair of a true and an accepted contribution whose sums differ."""

    width: int
    """The number of contributions."""
    pairs: Ints
    """Of each text: its pair as one number (true * width + accepted), sorted."""
    texts: pa.Array

    def places(self, of_scope: Enforced) -> Ints:
        """The place of each unit's text; -1: the unit has none."""
        pairs = _pairs(of_scope, self.width)
        if self.width**2 <= _DENSE:
            return self._table.take(pairs)
        if not len(self.pairs):
            return np.full(len(pairs), -1, np.int64)
        place = np.searchsorted(self.pairs, pairs)
        place[place == len(self.pairs)] = 0
        return np.where(self.pairs[place] == pairs, place, -1)

    @cached_property
    def _table(self) -> Ints:
        """The place of the text of every possible pair."""
        table = np.full(self.width**2, -1, np.int64)
        table[self.pairs] = np.arange(len(self.pairs))
        return table


def different(enforced: Sequence[Enforced], width: int) -> Ints:
    """The pairs of a true and an accepted contribution that differ, see `Texts`."""
    numbers = (_pairs(of_scope, width)[of_scope.accepted != of_scope.true] for of_scope in enforced)
    if width**2 > _DENSE:
        return np.unique(np.concatenate([np.zeros(0, np.int64), *numbers]))
    seen = np.zeros(width**2, bool)
    for some in numbers:
        seen[some] = True
    return np.flatnonzero(seen)


def _pairs(of_scope: Enforced, width: int) -> Ints:
    return of_scope.true.astype(np.int64) * width + of_scope.accepted


def divided(keys: Ints | pa.Array, parts: int) -> NDArray[np.uint8]:
    """The part of each integer key: its lowest bits, mixed with a hash of the others.

    So the lowest bits of a key follow from its part and the others, and keys with a pattern are in different
    parts.  `parts`: a power of two.
    """
    numbers = keys if isinstance(keys, np.ndarray) else pc.fill_null(keys, 0).to_numpy()
    if parts == 1:
        return np.zeros(len(numbers), np.uint8)
    bits, found = parts.bit_length() - 1, np.empty(len(numbers), np.uint8)
    for begin in range(0, len(numbers), _AT_ONCE):
        some = numbers[begin : begin + _AT_ONCE].astype(np.uint64)
        hashes = some >> np.uint64(bits)
        hashes *= _MIX
        hashes >>= np.uint64(64 - bits)
        hashes ^= some
        found[begin : begin + _AT_ONCE] = hashes
    found &= np.uint8(parts - 1)
    return found


def together(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Lists of parts that are handed over together; at least one list."""
    some: list[Part] = []
    for part in parts:
        some.append(part)
        if sum(len(one.keys) for one in some) >= ROWS:
            yield some
            some = []
    if some or not parts:
        yield some


def in_line(names: Sequence[pa.Array]) -> tuple[pa.Array, list[Ints]]:
    """All names, one part after the other, and the places of each part's names among them."""
    bounds = np.cumsum([0, *map(len, names)])
    places = [np.arange(first, last) for first, last in pairwise(bounds)]
    return pa.concat_arrays([pa.array([], pa.string()), *names]), places


def ranked(keys: Sequence[Ints | pa.Array]) -> tuple[pa.Array, list[Ints]]:
    """All names, sorted, and the places of each part's names among them."""
    order, names = _named_integers(keys) or _named_texts(keys)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return names, np.split(rank, np.cumsum([len(one) for one in keys[:-1]])) if keys else []


def _named_texts(keys: Sequence[Ints | pa.Array]) -> tuple[Ints, pa.Array]:
    """The order of the names, and the names in this order."""
    every = pa.chunked_array([named(pa.array(one)) for one in keys], pa.string()).combine_chunks()
    order = pc.sort_indices(every)
    return order.to_numpy(), every.take(order)


def _named_integers(keys: Sequence[Ints | pa.Array]) -> tuple[Ints, pa.Array] | None:
    """The same for integers, sorted by their digits, so that texts are made only once; None: not possible."""
    if not keys or not all(isinstance(one, np.ndarray) for one in keys):
        return None
    every = np.concatenate(keys)
    if not len(every) or every.min() < 0 or every.max() >= 10**_DIGITS:
        return None
    every = every.astype(np.int64)
    powers = 10 ** np.arange(_DIGITS + 1, dtype=np.int64)
    digits = np.maximum(np.searchsorted(powers, every, side="right"), 1)
    order = np.argsort((every * powers[_DIGITS - digits]) << 5 | digits)
    return order, pa.array(every[order]).cast(pa.string())


def named(keys: pa.Array) -> pa.Array:
    """The names of rows that are inserted under these keys; a change without a key has the empty one."""
    names = pc.fill_null(keys.cast(pa.string()), "")
    marked = pc.starts_with(names, MARK)
    if pc.any(marked).as_py():
        names = pa.array([native(name) for name in names.to_pylist()], pa.string())
    return names
