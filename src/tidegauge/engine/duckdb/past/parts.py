"""What became of the parts of a history, until it is handed over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.engine.duckdb.identity import MARK, native

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from tidegauge.engine.duckdb.past.enforce import Ints, Lives

ROWS: Final = 500_000
"""About so many rows of the state are handed over at a time."""


@dataclass(frozen=True)
class Part:
    """What became of the keys of one part."""

    names: pa.Array
    place: NDArray[np.int32]
    """Of each row that exists: the place of its name ..."""
    picture: Ints
    row: Ints
    """... its distinct row, and where in the scan its last version is."""
    lives: tuple[Lives, ...]
    counts: Mapping[str, int]
    outside: int
    stamps: tuple[pa.Table, ...] = ()
    """The stamped changes, where they were asked for."""


@dataclass(frozen=True)
class Texts:
    """What `units.excess` says for every pair of a true and an accepted contribution, sorted by pair."""

    pairs: Ints
    texts: pa.Array


def pairs_of(life: Lives) -> Ints:
    """True and accepted contribution as one number."""
    return (life.true.astype(np.int64) << 32) | life.accepted


def together(parts: Sequence[Part], digests: Ints) -> Iterator[tuple[list[Part], Ints]]:
    """Parts that are handed over at once, with the digests of their rows; at least one list."""
    some: list[Part] = []
    first = last = 0
    for part in parts:
        some.append(part)
        last += len(part.row)
        if last - first >= ROWS:
            yield some, digests[first:last]
            some, first = [], last
    if some or not parts:
        yield some, digests[first:last]


def ranked(names: Sequence[pa.Array]) -> tuple[pa.Array, list[Ints]]:
    """All names, sorted, and where among them those of each part are."""
    every = pa.chunked_array(names, pa.string()).combine_chunks()
    order = pc.sort_indices(every)
    rank = np.empty(len(every), np.int64)
    rank[order.to_numpy()] = np.arange(len(every))
    bounds = np.cumsum([len(one) for one in names[:-1]])
    return every.take(order), np.split(rank, bounds) if names else []


def named(keys: pa.Array) -> pa.Array:
    """The names of rows that are inserted under these keys; a change without a key has the empty one."""
    names = pc.fill_null(keys.cast(pa.string()), "")
    marked = pc.starts_with(names, MARK)
    if pc.any(marked).as_py():
        names = pa.array([native(name) for name in names.to_pylist()], pa.string())
    return names
