"""Changes of a history, divided into parts by a hash of their keys, in memory or on disk."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from tidegauge.engine.duckdb.past.segments import Seen, packed, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from tidegauge.model.history import Files, History

    Column: TypeAlias = "NDArray[Any] | pa.Array"

PART: Final = 1 << 18
"""About this many changes are in a part, so that its columns fit into the caches of a processor."""
_MOST_PARTS: Final = 256
"""The largest number of parts: each part is one piece of every file on disk."""
_FEW_PARTS: Final = 64
"""The largest number for up to ..."""
_MANY_ROWS: Final = 1 << 27
"""... so many changes."""
IN_MEMORY: Final = min(7 << 29, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 6)
"""A history that needs more bytes is divided on disk: 3.5 GiB, or a sixth of a small machine's memory ..."""
_TEXT: Final = 40
"""How many bytes a key that is a text is assumed to need."""
_TOGETHER: Final = 1 << 22
"""... and this many changes are gathered before they are written."""
_WRITERS: Final = 4
"""So many threads write at a time, because each holds another copy of its changes."""
_SLICE: Final = 1 << 22
"""At most so many changes of a block are sorted at a time."""
_HALF: Final = 1 << 31
_SEGMENT: Final = "divided-"
"""The names of segments begin so."""


@dataclass(frozen=True)
class Changes:
    """The changes of one part, in the order of `row`."""

    key: NDArray[np.int64] | pa.Array
    time: NDArray[np.int64]
    version: NDArray[np.int32] | NDArray[np.int64]
    """The number of the distinct row, and its flags."""
    row: NDArray[np.uint32] | NDArray[np.int64]
    """The place in the scan."""
    hashes: NDArray[np.uint32] | None = None
    """16 bits of the hashes of the new row, and of the old one; None: the source delivers no old rows."""
    owner: Column | None = None
    """The unit of the new row, and the part of a unit that is a text; None: the unit is the row."""
    home: NDArray[np.uint8] | None = None
    bits: int = 0
    """So many of the lowest bits of an integer key follow from the others: see `divided`."""


class _Slice(NamedTuple):
    """Changes sorted by part; those of part n are from bounds[n] to bounds[n + 1]."""

    columns: dict[str, Column]
    bounds: list[int]

    def part(self, number: int) -> dict[str, Column]:
        some = slice(*self.bounds[number : number + 2])
        return {name: column[some] for name, column in self.columns.items()}


class _Block(NamedTuple):
    first: int
    slices: list[_Slice]
    rows: int
    seen: Seen | None


def parts_of(rows: int) -> int:
    """Into how many parts so many changes are divided: a power of two.

    Few large parts are faster; more are needed where a few of them would fill the memory.
    """
    most = _FEW_PARTS if rows <= _MANY_ROWS else _MOST_PARTS
    return min(1 << max(0, -(-rows // PART) - 1).bit_length(), most)


def size_of(history: History, *, owned: bool = False) -> int:
    """About how many bytes the divided changes of a history need; `owned`: units own several rows."""
    change = 20 + _width(history.key) + 4 * history.informed
    if owned:  # once by key, and again by unit
        change = 2 * (change + _width(history.owner))
    return history.rows * change


def _width(kind: str) -> int:
    return _TEXT if kind == "VARCHAR" else 8


def fits(size: int) -> bool:
    """Whether so many bytes are divided in memory."""
    return size <= IN_MEMORY


class Shuffle:
    """Takes blocks of changes in any order, and gives them back part by part in the order of `row`."""

    def __init__(
        self,
        rows: int,
        *,
        files: Files | None = None,
        intact: Callable[[], None] = lambda: None,
        ordered: bool = True,
    ) -> None:
        """`rows`: about how many changes there are; `files`: where they are divided; None: in memory.

        `intact`: raises an error if blocks that were added must not be written.  `ordered`: changes are
        numbered and returned in the order of the blocks; otherwise only the changes of a block stay together.
        """
        self.parts = parts_of(rows)
        self.bits = self.parts.bit_length() - 1
        """See `Changes`."""
        self._row = np.uint32 if rows < 1 << 32 else np.int64
        self._ordered = ordered
        self._blocks: list[_Block] = []
        self._files, self._intact = files, intact
        self._segments = [] if files is None else sorted(name for name in files.names if _SEGMENT in name)
        self.seen = [] if files is None else [Seen.of(files.read(name, 0)) for name in self._segments]
        """What was seen in the blocks that were divided before."""
        self._done = _merged(self.seen)
        self._next = 1 + int(self._segments[-1].removeprefix(_SEGMENT)) if self._segments else 0
        self._lock, self._writing = threading.Lock(), threading.Semaphore(_WRITERS)
        self._finished = False

    @property
    def divided(self) -> int:
        """How many changes were divided before."""
        return sum(end - begin for begin, end in self._done)

    def missing(self, first: int, rows: int) -> Iterator[tuple[int, int]]:
        """Which of these changes have not been divided, as first change and number."""
        last = first + rows
        for begin, end in self._done:
            if end > first and begin < last:
                if begin > first:
                    yield first, begin - first
                first = max(first, end)
        if first < last:
            yield first, last - first

    def add(
        self, columns: dict[str, Column], part: NDArray[np.uint8], first: int, seen: Seen | None = None
    ) -> None:
        """Divide one block, whose rows are numbered from `first`; several threads may call it at once.

        `seen`: what another process must know of the block, if it uses the files.
        """
        slices = []
        for begin in range(0, max(1, len(part)), _SLICE):
            some = slice(begin, begin + _SLICE)
            order, bounds = _by_part(part[some], self.parts)
            divided = {name: taken(column[some], order) for name, column in columns.items()}
            if self._ordered:
                divided["row"] = order.astype(self._row)
                divided["row"] += self._row(first + begin)
            slices.append(_Slice(divided, bounds.tolist()))
        with self._lock:
            self._blocks.append(_Block(first, slices, len(part), seen))
            if self._files is None or sum(one.rows for one in self._blocks) < _TOGETHER:
                return
            blocks, self._blocks = self._blocks, []
            name = self._named()
        self._write(name, blocks)

    def _named(self) -> str:
        """The name of a new segment."""
        name, self._next = f"{_SEGMENT}{self._next:08}", self._next + 1
        self._segments.append(name)
        return name

    def _write(self, name: str, blocks: list[_Block]) -> None:
        """Write these changes as a segment."""
        assert self._files is not None
        blocks = _sorted(blocks)
        seen = [block.seen for block in blocks if block.seen is not None]
        with self._writing:
            parts = (_joined(_pieces(blocks, number)) for number in range(self.parts))
            pieces = [
                reduce(add, seen).segment if seen else b"",
                *(packed(pa.table(found)) for found in parts),
            ]
            self._intact()
            self._files.write(name, pieces)

    def finish(self) -> None:
        """Call this after every block was added."""
        if self._finished:
            return
        self._finished = True
        if self._files is not None and self._blocks:
            blocks, self._blocks = self._blocks, []
            self._write(self._named(), blocks)
        self._blocks = _sorted(self._blocks)

    def part(self, number: int) -> dict[str, Column] | None:
        """The columns of one part; None: it has no changes."""
        if self._files is None:
            found = _joined(_pieces(self._blocks, number)) if self._blocks else {}
        elif self._segments:
            pieces = [unpacked(self._files.read(name, number + 1)) for name in self._segments]
            table = pa.concat_tables(pieces, promote_options="permissive")  # numbers of 32 and of 64 bits
            found = {name: plain(table[name].combine_chunks()) for name in table.column_names}
        else:
            found = {}
        if not found or not len(next(iter(found.values()))):
            return None
        # in memory, they are in order
        if self._files is not None and self._ordered and ((rows := found["row"])[1:] < rows[:-1]).any():
            order = np.argsort(rows, kind="stable")
            found = {name: taken(column, order) for name, column in found.items()}
        return found

    def close(self) -> None:
        """Free memory."""
        self._finished, self._blocks = True, []


def _pieces(blocks: Sequence[_Block], number: int) -> Sequence[Mapping[str, Column]]:
    """The changes of a part, of one slice after the other."""
    return [one.part(number) for block in blocks for one in block.slices]


def _by_part(part: NDArray[np.uint8], parts: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places sorted by part and then place, and where each part begins."""
    bounds = np.zeros(parts + 1, np.int64)
    np.cumsum(np.bincount(part, minlength=parts), out=bounds[1:])
    return np.argsort(part, kind="stable"), bounds


def plain(column: pa.Array) -> Column:
    """Integers without nulls as numpy has them, without a copy; other columns as they are."""
    if pa.types.is_integer(column.type) and not column.null_count:
        numbers: Column = column.to_numpy()
        return numbers
    return column


def narrow(column: pa.Array) -> Column:
    """As `plain` has it; signed integers in 32 bits, where they fit."""
    found = plain(column)
    if not isinstance(found, np.ndarray) or found.dtype != np.int64 or not len(found):
        return found
    return found.astype(np.int32) if found.min() >= -_HALF and found.max() < _HALF else found


def wide(column: Column) -> Column:
    """Signed integers in 64 bits, so that all parts have them alike."""
    if isinstance(column, np.ndarray):
        return column.astype(np.int64) if column.dtype.kind == "i" else column
    return column.cast(pa.int64()) if pa.types.is_signed_integer(column.type) else column


def taken(column: Column, places: NDArray[np.int64]) -> Column:
    """The values at these places."""
    found: Column = column.take(places) if isinstance(column, np.ndarray) else column.take(pa.array(places))
    return found


def _joined(parts: Sequence[Mapping[str, Column]]) -> dict[str, Column]:
    """The columns of several blocks, one after the other."""
    found: dict[str, Column] = {}
    for name in parts[0]:
        columns = [part[name] for part in parts]
        if all(isinstance(column, np.ndarray) for column in columns):
            found[name] = np.concatenate(columns)
        else:
            kind = next(column.type for column in columns if isinstance(column, pa.Array))
            found[name] = pa.concat_arrays([pa.array(column).cast(kind) for column in columns])
    return found


def _sorted(blocks: list[_Block]) -> list[_Block]:
    return sorted(blocks, key=lambda block: block.first)


class _Range(NamedTuple):
    """Changes from `begin` on, before `end`."""

    begin: int
    end: int


def _merged(seen: Iterable[Seen]) -> tuple[_Range, ...]:
    """The changes of these blocks, as sorted ranges that do not touch."""
    found: list[_Range] = []
    for first, count in sorted(place for one in seen for place in one.places):
        if found and found[-1].end >= first:
            found[-1] = _Range(found[-1].begin, max(found[-1].end, first + count))
        else:
            found.append(_Range(first, first + count))
    return tuple(found)
