"""Verbs whose output is closed early end silently,
with exit code 141 as for any process that SIGPIPE ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tidegauge.cli.pipe import CODE, ending_with_its_reader

if TYPE_CHECKING:
    from pathlib import Path

TIDEGAUGE = [sys.executable, "-m", "tidegauge"]
DECLARED = """
[source]
kind = "files"
path = "log.csv"
time = "time"
key = "id"
[constraint]
at_most = 2
[budget]
epsilon = 1
[release.rows]
sql = "SELECT COUNT(*) FROM log"
start = "2020-01-01"
every = "1 day"
for = "400 days"
"""


@pytest.fixture(scope="module")
def run_gauge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gauge")
    (folder / "log.csv").write_text("time,id,ward\n2020-01-02T00:00:00Z,1,a\n")
    (folder / "tidegauge.toml").write_text(DECLARED)
    subprocess.run([*TIDEGAUGE, "run", "--once", "--yes"], cwd=folder, check=True, capture_output=True)
    return folder


def test_the_code_is_that_of_the_signal() -> None:
    assert CODE == 128 + signal.SIGPIPE


@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "--version",
        "readings --help",
        "readings",
        "readings --json",
        "readings --format csv",
        "plan",
        "plan --json",
        "ledger",
        "status",
        "status --json",
        "verify",
        "demo town --people 1000",
    ],
)
def test_a_verb_that_is_not_read_ends_silently(run_gauge: Path, words: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = subprocess.run(
            [*TIDEGAUGE, *words.split()], cwd=run_gauge, stdout=writing, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (CODE, b"")


def test_a_reader_that_stops_after_a_line_gets_it(run_gauge: Path) -> None:
    script = '"$0" -m tidegauge readings --format csv | head -1; echo ${PIPESTATUS[0]}'
    done = subprocess.run(
        ["bash", "-c", script, sys.executable], cwd=run_gauge, capture_output=True, text=True, check=True
    )
    line, code = done.stdout.splitlines()
    assert line.startswith("release,")
    assert int(code) in {0, CODE}  # 0: everything was written before head ended
    assert done.stderr == ""


def test_a_message_that_is_not_read_ends_silently_too(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = subprocess.run([*TIDEGAUGE, "plan"], cwd=tmp_path, stderr=writing, check=False)
    finally:
        os.close(writing)
    assert ended.returncode == CODE


def test_another_broken_pipe_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop, ending_with_its_reader():
        raise BrokenPipeError(32, "Broken pipe")
    assert stop.value.code == 2
    assert capsys.readouterr().err == "TidegaugeError: the system: Broken pipe\n"
