"""A stamped changelog in Spark: the sums and the state of the changelog itself, and a run that goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.harness import COLUMNS
from tests.engine.spark.test_gauge import changes, gauge, read, written
from tests.engine.test_past import Result, TableHistory
from tests.engine.test_stamps import PLAN, drawn
from tests.engine.test_stamps import write as stamp
from tidegauge.engine.duckdb.engine import DuckEngine
from tidegauge.errors import SourceError
from tidegauge.model.tick import NOTHING_YET
from tidegauge.store.secret.stamped import open_stamped

if TYPE_CHECKING:
    from pathlib import Path

    from tidegauge.engine.spark.engine import SparkEngine
    from tidegauge.model.program import Folded

FILES = {"kind": "files", "path": "log.parquet"}


def sums(found: Folded) -> list[dict[Any, int]]:
    return [
        {(one.release, one.component, one.bin, one.cell): one.amount for one in totals if one.amount}
        for totals in (found.totals, found.dropped)
    ]


def state(engine: SparkEngine) -> list[tuple[Any, ...]]:
    """The committed state, but units of which nothing is left."""
    engine.resume(engine.version())
    rows = [row.asDict() for row in engine._newest().collect()] if engine._version.state else []
    left = [row for row in rows if row["alive"] or any(row[name] for name in row if name.startswith("m"))]
    return sorted((tuple(sorted(_used(row).items())) for row in left), key=str)


def _used(row: dict[str, Any]) -> dict[str, Any]:
    """Without the labels of a row that does not exist."""
    return row if row["alive"] else {name: one for name, one in row.items() if not name.startswith("label")}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8000, 8008))
@pytest.mark.usefixtures("spark")
def test_a_stamped_history_is_the_same_as_the_history(seed: int, tmp_path: Path) -> None:
    from tests.engine.spark.programs import plain_program
    from tidegauge.engine.spark.engine import SparkEngine

    world, rows, reached = drawn(seed)
    program = plain_program(world)
    with DuckEngine(program, COLUMNS) as engine:
        stamp(engine, TableHistory(rows, reached), tmp_path / "stamped")
        stamped = open_stamped(tmp_path / "stamped", plan=PLAN, layout=engine.layout.tables())
    with DuckEngine(program, COLUMNS) as engine:
        embedded = Result(engine, rows, reached)
    found = []
    for name in ("raw", "stamped"):
        with SparkEngine(program, COLUMNS) as spark:
            spark.keep_in(tmp_path / f"{name}.db")
            spark.resume(None)
            if name == "raw":
                due = rows.sort_by("time")
                due = due.slice(0, sum(time <= reached for time in due["time"].to_pylist()))
                spark.arrive(due, state=None, now=10**9, arrivals=0)  # type: ignore[arg-type]
                (part,) = spark.fold(state=None, watermark=NOTHING_YET, reached=reached)  # type: ignore[arg-type]
            else:
                (part,) = spark.fold_stamped(stamped, state=None).parts  # type: ignore[arg-type]
            found.append((sums(part), state(spark)))
    assert found[1][0] == found[0][0]
    assert found[1][1] == found[0][1]
    assert found[1][0][0] == embedded.run.sums


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_a_gauge_begins_with_a_stamped_changelog_and_goes_on(tmp_path: Path) -> None:
    for folder in (tmp_path / "plain", tmp_path / "again"):
        folder.mkdir()
        written(changes(3), folder / "log.parquet")
    plain = tmp_path / "plain"
    read(gauge(plain, FILES, "duckdb", "2026-01-06"))
    embedded = read(gauge(plain, FILES, "duckdb"))
    first = gauge(tmp_path / "again", FILES, "spark", "2026-01-06")
    assert list(first.run(stamped=first.stamp()))
    assert read(gauge(tmp_path / "again", FILES, "spark")) == embedded


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_a_changed_folder_is_refused(tmp_path: Path) -> None:
    written(changes(0, 40), tmp_path / "log.parquet")
    one = gauge(tmp_path, FILES, "spark")
    folder = one.stamp()
    with (folder / "rows.parquet").open("ab") as file:
        file.write(b"x")
    with pytest.raises(SourceError, match="changed or cut short"):
        list(one.run(stamped=folder))
    assert not (tmp_path / "spark.spark").exists()
