"""Programs and servers that the commands of the docs find."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from tests.servers.postgres import Server, binaries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A PATH on which tidegauge and python are those under test."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, words in (
        ("tidegauge", '-c "from tidegauge.cli import main; main()" "$@"'),
        ("python", '"$@"'),
    ):
        (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words}\n')
        (tools / name).chmod(0o755)
    return {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "COLUMNS": "80"}


@pytest.fixture(scope="session")
def database() -> Iterator[Server]:
    if not binaries():
        pytest.skip("this machine has no PostgreSQL")
    server = Server(binaries()[0])
    yield server
    server.stop()
