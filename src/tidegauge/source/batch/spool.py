"""Any number of rows: few are kept in memory, many in a file without a name."""

from __future__ import annotations

import mmap
import tempfile
from typing import Final

import pyarrow as pa

from tidegauge.scratch import temporary_folder

MEMORY: Final = 64 << 20


class Spool:
    """Collects tables of one schema.  Its file is unlinked at once: no secret outlives the process."""

    def __init__(self, schema: pa.Schema, memory: int = MEMORY) -> None:
        self._schema = schema
        self._memory = memory
        self._held: list[pa.Table] = []
        self._held_bytes = 0
        self._writer: pa.ipc.RecordBatchFileWriter | None = None
        self.rows = 0

    def append(self, table: pa.Table) -> None:
        """Add rows."""
        self.rows += table.num_rows
        self._held.append(table)
        self._held_bytes += table.nbytes
        if self._held_bytes > self._memory:
            self._write()

    def _write(self) -> None:
        if self._writer is None:
            self._file = tempfile.TemporaryFile(  # noqa: SIM115 -- lives as long as the rows
                prefix="tidegauge-", dir=temporary_folder()
            )
            self._writer = pa.ipc.new_file(pa.PythonFile(self._file, "w"), self._schema)
        for table in self._held:
            self._writer.write_table(table)
        self._held, self._held_bytes = [], 0

    def take(self) -> pa.Table:
        """All rows, in order; a spooled table is mapped, not read.  The spool is empty afterwards."""
        if self._writer is None:
            table = pa.concat_tables([self._schema.empty_table(), *self._held])
        else:
            self._write()
            self._writer.close()
            self._file.flush()
            mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
            self._file.close()
            table = pa.ipc.open_file(pa.py_buffer(mapped)).read_all()
        self._held, self._held_bytes, self._writer, self.rows = [], 0, None, 0
        return table
