"""The rows of a table as they are now, read through COPY."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import csv

from tidegauge.source.batch.names import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidegauge.source.postgres.access import Connection
    from tidegauge.source.postgres.catalog import Table

_CHUNK: Final = 8 << 20


def copied(connection: Connection, table: Table, columns: Sequence[str]) -> Iterator[dict[str, pa.Array]]:
    """Columns of text, a few megabytes of rows at a time.  Null and the empty text stay different."""
    only = "" if table.partitioned else "ONLY "
    names = ", ".join(map(quote, columns))
    statement = f"COPY (SELECT {names} FROM {only}{table.quoted}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)"
    with connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        lines: list[bytes] = []
        size = 0
        for line in copy:
            lines.append(bytes(line))
            size += len(line)
            if size > _CHUNK:
                yield _parsed(lines, columns)
                lines, size = [], 0
        if lines:
            yield _parsed(lines, columns)


def _parsed(lines: list[bytes], columns: Sequence[str]) -> dict[str, pa.Array]:
    numbers = [str(number) for number in range(len(columns))]
    data = b"".join(lines)
    table = csv.read_csv(
        pa.BufferReader(data),
        read_options=csv.ReadOptions(column_names=numbers, block_size=len(data) + 1, use_threads=False),
        parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(numbers, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return {name: table[number].combine_chunks() for name, number in zip(columns, numbers, strict=True)}
