"""Nothing is committed by accident: on a terminal the first run shows the plan and asks."""

from __future__ import annotations

import io
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer

from tidegauge.cli.commit import QUESTION, agreed_plan
from tidegauge.run.gauge import Gauge

DECLARATION = """
[source]
kind = "files"
path = "people.csv"
time = "ts"
key = "id"

[constraint]
at_most = 2

[budget]
epsilon = {epsilon}

[release.people]
sql = "SELECT COUNT(*) FROM people"
start = "2026-01-01"
every = "1 day"
for = "{duration}"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [f"2026-01-0{1 + i % 3}T08:00:00Z,p{i}" for i in range(20)]
    (tmp_path / "people.csv").write_text("ts,id\n" + "\n".join(lines) + "\n")
    (tmp_path / "tidegauge.toml").write_text(DECLARATION.format(epsilon=1, duration="2 days"))
    return tmp_path


class Terminal:
    """`tidegauge` with these arguments in a terminal of 80 columns."""

    def __init__(self, folder: Path, *words: str, stdout: int | None = None) -> None:
        self._ours, theirs = pty.openpty()
        command = [sys.executable, "-c", "from tidegauge.cli import main; main()", *words]
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=theirs,
            stdout=theirs if stdout is None else stdout,
            stderr=theirs,
            env={**os.environ, "COLUMNS": "80", "TERM": "dumb"},
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = ""

    def until(self, text: str) -> str:
        """Everything that was shown up to this text."""
        end = time.monotonic() + 120
        while text not in self.shown and self._read(end):
            pass
        assert text in self.shown, self.shown
        return self.shown

    def answer(self, line: bytes) -> None:
        os.write(self._ours, line)

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """The exit code; all output is in `shown`."""
        end = time.monotonic() + 120
        while self._read(end):
            pass
        code = self._process.wait(60)
        os.close(self._ours)
        return code

    def _read(self, end: float) -> bool:
        if not select.select([self._ours], [], [], max(0.0, end - time.monotonic()))[0]:
            self._process.kill()
            return False
        try:
            found = os.read(self._ours, 65536)
        except OSError:  # the other side is closed
            return False
        self.shown += found.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(found)


def committed(folder: Path) -> int:
    gauge = Gauge.from_file(folder / "tidegauge.toml")
    return len(gauge.ledger()) if gauge.path.exists() else 0


@pytest.mark.parametrize("line", [b"n\n", b"\x04"], ids=["no", "end"])
def test_any_answer_but_yes_commits_nothing(folder: Path, line: bytes) -> None:
    terminal = Terminal(folder, "run", "--once")
    shown = terminal.until(QUESTION)
    assert "Protects  one row (one 'id')" in shown
    assert "people: expect ± " in shown
    assert max(map(len, shown.splitlines())) <= 80
    terminal.answer(line)
    assert terminal.end() == 2
    assert "Nothing was committed or spent." in terminal.shown
    assert committed(folder) == 0


def test_yes_commits_the_plan_that_was_shown_and_is_asked_once(folder: Path) -> None:
    plan = Gauge.from_file(folder / "tidegauge.toml").plan().hash
    terminal = Terminal(folder, "run", "--once", "--until", "2026-01-02")
    shown = terminal.until(QUESTION)
    assert f"Plan {plan[:12]}" in shown
    terminal.answer(b"y\n")
    assert terminal.end() == 0
    assert "2 readings published, up to 2026-01-02T00:00:00Z." in terminal.shown
    assert Gauge.from_file(folder / "tidegauge.toml").plan().hash == plan
    terminal = Terminal(folder, "run", "--once")
    assert terminal.end() == 0
    assert QUESTION not in terminal.shown
    assert "1 reading published" in terminal.shown


def test_warnings_are_shown_again_before_the_question(folder: Path) -> None:
    (folder / "tidegauge.toml").write_text(DECLARATION.format(epsilon=500, duration="1 hour"))
    terminal = Terminal(folder, "run", "--once")
    before = terminal.until(QUESTION).rpartition("people: expect")[2]
    assert "epsilon = 500 is so large that it gives no protection." in before
    assert "release.people has only one reading" in before.replace("\n", " ")
    terminal.answer(b"n\n")
    terminal.end()


def test_groups_that_the_noise_hides_are_warned_of(folder: Path) -> None:
    """Also where keys repeat, and not where there are more keys than noise."""
    (folder / "tidegauge.toml").write_text(DECLARATION.format(epsilon=0.01, duration="2 days"))
    gauge = Gauge.from_file(folder / "tidegauge.toml")
    assert gauge.too_small(gauge.plan()) == ["people"]
    width = gauge.plan().releases[0].chosen.half_width_worst
    with (folder / "people.csv").open("a") as file:
        file.writelines(f"2026-01-03T08:00:00Z,q{i}\n" for i in range(int(width)))
    assert gauge.too_small(gauge.plan()) == []


def test_an_interrupt_at_the_question_commits_nothing(folder: Path) -> None:
    terminal = Terminal(folder, "run", "--once")
    terminal.until(QUESTION)
    terminal.interrupt()
    assert terminal.end() == 130
    assert "Interrupted. Nothing was committed or spent." in terminal.shown
    assert committed(folder) == 0


def test_yes_as_an_option_asks_nothing(folder: Path) -> None:
    terminal = Terminal(folder, "run", "--once", "--yes")
    assert terminal.end() == 0
    assert QUESTION not in terminal.shown
    assert committed(folder) == 1


def test_output_in_a_pipe_stays_clean(folder: Path) -> None:
    """The question goes to the terminal, JSON to the pipe."""
    reading, writing = os.pipe()
    terminal = Terminal(folder, "run", "--once", "--json", stdout=writing)
    os.close(writing)
    terminal.until(QUESTION)
    terminal.answer(b"yes\n")
    with os.fdopen(reading) as pipe:
        lines = pipe.read().splitlines()
    assert terminal.end() == 0
    assert len(lines) == 3
    assert all(line.startswith('{"release": "people"') for line in lines)


class Keyboard(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("line", "yes"), [("y\n", True), ("YES\n", True), ("\n", False), ("yesterday\n", False), ("", False)]
)
def test_only_yes_is_yes(folder: Path, monkeypatch: pytest.MonkeyPatch, line: str, yes: bool) -> None:
    gauge = Gauge.from_file(folder / "tidegauge.toml")
    monkeypatch.setattr(sys, "stdin", Keyboard(line))
    monkeypatch.setattr(sys, "stderr", Keyboard())
    if yes:
        plan = agreed_plan(gauge, yes=False)
        assert plan is not None
        assert plan.hash == gauge.plan().hash
    else:
        with pytest.raises(typer.Exit) as end:
            agreed_plan(gauge, yes=False)
        assert end.value.exit_code == 2
    assert not gauge.committed


@pytest.mark.parametrize("missing", ["stdin", "stderr"])
def test_without_a_terminal_nothing_is_asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    for name in {"stdin", "stderr"} - {missing}:
        monkeypatch.setattr(sys, name, Keyboard())
    assert agreed_plan(Gauge.from_file(folder / "tidegauge.toml"), yes=False) is None
