"""The scripted life of tables that are read whole."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING, ClassVar

import duckdb
import pyarrow as pa
from pyarrow import parquet

from tests.source.harness import PostgresTable, SQLiteTable, now
from tests.source.life import COLUMNS, Table
from tidegauge.source.batch.names import quote
from tidegauge.source.batch.rows import shape
from tidegauge.source.postgres.reader import PostgresReader
from tidegauge.source.snapshots.history import History
from tidegauge.source.snapshots.readers import DuckDBReader, ParquetReader, SQLiteReader
from tidegauge.source.snapshots.source import Snapshots

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.source.life import Row, Transaction
    from tidegauge.model.mutation import Source

LINK = {"previous": "an image does not tell that a row and another with a new key are the same"}


class PostgresSnapshots(PostgresTable):
    gaps: ClassVar[dict[str, str]] = LINK

    def __init__(self, dsn: str, schema: str, folder: Path) -> None:
        super().__init__(dsn, schema)
        self.folder = folder

    def source(self) -> Source:
        reader = PostgresReader(self.dsn, self.name, schema=self.schema)
        source = Snapshots(reader, key="id", unit="person", folder=self.folder)
        source.select(["id", "person", "status", "age"])
        return source


class SQLiteSnapshots(SQLiteTable):
    gaps: ClassVar[dict[str, str]] = LINK

    def installed(self) -> None:
        pass

    def source(self) -> Source:
        source = Snapshots(
            SQLiteReader(self.path, self.name), key="id", unit="person", folder=self.path.parent / "images"
        )
        source.select(["id", "person", "status", "age"])
        return source


class ParquetSnapshots:
    """A file that a nightly job writes again."""

    gaps: ClassVar[dict[str, str]] = LINK
    columns: ClassVar[dict[str, str]] = COLUMNS

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.table = Table()

    def begin(self, rows: Iterable[Row]) -> None:
        self.table.rows = {row["id"]: row for row in rows}
        self.write()

    def live(self, transactions: Iterable[Transaction]) -> None:
        self.table.apply(transactions)
        self.write()

    def arrow(self) -> pa.Table:
        return pa.Table.from_pylist(list(self.table.rows.values()), pa.schema(list(shape(COLUMNS))))

    def write(self) -> None:
        parquet.write_table(self.arrow(), self.folder / "it's.parquet")

    def source(self) -> Source:
        return Snapshots(
            ParquetReader(self.folder / "it's.parquet"),
            key="id",
            unit="person",
            folder=self.folder / "images",
        )

    def now(self) -> int:
        return now()

    def end(self) -> None:
        pass


class DuckDBSnapshots(ParquetSnapshots):
    """A DuckDB file that another process writes in its hour."""

    name = "pa\"ti'ents; --"

    def write(self) -> None:
        rows = self.arrow()
        with closing(duckdb.connect(str(self.folder / "a.duckdb"))) as db:
            db.register("rows", rows)
            db.execute(f"CREATE OR REPLACE TABLE {quote(self.name)} AS SELECT * FROM rows")

    def source(self) -> Source:
        return Snapshots(
            DuckDBReader(self.folder / "a.duckdb", self.name),
            key="id",
            unit="person",
            folder=self.folder / "images",
        )


class HistoryTable(ParquetSnapshots):
    """A table of versions that is kept after every transaction, in SQLite."""

    gaps: ClassVar[dict[str, str]] = LINK
    columns: ClassVar[dict[str, str]] = COLUMNS | {"id": "BIGINT", "age": "BIGINT"}
    name = "pa\"ti'ents; --"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.connection = sqlite3.connect(folder / "h.db", isolation_level=None)
        self.connection.execute(
            f"CREATE TABLE {quote(self.name)} (id INTEGER, person TEXT, status TEXT, age INTEGER, "
            "dbt_valid_from INTEGER, dbt_valid_to INTEGER)"
        )
        self.kept: dict[int, Row] = {}

    def live(self, transactions: Iterable[Transaction]) -> None:
        for transaction in transactions:
            self.table.apply([transaction])
            self.write()

    def write(self) -> None:
        time.sleep(0.00001)
        at, table = now(), quote(self.name)
        self.connection.execute("BEGIN")
        for number in self.kept.keys() | self.table.rows.keys():
            old, new = self.kept.get(number), self.table.rows.get(number)
            if old != new:
                if old:
                    self.connection.execute(
                        f"UPDATE {table} SET dbt_valid_to = ? WHERE id = ? AND dbt_valid_to IS NULL",
                        [at, number],
                    )
                if new:
                    self.connection.execute(
                        f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?, NULL)", [*new.values(), at]
                    )
        self.connection.execute("COMMIT")
        self.kept = dict(self.table.rows)

    def source(self) -> Source:
        return History(
            SQLiteReader(self.folder / "h.db", self.name),
            key="id",
            unit="person",
            folder=self.folder / "images",
        )

    def end(self) -> None:
        self.connection.close()
