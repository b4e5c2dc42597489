"""Spark: a first load with the constraint enforced, beside Spark's own GROUP BY without privacy.

    python -m bench.spark [CHANGES ...]

Both read the same Parquet file in one session of two cores, one after the other, several times; the ratio is
that of the medians.  Each row of the file is one change: a key, a time and a group.  The load enforces
at_most = 8, adds up daily sums of 50 groups and writes the new state.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
from pyspark.sql import SparkSession

from bench.result import Ratio, Result, say
from tidegauge.engine.spark.changes import Changes, Roles, where_of
from tidegauge.engine.spark.engine import SparkEngine
from tidegauge.model.expression import Column, Constant, call
from tidegauge.model.program import Allowance, Program, Release, Scope
from tidegauge.model.quantity import Span
from tidegauge.model.query import Component, Group, Query
from tidegauge.model.schedule import Schedule
from tidegauge.model.tick import NOTHING_YET

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

DAY = 86_400_000_000
GROUPS = tuple(f"g{n:02d}" for n in range(50))
DAYS = 400


def changelog(path: Path, changes: int) -> None:
    """Ten changes a row on average, over 400 days."""
    duckdb.sql(f"""
        COPY (SELECT make_timestamp((random() * {DAYS * DAY})::BIGINT) AS at,
                     (random() * {changes // 10})::BIGINT AS id,
                     'g' || lpad((random() * 49)::INTEGER::VARCHAR, 2, '0') AS region
              FROM range({changes}))
        TO '{path}' (FORMAT PARQUET)""")


def program() -> Program:
    """A running count by group, every day, at most 8 changes a row."""
    cell = call("place", Column("after", "region"), *GROUPS)
    count = Component("count", Constant(1), 0, 1, Fraction(1))
    query = Query(
        "stock",
        "count",
        "log",
        "",
        cell,
        Constant(False),
        (count,),
        (Group("region", GROUPS),),
        (),
        ("region",),
    )
    release = Release("now", query, Schedule(DAY, Span(micros=DAY)))
    return Program((release,), (Scope(("now",), ((None, Allowance(at_most=8)),)),))


def plain(spark: SparkSession, path: Path) -> None:
    """The same sums without a constraint, as anyone would write them."""
    spark.read.parquet(str(path)).createOrReplaceTempView("log")
    spark.sql("SELECT region, CAST(at AS DATE) AS day, count(*) FROM log GROUP BY ALL").collect()


def private(path: Path, folder: Path) -> None:
    """A first load: enforced, summed, and the state written."""

    def load(spark: SparkSession) -> DataFrame:
        return spark.read.parquet(str(path)).selectExpr("*", "_metadata.row_index AS _seq")

    until = DAYS * DAY
    with SparkEngine(program(), {"id": "BIGINT", "region": "VARCHAR"}) as engine:
        engine.keep_in(folder / "gauge.db")
        engine.resume(None)
        rows = Changes(load, Roles(time="at", key="id"), where_of([], until), upto=until)
        engine.arrive_remote(rows, now=until, arrivals=0)
        (found,) = engine.fold(state=None, watermark=NOTHING_YET, reached=until)  # type: ignore[arg-type]
        assert found.totals
        engine.version()


def timed(task: Callable[[], None]) -> float:
    """Seconds that a task takes."""
    begin = time.perf_counter()
    task()
    return time.perf_counter() - begin


def result(sizes: list[int]) -> Result:
    """Seconds and ratio for each number of changes."""
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "4g")
    builder = builder.config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    ratios = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for changes in sizes:
            path = folder / f"{changes}.parquet"
            changelog(path, changes)
            plain(spark, path)  # a session that is warm
            tasks = partial(plain, spark, path), partial(private, path, folder)
            both = [[timed(task) for task in tasks] for _ in range(3)]
            first, second = (statistics.median(one) for one in zip(*both, strict=True))
            ratios.append(
                Ratio(f"first load, {changes:,} changes", second, "GROUP BY in Spark", first, "s", 8.0)
            )
            path.unlink()
    spark.stop()
    return Result(
        "Spark",
        "A first load on Spark, in one session of two cores: the constraint is enforced, daily sums of 50 "
        "groups are added up and the new state is written, beside Spark's own GROUP BY of the same file "
        "without privacy.",
        ratios=ratios,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="A first load on Spark beside a plain GROUP BY.")
    parser.add_argument("sizes", type=int, nargs="*", default=[1_000_000, 10_000_000], metavar="CHANGES")
    parser.add_argument("--quick", action="store_true", help="100,000 changes")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    return say(result([100_000] if asked.quick else asked.sizes), as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main())
