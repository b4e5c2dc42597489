"""Rows in the order of their hashes, some of them deleted; and the newest version of every row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.store.secret.table.directory import END
from tidegauge.store.secret.table.hashes import hashed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from tidegauge.store.secret.table.hashes import Hashes

_ARROW: Final = {"VARCHAR": pa.string(), "BIGINT": pa.int64()}
_GRAIN: Final = 32
_FILLING: Final = pa.array(["\x01" + "\0" * (_GRAIN - 1 - length) for length in range(_GRAIN)])
"""By the length of a text modulo the grain: what fills it up."""
_LARGE: Final = 500_000
"""A table of so many rows is read a chunk at a time: Arrow copies all chunks to take rows from several."""


@dataclass(frozen=True)
class Shape:
    """The columns of a table.  `key`: those that no two rows share; rows lie by the hash of the first."""

    columns: pa.Schema
    key: tuple[str, ...]

    @classmethod
    def of(cls, declared: Mapping[str, str], key: Sequence[str]) -> Shape:
        """The shape of a table with these columns, by name and type as an engine declares them."""
        return cls(pa.schema([(name, _ARROW[kind]) for name, kind in declared.items()]), tuple(key))

    def fitted(self, parts: Sequence[pa.RecordBatch]) -> pa.Table:
        """The rows of all parts with these columns and types; a column that a part does not have is empty."""
        whole = pa.concat_tables(map(_table, parts), promote_options="permissive").combine_chunks()
        names = set(whole.schema.names)
        columns = [
            whole[field.name].cast(field.type)
            if field.name in names
            else pa.nulls(whole.num_rows, field.type)
            for field in self.columns
        ]
        return pa.Table.from_arrays(columns, schema=self.columns)


@dataclass(frozen=True)
class Part:
    """Some rows of a run, in the order of their hashes, with columns as the run has them."""

    hashes: Hashes
    batch: pa.RecordBatch
    gone: NDArray[np.bool_] | bool

    def __len__(self) -> int:
        return len(self.hashes)


@dataclass(frozen=True)
class Rows:
    """Rows of one shape, in the order of their hashes; of a deleted row only the key matters."""

    hashes: Hashes
    table: pa.Table
    gone: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.hashes)

    def part(self, places: slice | NDArray[np.intp]) -> Part:
        """The rows at these places."""
        some = self.take(np.arange(len(self))[places] if isinstance(places, slice) else places)
        batches = some.table.combine_chunks().to_batches() or [
            pa.RecordBatch.from_pylist([], some.table.schema)
        ]
        return Part(some.hashes, batches[0], some.gone)

    def take(self, places: NDArray[np.intp]) -> Rows:
        """The rows at these places, in this order."""
        return Rows(self.hashes[places], self.table.take(pa.array(places)), self.gone[places])

    def living(self) -> Rows:
        """Without the deleted ones."""
        return self.take(np.flatnonzero(~self.gone)) if self.gone.any() else self


class Run(Protocol):
    """Rows in the order of their hashes that are read a part at a time."""

    @property
    def hashes(self) -> Hashes:
        """The hashes, in ascending order."""
        ...

    def part(self, places: slice | NDArray[np.intp]) -> Part:
        """The rows at these places."""
        ...


class Unsorted:
    """A run over rows that are in any order."""

    def __init__(self, batch: pa.RecordBatch, key: str, *, gone: bool = False) -> None:
        found = hashed(batch.column(key))
        self._order, self._batch, self._gone = np.argsort(found, kind="stable"), batch, gone
        self.hashes = found[self._order]

    @classmethod
    def runs(cls, table: pa.Table, key: str, *, gone: bool = False) -> list[Self]:
        """Runs that are all rows of a table together.  A large table may be mapped from a file and stays."""
        if table.num_rows < _LARGE:
            table = table.combine_chunks()
        return [cls(batch, key, gone=gone) for batch in table.to_batches() if batch.num_rows]

    def part(self, places: slice | NDArray[np.intp]) -> Part:
        """The rows at these places of the order."""
        return Part(self.hashes[places], self._batch.take(pa.array(self._order[places])), self._gone)


def between(hashes: Hashes, low: int, high: int) -> slice:
    """The places of sorted hashes from one hash on and before another."""
    first = int(np.searchsorted(hashes, np.uint64(low)))
    return slice(first, len(hashes) if high >= END else int(np.searchsorted(hashes, np.uint64(high))))


def matching(hashes: Hashes, wanted: Hashes) -> NDArray[np.intp]:
    """The places of sorted hashes that are among the wanted ones, which are sorted too."""
    first = np.searchsorted(hashes, wanted)
    counts = np.searchsorted(hashes, wanted, side="right") - first
    before = np.cumsum(counts) - counts
    return np.repeat(first - before, counts) + np.arange(int(counts.sum()))


def matching_once(hashes: Hashes, wanted: Hashes) -> NDArray[np.intp]:
    """Where each wanted hash that is found comes first.  `hashes` are sorted, and there is at least one."""
    first = hashes.searchsorted(wanted)
    same = hashes.take(first, mode="clip") == wanted  # what is wanted after the last is not the last
    return first if same.all() else first[same]


def distinct(sorted_: NDArray[Any]) -> NDArray[Any]:
    """Sorted numbers, each once."""
    first = np.ones(len(sorted_), bool)
    first[1:] = sorted_[1:] != sorted_[:-1]
    return sorted_[first]


def nothing(shape: Shape) -> Rows:
    """No rows."""
    return Rows(np.empty(0, np.uint64), shape.columns.empty_table(), np.empty(0, bool))


def newest(parts: Sequence[Part], shape: Shape) -> Rows:
    """The first version of every row, deleted ones too, in the order of the hashes.  Newest parts first."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return nothing(shape)
    whole = Rows(
        np.concatenate([part.hashes for part in parts]),
        shape.fitted([part.batch for part in parts]),
        np.concatenate([np.broadcast_to(part.gone, len(part)) for part in parts]),
    )
    order = np.argsort(whole.hashes, kind="stable")
    same = np.diff(whole.hashes[order]) == 0
    if not same.any():
        return whole if len(parts) == 1 else whole.take(order)
    double = np.concatenate([same, [False]]) | np.concatenate([[False], same])
    older = _older(whole.table, order[double], shape.key)
    keep = np.ones(len(whole), bool)
    keep[older] = False
    return whole.take(order[keep[order]])


def _older(table: pa.Table, places: NDArray[np.intp], key: Sequence[str]) -> NDArray[np.intp]:
    """Of the rows at these places, those whose key is also at an earlier place of the table."""
    some = table.select(key).take(pa.array(places))
    codes = [_numbered(some[name]) for name in key]
    order = np.lexsort((places, *codes))
    again = np.ones(len(order), bool)
    again[:1] = False
    for code in codes:
        again[1:] &= np.diff(code[order]) == 0
    return places[order[again]]


def found(some: pa.Table, others: pa.Table, key: Sequence[str]) -> NDArray[np.intp]:
    """For each of these rows, the first place of the others that has the same key; -1 where there is none."""
    if len(key) == 1:
        places: NDArray[np.intp] = (
            pc.index_in(some[key[0]], value_set=others[key[0]]).fill_null(-1).to_numpy().astype(np.intp)
        )
        return places
    both = pa.concat_tables([others.select(key), some.select(key)], promote_options="permissive")
    codes = np.zeros(both.num_rows, np.int64)
    for name in key:
        code = np.unique(_numbered(both[name]), return_inverse=True)[1]
        codes = np.unique(codes * (int(code.max(initial=0)) + 1) + code, return_inverse=True)[1]
    first = np.full(both.num_rows, -1, np.intp)
    known = codes[: others.num_rows]
    first[known[::-1]] = np.arange(others.num_rows)[::-1]
    return first[codes[others.num_rows :]]


def fill(texts: pa.Array) -> pa.Array:
    """Texts filled up to a multiple of 32 bytes, because an erased text leaves its length."""
    lengths = pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False)
    return pc.binary_join_element_wise(texts, _FILLING.take(pa.array(lengths % _GRAIN)), "")


def unfill(texts: pa.Array, present: NDArray[np.bool_] | None = None) -> pa.Array:
    """Texts as they were before they were filled up; null where they are not `present`."""
    found = pc.utf8_slice_codeunits(pc.utf8_rtrim(texts, characters="\0"), 0, -1)
    return found if present is None or present.all() else pc.if_else(pa.array(present), found, None)


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


def _numbered(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Integers that are equal where the values of a column are."""
    whole = one_array(column)
    if not pa.types.is_integer(whole.type):
        whole = pc.dictionary_encode(whole).indices
    numbers: NDArray[np.int64] = whole.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers
