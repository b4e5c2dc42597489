"""How a name and a text are written in SQL: the one rule of DuckDB, PostgreSQL and SQLite."""

from __future__ import annotations


def quote(name: str) -> str:
    """The name as an SQL identifier, whatever characters it has."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """The text as an SQL string, whatever characters it has."""
    return "'" + text.replace("'", "''") + "'"
