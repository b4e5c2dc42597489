"""The embedded engine as a temporary tool of a source: private, with limited memory."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import duckdb
import pyarrow as pa

from tidegauge.scratch import ScratchFolder
from tidegauge.source.batch.refusal import refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MEMORY: Final = "1GB"
"""Rows that do not fit are sorted on disk, in a folder for the owner alone."""


@contextmanager
def scratch(macros: Iterable[str] = ()) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an engine that knows these macros.  An error inside becomes a SourceError without its text.

    The engine's own messages quote the data, so they are dropped.
    """
    with ScratchFolder() as folder:
        engine = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": MEMORY,
                "temp_directory": folder.name,
                "preserve_insertion_order": "false",
                "autoinstall_known_extensions": "false",
            },
        )
        try:
            for statement in ("SET TimeZone = 'UTC'", "SET enable_progress_bar = false", *macros):
                engine.execute(statement)
            yield engine
        except (duckdb.OutOfMemoryException, duckdb.IOException):
            raise refusal(
                f"the rows need more than {MEMORY} of memory and the temporary folder has no room for them; "
                "set TMPDIR to a folder with more"
            ) from None
        except duckdb.Error as error:
            raise refusal(f"the rows cannot be arranged ({type(error).__name__})") from None
        finally:
            engine.close()


def sql_types(schema: pa.Schema) -> dict[str, str | None]:
    """The SQL type of each column, None if the engine has no such type.

    A timestamp is in UTC, whatever its unit and zone; a column of nulls is text.
    """
    with duckdb.connect(":memory:") as engine:
        return {field.name: _sql_type(engine, field) for field in schema}


def _sql_type(engine: duckdb.DuckDBPyConnection, field: pa.Field) -> str | None:
    try:
        name = str(engine.from_arrow(pa.schema([field]).empty_table()).types[0])
    except duckdb.Error:
        return None
    return "TIMESTAMP" if name.startswith("TIMESTAMP") else "VARCHAR" if name in {'"NULL"', "JSON"} else name
