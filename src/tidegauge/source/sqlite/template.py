"""The declaration that `init` writes for a table of an SQLite file."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from tidegauge.source.batch.draft import (
    Outline,
    chosen,
    draft,
    key_lines,
    line,
    path_of,
    relative,
    source_table,
)
from tidegauge.source.sqlite import triggers
from tidegauge.source.sqlite.source import SQLite

if TYPE_CHECKING:
    from tidegauge.model.source import Asked, Draft


def outline(asked: Asked) -> tuple[list[str], Outline]:
    """The lines that say where the table is, and its columns and key."""
    path = path_of(asked)
    with closing(triggers.connect(path)) as connection:
        name = chosen(triggers.table_names(connection), asked.table)
        key = triggers.primary_key(connection, name)
    lines = [line("path", relative(path, asked.folder)), line("table", name)]
    return lines, Outline(name, SQLite(path, name).columns, key)


def template(asked: Asked) -> Draft:
    """A declaration from the file's schema."""
    place, found = outline(asked)
    lines = source_table("sqlite", *place, *key_lines(found, sure=True))
    return draft(lines, found, then="tidegauge install (triggers that record changes); tidegauge plan")
