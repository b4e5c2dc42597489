"""Every code block of the docs: declarations are accepted, commands exist, programs run, outputs are as shown.

Blocks of docs/sql.md run in tests/plan/sql/test_docs.py as well, that of docs/stamp.md in
tests/engine/test_stamps.py, those of docs/local in tests/local/test_docs_local.py, and those of
docs/sources/spark.md in tests/engine/spark/test_docs.py.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyarrow import parquet
from typer._click.core import Context
from typer._click.exceptions import UsageError
from typer.main import get_command

from tests.docs.blocks import Block, blocks, commands
from tidegauge.cli import app
from tidegauge.errors import SpecError
from tidegauge.plan.spec.declaration import GaugeSpec

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = {
    path.relative_to(ROOT).as_posix(): blocks(path) for path in sorted((ROOT / "docs").rglob("*.md"))
}
ALL: Final = [(page, block) for page, found in PAGES.items() for block in found]
TEXT: Final = {
    "docs/architecture.md": "a diagram",
    "docs/cli.md": "output of --help, compared in test_cli_docs.py",
    "docs/reference/python.md": "docstrings, compared in tests/tools/docs/test_reference.py",
    "docs/sources/debezium.md": "settings of Debezium Server",
    "docs/sources/files.md": "messages, compared in tests/source/files",
}
"""Pages with blocks that are neither run nor parsed, and why.  Formulas in docs/theory need no reason."""
ELSEWHERE: Final = {
    "docs/sql.md",
    "docs/stamp.md",
    "docs/local/guide.md",
    "docs/local/memoized.md",
    "docs/sources/spark.md",
}
RUN: Final = {"docs/tutorial.md"}
"""Pages whose commands are run, one after the other, and compared with the output that the page shows."""

WITH_GAUGE: Final = {
    "docs/choosing-k.md", "docs/denoised.md", "docs/howto/upgrade.md", "docs/ledger.md", "docs/pages.md",
}  # fmt: skip
"""Pages whose commands are run on a gauge that exists."""


def of(*languages: str) -> list[Any]:
    return [
        pytest.param(page, block, id=f"{page}:{block.line}")
        for page, block in ALL
        if block.language in languages
    ]


def merged(text: str, heading: str) -> dict[str, Any]:
    """A whole declaration around a part of one."""
    part = tomllib.loads(text, parse_float=Decimal)
    table = re.search(r"\[(\w+)(\.NAME)?\]", heading)
    if table and not any(
        isinstance(one, dict) and key in GaugeSpec.model_fields for key, one in part.items()
    ):
        part = {table[1]: {"name": part} if table[2] else part}
    elif "sql" in part:
        part = {"release": {"name": part}}
    source = {"table": "t", "key": "id"} | part.pop("source", {})
    if "kind" not in source:
        source = {"kind": "sqlite", "path": "t.db", **source}
    whole: dict[str, Any] = {"source": source, "constraint": {"at_most": 4}, "budget": {"epsilon": 1}}
    whole |= {"release": {}} | part
    releases = whole["release"]
    for other in [one.get("of") or one.get("parts_of") for one in list(releases.values())]:
        if other and other not in releases:
            releases[other] = {"sql": "SELECT COUNT(*) FROM t", "every": "1 day"}
    for one in releases.values():
        if "sql" in one:
            one.setdefault("every", "1 day")
    releases.setdefault("base", {"sql": "SELECT COUNT(*) FROM t", "every": "1 day"})
    return whole


@pytest.mark.parametrize(("page", "block"), of("toml"))
def test_a_declaration_is_accepted(page: str, block: Block) -> None:
    GaugeSpec.parse(merged(block.text, block.heading))


def test_a_declaration_with_a_wrong_key_is_found() -> None:
    with pytest.raises(SpecError, match="at_mots"):
        GaugeSpec.parse(merged("at_mots = 4", "## [constraint]: how much"))


def refused(line: str) -> str | None:
    """Why a `tidegauge` command cannot be given, or None."""
    words = shlex.split(line.partition(" #")[0].partition("  ")[0])
    command: Any = get_command(app)
    words = words[1:]
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        name = words.pop(0)
        if name not in command.commands:
            return f"there is no verb {name}"
        command = command.commands[name]
    try:
        command.make_parser(Context(command)).parse_args(words)
    except UsageError as error:
        return error.format_message()
    return None


@pytest.mark.parametrize(("page", "block"), of("console"))
def test_a_command_exists_with_its_options(page: str, block: Block) -> None:
    given = [line for line in commands(block.text) if line.startswith("tidegauge ")]
    assert {line: why for line in given if (why := refused(line))} == {}


@pytest.mark.parametrize("line", ["tidegauge runn", "tidegauge plan --whatif", "tidegauge local plann"])
def test_a_command_that_does_not_exist_is_found(line: str) -> None:
    assert refused(line)


@pytest.mark.parametrize(("page", "block"), of("json"))
def test_json_is_valid(page: str, block: Block) -> None:
    json.loads(block.text)


GAUGE: Final = """
source = { kind = "files", path = "patients.csv", table = "patients", time = "time", key = "id" }
constraint.at_most = 1
budget.epsilon = 1
release.infected_now = { sql = "SELECT COUNT(*) FROM patients", start = "2026-01-01", every = "1 day", for = "1 day", strategy = "disjoint" }
"""


@pytest.mark.parametrize(("page", "block"), of("python"))
def test_a_program_runs(
    page: str,
    block: Block,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In a folder with a small gauge and an export; a server that a program names is not asked for anything."""
    if page in ELSEWHERE:
        ast.parse(block.text)
        return
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WAREHOUSE_URL", "postgresql://127.0.0.1:1/none")
    (tmp_path / "tidegauge.toml").write_text(GAUGE, "utf-8")
    (tmp_path / "patients.csv").write_text("time,id\n2026-01-01,1\n", "utf-8")
    (tmp_path / "exports").mkdir()
    parquet.write_table(pa.table({"id": [1], "person_id": [1]}), tmp_path / "exports" / "patients.parquet")
    exec(compile(block.text, f"{page}:{block.line}", "exec"), {})
    assert "Error" not in capsys.readouterr().err


def test_every_block_is_of_a_kind_that_is_checked() -> None:
    known = {"toml", "console", "json", "python"}
    left = {
        page for page, block in ALL if block.language not in known and not page.startswith("docs/theory/")
    }
    assert left - ELSEWHERE == set(TEXT)


def plain(line: str) -> str:
    """A line without its numbers, times and the width of its columns."""
    return re.sub(r"\s+", " ", re.sub(r"[\d,.:]*\d", "#", line)).strip()


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


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted(WITH_GAUGE))
def test_the_commands_of_a_page_work_on_a_gauge(
    page: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    """Of the example `hospital`, once it has run."""
    folder = shutil.copytree(ROOT / "examples" / "hospital", tmp_path / "work")
    shutil.copyfile(folder / "patients.csv", folder / "changes-2025.csv")
    declared = (folder / "tidegauge.toml").read_text("utf-8")
    named = declared.replace('kind = "files"', 'kind = "files"\ntable = "patients"', 1)
    (folder / "tidegauge.toml").write_text(named, "utf-8")  # a history of another name has this table, too
    given = [line for block in PAGES[page] if block.language == "console" for line in commands(block.text)]
    for line in ["tidegauge run --once --yes", *given]:
        words = shlex.split(line.partition(" #")[0].partition("  ")[0])
        done = subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == 0, (line, done.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted(RUN))
def test_the_commands_of_a_page_print_what_it_shows(
    page: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    for block in PAGES[page]:
        if block.file:
            (folder / block.file).write_text(block.text + "\n", "utf-8")
        elif block.language == "console":
            for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                command, *wanted = part.splitlines()
                done = subprocess.run(
                    ["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True,
                    check=False, timeout=600,
                )  # fmt: skip
                assert done.returncode == 0, (command, done.stderr)
                printed = [plain(line) for line in done.stdout.splitlines()]
                for line in wanted:
                    assert line == "..." or plain(line) in printed, (command, line, done.stdout)
