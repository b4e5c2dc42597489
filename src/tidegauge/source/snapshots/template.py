"""The declaration that `init` writes for a table that is read whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.source.batch.draft import (
    Outline,
    chosen,
    draft,
    guessed_key,
    head,
    key_lines,
    line,
    path_of,
    relative,
    source_table,
)
from tidegauge.source.postgres.kind import needs_extra
from tidegauge.source.snapshots.readers import DuckDBReader, ParquetReader
from tidegauge.source.sqlite import template as sqlite
from tidegauge.source.sqlite.kind import MAGIC

if TYPE_CHECKING:
    from tidegauge.model.source import Asked, Draft

_VERSIONS: Final = {"valid_from": "dbt_valid_from", "valid_to": "dbt_valid_to"}


def template(asked: Asked) -> Draft:
    """A declaration from the table's columns; one with dbt's columns of validity keeps its history."""
    of, place, found = _found(asked)
    if found.columns.keys() >= set(_VERSIONS.values()):
        past = [line(name, column) for name, column in _VERSIONS.items()]
    else:
        past = [line("every", "1 day", "the time from one look at the whole table to the next")]
    key = key_lines(found, sure=of in ("sqlite", "postgres"))
    lines = source_table("snapshots", line("of", of), *place, *key, *past)
    return draft(lines, found, apart=_VERSIONS.values())


def _found(asked: Asked) -> tuple[str, list[str], Outline]:
    """What the table is in, the lines that say where, and its columns and key."""
    if asked.server:
        try:
            from tidegauge.source.postgres import template as postgres  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise needs_extra(error) from None
        return "postgres", *postgres.outline(asked)
    path, begins = path_of(asked), head(asked)
    if begins.startswith(MAGIC):
        return "sqlite", *sqlite.outline(asked)
    if begins[8:12] == b"DUCK":
        reader = DuckDBReader(path, chosen(DuckDBReader(path, "").tables(), asked.table))
    else:
        reader = ParquetReader(path, asked.table)
    of = "parquet" if isinstance(reader, ParquetReader) else "duckdb"
    place = [line("path", relative(path, asked.folder)), line("table", reader.table)]
    return of, place, Outline(reader.table, reader.columns, guessed_key(reader.columns))
