"""Programs and servers that the commands of the docs find."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.on_path import under_test
from tests.servers.postgres import Server, binaries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A PATH on which tidegauge and python are those under test."""
    return under_test(tmp_path) | {"COLUMNS": "80"}


@pytest.fixture(scope="session")
def database() -> Iterator[Server]:
    if not binaries():
        pytest.skip("this machine has no PostgreSQL")
    server = Server(binaries()[0])
    yield server
    server.stop()
