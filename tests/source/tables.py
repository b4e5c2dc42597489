"""The same table, with columns id, person and n, as every kind of source delivers it."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
import time
from abc import ABC, abstractmethod
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.source.harness import clear
from tidegauge.source.sqlite.triggers import install

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.servers.postgres import Server

Row = tuple[str | None, str | None, int]
LONG = ("jsonl", "snapshots-sqlite", "snapshots-parquet", "history", "snapshots-postgres")
"""Kinds that share their reader with one that is tested in every run."""


def micros() -> int:
    return time.time_ns() // 1000


class Table(ABC):
    """Tells the same table in some way; `steps` are (old, new) of every row that changes."""

    source = ""

    def __init__(self, first: Sequence[Row]) -> None:
        self.first = list(first)

    def begin(self) -> None:
        self.change([(None, row) for row in self.first])

    @abstractmethod
    def change(self, steps: list[tuple[Row | None, Row]]) -> None:
        """Change rows: from the first of each pair to the second."""


class Csv(Table):
    source = (
        'kind = "files"\npath = "t.csv"\ntime = "ts"\nop = "op"\n'
        'types = { n = "integer" }\ntime_unit = "microseconds"'
    )

    def change(self, steps: list[tuple[Row | None, Row]]) -> None:
        head = not Path("t.csv").exists()
        with Path("t.csv").open("a", newline="") as file:
            writer = csv.writer(file)
            if head:
                writer.writerow(["ts", "op", "id", "person", "n"])
            for old, new in steps:
                if old and old[0] != new[0]:
                    writer.writerow([micros(), "d", *old])
                writer.writerow([micros(), "u", *new])


class JsonLines(Csv):
    source = Csv.source.replace("t.csv", "t.jsonl")

    def change(self, steps: list[tuple[Row | None, Row]]) -> None:
        with Path("t.jsonl").open("a") as file:
            for old, new in steps:
                for op, row in (("d", old), ("u", new)):
                    if row and (op == "u" or row[0] != new[0]):
                        said = dict(zip(("id", "person", "n"), row, strict=True))
                        file.write(json.dumps({"ts": micros(), "op": op, **said}) + "\n")


class Events(Table):
    source = (
        'kind = "debezium"\npath = "t.jsonl"\ncolumns = { id = "VARCHAR", person = "VARCHAR", n = "BIGINT" }'
    )
    lsn = 0

    def change(self, steps: list[tuple[Row | None, Row]]) -> None:
        with Path("t.jsonl").open("a") as file:
            for old, new in steps:
                self.lsn += 1
                images = [row and dict(zip(("id", "person", "n"), row, strict=True)) for row in (old, new)]
                origin = {
                    "connector": "postgresql",
                    "table": "t",
                    "ts_us": micros(),
                    "sequence": f'["{self.lsn}","{self.lsn}"]',
                }
                said = {"op": "u" if old else "c", "before": images[0], "after": images[1], "source": origin}
                file.write(json.dumps(said) + "\n")


class SQLiteFile(Table):
    source = 'kind = "sqlite"\npath = "app.db"'

    def begin(self) -> None:
        with closing(sqlite3.connect("app.db", isolation_level=None)) as db:
            db.execute("CREATE TABLE t (id TEXT PRIMARY KEY, person TEXT, n INTEGER)")
            db.executemany("INSERT INTO t VALUES (?, ?, ?)", self.first)
        self.install()

    def install(self) -> None:
        install("app.db", "t")

    def change(self, steps: list[tuple[Row | None, Row]]) -> None:
        with closing(sqlite3.connect("app.db")) as db, db:
            for old, new in steps:
                assert old is not None
                db.execute("UPDATE t SET id = ?, person = ?, n = ? WHERE n = ?", (*new, old[2]))


class SQLiteSnapshots(SQLiteFile):
    source = 'kind = "snapshots"\nof = "sqlite"\npath = "app.db"'

    def install(self) -> None:
        pass


class Parquet(Table):
    source = 'kind = "snapshots"\nof = "parquet"\npath = "t.parquet"'

    def change(self, steps: list[tuple[Row | None, Row]]) -> None:
        columns = zip(*(new for _, new in steps), strict=True)
        kinds = {"id": pa.string(), "person": pa.string(), "n": pa.int64()}
        pq.write_table(
            pa.table([pa.array(c, k) for c, k in zip(columns, kinds.values(), strict=True)], list(kinds)),
            "t.parquet",
        )


class History(Table):
    source = 'kind = "snapshots"\nof = "sqlite"\npath = "app.db"\nvalid_from = "f"\nvalid_to = "u"'

    def begin(self) -> None:
        with closing(sqlite3.connect("app.db", isolation_level=None)) as db:
            db.execute("CREATE TABLE t (id TEXT, person TEXT, n INTEGER, f INTEGER, u INTEGER)")
            db.executemany(f"INSERT INTO t VALUES (?, ?, ?, {micros()}, NULL)", self.first)

    def change(self, steps: list[tuple[Row | None, Row]]) -> None:
        with closing(sqlite3.connect("app.db")) as db, db:
            at = micros()
            db.execute("UPDATE t SET u = ? WHERE u IS NULL", (at,))
            db.executemany(f"INSERT INTO t VALUES (?, ?, ?, {at}, NULL)", [new for _, new in steps])


class PostgresFull(Table):
    kind = 'kind = "postgres"'

    def __init__(self, first: Sequence[Row], connection: psycopg.Connection[Any], schema: str) -> None:
        super().__init__(first)
        self.connection = connection
        self.source = f'{self.kind}\ndsn = "env:NOBODY_DSN"\nschema = "{schema}"'
        connection.execute(f"CREATE SCHEMA {schema}")
        connection.execute(f"SET search_path = {schema}")
        connection.execute("CREATE TABLE t (id text, person text, n int)")
        connection.execute("ALTER TABLE t REPLICA IDENTITY FULL")

    def begin(self) -> None:
        for row in self.first[:3]:
            self.connection.execute("INSERT INTO t VALUES (%s, %s, %s)", row)

    def change(self, steps: list[tuple[Row | None, Row]]) -> None:
        for row in self.first[3:]:
            self.connection.execute("INSERT INTO t VALUES (%s, %s, %s)", row)
        for old, new in steps:
            assert old is not None
            self.connection.execute("UPDATE t SET id = %s, person = %s, n = %s WHERE n = %s", (*new, old[2]))
        self.connection.execute("INSERT INTO t VALUES (NULL, 'zoe', 512)")
        self.connection.execute("DELETE FROM t WHERE n = 512")


class PostgresSnapshots(PostgresFull):
    kind = 'kind = "snapshots"\nof = "postgres"'


TABLES: dict[str, Callable[..., Table]] = {
    "csv": Csv, "jsonl": JsonLines, "debezium": Events,
    "sqlite": SQLiteFile, "snapshots-sqlite": SQLiteSnapshots,
    "snapshots-parquet": Parquet, "history": History, "postgres": PostgresFull,
    "snapshots-postgres": PostgresSnapshots,
}  # fmt: skip


@contextmanager
def table_of(
    kind: str, first: Sequence[Row], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Table]:
    """The table of a kind of source, in the working folder or on the server of the tests."""
    if "postgres" not in kind:
        yield TABLES[kind](first)
        return
    server: Server = request.getfixturevalue("postgres")
    monkeypatch.setitem(os.environ, "NOBODY_DSN", server.dsn())
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        yield TABLES[kind](first, connection, request.getfixturevalue("fresh"))
        clear(connection)


def in_every_run(kinds: Sequence[str]) -> list[Any]:
    """The kinds as parameters of a test, some of them for long runs only."""
    return [pytest.param(kind, marks=pytest.mark.slow) if kind in LONG else kind for kind in kinds]
