"""Changes of a history, divided into parts by a hash of their keys, in memory or on disk."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from tidegauge.scratch import ScratchFolder

if TYPE_CHECKING:
    from numpy.typing import NDArray

PART: Final = 1 << 18
"""About so many changes are in a part: its columns fit into the caches of a processor."""
_MOST_PARTS: Final = 256
"""Each part that is on disk is one open file."""
IN_MEMORY: Final = 24_000_000
"""More changes than these are divided on disk."""


class Shuffle:
    """Takes blocks of changes in any order, and gives them back part by part in the order of `row`."""

    def __init__(self, rows: int) -> None:
        self.parts = int(min(max(1, -(-rows // PART)), _MOST_PARTS))
        self._blocks: list[tuple[pa.RecordBatch, NDArray[np.int64]]] = []
        self._folder = ScratchFolder() if rows > IN_MEMORY else None
        self._files: list[pa.OSFile] = []
        self._writers: list[pa.ipc.RecordBatchStreamWriter] = []
        self._lock = threading.Lock()
        self._finished = False

    def add(self, block: pa.RecordBatch, part: NDArray[np.uint16], first: int) -> None:
        """Divide one block, whose rows are numbered from `first`; several threads may call it at once."""
        order = np.argsort(part, kind="stable")
        bounds = np.concatenate([[0], np.cumsum(np.bincount(part, minlength=self.parts))]).astype(np.int64)
        block = block.take(pa.array(order)).append_column("row", pa.array(order + first))
        with self._lock:
            if self._folder is None:
                self._blocks.append((block, bounds))
                return
            for number, (begin, end) in enumerate(pairwise(bounds)):
                if end > begin:
                    self._writer(number, block.schema).write_batch(block.slice(begin, end - begin))

    def _writer(self, number: int, schema: pa.Schema) -> pa.ipc.RecordBatchStreamWriter:
        if not self._writers:
            self._files = [pa.OSFile(str(self._path(part)), "wb") for part in range(self.parts)]
            self._writers = [pa.ipc.new_stream(file, schema) for file in self._files]
        return self._writers[number]

    def _path(self, number: int) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / f"{number}.part"

    def finish(self) -> None:
        """Every block was added."""
        for one in () if self._finished else (*self._writers, *self._files):
            one.close()
        self._finished = True

    def part(self, number: int) -> pa.Table | None:
        """The changes of one part, in the order of `row`; None: it has none.  A part is given once."""
        if self._folder is None:
            slices = [
                block.slice(bounds[number], bounds[number + 1] - bounds[number])
                for block, bounds in self._blocks
            ]
            table = pa.Table.from_batches(slices) if slices else None
        elif self._writers:
            with pa.OSFile(str(self._path(number)), "rb") as file, pa.ipc.open_stream(file) as reader:
                table = reader.read_all()
            self._path(number).unlink()
        else:
            table = None
        if table is None or not table.num_rows:
            return None
        rows = table["row"].to_numpy()
        if (rows[1:] < rows[:-1]).any():
            table = table.take(pa.array(np.argsort(rows, kind="stable")))
        return table

    def close(self) -> None:
        """Free memory and disk."""
        self.finish()
        self._blocks, self._files, self._writers = [], [], []
        if self._folder is not None:
            self._folder.cleanup()
