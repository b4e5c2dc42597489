"""How fast a whole history is folded, beside the same GROUP BY without privacy and a scan of the file.

    python -m bench.throughput [--changes 100000 1000000] [--large] [--folder FOLDER] [--what plain scan fold]

Invents a changelog (ten changes a row, 50 groups, 400 days) for every size, `--large` adds 100 million, and
prints, all measured in one run: changes a second, peak memory, the ratios to the plain GROUP BY and to the
scan in the same engine, and how the time grows with the size.  `fold` is the engine alone: from the file to
exact sums and state.  `run` is the whole first run: plan, store, noise and readings as well.
"""

from __future__ import annotations

import argparse
import gc
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

import tidegauge as tg
from bench.machine import peak_memory
from bench.result import Chart, Ratio, Result, Series, Table, options, say
from tidegauge.engine.registry import open_engine
from tidegauge.model.tick import NOTHING_YET
from tidegauge.source.files.source import Files

GROUPS = [f"g{n:02d}" for n in range(50)]
DAYS = 400
ROOT = Path(__file__).parents[1]
LARGE = 100_000_000
SQL = "SELECT region, COUNT(*) FROM people GROUP BY region"


def invent(path: Path, changes: int) -> None:
    """Write a changelog with old and new values, in the order of time."""
    with duckdb.connect(config={"memory_limit": "4GB", "temp_directory": str(path.parent / "spill")}) as db:
        db.execute(f"""
            COPY (
                SELECT make_timestamp((1735689600000000 + i::HUGEINT * {DAYS * 86_400_000_000} // {changes})
                                      ::BIGINT) AS time, id,
                       lag(g) OVER (PARTITION BY id ORDER BY i) AS before_region, g AS after_region
                FROM (SELECT i, (hash(i * 7 + 1) % {max(1, changes // 10)})::BIGINT AS id,
                             'g' || lpad((hash(i * 13 + 5) % 50)::VARCHAR, 2, '0') AS g
                      FROM range({changes}) AS numbers(i))
                ORDER BY i
            ) TO '{path}' (FORMAT parquet)""")


def gauge(path: Path, store: Path) -> tg.Gauge:
    return tg.Gauge(
        source={"kind": "files", "path": str(path), "table": "people", "time": "time", "key": "id",
                "before": "before_", "after": "after_"},
        constraint=tg.AtMost(8),
        budget={"rho": "1/8"},
        releases={"by_region": {"sql": SQL, "groups": {"region": GROUPS}, "start": "2025-01-01",
                                "every": "1 day", "for": f"{DAYS} days"}},
        store=store,
    )  # fmt: skip


class Empty:
    """The state of a store that has nothing; a history asks for nothing but what waits."""

    def waiting(self) -> list[object]:
        return []


def plain(path: Path) -> float:
    """Seconds of the GROUP BY without privacy: the change of every group on every day."""
    with duckdb.connect() as db:
        begin = time.perf_counter()
        db.execute(f"""
            SELECT day, region, sum(amount) FROM (
                SELECT time::DATE AS day, after_region AS region, 1 AS amount FROM '{path}'
                UNION ALL SELECT time::DATE, before_region, -1 FROM '{path}' WHERE before_region IS NOT NULL
            ) GROUP BY ALL""").fetchall()
        return time.perf_counter() - begin


def scan(path: Path) -> float:
    """Seconds of reading every value of the file once."""
    with duckdb.connect() as db:
        begin = time.perf_counter()
        db.execute(f"SELECT bit_xor(hash(time, id, before_region, after_region)) FROM '{path}'").fetchall()
        return time.perf_counter() - begin


def fold(path: Path, folder: Path) -> float:
    """Seconds from the file to sums and state; planning and opening the engine apart."""
    planned = gauge(path, folder / "plan.db").plan()
    reached = planned.releases[0].release.schedule.bin_end(DAYS)
    source = Files(str(path), time="time", key="id", table="people", before="before_", after="after_")
    return first_fold(planned, source, reached, Empty())


def first_fold(planned: tg.Plan, source: Files, reached: int, state: Empty) -> float:
    """Seconds that the engine takes for the whole history of a source; opening the engine apart."""
    with open_engine("duckdb", planned.program, planned.columns) as engine:
        gc.collect()  # what planning left behind
        begin = time.perf_counter()
        history = source.history(reached)
        found = engine.backfill(  # type: ignore[attr-defined]
            history, state=state, reached=reached, now=-NOTHING_YET, report=lambda _, __: None
        )
        for _ in found.parts:
            pass
        history.close()
        return time.perf_counter() - begin


def run(path: Path, folder: Path) -> float:
    """Seconds of a first run, from the declaration to durable readings."""
    begin = time.perf_counter()
    for _ in gauge(path, folder / "run.db").run():
        pass
    return time.perf_counter() - begin


LABELS = {"plain": "GROUP BY", "scan": "scan", "fold": "fold", "run": "first run"}
WORK = {"plain": lambda path, _: plain(path), "scan": lambda path, _: scan(path), "fold": fold, "run": run}


def measured(what: str, path: Path) -> tuple[float, float, float]:
    """Seconds, seconds of processors (of the whole process) and peak GiB, in a process of its own."""
    command = [sys.executable, "-m", "bench.throughput", "--one", what, "--folder", str(path.resolve())]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return float(found[-3]), float(found[-2]), float(found[-1])


def result(sizes: list[int], names: list[str], folder: Path) -> Result:
    """Every way of reading changelogs of these sizes, in processes of their own."""
    known: dict[str, list[tuple[float, float]]] = {}
    ratios, rows = [], []
    for changes in sizes:
        path = folder / f"{changes}.parquet"
        if not path.exists():
            invent(path.with_suffix(".part"), changes)
            path.with_suffix(".part").rename(path)
        found = {what: measured(what, path) for what in names}
        for what, (seconds, processors, memory) in found.items():
            known.setdefault(what, []).append((changes, seconds))
            rows.append([f"{changes:,}", LABELS[what], f"{seconds:.2f} s", f"{changes / seconds:,.0f}",
                         f"{processors:.2f} s", f"{memory:.2f} GiB"])  # fmt: skip
            if what in {"fold", "run"}:
                ratios += [
                    Ratio(f"{LABELS[what]}, {changes:,} changes", seconds, LABELS[peer], found[peer][0], "s")
                    for peer in ("plain", "scan")
                ]
                ratios.append(
                    Ratio(f"{LABELS[what]}, {changes:,} changes, processors", processors, LABELS["plain"],
                          found["plain"][1], "s")
                )  # fmt: skip
    growth = []
    for what, times in known.items():
        if len(times) > 1:
            (few, first), (many, last) = times[0], times[-1]
            growth.append([LABELS[what], f"{math.log(last / first) / math.log(many / few):.2f}"])
    tables = [Table("", ["changes", "what", "seconds", "changes a second", "processor", "peak memory"], rows)]
    if growth:
        tables.append(Table("Time grows with the size to the power of", ["what", "power"], growth))
    return Result(
        "Throughput",
        "From a changelog in Parquet (ten changes a row, 50 groups, 400 days, at most 8 changes of a row) "
        "to exact sums and state (fold), and to durable noisy readings (run), beside the GROUP BY without "
        "privacy and a scan of the file in the same engine. Each in a process of its own; processor "
        "seconds are those of the whole process, start-up and planning included, and depend least on what "
        "else the machine does.",
        ratios=ratios,
        tables=tables,
        charts=[Chart("Reading a whole history", "changes", "seconds",
                      [Series(LABELS[what], times) for what, times in known.items()], log_x=True, log_y=True)]
        if growth
        else [],
    )  # fmt: skip


def main() -> int:
    parser = options(__doc__, quick="50,000 and 200,000 changes")
    parser.add_argument("--changes", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--large", action="store_true", help="100 million changes as well")
    parser.add_argument("--folder", type=Path, help="keep the changelogs here")
    parser.add_argument(
        "--what", nargs="+", choices=WORK, default=list(WORK), help="plain and scan are needed"
    )
    parser.add_argument("--one", choices=WORK, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        if asked.one:
            seconds = WORK[asked.one](asked.folder, Path(scratch))
            print(seconds, time.process_time(), peak_memory())
            return 0
        sizes = [50_000, 200_000] if asked.quick else [*asked.changes, *([LARGE] if asked.large else [])]
        return say(result(sizes, asked.what, asked.folder or Path(scratch)), as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main())
