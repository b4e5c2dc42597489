"""Live towns on private servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.recovery.town import ENCRYPTED, PostgresTown, SQLiteTown
from tests.servers.postgres import Server, binaries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.recovery.town import Town


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    running = Server(binaries()[0])
    yield running
    running.stop()


@pytest.fixture
def own_server() -> Iterator[Server]:
    """One that may be killed."""
    running = Server(binaries()[0], fsync="on")
    yield running
    running.stop()


@pytest.fixture
def postgres_town(server: Server, tmp_path: Path) -> Iterator[PostgresTown]:
    town = PostgresTown(tmp_path, server)
    yield town
    town.end()


@pytest.fixture(params=["sqlite", "postgres", "postgres-encrypted"])
def town(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Town]:
    if request.param == "sqlite":
        yield SQLiteTown(tmp_path)
        return
    more = ENCRYPTED if "encrypted" in request.param else ""
    town = PostgresTown(tmp_path, request.getfixturevalue("server"), more)
    yield town
    town.end()
