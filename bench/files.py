"""Reading changelogs in text files: what the source of kind `files` takes, beside DuckDB's own reader.

    python -m bench.files [--rows 1000000]

Every format is read in a process of its own: all rows are checked, put into the order of time and delivered.
The plain reader parses the same columns and adds them up.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

from bench.result import Ratio, Result, Table, options, say
from tidegauge.model.quantity import instant
from tidegauge.source.files.source import Files

ROOT = Path(__file__).parents[1]
FORMATS = {"csv": "FORMAT csv, HEADER", "jsonl": "FORMAT json", "parquet": "FORMAT parquet"}
READERS = {"csv": "read_csv", "jsonl": "read_json", "parquet": "read_parquet"}


def invent(folder: Path, rows: int) -> None:
    """The same changes in every format."""
    with duckdb.connect() as db:
        db.execute(f"""
            CREATE TABLE t AS
            SELECT strftime(make_timestamp(1735689600000000 + i * 5000000), '%Y-%m-%dT%H:%M:%SZ') AS time,
                   'patient-' || (hash(i) % {max(1, rows // 10)})::VARCHAR AS id,
                   'ward ' || (hash(i + 1) % 20)::VARCHAR AS ward, (hash(i + 2) % 100)::BIGINT AS age
            FROM range({rows}) AS numbers(i)""")
        for suffix, options in FORMATS.items():
            db.execute(f"COPY t TO '{folder / f'changes.{suffix}'}' ({options})")


def delivered(path: Path) -> int:
    """Rows that the source delivers."""
    source = Files(str(path), time="time", key="id", table="t", after="")
    try:
        return sum(batch.rows.num_rows for batch in source.read(None, instant("2100-01-01")))
    finally:
        source.close()


def plain(path: Path) -> int:
    """Rows that DuckDB's reader parses; every value is used."""
    reader = READERS[path.suffix.removeprefix(".")]
    with duckdb.connect() as db:
        found = db.execute(
            f"SELECT count(*), bit_xor(hash(time, id, ward, age)) FROM {reader}('{path}')"
        ).fetchone()
    assert found
    return int(found[0])


WORK = {"source": delivered, "plain": plain}


def measured(what: str, path: Path) -> tuple[int, float, float, float]:
    """Rows, seconds, seconds of processors and peak GiB, in a process of its own."""
    words = [sys.executable, "-m", "bench.files", "--one", what, "--file", str(path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return int(done[-4]), float(done[-3]), float(done[-2]), float(done[-1])


def result(rows: int) -> Result:
    """Every format, both ways."""
    ratios, lines = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        invent(folder, rows)
        for suffix in FORMATS:
            path = folder / f"changes.{suffix}"
            size = path.stat().st_size / 1e6
            both = {what: measured(what, path) for what in WORK}
            for what, (count, seconds, processors, memory) in both.items():
                assert count == rows, (what, count)
                lines.append([suffix, f"{size:,.0f} MB", what, f"{seconds:.1f} s", f"{processors:.1f} s",
                              f"{memory:.2f} GiB"])  # fmt: skip
            ratios.append(
                Ratio(f"{suffix}, {rows:,} rows", both["source"][2], "DuckDB's reader", both["plain"][2],
                      "s of processors")
            )  # fmt: skip
    return Result(
        "Reading files",
        f"{rows:,} changes in text files and in Parquet: checked, put into the order of time and delivered "
        "by the source, beside DuckDB's own reader, which parses the same values. Start-up is included in "
        "both.",
        ratios=ratios,
        tables=[Table("", ["format", "size", "what", "seconds", "processors", "peak memory"], lines)],
    )


def main() -> int:
    parser = options(__doc__, quick="50,000 rows")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--one", choices=WORK, help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        begin = time.perf_counter()
        count = WORK[asked.one](asked.file)
        seconds, memory = (
            time.perf_counter() - begin,
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        )
        print(count, seconds, time.process_time(), memory)
        return 0
    return say(result(50_000 if asked.quick else asked.rows), as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main())
