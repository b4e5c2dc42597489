"""kill -9 in the middle of an amendment, of the beginning of added releases, and of the beginning of a term.

The same deaths without processes are in tests/run/test_amend.py and tests/run/test_renewal.py, some of them quick.
"""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.recovery.deadly import POINTS

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = """
[source]
kind = "files"
path = "log.csv"
table = "t"
time = "ts"
entry = "id"

[constraint]
at_most = 2
{renews}

[budget]
epsilon = 1e9
reserve = 0.3
"""
LEVEL: Final = """
[release.level]
sql = "SELECT grp, COUNT(*) FROM t GROUP BY grp"
groups.grp = ["a", "b"]
start = "2025-01-05"
every = "1 day"
for = "{days} days"
"""
ADDED: Final = """
[release.total]
sql = "SELECT SUM(x) FROM t"
bounds.x = [0, 50]
start = "2025-01-20"
every = "1 day"
for = "5 days"
"""
FIRST: Final = SOURCE.format(renews="") + LEVEL.format(days=10)
BOTH: Final = FIRST + ADDED
RENEWS: Final = SOURCE.format(renews='renews = "7 days"') + LEVEL.format(days=24)


def world(folder: Path, declared: str) -> None:
    folder.mkdir()
    (folder / "tidegauge.toml").write_text(declared)
    with (folder / "log.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["ts", "id", "grp", "x"])
        for n in range(600):
            gone = n % 11 == 10
            row = ["", ""] if gone else ["abc"[n * 7 % 3], n * 13 % 60]
            writer.writerow([f"2025-01-{1 + n // 20:02}T{n % 20:02}:00:00", f"e{n * 29 % 80}", *row])


def call(folder: Path, *words: str, crash: tuple[str, str, int] | None = None) -> tuple[int, str]:
    """Exit code and what a verb printed; with `crash` it dies at that point."""
    program = ["-c", "from tidegauge.cli import main; main()"]
    if crash is not None:
        program = [str(Path(__file__).with_name("deadly.py")), *map(str, crash)]
    done = subprocess.run(
        [sys.executable, *program, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode, done.stdout


def shown(folder: Path, verb: str) -> Any:
    return json.loads(call(folder, verb, "--json")[1])


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The readings of an amended gauge that never dies."""
    folder = tmp_path_factory.mktemp("amended") / "calm"
    world(folder, FIRST)
    call(folder, "run", "--once")
    (folder / "tidegauge.toml").write_text(BOTH)
    call(folder, "amend")
    call(folder, "run", "--once")
    return list(shown(folder, "readings"))


@pytest.fixture(scope="module")
def renewing(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The readings of a gauge whose constraint renews and that never dies."""
    folder = tmp_path_factory.mktemp("renewing") / "calm"
    world(folder, RENEWS)
    call(folder, "run", "--once")
    return list(shown(folder, "readings"))


def cases(points: list[str]) -> list[Any]:
    return [
        pytest.param(point, when, marks=pytest.mark.slow) for point in points for when in ("before", "after")
    ]


AMENDING: Final = ["reserve", "amend plan", "seal", "secrets", "transaction", "attest", "close"]
"""Steps of an amendment."""
TICKING: Final = [point for point in POINTS if point not in ("reserve", "commit plan", "acknowledge")]
"""Steps of a tick and its surroundings."""


@pytest.mark.parametrize(("point", "when"), cases(AMENDING))
def test_a_kill_while_amending(tmp_path: Path, calm: list[Any], point: str, when: str) -> None:
    folder = tmp_path / "hard"
    world(folder, FIRST)
    call(folder, "run", "--once")
    (folder / "tidegauge.toml").write_text(BOTH)
    assert call(folder, "amend", crash=(point, when, 1))[0] == -signal.SIGKILL
    entries = shown(folder, "ledger")
    assert shown(folder, "verify")["ledger_entries"] == len(entries)
    if len(entries) == 1:
        call(folder, "amend")
    call(folder, "run", "--once")
    assert shown(folder, "readings") == calm
    assert [entry["kind"] for entry in shown(folder, "ledger")] == ["commit", "amend"]
    assert shown(folder, "verify")["verified"]


@pytest.mark.parametrize(("point", "when"), cases([*TICKING, "widen", "begin"]))
def test_a_kill_while_added_releases_begin(tmp_path: Path, calm: list[Any], point: str, when: str) -> None:
    folder = tmp_path / "hard"
    world(folder, FIRST)
    call(folder, "run", "--once")
    (folder / "tidegauge.toml").write_text(BOTH)
    call(folder, "amend")
    deaths = 0
    for nth in (1, 2, 3):
        code, _ = call(folder, "run", "--once", crash=(point, when, nth))
        deaths += code == -signal.SIGKILL
        seen = {(one["release"], one["time"], str(one["group"])): one for one in shown(folder, "readings")}
        now = {(one["release"], one["time"], str(one["group"])): one for one in calm}
        assert all(now[key] == one for key, one in seen.items())
    assert deaths > 0
    call(folder, "run", "--once")
    assert shown(folder, "readings") == calm
    assert shown(folder, "verify")["verified"]


@pytest.mark.parametrize(("point", "when"), cases(TICKING))
def test_a_kill_while_a_term_begins(tmp_path: Path, renewing: list[Any], point: str, when: str) -> None:
    """The gauge runs day by day across the beginnings of terms, and dies at each of its first passes of the step."""
    folder = tmp_path / "hard"
    world(folder, RENEWS)
    deaths = 0
    for nth, day in ((1, 10), (1, 13), (2, 13), (1, 14), (1, 20)):  # terms begin on Mondays: 6, 13, 20, 27
        code, _ = call(folder, "run", "--until", f"2025-01-{day}T12:00:00Z", crash=(point, when, nth))
        deaths += code == -signal.SIGKILL
    assert deaths > 0
    call(folder, "run", "--once")
    assert shown(folder, "readings") == renewing
    assert shown(folder, "verify")["verified"]
