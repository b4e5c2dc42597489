"""Every command of the docs runs, in the order of its page; outputs that a page shows are printed."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import time
import tomllib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from typer._click.core import Context
from typer._click.exceptions import UsageError
from typer.main import get_command

from tests.docs import worlds
from tests.docs.blocks import PAGES, ROOT, Block, commands, of
from tidegauge import local
from tidegauge.cli import app

TUTORIAL: Final = "docs/tutorial.md"
"""Its commands print what it shows."""
CONSOLE: Final = sorted({page for page in PAGES if any(block.language == "console" for block in PAGES[page])})
NOT_RUN: Final = {
    "make": "starts a whole demo or test run; its target is looked up in the Makefile",
    "pip": "installs from the network; its extra is looked up in pyproject.toml",
}
"""Programs that the docs name and this test does not start, and why."""


def refused(line: str) -> str | None:
    """Why a `tidegauge` command cannot be given, or None."""
    words = words_of(line)
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


def words_of(line: str) -> list[str]:
    """The words of a command, without its comment."""
    return shlex.split(line.partition(" #")[0].partition("  ")[0])


@pytest.mark.parametrize(("page", "block"), of("console"))
def test_a_command_exists_with_its_options(page: str, block: Block) -> None:
    for line in commands(block.text):
        words = words_of(line)
        if words[0] == "tidegauge":
            assert refused(line) is None, line
        elif words[0] == "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE), line
        elif words[0] == "pip":
            extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
                "optional-dependencies"
            ]
            assert set(re.findall(r"\[(\w+)\]", words[-1])) <= set(extras), line


@pytest.mark.parametrize("line", ["tidegauge runn", "tidegauge plan --whatif", "tidegauge local plann"])
def test_a_command_that_does_not_exist_is_found(line: str) -> None:
    assert refused(line)


# -- what the commands of a page find ------------------------------------------------------------------------


def hospital(folder: Path, run: Callable[[str], str]) -> None:
    """The example of that name, once it has run; and its history under another name."""
    declared_hospital(folder, run)
    run("tidegauge run --once --yes")


def declared_hospital(folder: Path, _run: Callable[[str], str]) -> None:
    shutil.copytree(ROOT / "examples" / "hospital", folder, dirs_exist_ok=True)
    for name in ("changes.csv", "changes-2025.csv"):
        shutil.copyfile(folder / "patients.csv", folder / name)
    declared = (folder / "tidegauge.toml").read_text("utf-8")
    named = declared.replace('kind = "files"', 'kind = "files"\ntable = "patients"', 1)
    (folder / "tidegauge.toml").write_text(
        f'{named}\n[publish.page]\nkind = "public"\npath = "public.db"\n', "utf-8"
    )  # a history of another name has this table, too


def with_a_reserve(folder: Path, run: Callable[[str], str]) -> None:
    """A gauge with the page's budget, which has run; then the page's release is added."""
    budget, added = (block.text for block in PAGES["docs/amend.md"] if block.language == "toml")
    source = {"kind": "files", "path": "patients.csv", "time": "time", "key": "id"}
    worlds.files(source, folder, "")
    first = "\n".join(f'{name} = "{value}"' for name, value in source.items())
    release = 'sql = "SELECT COUNT(*) FROM patients"\nstart = "2026-01-01"\nevery = "1 day"\nfor = "2 days"'
    declared = f"[source]\n{first}\n[constraint]\nat_most = 4\n{budget}\n[release.all]\n{release}\n"
    (folder / "tidegauge.toml").write_text(declared, "utf-8")
    run("tidegauge run --once --yes")
    (folder / "tidegauge.toml").write_text(f"{declared}\n{added}\n", "utf-8")


def inbox(folder: Path, _run: Callable[[str], str]) -> None:
    shutil.copytree(ROOT / "examples" / "debezium", folder, dirs_exist_ok=True)


def serving(folder: Path, run: Callable[[str], str]) -> None:
    """A gauge that has published, and one that receives events, in a folder of its own."""
    hospital(folder, run)
    shutil.copytree(ROOT / "examples" / "debezium", folder / "inbox")


def surveyed(folder: Path, _run: Callable[[str], str]) -> None:
    """The reports of a survey with the parameters of the page."""
    survey = local.Survey(answers=["well", "ill"], windows=52, changes=3, epsilon=4)
    reports = [local.Reporter(survey, {}).report(0, "well") for _ in range(50)]
    (folder / "reports.bin").write_bytes(b"".join(reports))


def nothing(_folder: Path, _run: Callable[[str], str]) -> None:
    """The page begins with an empty folder."""


def only_a_changelog(folder: Path, _run: Callable[[str], str]) -> None:
    shutil.copyfile(ROOT / "examples" / "hospital" / "patients.csv", folder / "changes.csv")


WORLDS: Final[dict[str, Callable[[Path, Callable[[str], str]], None]]] = {
    "README.md": only_a_changelog,
    "docs/amend.md": with_a_reserve,
    "docs/local/guide.md": surveyed,
    "docs/serve.md": serving,
    "docs/sources/debezium.md": inbox,
    "docs/stamp.md": declared_hospital,
    TUTORIAL: nothing,
}
"""What is there before the first command of a page; on other pages, a gauge that has run."""


# -- running them --------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def served(words: list[str]) -> list[str]:
    """A command that listens, with a port that is free here."""
    port = f"127.0.0.1:{free_port()}"
    if "--listen" in words:
        at = words.index("--listen") + 1
        return [*words[:at], port, *words[at + 1 :]]
    return [*words, "--listen", port]


def goes_on(words: list[str]) -> bool:
    """Whether a command ends only when it is interrupted."""
    return words[:2] in (["tidegauge", "serve"], ["tidegauge", "run"]) or "--listen" in words


def began(folder: Path, since: float) -> bool:
    """Whether a process has written something into this folder since then."""
    return any(path.stat().st_mtime > since for path in folder.glob("tidegauge.db*"))


def interrupted(words: list[str], folder: Path, environment: dict[str, str]) -> str:
    """What a command prints; if it does not end by itself,
    it is interrupted as by Ctrl-C once it has begun."""
    listens = "serve" in words or "--serve" in words or "--listen" in words
    given = served(words) if listens else words
    since, patience = time.time(), time.monotonic() + 30
    with subprocess.Popen(
        given, cwd=folder, env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        said = b""
        try:
            while process.poll() is None:
                if select.select([process.stdout], [], [], 2.0)[0]:
                    said += os.read(process.stdout.fileno(), 65536)
                elif said if listens else began(folder, since) or time.monotonic() > patience:
                    os.killpg(process.pid, signal.SIGINT)
                    break
            said += process.communicate(timeout=120)[0]
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode in (0, 130), (words, said)
    assert b"rror" not in said, (words, said)
    return said.decode()


def plain(line: str) -> str:
    """A line without its numbers, times and the width of its columns."""
    return re.sub(r"\s+", " ", re.sub(r"[\d,.:]*\d", "#", line)).strip()


def names(value: object) -> set[str]:
    """The keys of an object, and of every object in it."""
    if not isinstance(value, dict):
        return set()
    return set(value) | {name for one in value.values() for name in names(one)}


def as_shown(page: str, printed: object) -> None:
    """What is printed has every key that the page shows."""
    (block,) = (one for one in PAGES[page] if one.language == "json")
    assert names(json.loads(block.text)) - names(printed) == set()


LONG: Final = {"docs/audit.md", "docs/choosing-k.md"}
"""Pages whose commands take longest."""


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] if page in LONG else []) for page in CONSOLE]
)
def test_the_commands_of_a_page_run(page: str, tmp_path: Path, environment: dict[str, str]) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    environment = {**environment, "INBOX_TOKEN": "a token of the test"}

    def run(line: str) -> str:
        words = words_of(line)
        if words[0] in NOT_RUN:
            return ""
        at = folder / "inbox" if words[1:] == ["serve", "--inbox"] else folder
        if goes_on(words) and "--once" not in words:
            return interrupted(words, at, environment)
        done = subprocess.run(
            ["sh", "-c", line.partition(" #")[0].partition("   ")[0]],
            cwd=at, env=environment, capture_output=True, text=True, check=False, timeout=900,
        )  # fmt: skip
        assert done.returncode == 0, (line, done.stderr)
        return done.stdout

    WORLDS.get(page, hospital)(folder, run)
    for block in PAGES[page]:
        if block.file:
            (folder / block.file).write_text(block.text + "\n", "utf-8")
        elif block.language == "console":
            shows = page == TUTORIAL
            parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:] if shows else commands(block.text)
            for part in parts:
                command, *wanted = part.splitlines()
                printed = run(command)
                if "--json" in command:
                    as_shown(page, json.loads(printed))
                for line in wanted:
                    assert line == "..." or plain(line) in map(plain, printed.splitlines()), (
                        command,
                        line,
                        printed,
                    )


def test_every_world_is_of_a_page_and_every_program_is_named() -> None:
    assert set(WORLDS) <= set(CONSOLE)
    lines = [
        line
        for page in CONSOLE
        for one in PAGES[page]
        if one.language == "console"
        for line in commands(one.text)
    ]
    programs = {words_of(line)[0] for line in lines}
    assert set(NOT_RUN) <= programs
    assert programs - set(NOT_RUN) <= {"tidegauge", "python", "sleep", "ls"}


def test_json_is_shown_beside_the_command_that_prints_it() -> None:
    for page in {page for page, found in PAGES.items() if any(one.language == "json" for one in found)}:
        assert any("--json" in one.text for one in PAGES[page] if one.language == "console"), page


@pytest.mark.slow
def test_the_demo_prints_what_the_readme_shows(tmp_path: Path, environment: dict[str, str]) -> None:
    (block,) = (one for one in PAGES["README.md"] if one.language == "text")
    done = subprocess.run(
        ["tidegauge", "demo", "town"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = {plain(line) for line in done.stdout.splitlines()}
    for line in block.text.splitlines():
        chart = set(line) & set("│┤└●")
        assert (
            line == "..."
            or chart
            or plain(line).replace("-", "") in {one.replace("-", "") for one in printed}
        ), line
