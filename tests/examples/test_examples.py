"""Every example, by the commands of its own README, in a copy of its folder."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.on_path import under_test
from tests.servers.postgres import Server, binaries

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDERS = sorted(path.parent.name for path in EXAMPLES.glob("*/README.md"))
SAYS = {
    "hospital": ["expect ±", "readings published", "mean_age", "Proved"],
    "sqlite_app": ["every change of", "every change is recorded", "children", "no longer recorded"],
    "postgres": ["ok      wal_level", "west", "Removed the replication slot"],
    "debezium": ["Receiving change events", "100 events were acknowledged", "south"],
    "paper": ["Variance of running values", "Printed formulas"],
    "local_survey": ["week  answer  estimate", '"window","answer"'],
}


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    if not binaries() or shutil.which("psql") is None:
        pytest.skip("this machine has no PostgreSQL")
    server = Server(binaries()[0])
    yield server.dsn()
    server.stop()


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A PATH on which tidegauge and python are those under test."""
    return under_test(tmp_path)


def commands(folder: str) -> list[str]:
    text = (EXAMPLES / folder / "README.md").read_text("utf-8")
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize("folder", FOLDERS)
def test_an_example_does_what_its_readme_says(
    folder: str, tmp_path: Path, environment: dict[str, str], request: pytest.FixtureRequest
) -> None:
    if folder == "postgres":
        environment["DATABASE_URL"] = request.getfixturevalue("database")
    copy = shutil.copytree(EXAMPLES / folder, tmp_path / folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    for file in copy.glob("*.py"):
        file.write_text(file.read_text("utf-8").replace(":8321", f":{port}"), "utf-8")
    script = "\n".join(commands(folder)).replace(":8321", f":{port}")
    done = subprocess.run(
        ["sh", "-e", "-c", script],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for words in SAYS[folder]:
        assert words in done.stdout, words
    assert "Error" not in done.stderr


def test_every_example_is_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text("utf-8")
    assert set(SAYS) == set(FOLDERS)
    for name in [
        *FOLDERS,
        *(path.name for path in EXAMPLES.iterdir() if path.is_file() and path.name != "README.md"),
    ]:
        assert f"]({name})" in listed


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/tidegauge.toml")), ids=lambda path: path.parent.name)
def test_no_example_holds_a_secret(path: Path) -> None:
    source = tomllib.loads(path.read_text("utf-8"))["source"]
    for name in ("dsn", "token", "signing_secret"):
        assert source.get(name, "env:").startswith("env:")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.service")), ids=lambda path: path.name)
def test_a_unit_is_one_that_systemd_accepts(path: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    unit = tmp_path / path.name
    unit.write_text(path.read_text("utf-8").replace("/opt/tidegauge/bin/", f"{tmp_path}/bin/"), "utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    ours = [line for line in (done.stdout + done.stderr).splitlines() if path.name in line]
    assert ours == []
