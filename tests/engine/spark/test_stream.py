"""Structured Streaming: micro-batches feed the tick, each exactly once, across kills at every point."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from tests.engine.spark.test_gauge import changes, gauge, read, written
from tidegauge.errors import SourceError, SpecError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

STREAM: dict[str, Any] = {"kind": "spark", "path": "log", "stream": True, "order": "lsn"}
UNTILS = ("2026-01-03", "2026-01-05 12:00", "2026-01-08", "2026-01-11", "2026-01-20")


def stages(seed: int, folder: Path) -> list[Any]:
    """Changes in the order of their times, numbered, as one table for each stage; and all in one file."""
    rows = sorted(changes(seed), key=lambda row: row["at"])
    written(rows, folder / "all.parquet")
    table = pq.read_table(folder / "all.parquet")
    table = table.append_column("lsn", [list(range(len(rows)))])
    (folder / "log").mkdir()
    found, begin = [], 0
    for until in UNTILS:
        due = [row for row in rows if f"{row['at']:%Y-%m-%d %H:%M}" <= until]
        found.append(table.slice(begin, len(due) - begin))
        begin = len(due)
    return found


def embedded(folder: Path) -> list[tuple[Any, ...]]:
    return read(gauge(folder, {"kind": "files", "path": "all.parquet"}, "duckdb"))


@pytest.mark.usefixtures("spark")
def test_a_stream_of_files_has_the_readings_of_the_embedded_engine(tmp_path: Path) -> None:
    for n, (table, until) in enumerate(zip(stages(7, tmp_path), UNTILS, strict=True)):
        half = table.num_rows // 2  # two micro-batches of each stage
        for age, part in ((5, table.slice(0, half)), (3, table.slice(half))):
            path = tmp_path / "log" / f"{n}-{9 - age}.parquet"
            pq.write_table(part, path)
            modified = time.time() - age
            os.utime(path, (modified, modified))  # Spark reads files in the order of these times
        declared = {**STREAM, "options": {"maxFilesPerTrigger": "1", "latestFirst": "false"}}
        found = read(gauge(tmp_path, declared, "spark", until))
    assert found == embedded(tmp_path)
    batches = [path.name for path in (tmp_path / "spark.stream").glob("batch-*")]
    assert batches == [f"batch-{2 * len(UNTILS) - 1:012d}"]


@pytest.mark.usefixtures("spark")
def test_a_stream_reads_times_as_utc_whatever_the_session_has(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import csv

    (table, *_) = stages(11, tmp_path)
    times = table["at"].cast(pa.timestamp("s"), safe=False)
    csv.write_csv(table.set_column(0, "at", times), tmp_path / "log" / "0.csv")
    declared = {**STREAM, "format": "csv", "options": {"inferSchema": "true"}}
    assert read(gauge(tmp_path, declared, "spark", UNTILS[0])) == read(
        gauge(tmp_path, {"kind": "files", "path": "all.parquet"}, "duckdb", UNTILS[0])
    )


def test_a_view_of_a_streaming_frame_is_followed(spark: SparkSession, tmp_path: Path) -> None:
    for n, table in enumerate(stages(8, tmp_path)):
        pq.write_table(table, tmp_path / "log" / f"{n}.parquet")
    place = str(tmp_path / "log")
    frame = spark.readStream.schema(spark.read.parquet(place).schema).parquet(place)
    frame.createOrReplaceTempView("log")
    try:
        found = read(
            gauge(tmp_path, {"kind": "spark", "table": "log", "stream": True, "order": "lsn"}, "spark")
        )
    finally:
        spark.catalog.dropTempView("log")
    assert found == embedded(tmp_path)


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.engine.spark.test_gauge import gauge
from tests.engine.spark.test_stream import STREAM
from tidegauge.engine.spark import stream
from tidegauge.store.store import Store

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

commit, make_durable, place = Store.commit, stream.make_durable, sys.argv[2]
if place == "half written":
    stream.make_durable = kill
elif place == "kept, unknown to Spark":
    stream.sync_folder = kill
elif place == "state written, not committed":
    Store.commit = kill
else:
    Store.commit = lambda store, result: (commit(store, result), kill())
list(gauge(Path(sys.argv[1]), STREAM, "spark", sys.argv[3]).run())
"""
PLACES = ("half written", "kept, unknown to Spark", "state written, not committed", "committed")


@pytest.mark.usefixtures("spark")
def test_kills_at_every_point_lose_and_double_nothing(tmp_path: Path) -> None:
    tables = stages(9, tmp_path)
    for n, (place, until) in enumerate(zip(PLACES, UNTILS, strict=False)):
        pq.write_table(tables[n], tmp_path / "log" / f"{n}.parquet")
        command = [sys.executable, "-c", KILLED, str(tmp_path), place, until]
        ended = subprocess.run(command, capture_output=True, check=False, cwd=Path(__file__).parents[3])
        assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()[-3000:]
        read(gauge(tmp_path, STREAM, "spark", until))
    pq.write_table(tables[-1], tmp_path / "log" / "last.parquet")
    assert read(gauge(tmp_path, STREAM, "spark")) == embedded(tmp_path)


@pytest.mark.usefixtures("spark")
def test_the_folder_of_another_store_or_an_older_copy_is_refused(tmp_path: Path) -> None:
    import shutil

    tables = stages(10, tmp_path)
    kept, old = tmp_path / "spark.stream", tmp_path / "old"
    for n in range(2):
        if n:
            shutil.copytree(kept, old)
        pq.write_table(tables[n], tmp_path / "log" / f"{n}.parquet")
        read(gauge(tmp_path, STREAM, "spark", UNTILS[n]))
    kept.rename(tmp_path / "newest")
    with pytest.raises(SourceError, match="is not the one"):
        read(gauge(tmp_path, STREAM, "spark"))
    old.rename(kept)
    with pytest.raises(SourceError, match="older copy"):
        read(gauge(tmp_path, STREAM, "spark"))
    (tmp_path / "spark.db").unlink()
    shutil.rmtree(kept)
    (tmp_path / "newest").rename(kept)
    for left in (tmp_path / "spark.spark").iterdir():
        shutil.rmtree(left)
    for left in tmp_path.glob("spark.db*"):
        left.unlink()
    with pytest.raises(SourceError, match="remove the folder"):
        read(gauge(tmp_path, STREAM, "spark"))


def test_a_stream_needs_an_order(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="order"):
        gauge(tmp_path, {**STREAM, "order": None}, "spark")
