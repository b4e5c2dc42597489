"""The embedded engine as a temporary tool of a source: private, with limited memory."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import duckdb
import pyarrow as pa

from tidegauge.scratch import ScratchFolder
from tidegauge.source.batch.refusal import refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMORY: Final = "1GB"
"""Rows that do not fit are sorted on disk, in a folder for the owner alone."""

_CLOCK: Final = r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,9})?)?"
_ZONE: Final = r"(Z|[+-]([01]\d|2[0-3])(:?[0-5]\d)?)?"
_ISO: Final = rf"\d{{4}}-\d{{2}}-\d{{2}}([T ]{_CLOCK}{_ZONE})?"
_WHOLE: Final = r"\s*[+-]?\d+(\.0*)?\s*"

_MACROS: Final = (
    # Only TIMESTAMPTZ heeds an offset in text; text without an offset is in the session's zone, UTC.
    f"""CREATE MACRO instant(written) AS
        CASE WHEN regexp_full_match(replace(trim(written), ' UTC', 'Z'), '{_ISO}')
        THEN epoch_us(TRY_CAST(replace(trim(written), ' UTC', 'Z') AS TIMESTAMPTZ)) END""",
    """CREATE MACRO since_epoch(written, per_unit) AS
        CAST(floor(TRY_CAST(written AS DECIMAL(27, 9)) * per_unit) AS DECIMAL(38, 0))""",
    "CREATE MACRO in_calendar(micros) AS micros BETWEEN -62135596800000000 AND 253402300799999999",
    f"""CREATE MACRO as_integer(written) AS
        CASE WHEN regexp_full_match(written, '{_WHOLE}') THEN TRY_CAST(written AS BIGINT) END""",
    """CREATE MACRO as_timestamp(written) AS
        CASE WHEN in_calendar(instant(written)) THEN make_timestamp(instant(written)) END""",
)

TYPES: Final = {
    "text": ("VARCHAR", "{}"),
    "integer": ("BIGINT", "as_integer({})"),
    "number": ("DOUBLE", "TRY_CAST({} AS DOUBLE)"),
    "decimal": ("DECIMAL(38,9)", "TRY_CAST({} AS DECIMAL(38,9))"),
    "boolean": ("BOOLEAN", "TRY_CAST({} AS BOOLEAN)"),
    "date": ("DATE", "CAST(as_timestamp({}) AS DATE)"),
    "timestamp": ("TIMESTAMP", "as_timestamp({})"),
}
"""A declared type -> the engine's type, and the SQL that converts text to it (NULL if that fails)."""


@contextmanager
def scratch() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an engine with macros that convert text.  An error inside becomes a SourceError without its text.

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
            for statement in ("SET TimeZone = 'UTC'", *_MACROS):
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

    A timestamp is one in UTC whatever its unit and zone; a column of nulls is text.
    """
    with duckdb.connect(":memory:") as engine:
        return {field.name: _sql_type(engine, field) for field in schema}


def _sql_type(engine: duckdb.DuckDBPyConnection, field: pa.Field) -> str | None:
    try:
        name = str(engine.from_arrow(pa.schema([field]).empty_table()).types[0])
    except duckdb.Error:
        return None
    return "TIMESTAMP" if name.startswith("TIMESTAMP") else "VARCHAR" if name in {'"NULL"', "JSON"} else name
