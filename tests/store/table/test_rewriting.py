"""A tick that rewrites rows in their place writes the pages whose rows change, and no other."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from tidegauge.model.program import Folded
from tidegauge.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

LAYOUT = {
    "entries": {"entry": "VARCHAR", "digest": "BIGINT", "c0": "BIGINT"},
    "units": {"unit": "VARCHAR", "scope": "BIGINT", "moves": "BIGINT", "label": "VARCHAR"},
    "used": {"unit": "VARCHAR", "release": "BIGINT", "bin": "BIGINT", "used": "BIGINT"},
}
ROWS = 70_000


def folded(keys: np.ndarray, digest: int, label: str | None = None) -> Folded:
    """Rows that are their own units."""
    names = pa.array([f"r{key}" for key in keys.tolist()], pa.string())
    digests, zeros = pa.array(keys * 1000 + digest), pa.array(np.zeros(len(keys), np.int64))
    return Folded(
        totals=[],
        entries=pa.table([names, digests, zeros], names=list(LAYOUT["entries"])),
        gone=pa.table({"entry": pa.array([], pa.string())}),
        units=pa.table(
            [names, zeros, zeros, pa.array([label] * len(keys), pa.string())], names=list(LAYOUT["units"])
        ),
        used=pa.schema([(name, pa.string() if name == "unit" else pa.int64()) for name in LAYOUT["used"]])
        .empty_table(),
        counts={},
    )  # fmt: skip


def pages(path: Path) -> dict[int, bytes]:
    with sqlite3.connect(path) as db:
        return dict(db.execute("SELECT number, content FROM pages"))


def changed(path: Path, store: Store, fresh: Folded) -> set[int]:
    """The numbers of the pages that a tick writes."""
    before = pages(path)
    with store.transaction():
        store.secret.state().apply([fresh])
    after = pages(path)
    assert before.keys() == after.keys()
    return {number for number, content in after.items() if content != before[number]}


@pytest.mark.parametrize("key", [None, bytes(32)], ids=["plain", "encrypted"])
@pytest.mark.parametrize("label", [None, "ward"], ids=["numbers", "texts"])
def test_only_pages_of_rows_that_change_are_written(
    tmp_path: Path, key: bytes | None, label: str | None
) -> None:
    path = tmp_path / "gauge.db"
    with Store(path, write=True, key=key) as store:
        with store.transaction():
            store.secret.create_state(LAYOUT)
            store.secret.state().apply([folded(np.arange(ROWS), 0, label)])
        some, few = np.arange(0, ROWS, 100), np.arange(0, ROWS, 7000)
        assert len(changed(path, store, folded(few, 1, label))) <= len(few)
        assert not changed(path, store, folded(few, 1, label)), "nothing changes"
        both = folded(np.union1d(some, few), 0, label)
        digests = np.where(np.isin(np.union1d(some, few), few), 2, 0) + np.union1d(some, few) * 1000
        mixed = both.entries.set_column(1, "digest", pa.array(digests))
        assert 0 < len(changed(path, store, _with(both, mixed))) <= len(few)
        state = store.secret.state()
        found = state.entries(pa.array([f"r{key}" for key in some.tolist()]))
        known = dict(zip(found["entry"].to_pylist(), found["digest"].to_pylist(), strict=True))
        assert known == {f"r{key}": key * 1000 + 2 * (key % 7000 == 0) for key in some.tolist()}
    with Store(path, write=False, key=key) as store:
        store.require_rows()
        assert store.secret.state().all_entries().num_rows == ROWS


def _with(fresh: Folded, entries: pa.Table) -> Folded:
    return Folded(fresh.totals, entries, fresh.gone, fresh.units, fresh.used, fresh.counts)
