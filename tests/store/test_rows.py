"""Rows of an older copy are found in an encrypted store, and a store of before is followed from now on."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.run.gauge_life import COLUMNS, gauge, life
from tidegauge.errors import StoreCorrupt
from tidegauge.model.program import Folded
from tidegauge.store.cipher import parse_key
from tidegauge.store.store import Store
from tidegauge.testing import Crash, Crashed, Script

if TYPE_CHECKING:
    from tidegauge.run.gauge import Gauge

KEY = "7e" * 32
HALF, MOST = "1970-01-01T00:00:00.000015Z", "1970-01-01T00:00:00.000025Z"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGAUGE_KEY", KEY)


def world(folder: Path, *, changes: Any = None, key: str | None = "env:TIDEGAUGE_KEY") -> Gauge:
    folder.mkdir(exist_ok=True)
    return gauge(folder, Script(COLUMNS, life() if changes is None else changes, size=9), key=key)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store, and an older copy of it."""
    folder = tmp_path_factory.mktemp("rows")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGAUGE_KEY", KEY)
        one = world(folder)
        list(one.run(HALF))
        shutil.copy(one.path, folder / "old.db")
        list(one.run(MOST))
        one.verify()
    return folder


@pytest.fixture
def copied(made: Path, tmp_path: Path) -> Gauge:
    shutil.copytree(made, tmp_path / "copy")
    return world(tmp_path / "copy")


def altered(one: Gauge, *statements: str) -> int:
    with closing(sqlite3.connect(one.path)) as db:
        db.execute("ATTACH ? AS old", (str(one.path.with_name("old.db")),))
        with db:
            return sum(db.execute(statement).rowcount for statement in statements)


REPLACED = [
    "UPDATE pages SET content = (SELECT content FROM old.pages LIMIT 1) "
    "WHERE number = (SELECT min(number) FROM pages)",
    "UPDATE pages SET number = number + 1 WHERE number = (SELECT max(number) FROM pages)",
    "INSERT INTO pages SELECT * FROM old.pages WHERE number NOT IN (SELECT number FROM pages) LIMIT 1",
    "DELETE FROM pages WHERE number = (SELECT min(number) FROM pages)",
    "UPDATE counts SET amount = (SELECT amount FROM old.counts)",
    "INSERT INTO totals VALUES ('moved', 0, 9, x'00', x'00')",
]


@pytest.mark.parametrize("statement", REPLACED)
def test_rows_of_an_older_copy_are_refused(copied: Gauge, statement: str) -> None:
    copied.verify()
    assert altered(copied, statement) >= 1
    with pytest.raises(StoreCorrupt, match="older copy"):
        copied.verify()
    with pytest.raises(StoreCorrupt, match="older copy"):
        list(copied.run())


def test_what_is_not_found_while_the_gauge_runs_is_found_later(copied: Gauge) -> None:
    """Rows that were put back stay visible in the digest after a tick has written others."""
    with Store(copied.path, write=True, key=parse_key(KEY)) as store:
        assert altered(copied, REPLACED[5]) == 1
        with store.transaction():
            store.secret.keys.put({"a key": [1, []]})
    with pytest.raises(StoreCorrupt, match="older copy"):
        copied.verify()


def test_all_blocks_of_an_older_copy_are_refused(copied: Gauge) -> None:
    """Neither the blocks alone, nor with the directory that they belong to."""
    assert altered(copied, "DELETE FROM pages", "INSERT INTO pages SELECT * FROM old.pages")
    for use in (copied.verify, lambda: list(copied.run())):
        with pytest.raises(StoreCorrupt, match="older copy"):
            use()
    assert altered(
        copied,
        "UPDATE secrets SET value = (SELECT value FROM "
        "old.secrets o WHERE o.key = 'state') WHERE key = 'state'",
    )
    for use in (copied.verify, lambda: list(copied.run())):
        with pytest.raises(StoreCorrupt, match="was altered, or comes from another copy"):
            use()


def test_a_block_of_a_transaction_that_was_rolled_back_is_refused(copied: Gauge) -> None:
    """It has a number that is used again, but another random name."""
    with Store(copied.path, write=True, key=parse_key(KEY)) as store:
        lost = rolled_back(store)
        with store.transaction():
            store.secret.state().apply([nothing_but(store, "committed")])
        assert store._file.connection.execute("SELECT max(number) FROM pages").fetchone() == lost[:1]
    copied.verify()
    with closing(sqlite3.connect(copied.path)) as db, db:
        assert db.execute("UPDATE pages SET content = ? WHERE number = ?", lost[::-1]).rowcount
    with pytest.raises(StoreCorrupt, match="older copy"):
        copied.verify()


def rolled_back(store: Store) -> tuple[int, bytes]:
    """Number and content of a block that was never committed."""
    db = store._file.connection
    db.execute("BEGIN")
    store.secret.state().apply([nothing_but(store, "rolled back")])
    found: tuple[int, bytes] = db.execute("SELECT max(number), content FROM pages").fetchone()
    db.execute("ROLLBACK")
    store.secret.forget()
    return found


def nothing_but(store: Store, unit: str) -> Folded:
    """The result of a tick in which one unit used its clip."""
    none = store.secret.state()
    used = {"unit": unit, "release": 0, "bin": 1, "used": 1}
    table = none.all_of("used").schema.empty_table()
    return Folded(
        totals=[],
        entries=none.all_entries()[:0],
        gone=none.all_entries()[:0],
        units=none.all_of("units")[:0],
        used=pa.concat_tables([table, pa.Table.from_pylist([used], table.schema)]),
        counts={},
    )


def test_a_store_of_before_is_followed_from_its_next_tick_on(copied: Gauge) -> None:
    with Store(copied.path, write=True, key=parse_key(KEY)) as store, store.transaction():
        store.secret.secrets.set("row_digests", None)
    with Store(copied.path, key=parse_key(KEY)) as store:
        assert "row_digests" not in store.secret.secrets.names()
    copied.verify()
    list(copied.run())
    copied.verify()
    with Store(copied.path, key=parse_key(KEY)) as store:
        assert "row_digests" in store.secret.secrets.names()
    assert altered(copied, REPLACED[3])
    with pytest.raises(StoreCorrupt, match="older copy"):
        copied.verify()


def _write_and_crash(store: Store) -> None:
    with store.transaction():
        store.secret.keys.put({"a key": [1, []]})
        raise Crashed


def test_a_tick_that_was_rolled_back_leaves_the_digests_as_they_were(tmp_path: Path) -> None:
    changes = life()
    one = world(tmp_path, changes=[*changes[:-3], Crash(), *changes[-3:]])
    with pytest.raises(Crashed):
        list(one.run())
    one.verify()
    with Store(one.path, write=True, key=parse_key(KEY)) as store:
        with pytest.raises(Crashed):
            _write_and_crash(store)
        with store.transaction():
            store.secret.keys.put({"another": [1, []]})
    one.verify()
    list(one.run())
    one.verify()
