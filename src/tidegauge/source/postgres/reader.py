"""Reads a whole table, view or foreign table of a PostgreSQL server; the only right it needs is SELECT."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pyarrow.compute as pc

from tidegauge.errors import SourceError
from tidegauge.source.batch.names import nearest, quote
from tidegauge.source.batch.values import from_text
from tidegauge.source.postgres import catalog
from tidegauge.source.postgres.access import Access, final, unreachable
from tidegauge.source.postgres.load import copied

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from tidegauge.source.postgres.access import Connection


def tables(dsn: str, schema: str) -> list[str]:
    """The names of the tables and views that the role may read in a schema."""
    try:
        with Access(dsn).connect() as connection:
            return catalog.tables(connection, schema)
    except psycopg.Error as error:
        raise final(error) or unreachable(error) from None


class PostgresReader:
    """Reads a table through one COPY statement, and so at one moment."""

    def __init__(self, dsn: str, table: str, *, schema: str = "public") -> None:
        self._access = Access(dsn)
        self._schema = schema
        self.table = table

    def _found(self, connection: Connection) -> catalog.Table:
        found = catalog.table(connection, self._schema, self.table)
        if found is None:
            names = catalog.tables(connection, self._schema)
            raise SourceError(
                f"there is no table {quote(self._schema)}.{quote(self.table)} that this role may see; "
                f"{nearest(self.table, names)} Nothing was read. Correct [source] table or "
                "schema, or grant the "
                "role SELECT."
            )
        return found

    @property
    def columns(self) -> Mapping[str, str]:
        """The columns as they are now."""
        try:
            with self._access.connect() as connection:
                found = self._found(connection)
        except psycopg.Error as error:
            raise final(error) or unreachable(error) from None
        return {name: catalog.sql_type(*kind) for name, kind in found.columns.items()}

    def key(self) -> list[str]:
        """The columns of its primary key, in their order; empty where it has none."""
        try:
            with self._access.connect() as connection:
                return catalog.primary_key(connection, self._found(connection))
        except psycopg.Error as error:
            raise final(error) or unreachable(error) from None

    def scan(self, text: Sequence[str], typed: Mapping[str, str]) -> Iterator[list[pa.Array]]:
        """All rows, some megabytes at a time."""
        try:
            with self._access.connect() as connection:
                found = self._found(connection)
                padded = {name for name, (oid, _) in found.columns.items() if oid == catalog.PADDED}
                for rows in copied(connection, found, list(dict.fromkeys([*text, *typed]))):
                    trimmed = {n: pc.utf8_rtrim(rows[n], " ") if n in padded else rows[n] for n in rows}
                    yield [rows[n] for n in text] + [from_text(trimmed[n], kind) for n, kind in typed.items()]
        except psycopg.Error as error:
            raise final(error) or unreachable(error) from None
