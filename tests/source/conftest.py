"""One private server a version, and the tables that live on it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.servers.postgres import Server, binaries
from tests.source.harness import PostgresFull, PostgresPartitioned, PostgresTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


LIVES = {
    "postgres": PostgresTable,
    "postgres-full": PostgresFull,
    "postgres-partitioned": PostgresPartitioned,
    "postgres-second": PostgresTable,
    "postgres-third": PostgresTable,
}


@pytest.fixture(params=LIVES)
def harness(
    request: pytest.FixtureRequest, postgres_servers: Callable[[int], Server], fresh: str
) -> Iterator[Harness]:
    kind = LIVES[request.param]
    number = 1 if request.param.endswith("second") else 2 if request.param.endswith("third") else 0
    made = kind(postgres_servers(number).dsn(), fresh)
    yield made
    made.end()
