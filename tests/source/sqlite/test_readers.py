"""Several gauges on one table share one log, and none loses a change through another."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.source.harness import now
from tests.source.life import State, applied
from tidegauge.errors import SourceError
from tidegauge.source.sqlite import readers
from tidegauge.source.sqlite.source import SQLite
from tidegauge.source.sqlite.triggers import install, installed, log_name, readers_name

if TYPE_CHECKING:
    from pathlib import Path


class Follower:
    """A gauge: a source of its own, its position, and the rows it knows."""

    def __init__(self, path: Path) -> None:
        self.source = SQLite(path, "t")
        self.position: str | None = None
        self.state: State = {}
        self.changes = 0

    def tick(self, *, acknowledge: bool = True) -> None:
        for batch in self.source.read(self.position, now()):
            self.state, self.position = applied(self.state, batch), batch.position
            self.changes += batch.rows.num_rows
        if acknowledge:
            self.acknowledge()

    def acknowledge(self) -> None:
        assert self.position is not None
        self.source.acknowledge(self.position)

    @property
    def ages(self) -> dict[str, int]:
        return {key: row["age"] for key, (_, row) in self.state.items()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "app.db")) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, age INTEGER)")
        connection.execute("INSERT INTO t VALUES (1, 10)")
        connection.commit()
    install(tmp_path / "app.db", "t")
    return tmp_path / "app.db"


def run(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def rows(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0])


def test_one_gauge_removes_nothing_that_another_has_not_read(path: Path) -> None:
    quick, slow = Follower(path), Follower(path)
    quick.tick()
    slow.tick()
    for age in range(20, 25):
        run(path, f"UPDATE t SET age = {age}")
        quick.tick()
    assert quick.changes == slow.changes + 5
    slow.tick()
    assert slow.changes == quick.changes, "every change, not the net difference"
    assert slow.ages == quick.ages == {"1": 24}
    quick.tick()
    assert rows(path, log_name("t")) == 1, "what both have read is removed, but for the newest change"


def test_a_change_that_is_gone_is_noticed(path: Path) -> None:
    """A gauge that does not hold changes back (an old copy of a store, say) reads the whole table again."""
    quick, old = Follower(path), Follower(path)
    quick.tick()
    old.tick(acknowledge=False)
    run(path, "UPDATE t SET age = 20", "INSERT INTO t VALUES (2, 5)", "DELETE FROM t WHERE id = 1")
    quick.tick()
    assert rows(path, log_name("t")) == 1
    assert "removed that this store has not read" in old.source.doctor(old.position)[-1].detail
    old.tick()
    assert old.source.doctor(old.position)[-1].detail == "every change is recorded"
    assert old.ages == quick.ages == {"2": 5}
    run(path, "UPDATE t SET age = 6", "UPDATE t SET age = 7")
    before = old.changes
    old.tick()
    assert (old.ages, old.changes - before) == ({"2": 7}, 2), "and follows the log from there on"


def test_changes_that_disappear_during_a_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick, old = Follower(path), Follower(path)
    quick.tick()
    old.tick(acknowledge=False)
    run(path, *[f"UPDATE t SET age = {age}" for age in range(20, 30)])
    monkeypatch.setattr("tidegauge.source.sqlite.source._CHUNK", 2)
    monkeypatch.setattr("tidegauge.source.sqlite.source._BATCH", 2)
    batches = old.source.read(old.position, now())
    old.state, old.position = applied(old.state, first := next(batches)), first.position
    quick.tick()
    with pytest.raises(SourceError, match="removed while they were read"):
        list(batches)
    old.tick()
    assert old.ages == quick.ages == {"1": 29}


def test_a_gauge_that_is_gone_holds_changes_back_for_a_month(path: Path) -> None:
    quick, gone = Follower(path), Follower(path)
    quick.tick()
    gone.tick()
    run(path, "UPDATE t SET age = 20", "UPDATE t SET age = 21")
    quick.tick()
    assert rows(path, log_name("t")) == 2
    run(path, f'UPDATE "{readers_name("t")}" SET at = at - {readers.FORGOTTEN}')
    run(path, "UPDATE t SET age = 22")
    quick.tick()
    assert rows(path, log_name("t")) == 1
    gone.tick()
    assert gone.ages == quick.ages == {"1": 22}


def test_a_tick_without_changes_writes_nothing(path: Path) -> None:
    one = Follower(path)
    one.tick()
    one.tick()
    before = path.read_bytes()
    one.tick()
    assert path.read_bytes() == before


def test_a_position_of_an_earlier_version(path: Path) -> None:
    one = Follower(path)
    one.tick(acknowledge=False)
    assert one.position is not None
    older = json.loads(one.position)
    del older["reader"]
    one.position = json.dumps(older)
    run(path, "UPDATE t SET age = 20")
    one.tick()
    assert one.ages == {"1": 20}
    run(path, "UPDATE t SET age = 21")
    one.tick()
    assert (one.ages, one.changes) == ({"1": 21}, 3)


def test_uninstall_leaves_the_triggers_for_another_gauge(path: Path) -> None:
    one, other = Follower(path), Follower(path)
    one.tick()
    other.tick()
    run(path, "UPDATE t SET age = 20")
    assert "2 other gauge" in SQLite(path, "t").uninstall(), "a gauge that has read nothing"
    assert "1 other gauge" in one.source.uninstall(one.position)
    run(path, "UPDATE t SET age = 21")
    before = other.changes
    other.tick()
    assert (other.ages, other.changes - before) == ({"1": 21}, 2)
    assert "nothing of ours is left" in other.source.uninstall(other.position)
    with closing(sqlite3.connect(path)) as connection:
        assert installed(connection, "t") is None
        left = "SELECT name FROM sqlite_schema WHERE name LIKE '%tidegauge%'"
        assert connection.execute(left).fetchall() == []
