"""Spark: a first load with the constraint enforced, raw and stamped, beside Spark's own GROUP BY.

    python -m bench.spark [CHANGES ...]

All three run in one session of two cores, one after the other, several times; a ratio is that of the medians.
Each row of the file is one change: a key, a time and a group.  A load enforces at_most = 8, adds up daily
sums of 50 groups and writes the new state.  The stamped load checks every byte of the folder as a run does;
the stamping itself is not timed.  Where PySpark is missing, everything runs in an environment of its own.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from bench.environments import ROOT, Absent, Library, environment
from bench.result import Ratio, Result, not_here, options, result_from, say
from tidegauge.engine.duckdb.engine import DuckEngine
from tidegauge.engine.spark.changes import Changes, Roles, where_of
from tidegauge.engine.spark.engine import SparkEngine
from tidegauge.model.expression import Column, Constant, call
from tidegauge.model.program import Allowance, Program, Release, Scope
from tidegauge.model.quantity import Span
from tidegauge.model.query import Component, Group, Query
from tidegauge.model.schedule import Schedule
from tidegauge.model.source import Location
from tidegauge.model.tick import NOTHING_YET
from tidegauge.source.files.kind import KIND
from tidegauge.source.files.spec import FilesSpec
from tidegauge.store.secret.stamped import Origin, open_stamped, stamping

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

DAY = 86_400_000_000
GROUPS = tuple(f"g{n:02d}" for n in range(50))
DAYS = 400
PLAN = "0" * 64
COLUMNS = {"id": "BIGINT", "region": "VARCHAR"}
PYSPARK = Library("pyspark", "4.3.0", more=("pandas<3", str(ROOT)))
WANTED = {"raw": 8.0, "stamped": 1.5}
START_UP = 3.0
"""Seconds of start-up and planning that the wanted ratios leave out, at most."""
FEW = 1000
"""Changes of a load that is little more than planning."""


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
    with SparkEngine(program(), COLUMNS) as engine:
        engine.keep_in(folder / "gauge.db")
        engine.resume(None)
        rows = Changes(load, Roles(time="at", key="id"), where_of([], until), upto=until)
        engine.arrive_remote(rows, now=until, arrivals=0)
        (found,) = engine.fold(state=None, watermark=NOTHING_YET, reached=until)  # type: ignore[arg-type]
        assert found.totals
        engine.version()


def stamp(path: Path, folder: Path) -> None:
    """Stamp the changelog, as `tidegauge stamp` does."""
    spec = FilesSpec(kind="files", path=str(path), table="log", time="at", key="id")
    source = KIND.open(spec, Location(folder, folder / "gauge.db"))
    history = source.history(DAYS * DAY)
    assert history is not None
    with closing(history), DuckEngine(program(), COLUMNS) as engine:
        origin = Origin(PLAN, engine.layout.tables(), history.upto, history.position)
        with stamping(folder / "stamped", origin) as writer:
            found = engine.stamp(
                history,
                reached=history.upto,
                write=lambda table: writer.write("changes", table),
                report=lambda _, __: None,
            )
            writer.finish(found)


def stamped(folder: Path) -> None:
    """A first load of the stamped folder, which is checked first."""
    with DuckEngine(program(), COLUMNS) as stamper:
        layout = stamper.layout.tables()
    found = open_stamped(folder / "stamped", plan=PLAN, layout=layout)
    with SparkEngine(program(), COLUMNS) as engine:
        engine.keep_in(folder / "stamped.db")
        engine.resume(None)
        (part,) = engine.fold_stamped(found, state=None).parts  # type: ignore[arg-type]
        assert part.totals
        engine.version()


def timed(task: Callable[[], None]) -> float:
    """Seconds that a task takes."""
    begin = time.perf_counter()
    task()
    return time.perf_counter() - begin


def measured(spark: SparkSession, changes: int) -> dict[str, float]:
    """Seconds of the GROUP BY, of a raw and of a stamped load: the medians of three."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "log.parquet"
        changelog(path, changes)
        stamp(path, folder)
        plain(spark, path)  # a session that is warm
        tasks = {
            "plain": partial(plain, spark, path),
            "raw": partial(private, path, folder),
            "stamped": partial(stamped, folder),
        }
        every = [{kind: timed(task) for kind, task in tasks.items()} for _ in range(3)]
    return {kind: statistics.median(one[kind] for one in every) for kind in tasks}


def result(sizes: list[int]) -> Result:
    """Seconds and ratio for each number of changes."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  (may be missing)

    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "4g")
    builder = builder.config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    least = measured(spark, FEW)
    ratios = []
    for changes in sizes:
        found = measured(spark, changes)
        for kind, wanted in WANTED.items():
            what, fixed = f"first load, {kind}, {changes:,} changes", least[kind] - least["plain"]
            planned = found[kind] - max(0.0, min(START_UP, fixed))
            ratios += [
                Ratio(what, found[kind], "GROUP BY in Spark", found["plain"], "s"),
                Ratio(f"{what}, less planning", planned, "GROUP BY in Spark", found["plain"], "s", wanted),
            ]
    spark.stop()
    return Result(
        "Spark",
        "A first load on Spark, in one session of two cores: the constraint is enforced, daily sums of 50 "
        "groups are added up and the new state is written, beside Spark's own GROUP BY of the same file "
        "without privacy. Planning is what the same load of "
        f"{FEW} changes takes beyond the GROUP BY of them, at most {START_UP:g} s.",
        ratios=ratios,
    )


def elsewhere(arguments: list[str]) -> Result:
    """The same in an environment that has PySpark."""
    try:
        python = environment(PYSPARK)
    except Absent as error:
        return not_here("Spark", str(PYSPARK), str(error))
    words = [str(python), "-m", "bench.spark", *arguments, "--json"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    if not lines:
        return not_here("Spark", str(PYSPARK), "It was installed but gave no result.")
    return result_from(json.loads(lines[-1]))


def main() -> int:
    parser = options("A first load on Spark beside a plain GROUP BY.", quick="100,000 changes")
    parser.add_argument("sizes", type=int, nargs="*", default=[1_000_000, 10_000_000], metavar="CHANGES")
    asked = parser.parse_args()
    sizes = [100_000] if asked.quick else asked.sizes
    if shutil.which("java") is None:
        found = not_here("Spark", "Java", "It is not installed here.")
    elif importlib.util.find_spec("pyspark") is None:
        found = elsewhere(list(map(str, sizes)))
    else:
        found = result(sizes)
    return say(found, as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main())
