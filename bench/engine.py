"""How long a tick of 10,000 changes takes on a million units, and how fast a changelog is folded.

    python -m bench.engine [--units 1000000] [--changes 10000] [--ticks 5]

Prints the seconds of every tick and how they divide (fold, store).  As a measure of the machine, it also
prints how long a plain SQLite transaction takes that writes as many rows.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa

import tidegauge as tg
from bench.result import Ratio, Result, Table, options, say
from bench.state import plain_sqlite
from tidegauge.model.mutation import Batch
from tidegauge.model.quantity import SECOND, instant, rfc3339

REGIONS = ("north", "south", "east", "west")
COLUMNS = {"status": "VARCHAR", "region": "VARCHAR", "age": "BIGINT"}
SIZE = 1_000_000, 10_000
"""Rows and changes from which on a tick must cost at most 1.5 times a plain transaction."""
START = instant("2026-01-01")


class Invented:
    """A table of so many rows, loaded at the start, of which so many change every second."""

    table = "patients"
    columns = COLUMNS

    def __init__(self, units: int, changes: int, plain: Iterator[float]) -> None:
        self._units, self._changes, self._plain = units, changes, plain
        self._rng = np.random.default_rng(5)
        self.seconds: list[float] = []
        self.plain: list[float] = []
        """Those of plain transactions, in turns with the ticks, so that both share what else happens."""

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        tick = 0 if position is None else int(position)
        while START + tick * SECOND <= until:
            count = self._units if tick == 0 else self._changes
            keys = np.arange(count) if tick == 0 else self._rng.choice(self._units, count, replace=False)
            batch = Batch(self._rows(keys, START + tick * SECOND), START + tick * SECOND, str(tick + 1))
            if tick:
                self.plain.append(next(self._plain))
            begin = time.perf_counter()
            yield batch
            self.seconds.append(time.perf_counter() - begin)
            tick += 1
        yield Batch(self._rows(np.arange(0), until), until, str(tick))

    def _rows(self, keys: np.ndarray, at: int) -> pa.Table:
        count = len(keys)
        rows = pa.StructArray.from_arrays(
            [
                pa.array(np.array(["infected", "well"])[self._rng.integers(0, 2, count)]),
                pa.array(np.array(REGIONS)[self._rng.integers(0, 4, count)]),
                pa.array(self._rng.integers(0, 100, count)),
            ],
            names=list(COLUMNS),
        )
        return pa.table(
            {
                "time": pa.array(np.full(count, at)),
                "entry": pa.array([f"patient-{key}" for key in keys], pa.string()),
                "unit": pa.nulls(count, pa.string()),
                "before": pa.nulls(count, rows.type),
                "after": rows,
                "informed": pa.array(np.zeros(count, bool)),
            }
        )


def gauge(source: Invented, store: Path) -> tg.Gauge:
    return tg.Gauge(
        source=source,
        constraint=tg.AtMost(1000),
        budget={"rho": 1},
        releases={
            "infected": {
                "sql": "SELECT region, COUNT(*) FROM patients WHERE status = 'infected' GROUP BY region",
                "groups": {"region": list(REGIONS)},
                "start": "2026-01-01",
                "every": "1 second",
                "for": "1 hour",
            },
            "mean_age": {
                "sql": "SELECT AVG(age) FROM patients",
                "bounds": {"age": [0, 110]},
                "start": "2026-01-01",
                "every": "1 second",
                "for": "1 hour",
            },
        },
        store=store,
    )


def result(units: int, changes: int, count: int) -> Result:
    """Seconds of the first load and of each tick, beside a plain transaction."""
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(plain_sqlite(Path(folder) / "plain.db", units, changes)) as transactions,
    ):
        next(transactions)  # makes the table
        source = Invented(units, changes, transactions)
        end = START + count * SECOND
        readings = len(list(gauge(source, Path(folder) / "gauge.db").run(until=rfc3339(end))))
        first, *ticks = source.seconds
        plain = statistics.median(source.plain)
    wanted = 1.5 if units >= SIZE[0] and changes >= SIZE[1] else None
    each = ", ".join(f"{one:.3f}" for one in ticks)
    return Result(
        "Ticks",
        f"A whole gauge on {units:,} rows of which {changes:,} change at each tick: enforcement, sums, "
        "noise and a durable commit, beside a plain SQLite transaction that replaces as many rows of a "
        "table of that size.",
        ratios=[
            Ratio("a tick (median)", statistics.median(ticks), "a plain transaction", plain, "s", wanted)
        ],
        tables=[
            Table(
                "",
                ["what", "value"],
                [
                    ["first load", f"{first:.2f} s, {units / first:,.0f} rows a second"],
                    ["ticks", f"{each} s"],
                    ["readings published", str(readings)],
                ],
            )
        ],
    )


def main() -> int:
    parser = options(__doc__, quick="50,000 rows, 1,000 changes")
    parser.add_argument("--units", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=10_000)
    parser.add_argument("--ticks", type=int, default=5)
    asked = parser.parse_args()
    units, changes = (50_000, 1_000) if asked.quick else (asked.units, asked.changes)
    return say(result(units, changes, asked.ticks), as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main())
