"""The declaration that `init` writes for a table of a PostgreSQL server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.source.batch.draft import Outline, chosen, draft, key_lines, line, source_table
from tidegauge.source.batch.names import secret
from tidegauge.source.postgres.reader import PostgresReader, tables

if TYPE_CHECKING:
    from tidegauge.model.source import Asked, Draft


def outline(asked: Asked) -> tuple[list[str], Outline]:
    """The lines that say where the table is, and its columns and key."""
    assert asked.what is not None
    url, schema = secret(asked.what, key="dsn"), asked.schema or "public"
    name = chosen(tables(url, schema), asked.table)
    reader = PostgresReader(url, name, schema=schema)
    lines = [
        line("dsn", asked.what, "the connection string stays in the environment"),
        line("table", name),
        *([line("schema", asked.schema)] if asked.schema else []),
    ]
    return lines, Outline(name, reader.columns, reader.key())


def template(asked: Asked) -> Draft:
    """A declaration from the server's catalog."""
    place, found = outline(asked)
    lines = source_table("postgres", *place, *key_lines(found, sure=True))
    return draft(lines, found, then="tidegauge doctor; tidegauge plan")
