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
    place: Ints
    """Of each row that exists: the place of its name ..."""
    picture: NDArray[np.int32]
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


def together(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Parts that are handed over at once; at least one list."""
    some: list[Part] = []
    for part in parts:
        some.append(part)
        if sum(len(one.row) for one in some) >= ROWS:
            yield some
            some = []
    if some or not parts:
        yield some


def named(keys: pa.Array) -> pa.Array:
    """The names of rows that are inserted under these keys; a change without a key has the empty one."""
    names = pc.fill_null(keys.cast(pa.string()), "")
    marked = pc.starts_with(names, MARK)
    if pc.any(marked).as_py():
        names = pa.array([native(name) for name in names.to_pylist()], pa.string())
    return names
