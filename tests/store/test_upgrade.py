"""Stores of format 2, written by an earlier version: they are read as they are,
and upgraded by the first run."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.store.worlds import KEY, WORLDS, restore
from tidegauge.engine.duckdb.digest import probe
from tidegauge.engine.duckdb.engine import DuckEngine
from tidegauge.errors import StoreBehind, StoreCorrupt, StoreError
from tidegauge.model.query import Query
from tidegauge.run.gauge import Gauge
from tidegauge.store.database import FORMAT, Database
from tidegauge.store.store import Store

EXACT = ("flow", "encrypted", "sparse")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGAUGE_KEY", KEY)
    monkeypatch.setattr("tempfile.tempdir", None)


def key_of(name: str) -> bytes | None:
    return bytes.fromhex(KEY) if name == "encrypted" else None


def rows(one: Gauge) -> list[dict[str, Any]]:
    return [reading.as_json() for reading in one.published()]


def version(path: Path) -> int:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])


def contents(folder: Path) -> dict[str, bytes]:
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    return {name: data for name, data in files.items() if data and not name.endswith("-shm")}


def alter(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            assert db.execute(statement).rowcount, statement


@pytest.mark.parametrize("name", WORLDS)
def test_it_is_read_and_proved_as_it_is(tmp_path: Path, name: str) -> None:
    one = restore(name, tmp_path)
    before = contents(tmp_path)
    assert one.verify().readings == len(rows(one)) > 0
    assert one.status().as_json()["processed_to"] == "1970-01-01T00:00:00.000015Z"
    assert one.plan().hash == one.status().plan
    assert len(one.ledger()) == 1
    assert contents(tmp_path) == before
    assert version(one.path) == 2


def _exact(row: dict[str, Any]) -> tuple[Any, ...]:
    """What does not depend on how finely the noise was computed when the plan was made."""
    return row["release"], row["time"], row["group"], row["value"]


@pytest.mark.parametrize("name", WORLDS)
def test_it_is_upgraded_runs_on_and_is_proved(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, half = restore(name, tmp_path), rows(restore(name, tmp_path))
    measured = one.verify().measurements
    fresh = list(one.run())
    assert version(one.path) == FORMAT
    whole = rows(one)
    assert [row for row in whole if row in half] == half
    assert len(whole) == len(half) + len(fresh) == 2 * len(half)
    assert one.verify().measurements == 2 * measured
    assert list(one.run()) == []
    (tmp_path / "new").mkdir()
    monkeypatch.setattr(Query, "watched", None)  # the older rule, which its plan was committed with
    again = WORLDS[name](tmp_path / "new")
    list(again.run())
    assert len(rows(again)) == len(whole)
    if name in EXACT:
        assert [_exact(row) for row in rows(again)] == [_exact(row) for row in whole]
        assert again.status().operator_only == one.status().operator_only


def test_rows_that_did_not_change_do_not_count_because_of_the_upgrade(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve rows are delivered unchanged at 18, four change at 22: `moves` must not see the twelve."""

    def moves(folder: Path) -> list[float]:
        folder.mkdir()
        one = restore("flow", folder)
        list(one.run())
        return [round(row["value"]) for row in rows(one) if row["release"] == "moves"]

    right = [0, 0, 0, 0, 4, 0]
    assert moves(tmp_path / "by_hash") == right
    question, answer = probe()
    monkeypatch.setattr("tidegauge.engine.duckdb.engine.probe", lambda: (question, answer + 1))
    assert moves(tmp_path / "by_image") == right
    monkeypatch.setattr(DuckEngine, "_renew", lambda _: None)
    assert moves(tmp_path / "broken") == [0, 0, 0, 12, 4, 0]


@pytest.mark.parametrize("name", ["shared", "buffered", "encrypted"])
def test_secrets_go_along(tmp_path: Path, name: str) -> None:
    restore(name, tmp_path)
    names = [("level", 0), ("moved", 0), ("ages", 0)]

    def kept(store: Store) -> list[Any]:
        draws = [store.secret.shared_noise(*name) for name in names]
        return [
            *draws,
            *(store.secret.stream(*name) for name in names),
            store.secret.clock,
            store.public.plan,
        ]

    with Store(tmp_path / "store.db", key=key_of(name)) as store:
        before = kept(store)
    with Store(tmp_path / "store.db", write=True, key=key_of(name)) as store:
        assert kept(store) == before
        left = store._file.connection.execute("SELECT key FROM meta ORDER BY key").fetchall()
    assert not [
        key
        for (key,) in left
        if key.startswith(("clock", "veils", "carried", "shared_noise", "stream_state"))
    ]
    assert bool(before[0]) == (name == "shared")
    assert (before[3] is not None) == (name == "buffered")


@pytest.mark.parametrize("name", ["flow", "encrypted"])
def test_the_witness_goes_on_working(tmp_path: Path, name: str) -> None:
    one, old = restore(name, tmp_path), tmp_path / "store.db.witness"
    ahead = old.read_text()
    list(one.run("1970-01-01T00:00:00.000020Z"))
    old.write_text(ahead)  # a process died before it wrote the new one
    list(one.run("1970-01-01T00:00:00.000025Z"))
    kept = old.read_text()
    restore(name, tmp_path)
    old.write_text(kept)
    before = contents(tmp_path)
    for use in (lambda: list(one.run()), one.verify):
        with pytest.raises(StoreBehind, match="old copy"):
            use()
    assert contents(tmp_path) == before | {"store.db.lock": b""} or contents(tmp_path) == before
    assert version(one.path) == 2


@pytest.mark.parametrize("name", ["flow", "encrypted", "buffered"])
def test_a_kill_at_any_moment_of_the_upgrade(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies on the disk before each statement is what a kill would leave."""
    one = restore(name, tmp_path)
    half, copies = rows(one), tmp_path / "copies"
    connect = Database._connect

    def watched(self: Database, *, write: bool) -> sqlite3.Connection:
        connection = connect(self, write=write)

        def copy(_: str) -> None:
            folder = copies / f"{len(list(copies.iterdir())):03}"
            folder.mkdir()
            for path in tmp_path.glob("store.db*"):
                if not path.name.endswith("-shm"):
                    shutil.copy(path, folder)

        connection.set_trace_callback(copy)
        return connection

    copies.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(Database, "_connect", watched)
        Store(one.path, write=True, key=key_of(name)).close()
    folders = sorted(copies.iterdir())
    assert len(folders) > 20
    versions = []
    for folder in folders:
        again = WORLDS[name](folder)
        versions.append(version(again.path))
        assert rows(again) == half
        assert again.verify().readings == len(half)
        Store(again.path, write=True, key=key_of(name)).close()
        assert version(again.path) == FORMAT
        assert again.verify().readings == len(half)
    assert set(versions) == {2, FORMAT}
    assert versions == sorted(versions)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("flow", "UPDATE journal SET value = value + 1 WHERE number = 1 AND cell = 0 AND release = 'moves'"),
        ("encrypted", "DELETE FROM journal WHERE number = 1 AND release = 'ages'"),
        ("encrypted", "UPDATE ledger SET body = replace(body, 'ages', 'aged')"),
        ("encrypted", "DELETE FROM meta WHERE key = 'clock'"),
        ("encrypted", "UPDATE meta SET value = (SELECT sealed FROM entries) WHERE key = 'clock'"),
    ],
)
def test_a_store_that_was_altered_is_not_upgraded(tmp_path: Path, name: str, damage: str) -> None:
    one = restore(name, tmp_path)
    alter(one.path, damage)
    before = contents(tmp_path)
    with pytest.raises(StoreCorrupt):
        list(one.run())
    after = contents(tmp_path)
    assert after["store.db"] == before["store.db"]
    assert version(one.path) == 2


def test_what_format_2_erased_and_left_in_the_file_is_overwritten(tmp_path: Path) -> None:
    one = restore("flow", tmp_path)
    alter(
        one.path,
        "PRAGMA secure_delete = OFF",  # some builds of SQLite have it on
        "INSERT INTO totals VALUES ('x', 0, 0, 0, '7712345678901')",
        "DELETE FROM totals WHERE release = 'x'",
    )
    assert b"7712345678901" in one.path.read_bytes()
    Store(one.path, write=True).close()
    assert not [path for path in tmp_path.glob("store.db*") if b"7712345678901" in path.read_bytes()]


def test_formats_that_are_not_known(tmp_path: Path) -> None:
    one = restore("flow", tmp_path)
    for number in (1, FORMAT + 1):
        alter_version = sqlite3.connect(one.path)
        alter_version.execute(f"PRAGMA user_version = {number}")
        alter_version.close()
        for write in (False, True):
            with pytest.raises(StoreError, match=f"format {number}, this version reads 2 to {FORMAT}"):
                Store(one.path, write=write)
