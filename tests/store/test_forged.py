"""Without the key no process forges an encrypted store: not its plan, ledger,
journal or witness, nor by parts of another copy."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.run.gauge_life import COLUMNS, gauge, life
from tests.store.worlds import restore
from tidegauge.errors import StoreBehind, StoreCorrupt
from tidegauge.plan.outline import address
from tidegauge.run.gauge import Gauge
from tidegauge.store.cipher import Cipher
from tidegauge.store.public.journal import _link
from tidegauge.store.public.ledger import GENESIS, seal
from tidegauge.store.store import Store
from tidegauge.testing import Script

if TYPE_CHECKING:
    from collections.abc import Callable

HALF = "1970-01-01T00:00:00.000015Z"
PARTS = ("meta", "secrets", "ledger", "ticks", "journal")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGAUGE_KEY", "7e" * 32)
    monkeypatch.setattr("tempfile.tempdir", None)


def world(folder: Path, *, key: str | None = "env:TIDEGAUGE_KEY", **changes: Any) -> Gauge:
    folder.mkdir(exist_ok=True)
    return gauge(folder, Script(COLUMNS, life(), size=9), key=key, **changes)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store, an older copy of it, and the store of another gauge with the same key."""
    folder = tmp_path_factory.mktemp("copies")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGAUGE_KEY", "7e" * 32)
        one, other = noisy(folder / "one"), noisy(folder / "other", constraint={"at_most": 5})
        list(one.run(HALF))
        shutil.copy(one.path, folder / "old.db")
        list(one.run("1970-01-01T00:00:00.000025Z"))
        list(other.run("1970-01-01T00:00:00.000025Z"))
    shutil.copy(one.path, folder / "one.db")
    shutil.copy(other.path, folder / "other.db")
    return folder


def noisy(folder: Path, **changes: Any) -> Gauge:
    return world(folder, budget={"epsilon": 1}, **changes)


def reseal(db: sqlite3.Connection) -> None:
    """Make both chains whole again, as anyone can who knows how they are made."""
    previous = GENESIS
    for seq, time, kind, body in db.execute(
        "SELECT seq, time, kind, body FROM ledger ORDER BY seq"
    ).fetchall():
        link = seal(previous, time, kind, body)
        db.execute("UPDATE ledger SET previous = ?, hash = ? WHERE seq = ?", (previous, link, seq))
        previous = link
    previous = GENESIS
    for seq, time in db.execute("SELECT seq, instant FROM ticks ORDER BY seq").fetchall():
        rows = db.execute(
            "SELECT release, component, number, cell, bin, value FROM journal WHERE tick = ?", (seq,)
        ).fetchall()
        link = _link(previous, time, rows)
        db.execute("UPDATE ticks SET previous = ?, hash = ? WHERE seq = ?", (previous, link, seq))
        previous = link


def forge_plan(db: sqlite3.Connection) -> None:
    """Another plan, which the ledger says was committed."""
    ((text,),) = db.execute("SELECT value FROM meta WHERE key = 'plan'").fetchall()
    plan = json.loads(text.replace('"refine": 1', '"refine": 2'))
    assert plan != json.loads(text)
    ((body,),) = db.execute("SELECT body FROM ledger").fetchall()
    entry = json.loads(body) | {"plan": address(plan)}
    db.execute(
        "UPDATE meta SET value = ? WHERE key = 'plan'",
        (json.dumps(plan, sort_keys=True, ensure_ascii=False),),
    )
    db.execute("UPDATE ledger SET body = ?", (json.dumps(entry, sort_keys=True, separators=(",", ":")),))


def forge_ledger(db: sqlite3.Connection) -> None:
    ((body,),) = db.execute("SELECT body FROM ledger").fetchall()
    entry = json.loads(body) | {"reserved": "1/7"}
    db.execute("UPDATE ledger SET body = ?", (json.dumps(entry, sort_keys=True, separators=(",", ":")),))


def forge_journal(db: sqlite3.Connection) -> None:
    assert db.execute("UPDATE journal SET value = '12345' WHERE number = 1 AND release = 'moved'").rowcount


def truncate(db: sqlite3.Connection) -> None:
    """Forget the last bins, and that they were measured."""
    db.execute("DELETE FROM journal WHERE tick = (SELECT max(seq) FROM ticks)")
    db.execute("DELETE FROM ticks WHERE seq = (SELECT max(seq) FROM ticks)")


def simulate(db: sqlite3.Connection) -> None:
    assert db.execute("UPDATE meta SET value = '1' WHERE key = 'simulated'").rowcount


def forget_position(db: sqlite3.Connection) -> None:
    assert db.execute("DELETE FROM secrets WHERE key = 'clock'").rowcount


def unmeasure(db: sqlite3.Connection) -> None:
    assert db.execute("UPDATE meta SET value = '1' WHERE key = 'next:moved'").rowcount


def unsign(db: sqlite3.Connection) -> None:
    assert db.execute("DELETE FROM meta WHERE key = 'signature'").rowcount


FORGERIES = [forge_plan, forge_ledger, forge_journal, truncate, simulate, forget_position, unmeasure, unsign]


USES = {"run", "verify", "readings", "smoothed", "status", "plan", "ledger"}


def refused(one: Gauge, finding: str = "") -> set[str]:
    """The uses of a gauge that are refused because its store is not sound; the others go through."""
    found: set[str] = set()
    uses: dict[str, Callable[[], object]] = {
        "run": lambda: list(one.run()),
        "verify": one.verify,
        "readings": one.published,
        "smoothed": lambda: one.published(smoothed=True),
        "status": one.status,
        "plan": one.plan,
        "ledger": one.ledger,
    }
    for name, use in uses.items():
        try:
            use()
        except StoreCorrupt as refusal:
            found |= {name} if finding in str(refusal) else {str(refusal)}
    return found


@pytest.mark.parametrize("forge", FORGERIES)
def test_what_was_forged_is_refused(made: Path, tmp_path: Path, forge: Any) -> None:
    one = noisy(tmp_path)
    shutil.copy(made / "old.db", one.path)
    with closing(sqlite3.connect(one.path)) as db, db:
        forge(db)
        reseal(db)
    before = one.path.read_bytes()
    assert refused(one, "is not as its gauge left it") == USES
    assert one.path.read_bytes() == before


def test_a_measurement_that_was_altered_alone_is_found_where_it_is_used(made: Path, tmp_path: Path) -> None:
    one = noisy(tmp_path)
    shutil.copy(made / "old.db", one.path)
    with closing(sqlite3.connect(one.path)) as db, db:
        forge_journal(db)
    assert refused(one, "does not match its seal") == {"run", "verify", "smoothed"}


@pytest.mark.parametrize("forge", [forge_plan, forge_journal])
def test_the_twin_without_a_key_shows_that_the_forgeries_are_good(tmp_path: Path, forge: Any) -> None:
    """In the clear both chains hold again: what refuses them above is the signature."""
    one = world(tmp_path, key=None)
    list(one.run(HALF))
    with closing(sqlite3.connect(one.path)) as db, db:
        forge(db)
        reseal(db)
    with Store(one.path) as store:
        assert store.public.ledger.prove() == 1
        assert store.public.prove_journal() > 0
        assert store.public.plan is not None
        assert address(store.public.plan) in {entry.body.plan for entry in store.public.ledger.entries()}


def replace(goal: Path, origin: Path, *tables: str) -> None:
    """Exchange tables for those of another file."""
    with closing(sqlite3.connect(goal, isolation_level=None)) as db:
        db.execute("ATTACH ? AS origin", (str(origin),))
        for table in tables:
            db.execute(f"DELETE FROM main.{table}")
            db.execute(f"INSERT INTO main.{table} SELECT * FROM origin.{table}")


MIXES = [
    *((table,) for table in PARTS), ("ticks", "journal"),
    ("meta", "secrets"), ("meta", "ticks"), ("meta", "ticks", "journal"),
    ("secrets", "ticks", "journal"),
]  # fmt: skip


@pytest.mark.parametrize("origin", ["old.db", "other.db"])
@pytest.mark.parametrize("tables", MIXES)
def test_parts_of_other_copies_are_refused(
    made: Path, tmp_path: Path, tables: tuple[str, ...], origin: str
) -> None:
    one = noisy(tmp_path)
    shutil.copy(made / "one.db", one.path)
    replace(one.path, made / origin, *tables)
    expected = {"run", "verify", "smoothed"} if tables == ("journal",) else USES
    if (tables, origin) == (("ledger",), "old.db"):  # it is the same
        expected = set()
    assert refused(one) == expected


def test_the_whole_public_part_of_another_store_with_the_same_key(made: Path, tmp_path: Path) -> None:
    """With its salt as well, so that it is signed rightly:
    what is secret is not of that store, and cannot be opened."""
    one = noisy(tmp_path, constraint={"at_most": 5})
    shutil.copy(made / "one.db", one.path)
    replace(one.path, made / "other.db", "meta", "ledger", "ticks", "journal", "readings")
    assert refused(one) == USES
    replace(one.path, made / "other.db", "secrets")
    with pytest.raises(StoreCorrupt, match="secret state were altered"):
        list(one.run())


def test_a_store_cannot_be_passed_off_as_one_of_format_2(made: Path, tmp_path: Path) -> None:
    """Whose plan is not signed: an upgrade would sign a forged one."""
    one = noisy(tmp_path)
    shutil.copy(made / "old.db", one.path)
    with closing(sqlite3.connect(one.path, isolation_level=None)) as db:
        forge_plan(db)
        db.execute("DELETE FROM meta WHERE key = 'signature'")
        db.execute("INSERT INTO meta SELECT * FROM secrets")
        db.execute("DROP TABLE secrets")
        db.execute("UPDATE ticks SET instant = NULL")
        reseal(db)
        db.execute("PRAGMA user_version = 2")
    assert refused(one) == USES
    with closing(sqlite3.connect(one.path, isolation_level=None)) as db:
        db.execute(
            "DELETE FROM meta WHERE key = 'clock' OR key GLOB 'shared_noise:*' OR key GLOB 'stream_state:*'"
        )
    with pytest.raises(StoreCorrupt, match="no source position"):
        list(one.run())


@pytest.mark.parametrize(
    "change", [{"bins": 1}, {"signature": None}, {"signature": "00" * 32}, {"bins": 1, "signature": None}]
)
def test_a_witness_that_was_altered(tmp_path: Path, change: dict[str, Any]) -> None:
    one = world(tmp_path)
    list(one.run(HALF))
    witness = Path(f"{one.path}.witness")
    right = json.loads(witness.read_text())
    with closing(sqlite3.connect(one.path)) as db:
        seals = dict(db.execute("SELECT seq, hash FROM ticks").fetchall())
    wrong = right | change
    wrong["seal"] = seals[wrong["bins"]]
    witness.write_text(json.dumps({name: value for name, value in wrong.items() if value is not None}))
    for use in (lambda: list(one.run()), one.verify):
        with pytest.raises(StoreCorrupt, match="was altered"):
            use()
    witness.write_text(json.dumps(right))
    assert one.verify().readings


def test_the_witness_of_format_2_is_taken_for_what_format_2_measured_alone(tmp_path: Path) -> None:
    one = restore("encrypted", tmp_path)
    old = json.loads((tmp_path / "store.db.witness").read_text())
    list(one.run())
    new = json.loads((tmp_path / "store.db.witness").read_text())
    assert set(new) == {"ledger", "bins", "seal", "signature"}
    (tmp_path / "store.db.witness").write_text(json.dumps(old))
    assert one.verify().readings
    (tmp_path / "store.db.witness").write_text(
        json.dumps({"ledger": new["ledger"], "tick": new["bins"], "seal": new["seal"]})
    )
    with pytest.raises(StoreCorrupt, match="was altered"):
        one.verify()
    (tmp_path / "store.db.witness").write_text(json.dumps(old | {"tick": 99}))
    with pytest.raises(StoreBehind):
        one.verify()


def test_codes_are_bound_to_store_use_and_parts() -> None:
    one, other = Cipher.fresh(bytes(32)), Cipher.fresh(bytes(32))
    codes = {
        one.mac("store", ["a", "b"]),
        other.mac("store", ["a", "b"]),
        one.mac("witness", ["a", "b"]),
        one.mac("store", ["ab"]),
        one.mac("store", ["ab", ""]),
        one.mac("store", [b"a", b"b"]),
        one.mac("storea", ["b"]),
    }
    assert len(codes) == 7
    assert one.mac("store", ["a", "b"]) in codes
