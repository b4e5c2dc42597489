"""A stamped history gives the sums, the state and the counts of the history itself;
so does SQL over its files."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from tests.docs.blocks import blocks
from tests.engine.harness import BY_STATE, COLUMNS, FLOW, START, SUM_X, batch_table, last_end
from tests.engine.test_past import ENDS, Result, TableHistory, counted, plain_world, state, told
from tests.seeds import seeds
from tidegauge.engine.duckdb.engine import DuckEngine
from tidegauge.engine.duckdb.past import enforce, parts, shuffle, stamps
from tidegauge.errors import SpecError
from tidegauge.model.program import Allowance, Program, Release, Scope
from tidegauge.model.quantity import Span
from tidegauge.model.schedule import Schedule
from tidegauge.store.secret.stamped import Origin, open_stamped, stamping

if TYPE_CHECKING:
    import pyarrow as pa

    from tests.engine.harness import World
    from tidegauge.model.history import Backfilled

PAGE = Path(__file__).parents[2] / "docs" / "stamp.md"
(STATEMENT,) = (block.text for block in blocks(PAGE) if block.language == "sql")
PLAN = "0123456789abcdef" * 4


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a few changes, and several at a time."""
    monkeypatch.setattr(shuffle, "PART", 10)
    monkeypatch.setattr(parts, "ROWS", 2)


def write(engine: DuckEngine, history: TableHistory, folder: Path) -> None:
    origin = Origin(PLAN, engine.layout.tables(), history.upto, history.position)
    with stamping(folder, origin) as writer:
        writer.finish(
            engine.stamp(
                history,
                reached=history.upto,
                write=lambda table: writer.write("changes", table),
                report=lambda _, __: None,
            )
        )


def stamped_result(folder: Path) -> type[Result]:
    """What a store has after the history was stamped into the folder and folded from there."""

    class StampedResult(Result):
        def backfilled(self, engine: DuckEngine, history: TableHistory) -> Backfilled:
            write(engine, history, folder)
            found = open_stamped(folder, plan=PLAN, layout=engine.layout.tables())
            assert (found.upto, found.position) == (history.upto, history.position)
            return engine.fold_stamped(found, state=self.run.memory)

    return StampedResult


def by_sql(folder: Path, names: list[str]) -> dict[Any, int]:
    """The sums that the documented statement gives in an engine that knows nothing of Tidegauge."""
    with closing(duckdb.connect()) as db:
        for name in ("changes", "views", "bins"):
            db.execute(f"CREATE VIEW {name} AS FROM '{folder}/{name}.parquet'")
        found = db.execute(STATEMENT).fetchall()
    return {
        (names[release], component, bin_, cell): int(amount)
        for release, component, bin_, cell, amount in found
        if amount
    }


def drawn(seed: int) -> tuple[World, pa.Table, int]:
    world = plain_world(seed)
    rows = (
        told(world.mutations, world.rng, owned=False)
        if seed % 2
        else batch_table(world.mutations, owned=False)
    )
    reached = last_end(world.program, START, ENDS if seed % 5 else 40)
    assert reached is not None
    return world, rows, reached


def compare(seed: int, folder: Path) -> None:
    world, rows, reached = drawn(seed)
    with DuckEngine(world.program, COLUMNS) as engine:
        raw = Result(engine, rows, reached)
    with DuckEngine(world.program, COLUMNS) as engine:
        again = stamped_result(folder)(engine, rows, reached)
    assert again.run.totals == raw.run.totals
    assert again.run.dropped == raw.run.dropped
    assert state(again.run) == state(raw.run)
    assert counted(again.run) == counted(raw.run)
    assert again.arrivals == raw.arrivals
    assert by_sql(folder, [one.name for one in world.program.releases]) == raw.run.sums


@pytest.mark.parametrize("seed", seeds(8000, 200, quick=6))
def test_a_stamped_history_is_the_same_as_the_history(seed: int, tmp_path: Path) -> None:
    compare(seed, tmp_path / "stamped")


def test_the_twin_that_must_fail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Stamps that forget when a unit leaves are noticed by the comparison above."""
    honest = stamps.stamped

    def forgetful(s: int, names: pa.Array, life: enforce.Lives) -> pa.Table:
        table = honest(s, names, life)
        return table.filter(table["ordinal"].is_valid())

    monkeypatch.setattr("tidegauge.engine.duckdb.past.fold.stamped", forgetful)
    for seed in range(8000, 8020):
        try:
            compare(seed, tmp_path / str(seed))
        except AssertionError:
            return
    pytest.fail("nothing was noticed")


@pytest.mark.parametrize("seed", [8001, 8002, 8003])
def test_ordinals_first_times_and_the_filter(seed: int, tmp_path: Path) -> None:
    """Per unit and scope, ordinals count from 1 in the order of time,
    and `first` is the first of the times."""
    world, rows, reached = drawn(seed)
    with DuckEngine(world.program, COLUMNS) as engine:
        write(engine, TableHistory(rows, reached), tmp_path / "stamped")
    with closing(duckdb.connect()) as db:
        wrong = db.execute(
            f"""SELECT * FROM (
                    SELECT *, row_number() OVER each AS n, lag(now, 1, 0) OVER each AS before,
                           min(time) OVER (PARTITION BY scope, unit) AS earliest
                    FROM '{tmp_path}/stamped/changes.parquet' WHERE ordinal IS NOT NULL
                    WINDOW each AS (PARTITION BY scope, unit ORDER BY time))
                WHERE ordinal <> n OR first <> earliest OR was <> before OR was = now"""
        ).fetchall()
        assert wrong == []
        for s, scope in enumerate(world.program.scopes):
            if scope.by is None and not scope.retire:
                ((_, limit),) = scope.allowances
                inside = "true" if limit.at_most is None else f"ordinal <= {limit.at_most}"
                if limit.within is not None:
                    inside += f" AND epoch_us(time) - epoch_us(first) <= {limit.within}"
                differs = db.execute(
                    f"""SELECT count(*) FROM '{tmp_path}/stamped/changes.parquet'
                        WHERE scope = {s} AND accepted <> ({inside})"""
                ).fetchall()
                assert differs == [(0,)]


def test_an_empty_history(tmp_path: Path) -> None:
    schedule = Schedule(0, Span(micros=10))
    program = Program((Release("sum", SUM_X, schedule),), (Scope(("sum",), ((None, Allowance(2)),)),))
    with DuckEngine(program, COLUMNS) as engine:
        whole = stamped_result(tmp_path / "stamped")(engine, batch_table([], owned=False), 10)
    assert (whole.run.sums, whole.arrivals, whole.run.memory.rows) == ({}, 0, {})


@pytest.mark.parametrize(
    ("release", "max_rows"),
    [(Release("flow", FLOW, Schedule(0, Span(micros=10))), None),
     (Release("state", BY_STATE, Schedule(0, Span(micros=10))), 2)],
)  # fmt: skip
def test_what_cannot_be_stamped_is_refused(release: Release, max_rows: int | None, tmp_path: Path) -> None:
    program = Program(
        (release,),
        (Scope((release.name,), ((None, Allowance(2)),)),),
        max_rows,
        None if max_rows is None else "k",
    )
    with (
        DuckEngine(program, COLUMNS) as engine,
        pytest.raises(SpecError, match="cannot be stamped"),
    ):
        write(engine, TableHistory(batch_table([], owned=max_rows is not None), 10), tmp_path / "stamped")
    assert list(tmp_path.iterdir()) == []
