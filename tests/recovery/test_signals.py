"""A signal at any moment: one line, the right exit code, an intact store, nothing left behind."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.printed import printed
from tidegauge.cli import _endless, main
from tidegauge.run.gauge import Gauge
from tidegauge.scratch import PROCESS, ScratchFolder, process_folder, use_memory
from tidegauge.store.database import begun

PROGRAM = "from tidegauge.cli import main; main()"
DECLARATION = """
[source]
kind = "files"
path = "people.csv"
time = "time"
entry = "id"

[constraint]
at_most = 1000000

[budget]
epsilon = 1e15

[release.by_city]
sql = "SELECT city, COUNT(*) FROM people GROUP BY city"
groups.city = ["north", "south"]
start = "2026-01-02"
every = "1 day"
for = "{days} days"
"""
INTERRUPTED = "Interrupted.", "Interrupted. What was committed is kept; the next run goes on from there."
STOPPED = (
    "Stopped by SIGTERM.",
    "Stopped by SIGTERM. What was committed is kept; the next run goes on from there.",
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that takes a while, and what it comes to."""
    folder, rng = tmp_path_factory.mktemp("world"), random.Random(7)
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    times = sorted(rng.randrange(40 * 86_400) for _ in range(150_000))
    with (folder / "people.csv").open("w") as file:
        file.write("time,id,city\n")
        for at in times:
            city = rng.choice(["north", "south", ""])
            file.write(f"{(begin + timedelta(seconds=at)).isoformat()},{rng.randrange(20_000)},{city}\n")
    (folder / "tidegauge.toml").write_text(DECLARATION.format(days=40))
    list(Gauge.from_file(folder / "tidegauge.toml").run())
    return folder


@pytest.fixture
def folder(world: Path, tmp_path: Path) -> Path:
    """The same file, of which nothing is published yet."""
    for name in ("people.csv", "tidegauge.toml"):
        shutil.copy(world / name, tmp_path / name)
    (tmp_path / "tmp").mkdir()
    return tmp_path


def start(folder: Path, *words: str, ignoring: bool = False) -> subprocess.Popen[str]:
    """A verb; `ignoring`: as a shell starts it in the background,
    deaf to SIGINT.  Returned once it answers signals."""
    command = [sys.executable, "-c", PROGRAM, *words]
    if ignoring:
        code = (
            "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); "
            "os.execv(sys.executable, sys.argv[1:])"
        )
        command = [sys.executable, "-c", code, *command]
    process = subprocess.Popen(
        command, cwd=folder, env={**os.environ, "TMPDIR": str(folder / "tmp")}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    while not _answers(process.pid) and process.poll() is None:
        time.sleep(0.001)
    return process


def _answers(pid: int) -> bool:
    """Whether it catches SIGTERM, which Python by itself does not."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def exact(folder: Path) -> list[dict[str, Any]]:
    rows = [printed(reading.as_json()) for reading in Gauge.from_file(folder / "tidegauge.toml").published()]
    return [{**row, "value": round(row["value"]), "low": 0, "high": 0, "stderr": 0} for row in rows]


def intact(folder: Path) -> int:
    if not begun(folder / "tidegauge.db"):
        return 0
    return Gauge.from_file(folder / "tidegauge.toml").verify().readings


@pytest.mark.parametrize("rounds", [4, pytest.param(80, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("number", "said"), [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, STOPPED)])
def test_a_signal_at_any_moment_of_a_large_file(
    world: Path, folder: Path, number: signal.Signals, said: tuple[str, str], rounds: int
) -> None:
    code = 128 + number
    rng, began = random.Random(rounds), time.monotonic()
    whole = start(folder, "run", "--once")
    assert whole.wait() == 0
    took = time.monotonic() - began
    assert exact(folder) == exact(world)
    reached, ended = 0, set()
    for round_ in range(rounds):
        if round_ % 4 == 0:
            for file in folder.glob("tidegauge.db*"):
                file.unlink()
            reached = 0
        process = start(folder, "run", "--once")
        time.sleep(rng.random() * took)
        process.send_signal(number)
        _, errors = process.communicate()
        ended.add(process.returncode)
        assert (process.returncode == code and errors.splitlines() in [[line] for line in said]) or (
            process.returncode == 0 and errors == ""  # it had done everything
        ), (process.returncode, errors)
        assert list((folder / "tmp").iterdir()) == []
        reached, before = intact(folder), reached
        assert reached >= before
    assert code in ended
    assert start(folder, "run", "--once").wait() == 0
    assert exact(folder) == exact(world)


@pytest.mark.parametrize("words", [("plan",), ("readings",), ("status",), ("run",)])
def test_a_signal_while_it_starts(folder: Path, words: tuple[str, ...]) -> None:
    for pause in (0, 0.01, 0.1):
        process = start(folder, *words)
        time.sleep(pause)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
        assert process.returncode == 130
        assert errors.strip() in INTERRUPTED
    start(folder, "status").wait()  # removes what an interrupt left between two instructions
    assert list((folder / "tmp").iterdir()) == []


SLOW = """
import os, time
remove = os.unlink
def slowly(*given, **named):
    time.sleep(0.3)
    remove(*given, **named)
os.unlink = slowly
from tidegauge.cli import main
main()
"""


def test_a_signal_while_a_folder_for_temporary_files_is_searched_for(folder: Path) -> None:
    """The standard library tries such a folder with a file, which an exit in between would leave behind."""
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, "status"], cwd=folder, env={**os.environ, "TMPDIR": str(folder / "tmp")},
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    while not list((folder / "tmp").iterdir()) and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert (process.returncode, errors.strip()) == (130, "Interrupted.")
    assert list((folder / "tmp").iterdir()) == []


def test_little_is_imported_before_signals_are_answered() -> None:
    """Until then Python itself answers an interrupt, with a traceback."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import tidegauge.cli; print(*sys.modules)"
    source = Path(__file__).parents[2] / "src"
    words = [sys.executable, "-I", "-S", "-c", code, str(source)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert "tidegauge" in loaded
    assert not loaded & {"typing", "signal", "threading", "re", "pyarrow", "duckdb", "numpy", "typer"}


def test_an_interrupt_before_there_is_a_handler(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*, service: bool) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tidegauge.cli.ending.ENDING.watching", interrupted)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 130
    assert capsys.readouterr().err == "Interrupted.\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_service_answers_whatever_it_inherits(folder: Path, number: signal.Signals, code: int) -> None:
    """A shell starts what runs in the background, and nohup what outlives it, with signals ignored."""
    (folder / "tidegauge.toml").write_text(DECLARATION.format(days=100_000))
    process = start(folder, "run", "--json", ignoring=True)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["release"] == "by_city"
    process.send_signal(number)
    _, errors = process.communicate()
    assert process.returncode == code
    assert errors.strip() in (INTERRUPTED if code else STOPPED)
    assert intact(folder)


def test_a_signal_while_it_waits(folder: Path) -> None:
    (folder / "tidegauge.toml").write_text(DECLARATION.format(days=100_000))
    process = start(folder, "run", "--json")
    assert process.stdout is not None
    due = (datetime.now(UTC) - datetime(2026, 1, 2, tzinfo=UTC)).days + 1
    for _ in range(2 * due):
        process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0
    assert intact(folder) == 2 * due


def test_the_exit_code_does_not_depend_on_the_moment() -> None:
    assert _endless(["run"])
    assert _endless(["run", "--json", "-f", "x.toml"])
    assert _endless(["serve"])
    for words in (["run", "--once"], ["run", "--until=2026-01-01"], ["plan"], []):
        assert not _endless(words)


def test_what_a_killed_process_left_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left = tmp_path / f"{PROCESS}a"
    (left / "tidegauge-x").mkdir(parents=True)
    (left / "tidegauge-x" / "rows").write_text("secret")
    with process_folder():
        (held,) = set(tmp_path.iterdir())
        os.utime(held, (0, 0))
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        with process_folder():
            assert {held} < set(tmp_path.iterdir())  # what is in use stays, however old
            assert not left.exists()
    assert list(tmp_path.iterdir()) == []


def test_files_in_memory_are_kept_together_and_removed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an encrypted store has them: on a tmpfs, wherever that is."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with process_folder():
        use_memory()
        with ScratchFolder() as rows:
            own = Path(rows.name).parent
            assert own.name.startswith(PROCESS)
            assert own.stat().st_mode & 0o777 == 0o700
        (own / "left").mkdir()
        os.utime(own, (0, 0))
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        with process_folder():
            assert own.exists(), "another process leaves it alone, however old"
    assert not own.exists()
    assert list(tmp_path.iterdir()) == []
