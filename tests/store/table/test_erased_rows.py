"""No older version of a row outlives the tick that replaced it,
and no deleted row, in tables of many blocks."""

from __future__ import annotations

import gzip
import json
import random
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.store.table.test_state_model import KEY, Model
from tidegauge.errors import StoreCorrupt
from tidegauge.model.program import Folded
from tidegauge.store.database import FORMAT
from tidegauge.store.secret.table import block, patch, sorted_table
from tidegauge.store.secret.table.directory import Directory
from tidegauge.store.store import Store

LAYOUT = {
    "entries": {"entry": "VARCHAR", "unit": "VARCHAR", "digest": "BIGINT", "c0": "BIGINT"},
    "units": {
        "unit": "VARCHAR",
        "scope": "BIGINT",
        "first": "BIGINT",
        "label": "VARCHAR",
        "excess": "VARCHAR",
    },
    "used": {"unit": "VARCHAR", "release": "BIGINT", "used": "BIGINT"},
}
OWN = {**LAYOUT, "entries": {"entry": "VARCHAR", "digest": "BIGINT", "c0": "BIGINT"}}
"""Rows are their own units: they and their counters are in one table."""
KINDS = {"VARCHAR": pa.string(), "BIGINT": pa.int64()}
STORES = Path(__file__).parents[1]
Row = dict[str, Any]


class World:
    """Rows whose names and values are marks that turn up nowhere by chance."""

    def __init__(self, store: Store, seed: int, *, own: bool = False) -> None:
        self.store, self.rng, self.own = store, random.Random(seed), own
        self.layout = OWN if own else LAYOUT
        self.rows: dict[str, Row] = {}
        self.units: dict[str, Row] = {}
        self.ever: set[bytes] = set()

    def _number(self) -> int:
        return self.rng.randrange(2**61, 2**62)

    def _unit(self, name: str) -> Row:
        excess = f"0:0:{self._number()}" if self.rng.random() < 0.3 else None
        label = f"label {self._number()}" if self.rng.random() < 0.1 else None
        return {"unit": name, "scope": 0, "first": self._number(), "label": label, "excess": excess}

    def _row(self, name: str, unit: str) -> Row:
        contributes = self.rng.choice([None, 1, 2, 300])
        return {"entry": name, "unit": unit, "digest": self._number(), "c0": contributes}

    def tick(self, inserts: int, changes: int, deletes: int) -> None:
        """Insert, change, hand over and delete rows."""
        known = self.rng.sample(sorted(self.rows), min(len(self.rows), changes + deletes))
        gone = {name: self.rows[name] for name in known[changes:]}
        fresh = {}
        for name in known[:changes]:
            handed = not self.own and self.rng.random() < 0.2
            fresh[name] = self._row(name, f"U{self._number()}" if handed else self.rows[name]["unit"])
            if handed:
                gone[f"{name} as it was"] = self.rows[name]
        for _ in range(inserts):
            name = f"N{self._number()}"
            fresh[name] = self._row(name, name if self.own else f"U{self._number()}")
        some = [row for row in fresh.values() if not self.own or self.rng.random() < 0.7]
        units = {row["unit"]: self._unit(row["unit"]) for row in some}
        folded = Folded(
            [],
            self._table("entries", fresh.values()),
            self._table("entries", gone.values()).drop_columns(["digest", "c0"]),
            self._table("units", units.values()),
            self._table("used", []),
            {},
        )
        with self.store.transaction():
            self.store.secret.state().apply([folded])
        for name in gone:
            self.rows.pop(name, None)
        self.rows |= fresh
        self.units |= units

    def marks(self) -> set[bytes]:
        """Everything that the file may have."""
        rows, units = self.rows.values(), self.units.values()
        numbers = [row["digest"] for row in rows] + [unit["first"] for unit in units]
        texts = [row["entry"] for row in rows] + [row["unit"] for row in rows]
        texts += [text for unit in units for text in unit.values() if isinstance(text, str)]
        return {number.to_bytes(8, "little") for number in numbers} | {text.encode() for text in texts}

    def left(self) -> set[bytes]:
        """What the file has of earlier ticks, in the clear or under the store's key."""
        now = self.marks()
        self.ever |= now
        if self.store._file.cipher is None:
            data = b"".join(path.read_bytes() for path in self.store.path.parent.glob("store.db*"))
        else:
            file, names = (
                self.store.secret.tables._file,
                [one for t in self._directories() for one in t.names],
            )
            data = b"".join(b"".join(file._opened(one, file.stored(one))[0]) for one in names)
        found = {mark for mark in self.ever - now if mark in data}
        shown = {mark for mark in now if mark in data}
        assert len(shown) > 0.99 * len(now), "the search finds what is there"
        return found

    def _directories(self) -> list[Directory]:
        return [table.directory for table in self.store.secret.tables.use(self.layout).values()]

    def _table(self, name: str, rows: Iterable[Row]) -> pa.Table:
        columns = self.layout[name]
        picked = [{column: row[column] for column in columns} for row in rows]
        return pa.Table.from_pylist(picked, pa.schema([(one, KINDS[kind]) for one, kind in columns.items()]))


def lived(store: Store, seed: int, ticks: int, *, own: bool = False) -> set[bytes]:
    """What is left of earlier ticks after any of some ticks, in tables that are never written as a whole."""
    world, left = World(store, seed, own=own), set[bytes]()
    with store.transaction():
        store.secret.create_state(world.layout)
    world.tick(160, 0, 0)
    for _ in range(ticks):
        world.tick(world.rng.choice([0, 3]), world.rng.choice([0, 1, 6]), world.rng.choice([0, 0, 3]))
        left |= world.left()
    base = [len(one.base) for one in world._directories() if one.base]
    assert len(base) == (1 if own else 3)
    assert min(base) > 8
    return left


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_table, "BLOCK", 8)
    monkeypatch.setattr(sorted_table, "_MOST", 32)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
@pytest.mark.parametrize("own", [False, True], ids=["owned", "own"])
def test_what_a_tick_replaced_or_deleted_is_gone_with_it(
    tmp_path: Path, key: bytes | None, seed: int, *, own: bool
) -> None:
    with Store(tmp_path / "store.db", write=True, key=key) as store:
        assert lived(store, seed, 12 if seed == 1 else 30, own=own) == set()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
@pytest.mark.parametrize("own", [False, True], ids=["owned", "own"])
@pytest.mark.parametrize("kept", ["texts", "records"])
def test_the_twin_that_must_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: bytes | None, kept: str, *, own: bool
) -> None:
    real, none = block.Block._rewrite, np.empty(0, np.intp)
    if kept == "texts":
        monkeypatch.setattr(patch.Overwriting, "_put", lambda *_: None)
    else:
        monkeypatch.setattr(
            block.Block, "_rewrite", lambda self, change: real(self, change._replace(replaced=none))
        )
    with Store(tmp_path / "store.db", write=True, key=key) as store:
        assert lived(store, 1, 10, own=own)


@pytest.mark.usefixtures("small")
def test_a_piece_of_an_older_copy_is_refused(tmp_path: Path) -> None:
    """A tick seals some pieces of a block again; whoever puts the old ones back is found."""
    path = tmp_path / "store.db"
    with Store(path, write=True, key=KEY) as store:
        with store.transaction():
            store.secret.create_state(LAYOUT)
        world = World(store, 3)
        world.tick(160, 0, 0)
        before = dict(store._file.connection.execute("SELECT number, content FROM pages").fetchall())
        world.tick(0, 6, 0)
        after = dict(store._file.connection.execute("SELECT number, content FROM pages").fetchall())
    changed = [number for number in before if number in after and before[number] != after[number]]
    assert changed, "blocks were rewritten in their place"
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE pages SET content = ? WHERE number = ?", (before[changed[0]], changed[0]))
        db.commit()
    with Store(path, key=KEY) as store, pytest.raises(StoreCorrupt, match="older copy"):
        store.require_rows()


OLD = [
    *(("format_4", f"{name}.db.gz", "rows.json.gz") for name in ("plain", "sealed")),
    ("format_5", "own_plain.db.gz", "own.json.gz"),
    ("format_5", "own_sealed.db.gz", "own.json.gz"),
    ("format_5", "owned_plain.db.gz", "owned.json.gz"),
]


@pytest.mark.parametrize(("folder", "name", "rows"), OLD, ids=[f"{one} {two}" for one, two, _ in OLD])
def test_a_state_of_an_older_format_is_read_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, name: str, rows: str
) -> None:
    monkeypatch.setattr(sorted_table, "BLOCK", 8)
    path, key, kept = tmp_path / "store.db", KEY if "sealed" in name else None, STORES / folder
    path.write_bytes(gzip.decompress((kept / name).read_bytes()))
    known = json.loads(gzip.decompress((kept / rows).read_bytes()))
    model = Model(tmp_path / "another.db", 6, owned=not name.startswith("own_"), key=key)
    model.store.close()
    model.rows = {table: {model._place(table, row): row for row in found} for table, found in known.items()}
    model.path, model.store = path, Store(path, key=key)
    model.compare(30)  # a reader does not upgrade it
    directories = [one.directory for one in model.store.secret.tables.use(model.layout).values()]
    assert any(one.overlay for one in directories)
    assert not any(name.pages for one in directories for name in one.names)
    model.open_again()
    try:
        for _ in range(12):
            model.compare(30)
            model.tick(3, 30, crash=False)
        model.open_again()
        model.compare(30)
        model.store.require_rows()
        directories = [one.directory for one in model.store.secret.tables.use(model.layout).values()]
        assert all(name.pages for one in directories for name in one.names)
        db = model.store._file.connection
        assert db.execute("PRAGMA user_version").fetchone() == (FORMAT,)
        assert not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'blocks'").fetchall()
    finally:
        model.store.close()


@pytest.mark.parametrize(
    "damage", ["DELETE FROM blocks WHERE number = {}", "UPDATE blocks SET content = x'00'"]
)
@pytest.mark.parametrize("name", ["plain", "sealed"])
def test_an_altered_state_of_an_older_format_is_not_upgraded(tmp_path: Path, name: str, damage: str) -> None:
    path, key = tmp_path / "store.db", KEY if name == "sealed" else None
    path.write_bytes(gzip.decompress((STORES / "format_5" / f"own_{name}.db.gz").read_bytes()))
    with closing(sqlite3.connect(path)) as db:
        (number,) = db.execute("SELECT max(number) FROM blocks").fetchone()
        db.execute(damage.format(number))
        db.commit()
    with pytest.raises(StoreCorrupt, match="older copy"):
        Store(path, write=True, key=key)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (5,)
