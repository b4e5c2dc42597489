"""The first fold of a log in the order of time gives what the general statements give,
and the embedded engine."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.harness import COLUMNS
from tests.engine.spark.test_gauge import changes, gauge, read, written
from tests.engine.spark.test_stamped import state, sums
from tests.engine.test_past import Result
from tests.engine.test_stamps import drawn
from tidegauge.engine.duckdb.engine import DuckEngine
from tidegauge.engine.spark import first
from tidegauge.engine.spark.arrow import frame_of
from tidegauge.model.tick import NOTHING_YET

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from tidegauge.model.program import Program

WAYS = ("general", "first", "numbers", "heavy")


def folded(
    way: str, program: Program, due: pa.Table, reached: int, *, store: Path, patch: pytest.MonkeyPatch
) -> Any:
    """Sums, counts and state of a log.

    first: known to be in order; numbers: with integers as keys; heavy: four changes of a unit are too many.
    """
    from tidegauge.engine.spark import engine as module
    from tidegauge.engine.spark.engine import SparkEngine
    from tidegauge.engine.spark.session import settled

    with SparkEngine(program, COLUMNS) as engine:
        engine.keep_in(store)
        engine.resume(None)
        if way == "general":
            engine.arrive(due, state=None, now=10**9, arrivals=0)  # type: ignore[arg-type]
        else:
            with settled(engine._spark):
                frame = frame_of(due, engine._columns, engine._spark)
                if way == "heavy":
                    patch.setattr(engine._spark.sparkContext, "pythonExec", "no-python")  # no row needs it
                    patch.setattr(module, "heavy_units", partial(first.heavy_units, sampled=1, many=4))
                if way in ("numbers", "heavy"):
                    frame = frame.selectExpr(
                        "CAST(substring(entry, 2) AS BIGINT) AS entry",
                        *(name for name in frame.columns if name != "entry"),
                    )
                engine._take(frame, now=10**9, place=0, in_order=True, upto=reached)
        (part,) = engine.fold(state=None, watermark=NOTHING_YET, reached=reached)  # type: ignore[arg-type]
        counts = {name: times for name, times in part.counts.items() if times}
        units = (_plain(row, program) for row in state(engine))
        return sums(part), counts, sorted(units, key=lambda row: str(row["unit"]))


def _plain(row: tuple[Any, ...], program: Program) -> dict[str, Any]:
    """A row of the state without what is not used: a first time where there is no `within`."""
    found = dict(row)
    for s, scope in enumerate(program.scopes):
        if all(one.within is None for _, one in scope.allowances):
            found.pop(f"f{s}")
    return found | {"unit": found["unit"].removeprefix("e")}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8100, 8108))
@pytest.mark.usefixtures("spark")
def test_the_first_fold_is_the_general_one(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.engine.spark.programs import plain_program

    world, rows, reached = drawn(seed)
    program = plain_program(world)
    due = rows.sort_by("time")
    due = due.slice(0, sum(time <= reached for time in due["time"].to_pylist()))
    general, *others = (
        folded(way, program, due, reached, store=tmp_path / f"{way}.db", patch=monkeypatch) for way in WAYS
    )
    assert others == [general] * 3
    with DuckEngine(program, COLUMNS) as engine:
        assert general[0][0] == Result(engine, rows, reached).run.sums


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_rows_without_a_key_change_nothing(tmp_path: Path) -> None:
    rows = [{**row, "id": None if n % 9 == 0 else row["id"]} for n, row in enumerate(changes(5))]
    written(rows, tmp_path / "log.parquet")
    embedded = read(gauge(tmp_path, {"kind": "files", "path": "log.parquet"}, "duckdb"))
    assert read(gauge(tmp_path, {"kind": "spark", "path": "log.parquet"}, "spark")) == embedded
