"""How the state scales: first load, a tick and an opening, side by side with plain SQLite.

    python bench/state.py [--rows 1000000] [--changes 10000] [--ticks 5] [--encrypted]

Writes and reads the state alone, without an engine; bench/engine.py measures whole ticks.  A tick looks up
the rows and counters of the units that change, and replaces them in one durable transaction.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from tidegauge.model.program import Folded
from tidegauge.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

LAYOUT: Final = {
    "entries": {
        "entry": "VARCHAR", "digest": "BIGINT", "c0": "BIGINT", "v0_0": "BIGINT", "c1": "BIGINT", "v1_0": "BIGINT",
    },
    "units": {
        "unit": "VARCHAR", "scope": "BIGINT", "moves": "BIGINT", "first": "BIGINT", "label": "VARCHAR",
        "expires": "BIGINT", "excess": "VARCHAR",
    },
    "used": {"unit": "VARCHAR", "release": "BIGINT", "bin": "BIGINT", "used": "BIGINT"},
}  # fmt: skip
PART: Final = 2_000_000


def part(keys: np.ndarray, rng: np.random.Generator) -> Folded:
    """What an engine hands over of rows that are their own units."""
    count = len(keys)
    names = pa.array(np.char.add("patient-", keys.astype(str)), pa.string())

    def number(most: int) -> pa.Array:
        return pa.array(rng.integers(0, most, count))

    return Folded(
        totals=[],
        entries=pa.table(
            [names, number(2**62), number(4), number(2), number(1), number(100)], names=list(LAYOUT["entries"])
        ),
        gone=pa.table({"entry": pa.array([], pa.string())}),
        units=pa.table(
            [names, number(1), number(9), number(2**50), *(pa.nulls(count, kind) for kind in
             (pa.string(), pa.int64(), pa.string()))],
            names=list(LAYOUT["units"]),
        ),
        used=pa.schema([(name, pa.string() if name == "unit" else pa.int64()) for name in LAYOUT["used"]])
        .empty_table(),
        counts={},
    )  # fmt: skip


def plain_sqlite(path: Path, rows: int, changes: int) -> Iterator[float]:
    """Seconds of durable transactions that each replace as many rows in a plain table."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE t (entry TEXT PRIMARY KEY, a TEXT, b INTEGER, c INTEGER) WITHOUT ROWID")
        db.executemany("INSERT INTO t VALUES (?, 'x', 1, 2)", ((f"patient-{i}",) for i in range(rows)))
        db.commit()
        rng = random.Random(3)
        while True:
            keys = rng.sample(range(rows), changes)
            begin = time.perf_counter()
            db.executemany(
                "INSERT OR REPLACE INTO t VALUES (?, 'y', 3, 4)", ((f"patient-{i}",) for i in keys)
            )
            db.commit()
            yield time.perf_counter() - begin


def tick(store: Store, fresh: Folded) -> None:
    """Look up and replace."""
    state = store.secret.state()
    assert len(state.entries(fresh.entries["entry"])) == fresh.entries.num_rows
    assert len(state.units(fresh.units["unit"])) == fresh.units.num_rows
    with store.transaction():
        state.apply([fresh])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=10_000)
    parser.add_argument("--ticks", type=int, default=5)
    parser.add_argument("--encrypted", action="store_true")
    options = parser.parse_args()
    key, rng = bytes(32) if options.encrypted else None, np.random.default_rng(5)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gauge.db"
        with Store(path, write=True, key=key) as store:
            with store.transaction():
                store.secret.create_state(LAYOUT)
            whole = [
                part(np.arange(first, min(first + PART, options.rows)), rng)
                for first in range(0, options.rows, PART)
            ]
            begin, busy = time.perf_counter(), time.process_time()
            with store.transaction():
                store.secret.state().apply(whole)
            load, busy = time.perf_counter() - begin, time.process_time() - busy
            del whole
        begin = time.perf_counter()
        store = Store(path, write=True, key=key)
        opened = time.perf_counter() - begin
        with store:
            seconds, plain = [], []
            transactions = plain_sqlite(Path(folder) / "plain.db", options.rows, options.changes)
            next(transactions)
            for _ in range(options.ticks + 1):  # in turns, so that both share what else the machine does
                fresh = part(rng.choice(options.rows, options.changes, replace=False), rng)
                begin = time.perf_counter()
                tick(store, fresh)
                seconds.append(time.perf_counter() - begin)
                plain.append(next(transactions))
        first, *ticks = seconds
        size = path.stat().st_size / options.rows
        print(
            f"first load of {options.rows:,} rows: {load:.2f} s ({options.rows / load:,.0f} a second), "
            f"{busy:.2f} s of processor time"
        )
        print(f"opening: {opened:.3f} s; the first tick after it: {first:.3f} s")
        print(f"a tick with {options.changes:,} changes: " + ", ".join(f"{one:.3f}" for one in ticks) + " s")
        print("a plain SQLite transaction that replaces as many rows: "
              + ", ".join(f"{one:.3f}" for one in plain[1:]) + " s")  # fmt: skip
        print(f"ratio of the medians: {statistics.median(ticks) / statistics.median(plain):.2f}")
        print(f"bytes a row: {size:.0f}")


if __name__ == "__main__":
    main()
