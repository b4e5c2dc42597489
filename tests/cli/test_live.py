"""The first run on a live application, as a user begins with it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli.called import call

DECLARATION = """
[source]
kind = "sqlite"
path = "app.db"
table = "people"

[constraint]
at_most = 4

[budget]
epsilon = 1000000000

[release.everyone]
sql = "SELECT COUNT(*) FROM people"
start = "{start}"
every = "1 hour"
for = "9 days"
"""
PEOPLE = 137


@pytest.fixture(autouse=True)
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect("app.db")) as db:
        db.execute("CREATE TABLE people (id INTEGER PRIMARY KEY)")
        db.executemany("INSERT INTO people VALUES (?)", [(i,) for i in range(PEOPLE)])
        db.commit()
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    Path("tidegauge.toml").write_text(DECLARATION.format(start=now.isoformat()))


def test_the_first_reading_of_a_gauge_counts_who_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "install")[0] == 0
    assert call(capsys, "run", "--once")[0] == 0
    (reading,) = json.loads(call(capsys, "readings", "--json")[1])
    assert reading["value"] == pytest.approx(PEOPLE, abs=0.1)


def test_without_a_start_the_first_reading_is_at_the_next_round_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = Path("tidegauge.toml")
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if not line.startswith("start")))
    call(capsys, "install")
    before = json.loads(call(capsys, "plan", "--json")[1])
    start = before["releases"]["everyone"]["schedule"].split(" from ")[1][:20]
    assert start.endswith(":00:00Z")
    code, said = call(capsys, "run", "--once")
    assert code == 0
    assert f"Nothing was due. The next reading is due at {start}. See: tidegauge status" in said
    assert json.loads(call(capsys, "plan", "--json")[1])["hash"] == before["hash"]


def test_nothing_is_committed_before_the_source_can_be_followed(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = call(capsys, "run", "--once")
    assert code == 2
    assert "tidegauge install" in said
    assert "Nothing was read, committed or spent" in said
    assert "not committed yet" in call(capsys, "status")[1]


def test_a_wrong_end_of_a_run_commits_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "init", "--install")[0] == 0
    code, said = call(capsys, "run", "--until", "soon")
    assert code == 2
    assert "is not a date or time" in said
    assert "not committed yet" in call(capsys, "status")[1]


def test_times_and_values_are_shown_whole_in_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    call(capsys, "init", "--install")
    call(capsys, "run", "--once")
    (reading,) = json.loads(call(capsys, "readings", "--json")[1])
    shown = call(capsys, "readings")[1]
    assert reading["time"].removesuffix("T00:00:00Z") in shown  # midnight is shown as a date
    assert "137" in shown
