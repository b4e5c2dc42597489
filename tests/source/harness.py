"""How the scripted life is lived in each database, and the source that follows it."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import psycopg
from psycopg import sql

from tests.source.life import COLUMNS, Delete, Insert, Rename, Truncate, Update
from tidegauge.source.batch.names import quote
from tidegauge.source.postgres.source import Postgres
from tidegauge.source.sqlite.source import SQLite
from tidegauge.source.sqlite.triggers import install

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.source.life import Operation, Row, Transaction
    from tidegauge.model.mutation import Source


class Harness(Protocol):
    """A table somewhere; a gap says why a source cannot tell something."""

    gaps: ClassVar[dict[str, str]]
    columns: ClassVar[dict[str, str]]

    def begin(self, rows: Iterable[Row]) -> None: ...
    def live(self, transactions: Iterable[Transaction]) -> None: ...
    def source(self) -> Source: ...
    def now(self) -> int: ...
    def end(self) -> None: ...


def now() -> int:
    return int(time.time() * 1_000_000)


def clear(connection: psycopg.Connection[Any]) -> None:
    """Drop the slots and publications that a test has left, once their readers are gone."""
    slots = "FROM pg_replication_slots WHERE slot_type = 'logical'"
    while connection.execute(f"SELECT 1 {slots} AND active".encode()).fetchone():
        time.sleep(0.01)
    connection.execute(f"SELECT pg_drop_replication_slot(slot_name) {slots}".encode())
    for (name,) in connection.execute("SELECT pubname FROM pg_publication").fetchall():
        connection.execute(sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(name)))


class PostgresTable:
    """A table of a real server, under a name that needs quoting."""

    columns: ClassVar[dict[str, str]] = COLUMNS
    gaps: ClassVar[dict[str, str]] = {}
    name = "pa\"ti'ents; --"
    full = False
    partitioned = False

    def __init__(self, dsn: str, schema: str) -> None:
        self.dsn, self.schema = dsn, schema
        self.connection = psycopg.connect(dsn, options=f"-c search_path={schema}")
        self._run(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        self.table = sql.Identifier(self.name)
        self.sources: list[Postgres] = []

    def begin(self, rows: Iterable[Row]) -> None:
        part = sql.SQL("PARTITION BY HASH (id)" if self.partitioned else "")
        self._run(
            sql.SQL("CREATE TABLE {} (id integer PRIMARY KEY, extra text DEFAULT 'e', person text, status "
                    "text, age integer) {}")
            .format(self.table, part)
        )  # fmt: skip
        if self.partitioned:
            for n in range(2):
                self._run(
                    sql.SQL("CREATE TABLE {} PARTITION OF {} FOR VALUES WITH (MODULUS 2, REMAINDER {})")
                    .format(sql.Identifier(f"part{n}"), self.table, sql.Literal(n))
                )  # fmt: skip
        if self.full:
            for name in [self.name, *(["part0", "part1"] if self.partitioned else [])]:
                self._run(sql.SQL("ALTER TABLE {} REPLICA IDENTITY FULL").format(sql.Identifier(name)))
        self._run(sql.SQL("CREATE TABLE other (id integer PRIMARY KEY)"))
        for row in rows:
            self._operate(Insert(row))
        self.connection.commit()

    def live(self, transactions: Iterable[Transaction]) -> None:
        for transaction in transactions:
            for operation in transaction.operations:
                self._operate(operation)
            self._run(sql.SQL("INSERT INTO other SELECT count(*) + 1 FROM other"))
            if transaction.commits:
                self.connection.commit()
            else:
                self.connection.rollback()

    def _run(self, statement: sql.Composed | sql.SQL, values: Iterable[Any] = ()) -> None:
        self.connection.execute(statement, list(values))

    def _operate(self, operation: Operation) -> None:
        match operation:
            case Insert(row):
                self._run(
                    sql.SQL("INSERT INTO {} (id, person, status, age) VALUES (%s, %s, %s, %s)").format(
                        self.table
                    ),
                    row.values(),
                )
            case Update(number, to):
                settings = sql.SQL(", ").join(sql.SQL("{} = %s").format(sql.Identifier(name)) for name in to)
                self._run(
                    sql.SQL("UPDATE {} SET {} WHERE id = %s").format(self.table, settings),
                    [*to.values(), number],
                )
            case Delete(number):
                self._run(sql.SQL("DELETE FROM {} WHERE id = %s").format(self.table), [number])
            case Rename(number, to):
                self._run(sql.SQL("UPDATE {} SET id = %s WHERE id = %s").format(self.table), [to, number])
            case Truncate():
                self._run(sql.SQL("TRUNCATE {}").format(self.table))

    def source(self) -> Source:
        source = Postgres(self.dsn, self.name, key="id", unit="person", schema=self.schema, patience=5)
        source.select(["id", "person", "status", "age"])
        self.sources.append(source)
        return source

    def now(self) -> int:
        return now()

    def end(self) -> None:
        self.connection.close()
        for source in self.sources:
            source.close()
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            clear(connection)


class SQLiteTable:
    """A file that an application writes in WAL mode."""

    gaps: ClassVar[dict[str, str]] = {}
    columns: ClassVar[dict[str, str]] = COLUMNS | {"id": "BIGINT", "age": "BIGINT"}
    name = "pa\"ti'ents; --"

    def __init__(self, folder: Path) -> None:
        self.path = folder / "some file.db"
        self.connection = sqlite3.connect(self.path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.table = quote(self.name)

    def begin(self, rows: Iterable[Row]) -> None:
        self.connection.execute(
            f"CREATE TABLE {self.table} (id INTEGER PRIMARY KEY, "
            "extra TEXT, person TEXT, status TEXT, age INTEGER)"
        )
        for row in rows:
            self._operate(Insert(row))
        self.installed()

    def installed(self) -> None:
        install(self.path, self.name)

    def live(self, transactions: Iterable[Transaction]) -> None:
        for transaction in transactions:
            self.connection.execute("BEGIN")
            for operation in transaction.operations:
                self._operate(operation)
            self.connection.execute("COMMIT" if transaction.commits else "ROLLBACK")

    def _operate(self, operation: Operation) -> None:
        run, table = self.connection.execute, self.table
        match operation:
            case Insert(row):
                run(f"INSERT INTO {table} (id, person, status, age) VALUES (?, ?, ?, ?)", list(row.values()))
            case Update(number, to):
                run(
                    f"UPDATE {table} SET {', '.join(f'{name} = ?' for name in to)} WHERE id = ?",
                    [*to.values(), number],
                )
            case Delete(number):
                run(f"DELETE FROM {table} WHERE id = ?", [number])
            case Rename(number, to):
                run(f"UPDATE {table} SET id = ? WHERE id = ?", [to, number])
            case Truncate():
                run(f"DELETE FROM {table}")

    def source(self) -> Source:
        source = SQLite(self.path, self.name, unit="person")
        source.select(["id", "person", "status", "age"])
        return source

    def now(self) -> int:
        time.sleep(0.002)  # the triggers' clock shows milliseconds
        return now()

    def end(self) -> None:
        self.connection.close()


class PostgresFull(PostgresTable):
    full = True


class PostgresPartitioned(PostgresTable):
    partitioned = True
    gaps: ClassVar[dict[str, str]] = {
        "previous": "a row that moves to another partition is a deletion and an insertion in PostgreSQL's log"
    }
