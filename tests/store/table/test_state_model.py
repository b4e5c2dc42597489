"""The tables of the state against plain dictionaries, over random ticks, crashes, merges and openings."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidegauge.errors import StoreCorrupt
from tidegauge.model.program import Folded
from tidegauge.store.secret.table import hashes, rows, sorted_table
from tidegauge.store.secret.table.directory import Directory
from tidegauge.store.store import Store
from tidegauge.testing import Crashed

UNITS = {"unit": "VARCHAR", "scope": "BIGINT", "moves": "BIGINT", "expires": "BIGINT", "excess": "VARCHAR"}
USED = {"unit": "VARCHAR", "release": "BIGINT", "used": "BIGINT"}
ENTRIES = {"entry": "VARCHAR", "digest": "BIGINT"}
OWNED = {"entry": "VARCHAR", "unit": "VARCHAR", "digest": "BIGINT"}
KEYS = {"entries": ("entry", "unit"), "units": ("unit", "scope"), "used": ("unit", "release")}
KINDS = {"VARCHAR": pa.string(), "BIGINT": pa.int64()}
KEY = bytes(range(32))
Row = dict[str, Any]


def table(found: list[Row], columns: dict[str, str]) -> pa.Table:
    return pa.Table.from_pylist(found, pa.schema([(name, KINDS[kind]) for name, kind in columns.items()]))


class Model:
    """A store, and what it must have."""

    def __init__(self, path: Path, seed: int, *, owned: bool, key: bytes | None) -> None:
        self.path, self.key, self.rng = path, key, random.Random(seed)
        self.layout = {"entries": OWNED if owned else ENTRIES, "units": UNITS, "used": USED}
        self.rows: dict[str, dict[tuple[Any, ...], Row]] = {name: {} for name in self.layout}
        self.store = Store(path, write=True, key=key)
        with self.store.transaction():
            self.store.secret.create_state(self.layout)

    def open_again(self) -> None:
        self.store.close()
        self.store = Store(self.path, write=True, key=self.key)

    def _row(self, name: str, names: int) -> Row:
        draw = self.rng.randrange
        row: Row = {
            "entry": f"row {draw(names)}",
            "unit": f"unit {draw(names)}",
            "scope": draw(2),
            "release": draw(3),
            "digest": draw(-(2**63), 2**63),
            "moves": draw(200),
            "used": draw(2 ** draw(1, 60)),
            "expires": draw(1000) if draw(3) == 0 else None,
            "excess": f"0:0:0:{draw(9)}" if draw(4) == 0 else None,
        }
        return {column: row[column] for column in self.layout[name]}

    def tick(self, count: int, names: int, *, crash: bool) -> None:
        """Write random rows and delete others, in one or two parts."""
        fresh: dict[str, dict[tuple[Any, ...], Row]] = {}
        for name in self.layout:
            made = [self._row(name, names) for _ in range(count)]
            fresh[name] = {self._place(name, row): row for row in made}
        known = sorted(self.rows["entries"])
        gone = set(self.rng.sample(known, min(len(known), count // 2))) - set(fresh["entries"])
        gone.add(self._place("entries", {"entry": "unknown", "unit": "unknown"}))
        named = [name for name in KEYS["entries"] if name in self.layout["entries"]]
        cut = self.rng.randrange(count + 1)
        parts = []
        for part in (slice(None, cut), slice(cut, None)):
            tables = {
                name: table(list(fresh[name].values())[part], columns)
                for name, columns in self.layout.items()
            }
            ended = [dict(zip(named, one, strict=True)) for one in sorted(gone)][part]
            ends = table(ended, dict.fromkeys(named, "VARCHAR"))
            parts.append(Folded([], tables["entries"], ends, tables["units"], tables["used"], {}))
        left = {one for part in parts for one in map(tuple, (row.values() for row in part.gone.to_pylist()))}
        try:
            with self.store.transaction():
                self.store.secret.state().apply(parts)
                if self.rng.random() < 0.3:
                    assert (
                        self.store.secret.state().all_entries().num_rows >= 0
                    )  # read before it is committed
                if crash:
                    die()
        except Crashed:
            return
        for place in left:
            self.rows["entries"].pop(place, None)
        for name in self.layout:
            self.rows[name] |= fresh[name]

    def _place(self, name: str, row: Row) -> tuple[Any, ...]:
        return tuple(row[column] for column in KEYS[name] if column in self.layout[name])

    def compare(self, names: int) -> None:
        """Everything that the state answers."""
        state = self.store.secret.state()
        for name in self.layout:
            same(state.all_of(name), self.rows[name].values())
        some = [f"row {self.rng.randrange(2 * names)}" for _ in range(20)]
        units = [f"unit {self.rng.randrange(2 * names)}" for _ in range(20)]
        rows_ = self.rows
        same(state.entries(some), (row for row in rows_["entries"].values() if row["entry"] in some))
        same(state.units(pa.array(units)), (row for row in rows_["units"].values() if row["unit"] in units))
        same(
            state.used(pa.chunked_array([units])),
            (row for row in rows_["used"].values() if row["unit"] in units),
        )
        if "unit" in self.layout["entries"]:
            same(state.entries_of(units), (row for row in rows_["entries"].values() if row["unit"] in units))
        upto = self.rng.randrange(1000)
        due = {
            row["unit"]
            for row in rows_["units"].values()
            if row["expires"] is not None and row["expires"] <= upto
        }
        assert sorted(state.expiring(upto).to_pylist()) == sorted(due)
        excess = sorted(
            (row["unit"], row["excess"]) for row in rows_["units"].values() if row["excess"] is not None
        )
        assert sorted(state.excess()) == excess


def die() -> None:
    raise Crashed


def same(found: pa.Table, expected: Any) -> None:
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected))


def few(values: pa.Array) -> hashes.Hashes:
    """Many texts have one hash."""
    return hashes.hashed(values) % np.uint64(50) * np.uint64(2**58)


@pytest.fixture(params=["blocks of 8", "blocks of 8 and few hashes", "one block"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Small blocks, so that a few hundred rows are merged in many steps."""
    if request.param != "one block":
        monkeypatch.setattr(sorted_table, "BLOCK", 8)
        monkeypatch.setattr(sorted_table, "_MOST", 32)
    if "few" in request.param:
        monkeypatch.setattr(rows, "hashed", few)
        monkeypatch.setattr("tidegauge.store.secret.state.hashed", few)
        monkeypatch.setattr("tidegauge.store.secret.together.hashed", few)
    return str(request.param)


@pytest.mark.parametrize("owned", [False, True])
@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
def test_it_equals_dictionaries(tmp_path: Path, sizes: str, key: bytes | None, *, owned: bool) -> None:
    laid = 0
    for seed in range(1):
        model = Model(tmp_path / f"{seed}.db", seed, owned=owned, key=key)
        try:
            for step in range(30):
                large = step in (3, 20)
                names = model.rng.choice([60, 400])
                count = 300 if large else model.rng.choice([0, 0, 1, 3, 12])
                model.tick(count, names, crash=model.rng.random() < 0.25)
                if model.rng.random() < 0.3:
                    model.open_again()
                if step % 3 == 0:
                    model.compare(names)
                tables = model.store.secret.tables.use(model.layout)
                laid += sum(len(one.directory.overlay) for one in tables.values())
            model.open_again()
            model.compare(400)
            model.store.require_rows()
        finally:
            model.store.close()
    assert bool(laid) == (sizes != "one block"), "there is an overlay, or there is none"


def live(model: Model) -> None:
    for _ in range(60):
        model.tick(12, 60, crash=False)
        model.open_again()
        model.compare(60)


def test_the_twin_that_must_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of the overlay that was merged must get no new version: its block is deleted with it."""
    monkeypatch.setattr(sorted_table, "BLOCK", 8)
    monkeypatch.setattr(Directory, "was_merged", lambda _, __, hashes: np.zeros(len(hashes), bool))
    model = Model(tmp_path / "store.db", 1, owned=False, key=None)
    try:
        model.tick(300, 400, crash=False)
        with pytest.raises(AssertionError):
            live(model)
    finally:
        model.store.close()


def test_a_tick_writes_no_more_than_its_changes_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the table is large: merges go round in many ticks, and leave nothing older than a round."""
    monkeypatch.setattr(sorted_table, "BLOCK", 16)
    model = Model(tmp_path / "store.db", 4, owned=False, key=None)
    try:
        model.tick(500, 10**6, crash=False)
        base = max(len(one.directory.base) for one in model.store.secret.tables.use(model.layout).values())
        written, real = [0], sorted_table.SortedTable._write

        def count(self: sorted_table.SortedTable, fresh: rows.Rows) -> Any:
            written[0] += len(fresh)
            return real(self, fresh)

        monkeypatch.setattr(sorted_table.SortedTable, "_write", count)
        most = 0
        for _ in range(base + 5):
            written[0] = 0
            model.tick(4, 10**6, crash=False)
            most = max(most, written[0])
            directory = model.store.secret.tables.use(model.layout)["units"].directory
            assert len(directory.overlay) <= base + 2
        assert 0 < most < 3 * 100, "three tables, of which each merges about two blocks"
        before = len(directory.overlay)
        for _ in range(base + 5):
            model.tick(0, 1, crash=False)
        after = model.store.secret.tables.use(model.layout)
        assert before > 10
        assert all(not one.directory.overlay for name, one in after.items() if name != "rows")
        model.compare(400)
    finally:
        model.store.close()


def test_columns_that_were_added_later_are_empty(tmp_path: Path) -> None:
    model = Model(tmp_path / "store.db", 1, owned=False, key=KEY)
    try:
        model.tick(50, 60, crash=False)
        more = {**model.layout, "units": {**UNITS, "leaves": "BIGINT"}}
        model.store.extend_state(more, lambda _: {})
        model.layout = more
        for row in model.rows["units"].values():
            row["leaves"] = None
        model.open_again()
        model.compare(60)
    finally:
        model.store.close()


def test_a_block_that_is_missing_or_no_block_is_refused(tmp_path: Path) -> None:
    for damage in ("DELETE FROM pages", "UPDATE pages SET content = x'00'"):
        path = tmp_path / f"{len(damage)}.db"
        model = Model(path, 1, owned=False, key=None)
        model.tick(5, 5, crash=False)
        model.store._file.connection.execute(damage)
        model.store.close()
        with pytest.raises(StoreCorrupt, match="older copy"), Store(path, write=True) as store:
            store.secret.state().all_entries()


def test_the_order_is_stored_so_hashes_never_change() -> None:
    texts = pa.array(["", "a", "patient-1", "x" * 20, "é"])
    assert [hex(one) for one in hashes.hashed(texts)] == [
        "0x6e789e6aa1b965f4", "0x8507f39e610a2cc8", "0x467020625656f85b",
        "0xfe98f1a439e11ad8", "0x7df46f769e9d15b8",
    ]  # fmt: skip
    assert (hashes.hashed(texts.slice(1, 3)) == hashes.hashed(texts)[1:4]).all()
    assert (hashes.hashed(pa.chunked_array([texts, texts[:0]])) == hashes.hashed(texts)).all()
    many = hashes.hashed(pa.array([str(n) for n in range(100_000)]))
    assert len(np.unique(many)) == 100_000
    assert abs(np.histogram(many, 16)[0] / 100_000 * 16 - 1).max() < 0.1
