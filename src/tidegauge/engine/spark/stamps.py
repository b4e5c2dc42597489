"""A stamped changelog in Spark: its sums are a plain GROUP BY, its state is read as it was written.

The embedded engine writes the stamps; rows and counters of units are in its two tables
(tidegauge.model.stamp).  They are copied, not converted: the next fold that needs the state joins them.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegauge.engine.spark import paths
from tidegauge.engine.spark.files import make_durable, remove
from tidegauge.engine.spark.stamped_state import StampedState
from tidegauge.model.program import Total

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.engine.spark.layout import Layout
    from tidegauge.model.stamp import Stamped

PREFIX: Final = "stamped-"
"""How the name of a folder of the state begins that has the two tables of a stamped changelog."""
_TABLES: Final = ("rows.parquet", "units.parquet", "used.parquet")
_VIEWS: Final = ("changes", "views", "bins", "net")


def folder_of(found: Stamped, number: int) -> str:
    """The name of the folder of the state that such a changelog begins; it says where the changelog ends."""
    return f"{PREFIX}{number:08d}_{found.upto}"


def copied(found: Stamped, place: Path) -> None:
    """Copy the state after the stamped changes into a folder, durably."""
    remove(place)
    place.mkdir(mode=0o700)
    for path, name in zip(found.state, _TABLES, strict=True):
        shutil.copyfile(path, place / name)
    (place / "_SUCCESS").touch()
    make_durable(place)


def state_of(spark: SparkSession, place: Path, layout: Layout) -> DataFrame:
    """The state in such a folder, with the columns that the engine's own folders have."""
    name, _, upto = place.name.partition("_")  # not there where an earlier version wrote the folder
    there = [one for one in _TABLES if (place / one).exists()]  # an earlier version had no used clips
    frames = [spark.read.parquet(paths.read(place / one)) for one in there]
    views = [f"tidegauge_{name.replace('-', '_')}_{n}" for n in range(len(frames))]
    for view, frame in zip(views, frames, strict=True):
        frame.createOrReplaceTempView(view)
    try:
        rows, units, used = [*views, None][: len(_TABLES)]
        assert rows is not None
        assert units is not None
        statement = StampedState(layout, int(upto or 0)).statement(rows, units, used, frames[0].columns)
        return spark.sql(statement)
    finally:
        for view in views:
            spark.catalog.dropTempView(view)


def sums(spark: SparkSession, found: Stamped, layout: Layout, prefix: str) -> tuple[list[Total], list[Total]]:
    """The accepted sums, and the true sums less these.  prefix: of the names that the statements use."""
    assert isinstance(found.changes, Path), "stamped changelogs of encrypted stores are refused before"
    frames = (
        spark.read.parquet(paths.read(found.changes.resolve())),
        spark.createDataFrame(found.views),
        spark.createDataFrame(found.bins),
    )
    names = {name: f"{prefix}_{name}" for name in _VIEWS}
    for name, frame in zip(_VIEWS, frames, strict=False):
        frame.createOrReplaceTempView(names[name])
    try:
        statement = _totals(_net(names["changes"], alone=len(layout.program.scopes) == 1), names)
        rows = spark.sql(statement).collect()
    finally:
        for name in names.values():
            spark.catalog.dropTempView(name)
    releases = [release.name for release in layout.program.releases]
    both: tuple[list[Total], list[Total]] = ([], [])
    for release, component, bin_, cell, accepted, true_ in sorted(map(tuple, rows)):
        for amount, totals in zip((int(accepted), int(true_) - int(accepted)), both, strict=True):
            if amount:
                totals.append(Total(releases[release], component, bin_, cell, amount))
    return both


def _net(changes: str, *, alone: bool) -> str:
    """SQL: per scope, bin and contribution how often it was added less how often it was taken away.

    alone: all changes are of scope 0.
    """
    scope = "0" if alone else "scope"
    keys = "bin" if alone else "scope, bin"
    sides = " UNION ALL ".join(
        f"""SELECT {scope} AS scope, bin, {side} AS view, {sign}count_if(accepted) AS accepted,
                   {sign}count(ordinal) AS true_ FROM {changes} GROUP BY {keys}, {side}"""
        for side, sign in (("now", ""), ("was", "-"))
    )
    return f"""
        SELECT scope, bin, view, sum(accepted) AS accepted, sum(true_) AS true_ FROM ({sides})
        WHERE view <> 0 GROUP BY scope, bin, view"""


def _totals(net: str, names: dict[str, str]) -> str:
    """SQL: the exact sums, in decimals that no sum of 64-bit integers overflows."""
    amounts = ", ".join(
        f"sum(CAST(net.{name} AS DECIMAL(19, 0)) * CAST(views.amount AS DECIMAL(19, 0))) AS {name}"
        for name in ("accepted", "true_")
    )
    return f"""
        SELECT views.release, views.component, bins.number AS bin, views.cell, {amounts}
        FROM ({net}) net JOIN {names["views"]} views ON views.scope = net.scope AND views.view = net.view
        JOIN {names["bins"]} bins ON bins.release = views.release AND bins.bin = net.bin
        GROUP BY views.release, views.component, bins.number, views.cell"""
