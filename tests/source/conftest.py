"""One private server a version, and the tables that live on it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.servers.postgres import Server, binaries
from tests.source.debezium.harness import DebeziumFile, DebeziumInbox, DebeziumKafka
from tests.source.files import harness as files_harness
from tests.source.harness import PostgresFull, PostgresPartitioned, PostgresTable, SQLiteTable
from tests.source.snapshots.harness import (
    DuckDBSnapshots,
    HistoryTable,
    ParquetSnapshots,
    PostgresSnapshots,
    SQLiteSnapshots,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.source.debezium.harness import DebeziumFile, DebeziumInbox, DebeziumKafka
from tests.source.harness import Harness

_SCHEMAS = itertools.count()


@pytest.fixture(scope="session")
def postgres_servers() -> Iterator[Callable[[int], Server]]:
    """The n-th server found on this machine, started when first asked for."""
    running: dict[int, Server] = {}

    def server(number: int) -> Server:
        if number >= len(binaries()):
            pytest.skip(f"this machine has the binaries of {len(binaries())} PostgreSQL versions")
        if number not in running:
            running[number] = Server(binaries()[number])
        return running[number]

    yield server
    for each in running.values():
        each.stop()


@pytest.fixture(scope="session")
def postgres(postgres_servers: Callable[[int], Server]) -> Server:
    return postgres_servers(0)


@pytest.fixture
def fresh() -> str:
    """A schema's name that no other test has."""
    return f"fresh_{next(_SCHEMAS)}"


def _on_server(kind: type[PostgresTable], number: int) -> Callable[[pytest.FixtureRequest], Harness]:
    def made(request: pytest.FixtureRequest) -> Harness:
        server = request.getfixturevalue("postgres_servers")(number)
        return kind(server.dsn(), request.getfixturevalue("fresh"))

    return made


LIVES: dict[str, Callable[[pytest.FixtureRequest], Harness]] = {
    "postgres": _on_server(PostgresTable, 0),
    "postgres-full": _on_server(PostgresFull, 0),
    "postgres-partitioned": _on_server(PostgresPartitioned, 0),
    "postgres-second": _on_server(PostgresTable, 1),
    "postgres-third": _on_server(PostgresTable, 2),
    "debezium": lambda request: DebeziumFile(request.getfixturevalue("tmp_path"), with_schema=False),
    "debezium-schema": lambda request: DebeziumFile(
        request.getfixturevalue("tmp_path"), with_schema=True, full=True
    ),
    "debezium-inbox": lambda request: DebeziumInbox(request.getfixturevalue("tmp_path")),
    "debezium-kafka": lambda request: DebeziumKafka(
        request.getfixturevalue("tmp_path"), request.getfixturevalue("monkeypatch")
    ),
    "snapshots-postgres": lambda request: PostgresSnapshots(
        request.getfixturevalue("postgres").dsn(),
        request.getfixturevalue("fresh"),
        request.getfixturevalue("tmp_path"),
    ),
    "snapshots-sqlite": lambda request: SQLiteSnapshots(request.getfixturevalue("tmp_path")),
    "snapshots-duckdb": lambda request: DuckDBSnapshots(request.getfixturevalue("tmp_path")),
    "snapshots-parquet": lambda request: ParquetSnapshots(request.getfixturevalue("tmp_path")),
    "history": lambda request: HistoryTable(request.getfixturevalue("tmp_path")),
    "sqlite": lambda request: SQLiteTable(request.getfixturevalue("tmp_path")),
}
"""Every source, by how its table is made."""
if files_harness.PRESENT:
    LIVES["files"] = lambda request: files_harness.ChangelogFile(request.getfixturevalue("tmp_path"))


KINDS = ["postgres", "sqlite", "debezium", "debezium-inbox", "debezium-kafka", "snapshots-parquet", "history"]
KINDS += ["files"] if files_harness.PRESENT else []
"""One of each kind, for what does not depend on the database behind it."""


@pytest.fixture(params=LIVES)
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    made = LIVES[request.param](request)
    yield made
    made.end()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Iterator[Harness]:
    made = LIVES[request.param](request)
    yield made
    made.end()
