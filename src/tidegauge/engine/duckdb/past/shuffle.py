"""Changes of a history, divided into parts by a hash of their keys, in memory or on disk."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from tidegauge.scratch import ScratchFolder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column: TypeAlias = "NDArray[Any] | pa.Array"

PART: Final = 1 << 18
"""About this many changes are in a part, so that its columns fit into the caches of a processor."""
_MOST_PARTS: Final = 256
"""The largest number of parts: each part on disk is one open file."""
IN_MEMORY: Final = min(7 << 29, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 6)
"""A history that needs more bytes is divided on disk: 3.5 GiB, or a sixth of a small machine's memory ..."""
_TEXT: Final = 40
"""How many bytes a key that is a text is assumed to need."""
_TOGETHER: Final = 1 << 22
"""... and this many changes are gathered before they are written."""


@dataclass(frozen=True)
class Changes:
    """The changes of one part, in the order of `row`."""

    key: NDArray[np.int64] | pa.Array
    time: NDArray[np.int64]
    version: NDArray[np.int32] | NDArray[np.int64]
    """The number of the distinct row, and its flags."""
    row: NDArray[np.uint32] | NDArray[np.int64]
    """The place in the scan."""
    new_hash: NDArray[np.uint16] | None = None
    """Hashes of the new and the old row; None: the source delivers no old rows."""
    old_hash: NDArray[np.uint16] | None = None


@dataclass(frozen=True)
class _Block:
    """Changes sorted by part; those of part n are from bounds[n] to bounds[n + 1]."""

    first: int
    columns: dict[str, Column]
    bounds: NDArray[np.int64]

    def part(self, number: int) -> dict[str, Column]:
        begin, end = self.bounds[number], self.bounds[number + 1]
        return {name: column[begin:end] for name, column in self.columns.items()}


class Shuffle:
    """Takes blocks of changes in any order, and gives them back part by part in the order of `row`."""

    def __init__(self, rows: int, *, text: bool, hashed: bool) -> None:
        """`rows`: about how many changes there are; `text`: keys are texts; `hashed`: changes have hashes."""
        self.parts = min(1 << max(0, -(-rows // PART) - 1).bit_length(), _MOST_PARTS)
        """A power of two."""
        self._row = np.uint32 if rows < 1 << 32 else np.int64
        needed = rows * (20 + (_TEXT if text else 8) + 4 * hashed)
        self._blocks: list[_Block] = []
        self._folder = ScratchFolder() if needed > IN_MEMORY else None
        self._files: list[pa.OSFile] = []
        self._writers: list[pa.ipc.RecordBatchStreamWriter] = []
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._finished = False

    def add(self, columns: dict[str, Column], part: NDArray[np.uint8], first: int) -> None:
        """Divide one block, whose rows are numbered from `first`; several threads may call it at once."""
        order, bounds = _by_part(part, self.parts)
        divided = {name: _taken(column, order) for name, column in columns.items()}
        divided["row"] = order.astype(self._row)
        divided["row"] += self._row(first)
        with self._lock:
            self._blocks.append(_Block(first, divided, bounds))
            if self._folder is None or sum(len(one.columns["row"]) for one in self._blocks) < _TOGETHER:
                return
            blocks, self._blocks = self._blocks, []
        self._write(blocks)

    def _write(self, blocks: list[_Block]) -> None:
        """Append these changes to the files of their parts."""
        with self._writing:
            for number in range(self.parts):
                found = _joined([block.part(number) for block in _sorted(blocks)])
                table = pa.table(found)
                if not self._writers:
                    self._files = [pa.OSFile(str(self._path(part)), "wb") for part in range(self.parts)]
                    self._writers = [pa.ipc.new_stream(file, table.schema) for file in self._files]
                self._writers[number].write_table(table)

    def _path(self, number: int) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / f"{number}.part"

    def finish(self) -> None:
        """Call this after every block was added."""
        if self._finished:
            return
        self._finished = True
        if self._folder is not None:
            blocks, self._blocks = self._blocks, []
            if blocks:
                self._write(blocks)
            self._shut()
        self._blocks = _sorted(self._blocks)

    def _shut(self) -> None:
        for one in (*self._writers, *self._files):
            one.close()

    def part(self, number: int) -> Changes | None:
        """The changes of one part; None: it has none.  Each part can be taken once."""
        if self._folder is None:
            found = _joined([block.part(number) for block in self._blocks]) if self._blocks else {}
        elif self._writers:
            with pa.OSFile(str(self._path(number)), "rb") as file, pa.ipc.open_stream(file) as reader:
                table = reader.read_all()
            self._path(number).unlink()
            found = {name: plain(table[name].combine_chunks()) for name in table.column_names}
        else:
            found = {}
        if not found or not len(found["row"]):
            return None
        rows = found["row"]
        if (rows[1:] < rows[:-1]).any():
            order = np.argsort(rows, kind="stable")
            found = {name: _taken(column, order) for name, column in found.items()}
        return Changes(**found)

    def close(self) -> None:
        """Free memory and disk."""
        if not self._finished:
            self._finished = True
            self._shut()
        self._blocks, self._files, self._writers = [], [], []
        if self._folder is not None:
            self._folder.cleanup()


def _by_part(part: NDArray[np.uint8], parts: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places sorted by part and then place, and where each part begins.

    Part and place are sorted as one number, which is faster than numpy's stable argsort.
    """
    bits = max(1, len(part) - 1).bit_length()
    number = np.uint32 if bits <= 24 else np.uint64
    numbers: NDArray[Any] = part.astype(number)
    numbers <<= number(bits)
    numbers |= np.arange(len(part), dtype=number)
    numbers.sort()
    bounds = np.searchsorted(numbers, np.arange(parts, dtype=np.uint64) << np.uint64(bits))
    numbers &= number((1 << bits) - 1)
    return numbers.astype(np.int64), np.append(bounds, len(part))


def plain(column: pa.Array) -> Column:
    """Integers without nulls as numpy has them, without a copy; other columns as they are."""
    if pa.types.is_integer(column.type) and not column.null_count:
        numbers: Column = column.to_numpy()
        return numbers
    return column


def _taken(column: Column, order: NDArray[np.int64]) -> Column:
    taken: Column = column.take(order) if isinstance(column, np.ndarray) else column.take(pa.array(order))
    return taken


def _joined(parts: list[dict[str, Column]]) -> dict[str, Column]:
    """The columns of several blocks, one after the other."""
    found: dict[str, Column] = {}
    for name in parts[0]:
        columns = [part[name] for part in parts]
        if all(isinstance(column, np.ndarray) for column in columns):
            found[name] = np.concatenate(columns)
        else:
            found[name] = pa.concat_arrays([pa.array(column) for column in columns])
    return found


def _sorted(blocks: list[_Block]) -> list[_Block]:
    return sorted(blocks, key=lambda block: block.first)
