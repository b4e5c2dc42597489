"""Gauges on Spark: the same readings as with the embedded engine, from files and tables."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.engine.spark.killing import IN_A_COMMIT
from tidegauge.errors import SourceError, SpecError, StoreCorrupt
from tidegauge.model.quantity import instant
from tidegauge.run.gauge import Gauge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2026, 1, 1, tzinfo=UTC)
RELEASES: dict[str, Any] = {
    "now": {
        "sql": "SELECT ward, COUNT(*) FROM log WHERE status = 'in' GROUP BY ward",
        "groups": {"ward": ["a", "b"]},
        "start": "2026-01-02",
        "every": "1 day",
        "for": "9 days",
    },
    "age": {
        "sql": "SELECT SUM(age) FROM log",
        "bounds": {"age": [0, 110]},
        "start": "2026-01-03",
        "every": "3 days",
        "for": "9 days",
    },
}


def changes(seed: int, size: int = 300) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [
        {
            "at": START + timedelta(minutes=rng.randrange(14 * 1440)),
            "id": rng.randrange(60),
            "op": rng.choice(["u", "u", "u", "d"]),
            "ward": rng.choice(["a", "b", "c"]),
            "status": rng.choice(["in", "out"]),
            "age": rng.choice([None, 5, 30, 200]),
        }
        for _ in range(size)
    ]


def written(rows: list[dict[str, Any]], path: Path) -> None:
    kinds = {"at": pa.timestamp("us"), "id": pa.int64(), "age": pa.int64()}
    fields = [(name, kinds.get(name, pa.string())) for name in ("at", "id", "op", "ward", "status", "age")]
    naive = [{**row, "at": row["at"].replace(tzinfo=None)} for row in rows]
    pq.write_table(pa.Table.from_pylist(naive, pa.schema(fields)), path)


def gauge(folder: Path, source: dict[str, Any], engine: str, until: str = "2026-01-20", **more: Any) -> Gauge:
    declared: dict[str, Any] = {
        "constraint": {"at_most": 3},
        "budget": {"epsilon": 1_000_000_000},
        "releases": RELEASES,
    }
    return Gauge(
        source={"time": "at", "key": "id", "op": "op", "table": "log", **source},
        engine=engine,
        store=folder / f"{engine}.db",
        base=folder,
        now=lambda: instant(until),
        **(declared | more),
    )


def read(one: Gauge) -> list[tuple[Any, ...]]:
    list(one.run())
    return [(r.release, r.time, str(r.group), r.value) for r in one.published()]


@pytest.mark.usefixtures("spark")
def test_a_small_gauge_on_spark_has_the_readings_of_the_embedded_engine(tmp_path: Path) -> None:
    written(changes(0, 80), tmp_path / "log.parquet")
    embedded = read(gauge(tmp_path, {"kind": "files", "path": "log.parquet"}, "duckdb"))
    assert len(embedded) > 20
    assert read(gauge(tmp_path, {"kind": "spark", "path": "log.parquet"}, "spark")) == embedded


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_files_that_are_added_are_read_on_as_by_the_embedded_engine(kind: str, tmp_path: Path) -> None:
    import duckdb

    rows, found = changes(1), {}
    for engine, source in (("duckdb", "files"), ("spark", "spark")):
        folder = tmp_path / engine
        (folder / "log").mkdir(parents=True)
        ending = {"parquet": "parquet", "csv": "csv", "json": "jsonl"}[kind]
        declared: dict[str, Any] = {"kind": source, "path": f"log/*.{ending}"}
        if kind != "parquet":
            declared["types"] = {"age": "integer"}
        if kind == "json":
            declared["types"] |= {"ward": "text", "status": "text"}
        for n, until in enumerate(("2026-01-04", "2026-01-09 12:00", "2026-01-20")):
            written(rows[n * 100 : n * 100 + 100], folder / "part.parquet")
            form = {"parquet": "PARQUET", "csv": "CSV, HEADER", "json": "JSON"}[kind]
            duckdb.sql(f"COPY (FROM '{folder}/part.parquet') TO '{folder}/log/{n}.{ending}' (FORMAT {form})")
            found[engine] = read(gauge(folder, declared, engine, until))
    assert found["spark"] == found["duckdb"]


@pytest.mark.slow
def test_a_table_of_the_session_is_read_on_by_its_order(spark: SparkSession, tmp_path: Path) -> None:
    rows = changes(2)
    written(rows, tmp_path / "log.parquet")
    embedded = read(gauge(tmp_path, {"kind": "files", "path": "log.parquet"}, "duckdb"))
    numbered = [{**row, "at": row["at"], "lsn": n} for n, row in enumerate(rows)]
    for size, until in ((150, "2026-01-01 12:00"), (300, "2026-01-20")):
        spark.createDataFrame(numbered[:size]).createOrReplaceTempView("hospital_log")
        declared = {"kind": "spark", "table": "hospital_log", "order": "lsn"}
        releases = json.loads(json.dumps(RELEASES).replace("FROM log", "FROM hospital_log"))
        one = Gauge(
            source={"time": "at", "key": "id", "op": "op", **declared}, constraint={"at_most": 3},
            budget={"epsilon": 1_000_000_000}, releases=releases, engine="spark", store=tmp_path / "spark.db",
            base=tmp_path, now=partial(instant, until),
        )  # fmt: skip
        found = read(one)
    assert found == embedded


@pytest.mark.slow
@pytest.mark.parametrize(("order", "message"), [
    ("op", r"'op' \(order\) is of type string"),
    ("lsn", r"'lsn' \(order\) is missing"),
    ("gaps", r"gaps \(order\) is empty"),
])  # fmt: skip
def test_a_table_needs_an_integer_in_every_row_to_order_it(
    order: str, message: str, spark: SparkSession, tmp_path: Path
) -> None:
    written(changes(0, 20), tmp_path / "log.parquet")
    frame = spark.read.parquet(str(tmp_path / "log.parquet"))
    frame.selectExpr("*", "CASE WHEN id % 2 = 0 THEN id END AS gaps").createOrReplaceTempView("log")
    with pytest.raises(SourceError, match=message):
        read(gauge(tmp_path, {"kind": "spark", "table": "log", "order": order}, "spark"))


@pytest.mark.slow
def test_pyspark_logs_no_value_of_a_row_that_a_view_cannot_compute(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.errors import PySparkException
    from pyspark.logger import PySparkLogger

    logged: list[str] = []
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        monkeypatch.setattr(
            PySparkLogger.getLogger(name), "callHandlers", lambda one: logged.append(str(one.msg))
        )
    written(changes(0, 20), tmp_path / "log.parquet")
    number = "CAST(concat('Zanzibar', ward) AS INT) AS lsn"
    frame = spark.read.parquet(str(tmp_path / "log.parquet")).selectExpr("*", number)
    frame.createOrReplaceTempView("log")
    with pytest.raises(SourceError, match="CAST_INVALID_INPUT"):
        read(gauge(tmp_path, {"kind": "spark", "table": "log", "order": "lsn"}, "spark"))
    assert not [text for text in logged if "Zanzibar" in text]
    with pytest.raises(PySparkException):  # the twin that must be found
        spark.sql("SELECT max(lsn) FROM log").collect()
    assert [text for text in logged if "Zanzibar" in text]


@pytest.mark.slow
def test_a_broken_file_is_refused_also_where_the_session_passes_over_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "log").mkdir()
    written(changes(0, 20), tmp_path / "log" / "0.parquet")
    (tmp_path / "log" / "1.parquet").write_bytes(b"PAR1 is not all")
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        with pytest.raises(SourceError):
            read(gauge(tmp_path, {"kind": "spark", "path": "log/*.parquet"}, "spark"))
    finally:
        spark.conf.unset("spark.sql.files.ignoreCorruptFiles")


@pytest.mark.slow
@pytest.mark.parametrize(("mistake", "message"), [
    ({"time": "when"}, r"'when' \(time\) is missing"),
    ({"format": "parque"}, "log.parquet: Spark cannot read it as parque"),
    ({"format": "orc"}, "log.parquet: Spark cannot read it as orc"),
])  # fmt: skip
@pytest.mark.usefixtures("spark")
def test_a_mistake_in_the_source_is_named(mistake: dict[str, str], message: str, tmp_path: Path) -> None:
    written(changes(0, 10), tmp_path / "log.parquet")
    with pytest.raises(SourceError, match=message) as found:
        gauge(tmp_path, {"kind": "spark", "path": "log.parquet"} | mistake, "spark").plan()
    assert "Py4J" not in str(found.value)


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_what_is_not_supported_is_refused_when_planned(tmp_path: Path) -> None:
    written(changes(0, 10), tmp_path / "log.parquet")
    source = {"kind": "spark", "path": "log.parquet"}
    with pytest.raises(SpecError, match="needs the engine 'spark'"):
        gauge(tmp_path, source, "duckdb").plan()
    with pytest.raises(SourceError, match=r"'person' \(unit\) is missing"):
        gauge(tmp_path, {**source, "unit": "person", "max_rows": 2}, "spark").plan()
    with pytest.raises(SpecError, match="leave it out if it is the key"):
        gauge(tmp_path, {**source, "unit": "id", "max_rows": 2}, "spark").plan()
    with pytest.raises(SpecError, match="does not take a source of kind 'sqlite'"):
        Gauge(
            source={"kind": "sqlite", "path": "x.db", "table": "t", "key": "id"},
            engine="spark", base=tmp_path,
            budget={"epsilon": 1}, constraint={"at_most": 3}, releases=RELEASES, store=tmp_path / "s.db",
        ).plan()  # fmt: skip


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_a_row_without_a_time_is_refused_without_its_values(tmp_path: Path) -> None:
    rows = changes(0, 10)
    written(rows, tmp_path / "log.parquet")
    table = pq.read_table(tmp_path / "log.parquet")
    times = pa.array([None, *table["at"].to_pylist()[1:]], pa.timestamp("us"))
    pq.write_table(table.set_column(0, "at", times), tmp_path / "log.parquet")
    with pytest.raises(SourceError, match=r"\(time\) is empty"):
        read(gauge(tmp_path, {"kind": "spark", "path": "log.parquet"}, "spark"))


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_a_file_that_changed_and_a_state_that_is_gone_are_refused(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    written(changes(0, 50), tmp_path / "log" / "0.parquet")
    declared = {"kind": "spark", "path": "log/*.parquet"}
    read(gauge(tmp_path, declared, "spark", "2026-01-05"))
    kept = tmp_path / "spark.spark"
    kept.rename(tmp_path / "elsewhere")
    with pytest.raises(StoreCorrupt, match="not complete"):
        read(gauge(tmp_path, declared, "spark"))
    (tmp_path / "elsewhere").rename(kept)
    written(changes(0, 60), tmp_path / "log" / "0.parquet")
    with pytest.raises(SourceError, match="has changed"):
        read(gauge(tmp_path, declared, "spark"))


KILLED = (
    IN_A_COMMIT
    + """
from tests.engine.spark.test_gauge import gauge
list(gauge(Path(sys.argv[1]), {"kind": "spark", "path": "log/*.parquet"}, "spark", sys.argv[3]).run())
"""
)


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_a_kill_between_the_state_and_the_ledger_loses_and_doubles_nothing(tmp_path: Path) -> None:
    rows = sorted(changes(4, 200), key=lambda row: row["at"])
    (tmp_path / "log").mkdir()
    written(rows[:100], tmp_path / "log" / "0.parquet")
    declared = {"kind": "spark", "path": "log/*.parquet"}
    first = read(gauge(tmp_path, declared, "spark", "2026-01-06"))
    written(rows[100:], tmp_path / "log" / "1.parquet")
    command = [sys.executable, "-c", KILLED, str(tmp_path), "1", "2026-01-20"]
    ended = subprocess.run(command, capture_output=True, check=False, cwd=Path(__file__).parents[3])
    assert ended.returncode == -signal.SIGKILL
    left_over = {path.name for path in (tmp_path / "spark.spark").iterdir()}
    found = read(gauge(tmp_path, declared, "spark"))
    assert first
    assert set(first) <= set(found)
    assert len(left_over) > 1
    written(rows, tmp_path / "log.parquet")
    assert found == read(gauge(tmp_path, {"kind": "files", "path": "log.parquet"}, "duckdb"))
