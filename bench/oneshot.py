"""Rows a second of one noisy count by group, with Tumult Analytics and with Tidegauge, on the same file.

    python -m bench.oneshot            a million rows
    python -m bench.oneshot --quick    fifty thousand

Tumult answers one query on a table; Tidegauge reads the table as inserts, enforces the constraint, and
commits two readings of each group to a durable store.  Needs Java and, the first time, pip.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import duckdb

import tidegauge as tg
from bench.environments import TUMULT, Absent, ask
from bench.result import Chart, Ratio, Result, Table, options, say

GROUPS = [f"g{n:02d}" for n in range(50)]


def invent(path: Path, rows: int) -> None:
    """One insert of each row, all in the first second of a day."""
    with duckdb.connect() as db:
        db.execute(f"""
            COPY (SELECT TIMESTAMP '2025-01-01' AS time, i AS id,
                         'g' || lpad((hash(i) % 50)::VARCHAR, 2, '0') AS region
                  FROM range({rows}) AS numbers(i))
            TO '{path}' (FORMAT parquet)""")


def reading(path: Path, store: Path) -> tuple[float, int]:
    """Seconds from the file to durable readings, planning apart, and how many there are."""
    gauge = tg.Gauge(
        source={"kind": "files", "path": str(path), "table": "people", "time": "time", "key": "id",
                "after": ""},
        constraint=tg.AtMost(1),
        budget={"epsilon": 1},
        releases={"now": {"sql": "SELECT region, COUNT(*) FROM people GROUP BY region",
                          "groups": {"region": GROUPS}, "start": "2025-01-02", "every": "1 day",
                          "for": "1 day"}},
        store=store,
    )  # fmt: skip
    gauge.plan()
    begin = time.perf_counter()
    count = sum(1 for _ in gauge.run())
    return time.perf_counter() - begin, count


def plain(path: Path) -> float:
    """Seconds of the count without privacy, in DuckDB."""
    with duckdb.connect() as db:
        begin = time.perf_counter()
        db.execute(f"SELECT region, count(*) FROM '{path}' GROUP BY region").fetchall()
        return time.perf_counter() - begin


def result(rows: int, repeats: int) -> Result:
    """Medians over the repeats, side by side."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "people.parquet"
        invent(path, rows)
        own = [reading(path, folder / f"{n}.db") for n in range(repeats + 1)][1:]
        without = [plain(path) for _ in range(repeats + 1)][1:]
        absent, theirs = {}, {}
        try:
            theirs = ask(TUMULT, "tumult_count.py", {"path": str(path), "groups": GROUPS, "repeats": repeats})
        except Absent as error:
            absent[str(TUMULT)] = str(error)
    seconds = {
        f"Tidegauge, {own[0][1] // len(GROUPS)} readings of each group": statistics.median(
            [one for one, _ in own]
        ),
        "DuckDB, GROUP BY without privacy": statistics.median(without),
    }
    if theirs:
        seconds[f"{TUMULT}, one count"] = statistics.median(theirs["count"])
        seconds["Spark, GROUP BY without privacy"] = statistics.median(theirs["GROUP BY"])
    first, *others = seconds
    return Result(
        "One count, beside Tumult Analytics",
        f"One noisy count by {len(GROUPS)} groups of {rows:,} rows of a Parquet file, median of {repeats} "
        "after a first one that warms up. Tumult runs as it is on PyPI, with Spark on two cores of the "
        "same machine. It answers a query; Tidegauge also keeps each row's state, so that it can publish "
        "the next reading.",
        ratios=[Ratio(first, seconds[first], other, seconds[other], "s") for other in others],
        tables=[Table("", ["what", "seconds", "rows a second"],
                      [[what, f"{one:.2f}", f"{rows / one:,.0f}"] for what, one in seconds.items()])],
        charts=[Chart("One count by group", "seconds, over those of Tidegauge",
                      bars=[(what, one / seconds[first]) for what, one in seconds.items()])],
        absent=absent,
    )  # fmt: skip


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    asked = parser.parse_args()
    found = result(50_000, 1) if asked.quick else result(asked.rows, 3)
    return say(found, as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main())
