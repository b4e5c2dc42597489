"""How the scripted life is lived in each database, and the source that follows it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import psycopg
from psycopg import sql

from tests.source.life import Delete, Insert, Rename, Truncate, Update
from tidegauge.source.postgres import Postgres

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.source.life import Operation, Row, Transaction
    from tidegauge.model.mutation import Source


class Harness(Protocol):
    """A table somewhere; a gap says why a source cannot tell something."""

    gaps: ClassVar[dict[str, str]]

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
    """A table of a real server, in a database and under a name that need quoting."""

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
            sql.SQL("CREATE TABLE {} (id integer PRIMARY KEY, extra text DEFAULT 'e', person text, status text, age integer) {}")
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
        source = Postgres(self.dsn, self.name, entry="id", unit="person", schema=self.schema, patience=5)
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


class PostgresFull(PostgresTable):
    full = True


class PostgresPartitioned(PostgresTable):
    partitioned = True
    gaps: ClassVar[dict[str, str]] = {
        "previous": "a row that moves to another partition is a deletion and an insertion in PostgreSQL's log"
    }
