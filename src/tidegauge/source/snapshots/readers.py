"""Tables that are read whole, from databases and files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import duckdb
import pyarrow as pa

from tidegauge.errors import SourceError, SpecError
from tidegauge.source.batch.names import literal, no_column, no_table, quote
from tidegauge.source.batch.values import arrow_type, declared_types, from_values
from tidegauge.source.sqlite.source import sql_type as sqlite_type
from tidegauge.source.sqlite.triggers import connect, declared, table_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_CHUNK: Final = 50_000


class Reader(Protocol):
    """A table that can be read whole, in its state at one moment."""

    @property
    def table(self) -> str:
        """Its name in SQL."""
        ...

    @property
    def columns(self) -> Mapping[str, str]:
        """Its columns and their SQL types."""
        ...

    def scan(self, text: Sequence[str], typed: Mapping[str, str]) -> Iterator[list[pa.Array]]:
        """All rows, some at a time: first these columns as text, then those as these types."""
        ...


class SQLiteReader:
    """A table of an SQLite file; `types` overrides the types of its declaration."""

    def __init__(self, path: str | Path, table: str, types: Mapping[str, str] | None = None) -> None:
        self._path = Path(path)
        self.table = table
        self._types = declared_types(types or {}, key="source.types")

    @property
    def columns(self) -> Mapping[str, str]:
        """The columns as SQLite declares them."""
        with closing(connect(self._path)) as connection:
            found = declared(connection, self.table)
            if not found:
                names = table_names(connection)
                raise SourceError(no_table(self.table, names), path=str(self._path))
        if missing := self._types.keys() - found.keys():
            raise SpecError(no_column(self.table, sorted(missing), found), key="source.types")
        return {name: self._types.get(name) or sqlite_type(kind) for name, kind in found.items()}

    def scan(self, text: Sequence[str], typed: Mapping[str, str]) -> Iterator[list[pa.Array]]:
        """All rows by one statement, and so of one moment."""
        kinds = ["VARCHAR"] * len(text) + list(typed.values())
        with closing(connect(self._path)) as connection:
            try:
                names = ", ".join(f"t.{quote(name)}" for name in [*text, *typed])
                cursor = connection.execute(f"SELECT {names} FROM {quote(self.table)} AS t")
                while rows := cursor.fetchmany(_CHUNK):
                    columns = zip(*rows, strict=True)
                    yield [from_values(column, kind) for column, kind in zip(columns, kinds, strict=True)]
            except sqlite3.Error as error:
                raise SourceError(
                    f"{quote(self.table)} cannot be read ({type(error).__name__}). Nothing was "
                    "delivered. Check "
                    "the file with: sqlite3 FILE 'PRAGMA integrity_check'",
                    path=str(self._path),
                ) from None


_PLAIN: Final = frozenset(
    ("BIGINT", "BOOLEAN", "DATE", "DOUBLE", "FLOAT", "INTEGER", "SMALLINT", "TIME", "TIMESTAMP", "VARCHAR")
)
_LIKE: Final = {
    "TINYINT": "SMALLINT", "UTINYINT": "SMALLINT", "USMALLINT": "INTEGER", "UINTEGER": "BIGINT",
    "UBIGINT": "DECIMAL(38,0)", "HUGEINT": "DECIMAL(38,0)", "UHUGEINT": "DECIMAL(38,0)",
    "TIMESTAMP_S": "TIMESTAMP", "TIMESTAMP_MS": "TIMESTAMP", "TIMESTAMP_NS": "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP",
}  # fmt: skip


def database(path: str = ":memory:", *, read_only: bool = False) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection that fetches nothing from elsewhere and shows instants in UTC."""
    connection = duckdb.connect(
        path,
        read_only=read_only,
        config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"},
    )
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")  # a notebook's would be on standard output
    return connection


class DuckDBReader:
    """A table or view of a DuckDB file."""

    def __init__(self, path: str | Path, table: str) -> None:
        self._path = Path(path)
        self.table = table

    def _from(self) -> str:
        return quote(self.table)

    def _opened(self) -> duckdb.DuckDBPyConnection:
        if not self._path.exists():
            raise SourceError("does not exist. Correct [source] path", path=str(self._path))
        return database(str(self._path), read_only=True)

    def tables(self) -> list[str]:
        """The names of the tables and views in the file."""
        try:
            with closing(self._opened()) as connection:
                return sorted(name for (name, *_) in connection.execute("SHOW TABLES").fetchall())
        except duckdb.Error as error:
            raise self._refusal(error) from None

    @property
    def columns(self) -> Mapping[str, str]:
        """The columns as DuckDB describes them; a type that is not known here is text."""
        try:
            with closing(self._opened()) as connection:
                found = connection.execute(f"DESCRIBE SELECT * FROM {self._from()}").fetchall()
        except duckdb.Error as error:
            raise self._refusal(error) from None
        return {name: _kind(kind) for name, kind, *_ in found}

    def scan(self, text: Sequence[str], typed: Mapping[str, str]) -> Iterator[list[pa.Array]]:
        """All rows by one query, and so of one moment."""
        wanted = [(name, "VARCHAR") for name in text] + list(typed.items())
        cells = ", ".join(
            f"TRY_CAST({quote(name)} AS {kind}) AS c{n}" for n, (name, kind) in enumerate(wanted)
        )
        try:
            with closing(self._opened()) as connection:
                for batch in connection.sql(f"SELECT {cells} FROM {self._from()}").to_arrow_reader(_CHUNK):
                    yield [
                        column.cast(arrow_type(kind))
                        for column, (_, kind) in zip(batch.columns, wanted, strict=True)
                    ]
        except (duckdb.Error, pa.ArrowException, OSError) as error:  # behind the first rows, of Arrow
            raise self._refusal(error) from None

    def _refusal(self, error: Exception) -> SourceError:
        if isinstance(error, duckdb.CatalogException):
            return SourceError(no_table(self.table, self.tables()), path=str(self._path))
        return SourceError(
            f"cannot be read as {quote(self.table)} ({type(error).__name__}). A DuckDB file can be read "
            "while no other process has it open for writing.",
            path=str(self._path),
        )


class ParquetReader(DuckDBReader):
    """A Parquet file, or a pattern of them that make one table."""

    def __init__(self, path: str | Path, table: str | None = None) -> None:
        super().__init__(path, table or Path(path).name.split(".")[0])

    def _from(self) -> str:
        return f"read_parquet({literal(str(self._path))})"

    def _opened(self) -> duckdb.DuckDBPyConnection:
        return database()


def _kind(described: str) -> str:
    kind = described.upper()
    if kind in _PLAIN or kind.startswith("DECIMAL("):
        return kind
    return _LIKE.get(kind, "VARCHAR")
