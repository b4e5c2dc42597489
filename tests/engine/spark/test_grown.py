"""Gauges on Spark to which releases are added: the readings of the embedded engine, across kills."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.spark.test_gauge import RELEASES, changes, gauge, read, written

if TYPE_CHECKING:
    from tidegauge.run.gauge import Gauge

pytestmark = pytest.mark.slow

KINDS = {"duckdb": "files", "spark": "spark"}
LATER: dict[str, Any] = {"every": "1 day", "share": "1/8"}
ADDED: list[dict[str, Any]] = [
    {
        "out": {
            "sql": "SELECT ward, COUNT(*) FROM log WHERE status = 'out' GROUP BY ward",
            "groups": {"ward": ["a", "c"]}, "start": "2026-01-07", "for": "6 days", **LATER,
        },
        "moved": {
            "sql": "SELECT COUNT(*) FROM changes(log) WHERE after.ward = 'b'",
            "start": "2026-01-07", "for": "6 days", **LATER,
        },
    },
    {
        "ages": {
            "sql": "SELECT SUM(age) FROM log", "bounds": {"age": [0, 90]},
            "start": "2026-01-10", "for": "4 days",
            "constraint": {"by": "ward", "cases": {"a": {"at_most": 2}, "b": {"at_most": 1}}}, **LATER,
        }
    },
]  # fmt: skip
"""What is added before the second and the third pass."""
UNTILS = ("2026-01-05 12:00", "2026-01-08 18:00", "2026-01-20")
"""In the middle of a bin, so that changes wait that were read before the release was added."""


def grown(folder: Path, engine: str, number: int) -> Gauge:
    """The gauge at this pass, with what has been added by then."""
    releases = RELEASES | {name: one for part in ADDED[:number] for name, one in part.items()}
    source = {"kind": KINDS[engine], "path": "log/*.parquet"}
    budget = {"epsilon": 1_000_000_000, "reserve": "1/2"}
    return gauge(folder, source, engine, UNTILS[number], releases=releases, budget=budget)


def passed(folder: Path, engine: str, number: int) -> list[tuple[Any, ...]]:
    """What the gauge has published after this pass."""
    one = grown(folder, engine, number)
    if number:
        one.amend()
    return read(one)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.usefixtures("spark")
def test_added_releases_have_the_readings_of_the_embedded_engine(seed: int, tmp_path: Path) -> None:
    rows, found = changes(seed + 20, 400), {}
    (tmp_path / "log").mkdir()
    for number in range(len(UNTILS)):  # a new file has late changes, too
        written(rows[number * 130 : number * 130 + 130], tmp_path / "log" / f"{number}.parquet")
        found = {engine: passed(tmp_path, engine, number) for engine in KINDS}
        assert found["spark"] == found["duckdb"]
    assert {row[0] for row in found["spark"]} == {"now", "age", "out", "moved", "ages"}
    assert any(row[3] for row in found["spark"] if row[0] == "moved")


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.engine.spark.test_grown import grown
from tidegauge.store.store import Store

commit, left = Store.commit, int(sys.argv[2])

def killed(self, result):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    commit(self, result)

Store.commit = killed
list(grown(Path(sys.argv[1]), "spark", 1).run())
"""


@pytest.mark.usefixtures("spark")
def test_a_kill_while_releases_begin_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """The first commit of the pass comes before the releases begin, the second with their first rows."""
    (tmp_path / "log").mkdir()
    written(changes(30), tmp_path / "log" / "0.parquet")
    for engine in KINDS:
        passed(tmp_path, engine, 0)
        grown(tmp_path, engine, 1).amend()
    for commits in (1, 2, 1):
        command = [sys.executable, "-c", KILLED, str(tmp_path), str(commits)]
        ended = subprocess.run(command, capture_output=True, check=False, cwd=Path(__file__).parents[3])
        assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()[-3000:]
    assert read(grown(tmp_path, "spark", 1)) == read(grown(tmp_path, "duckdb", 1))
