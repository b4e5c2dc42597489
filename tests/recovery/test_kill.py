"""kill -9 at random moments: one reading a window, never two different ones,
exact sums and ledger unchanged."""

from __future__ import annotations

import csv
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tidegauge.store.database import begun

DECLARATION = """
[source]
kind = "files"
path = "log.csv"
table = "t"
time = "ts"
entry = "id"

[constraint]
at_most = 5
within = "60 days"

[budget]
{budget}

[release.level]
sql = "SELECT grp, COUNT(*) FROM t GROUP BY grp"
groups.grp = ["a", "b", "c"]
start = "2025-01-01"
every = "1 day"
for = "200 days"
{strategy}

[release.level_in_a_week]
of = "level"
window = "7 days"

[release.total]
sql = "SELECT SUM(x) FROM t"
bounds.x = [0, 50]
start = "2025-01-01"
every = "6 hours"
for = "200 days"
{strategy}
"""


EXACT = {"budget": "epsilon = 1e9", "strategy": ""}
STREAM = {"budget": "epsilon = 1e36\ndelta = 1e-6", "strategy": 'strategy = "buffered"'}
"""Without noise, measured from bins and from a state."""


def world(folder: Path, declared: dict[str, str]) -> None:
    rng = random.Random(5)
    folder.mkdir()
    (folder / "tidegauge.toml").write_text(DECLARATION.format(**declared))
    with (folder / "log.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["ts", "id", "grp", "x"])
        for n in range(20_000):
            day, rest = divmod(n, 100)
            stamp = f"2025-{1 + day // 28:02}-{1 + day % 28:02}T{rest * 24 // 100:02}:{rest % 60:02}:00"
            gone = rng.random() < 0.1
            writer.writerow(
                [
                    stamp,
                    f"e{rng.randrange(3000)}",
                    "" if gone else rng.choice("abcd"),
                    "" if gone else rng.randrange(70),
                ]
            )


def start(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", "from tidegauge.cli import main; main()", "run", "--once"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def call(folder: Path, *words: str) -> Any:
    command = [sys.executable, "-c", "from tidegauge.cli import main; main()", *words, "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=True)
    return json.loads(done.stdout)


def killed_often(folder: Path, kills: int, seed: int) -> int:
    """Start and kill, so many times; what was published in between must stay as it is."""
    rng, hits = random.Random(seed), 0
    seen: dict[tuple[str, str, str], float | None] = {}
    for kill in range(kills):
        process = start(folder)
        time.sleep(rng.uniform(0.1, 0.5) if kill % 2 == 0 else rng.uniform(0.5, 4.0))
        process.send_signal(signal.SIGKILL)
        assert process.stderr is not None
        process.stderr.close()
        hits += process.wait() == -signal.SIGKILL
        if begun(folder / "tidegauge.db") and call(folder, "ledger"):
            now = {(r["release"], r["time"], str(r["group"])): r["value"] for r in call(folder, "readings")}
            assert {key: now[key] for key in seen} == seen
            seen = now
    last = start(folder)
    _, errors = last.communicate()
    assert last.returncode == 0, errors
    return hits


@pytest.mark.parametrize(
    ("declared", "kills"),
    [
        (EXACT, 2),
        pytest.param(STREAM, 1, marks=pytest.mark.slow),
        pytest.param(EXACT, 4, marks=pytest.mark.slow),
        pytest.param(EXACT, 50, marks=pytest.mark.slow),
        pytest.param(STREAM, 25, marks=pytest.mark.slow),
    ],
)
def test_killing_run(tmp_path: Path, declared: dict[str, str], kills: int) -> None:
    calm, hard = tmp_path / "calm", tmp_path / "hard"
    world(calm, declared)
    world(hard, declared)
    assert start(calm).communicate()[1] == b""
    assert killed_often(hard, kills, seed=kills) > 0
    assert call(hard, "readings") == call(calm, "readings")
    assert call(hard, "verify")["verified"]
    reserved = [[entry["body"] for entry in call(folder, "ledger")] for folder in (calm, hard)]
    assert reserved[0] == reserved[1]
