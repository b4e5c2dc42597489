"""How the state scales: first load, a tick and an opening, side by side with plain SQLite.

    python -m bench.state [--rows 1000000] [--changes 10000] [--ticks 5]

Writes and reads the state alone, without an engine; bench/engine.py measures whole ticks.  A tick looks up
the rows and counters of the units that change, and replaces them in one durable transaction.
"""

from __future__ import annotations

import random
import sqlite3
import statistics
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from bench.result import Ratio, Result, Table, options, say
from tidegauge.model.program import Folded
from tidegauge.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Generator

LAYOUT: Final = {
    "entries": {
        "entry": "VARCHAR", "digest": "BIGINT", "c0": "BIGINT",
        "v0_0": "BIGINT", "c1": "BIGINT", "v1_0": "BIGINT",
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
            [names, number(2**62), number(4), number(2), number(1), number(100)],
            names=list(LAYOUT["entries"])
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


def plain_sqlite(path: Path, rows: int, changes: int) -> Generator[float, None, None]:
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


@dataclass(frozen=True)
class Times:
    """Seconds, except for the size of a row in bytes."""

    load: float
    busy: float
    opened: float
    first: float
    ticks: list[float]
    plain: list[float]
    """Those of plain transactions, in turns with the ticks, so that both share what else the machine does."""
    row: float


def measured(folder: Path, rows: int, changes: int, ticks: int, key: bytes | None) -> Times:
    """Load the state, open it again, and replace rows."""
    rng, path = np.random.default_rng(5), folder / f"gauge-{key is not None}.db"
    with Store(path, write=True, key=key) as store:
        with store.transaction():
            store.secret.create_state(LAYOUT)
        whole = [part(np.arange(first, min(first + PART, rows)), rng) for first in range(0, rows, PART)]
        begin, busy = time.perf_counter(), time.process_time()
        with store.transaction():
            store.secret.state().apply(whole)
        load, busy = time.perf_counter() - begin, time.process_time() - busy
        del whole
    begin = time.perf_counter()
    store = Store(path, write=True, key=key)
    opened = time.perf_counter() - begin
    with store, closing(plain_sqlite(path.with_suffix(".plain"), rows, changes)) as transactions:
        seconds, plain = [], [next(transactions)]
        for _ in range(ticks + 1):
            fresh = part(rng.choice(rows, changes, replace=False), rng)
            begin = time.perf_counter()
            tick(store, fresh)
            seconds.append(time.perf_counter() - begin)
            plain.append(next(transactions))
    return Times(load, busy, opened, seconds[0], seconds[1:], plain[2:], path.stat().st_size / rows)


def result(rows: int, changes: int, ticks: int) -> Result:
    """A plain and an encrypted store beside plain SQLite."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stores = {
            "plain": measured(folder, rows, changes, ticks, None),
            "encrypted": measured(folder, rows, changes, ticks, bytes(32)),
        }
    medians = {name: statistics.median(one.ticks) for name, one in stores.items()}
    table = [
        [
            name,
            f"{one.load:.2f} s ({rows / one.load:,.0f} rows a second)",
            f"{one.busy:.2f} s",
            f"{one.opened:.3f} s",
            f"{one.first:.3f} s",
            ", ".join(f"{each:.3f}" for each in one.ticks) + " s",
            f"{one.row:.0f}",
        ]
        for name, one in stores.items()
    ]
    return Result(
        "State",
        f"The state alone, {rows:,} rows: a tick looks up {changes:,} rows and their counters and replaces "
        "them in one durable transaction, beside a plain SQLite transaction that replaces as many rows.",
        ratios=[
            Ratio(
                f"a tick, {name} store",
                medians[name],
                "a plain transaction",
                statistics.median(one.plain),
                "s",
                1.5,
            )
            for name, one in stores.items()
        ]
        + [Ratio("a tick, encrypted store", medians["encrypted"], "a plain store", medians["plain"], "s")],
        tables=[
            Table(
                "",
                ["store", "first load", "processor", "opening", "first tick", "ticks", "bytes a row"],
                table,
            )
        ],
    )


def main() -> int:
    parser = options(__doc__, quick="50,000 rows, 1,000 changes")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=10_000)
    parser.add_argument("--ticks", type=int, default=5)
    asked = parser.parse_args()
    rows, changes = (50_000, 1_000) if asked.quick else (asked.rows, asked.changes)
    return say(result(rows, changes, asked.ticks), as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main())
