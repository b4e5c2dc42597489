"""A stamped history gives the sums, the state and the counts of the history itself;
so does SQL over its files."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.docs.blocks import blocks
from tests.engine.harness import (
    COLUMNS,
    FLOW,
    RISE,
    SEES,
    START,
    SUM_X,
    World,
    batch_table,
    last_end,
    oracle_true,
)
from tests.engine.test_past import (
    ENDS,
    Result,
    TableHistory,
    counted,
    flow_world,
    in_order,
    owned_world,
    plain_world,
    renewing_world,
    state,
    term_world,
    told,
)
from tests.seeds import seeds
from tidegauge.audit.worlds.oracle import Oracle
from tidegauge.engine.duckdb.engine import DuckEngine
from tidegauge.engine.duckdb.past import parts, shuffle, stamps, terms
from tidegauge.engine.duckdb.stamping import StatementStamps
from tidegauge.engine.registry import open_stamper
from tidegauge.errors import SpecError
from tidegauge.model.expression import Native
from tidegauge.model.program import Allowance, Program, Release, Scope
from tidegauge.model.quantity import Span
from tidegauge.model.query import Component
from tidegauge.model.schedule import Schedule
from tidegauge.store.secret.stamped import Origin, open_stamped, stamping

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from tidegauge.audit.worlds.identity import Mutation
    from tidegauge.model.history import Backfilled

PAGE = Path(__file__).parents[2] / "docs" / "stamp.md"
(STATEMENT,) = (block.text for block in blocks(PAGE) if block.language == "sql")
TRUE = STATEMENT.replace("WHERE accepted", "WHERE ordinal IS NOT NULL")
PLAN = "0123456789abcdef" * 4


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a few changes, several at a time, and lives of few units together."""
    monkeypatch.setattr(shuffle, "PART", 10)
    monkeypatch.setattr(terms, "_TOGETHER", 5)
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


def by_sql(folder: Path, names: list[str], statement: str = STATEMENT) -> dict[Any, int]:
    """The sums that the documented statement gives in an engine that knows nothing of Tidegauge."""
    with closing(duckdb.connect()) as db:
        for name in ("changes", "views", "bins"):
            db.execute(f"CREATE VIEW {name} AS FROM '{folder}/{name}.parquet'")
        found = db.execute(statement).fetchall()
    return {
        (names[release], component, bin_, cell): int(amount)
        for release, component, bin_, cell, amount in found
        if amount
    }


def any_world(seed: int) -> World:
    """A program of any kind: flows with clips, labels, units of several rows and renewals, all together."""
    world = World(seed, plain=True, renews=seed % 2 == 0)
    own = world.rng.random() < 0.7
    releases = tuple(
        replace(one, query=replace(one.query, own_columns=own or one.query.own_columns))
        for one in world.program.releases
    )
    world.program = replace(world.program, releases=releases, partial=())
    return world


WORLDS = {
    "plain": plain_world,
    "flows": flow_world,
    "renews": renewing_world,
    "owned": owned_world,
    "any": any_world,
}


def drawn(seed: int, kind: str = "plain") -> tuple[World, pa.Table, int]:
    world = (term_world if kind == "terms" else WORLDS[kind])(seed)
    owned = world.program.max_rows is not None
    rows = (
        told(world.mutations, world.rng, owned=owned)
        if seed % 2
        else batch_table(world.mutations, owned=owned)
    )
    reached = last_end(world.program, START, ENDS if seed % 5 else 40)
    assert reached is not None
    return world, rows, reached


def compare(seed: int, folder: Path, kind: str = "plain") -> None:
    world, rows, reached = drawn(seed, kind)
    with DuckEngine(world.program, COLUMNS) as engine:
        raw = Result(engine, rows, reached)
    with DuckEngine(world.program, COLUMNS, part=5) as engine:
        again = stamped_result(folder)(engine, rows, reached)
    assert again.run.totals == raw.run.totals
    assert again.run.dropped == raw.run.dropped
    if world.program.max_rows is not None:
        assert in_order(again.run) == in_order(raw.run)
    assert state(again.run) == state(raw.run)
    assert counted(again.run) == counted(raw.run)
    assert again.arrivals == raw.arrivals
    names = [one.name for one in world.program.releases]
    assert by_sql(folder, names) == raw.run.sums
    assert by_sql(folder, names, TRUE) == raw.run.true
    oracle = Oracle(world.program, SEES)
    oracle.arrive(
        sorted((one for one in world.mutations if one[0] <= reached), key=lambda one: one[0]), 10**9
    )
    oracle.close(reached)
    assert again.run.sums == {spot: amount for spot, amount in oracle.totals.items() if amount}
    assert again.run.true == oracle_true(oracle)


@pytest.mark.parametrize("kind", WORLDS)
@pytest.mark.parametrize("seed", seeds(8000, 200, quick=6))
def test_a_stamped_history_is_the_same_as_the_history(seed: int, kind: str, tmp_path: Path) -> None:
    compare(seed, tmp_path / "stamped", kind)


def test_the_twin_that_must_fail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Stamps that forget when a unit leaves are noticed by the comparison above."""
    honest = stamps.stamped

    def remains(s: int, names: pa.Array, found: stamps.Stamps | None) -> pa.Table:
        table = honest(s, names, found)
        return table.filter(table["ordinal"].is_valid())

    monkeypatch.setattr("tidegauge.engine.duckdb.past.fold.stamped", remains)
    for seed in range(8000, 8020):
        try:
            compare(seed, tmp_path / str(seed))
        except AssertionError:
            return
    pytest.fail("nothing was noticed")


def forgetful(table: pa.Table) -> pa.Table:
    """Without what is not accepted by itself, such as changes of rows beyond max_rows."""
    return table.filter(pc.not_equal(pc.fill_null(table["ordinal"], 1), 0))


def flowless(table: pa.Table) -> pa.Table:
    """Without what begins from nothing, such as what flows count."""
    return table.filter(pc.not_equal(table["was"], 0))


def loyal(table: pa.Table) -> pa.Table:
    """Without what the constraint does by itself, such as what a clip or a renewal changes."""
    return table.filter(table["ordinal"].is_valid())


@pytest.mark.parametrize(
    ("kind", "broken"),
    [("owned", forgetful), ("renews", forgetful), ("flows", flowless), ("any", forgetful), ("any", loyal)],
)
def test_the_twins_of_other_gauges_that_must_fail(
    kind: str, broken: Callable[[pa.Table], pa.Table], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    honest = stamps.stamped
    for module in ("fold", "several"):
        monkeypatch.setattr(
            f"tidegauge.engine.duckdb.past.{module}.stamped", lambda *given: broken(honest(*given))
        )
    table = StatementStamps._table
    monkeypatch.setattr(StatementStamps, "_table", lambda *given: broken(table(*given)))
    for seed in range(8000, 8020):
        try:
            compare(seed, tmp_path / str(seed), kind)
        except AssertionError:
            return
    pytest.fail("nothing was noticed")


def test_ordinals_begin_again_with_a_term_and_the_filter_holds_in_it(tmp_path: Path) -> None:
    for seed in range(8000, 8010):
        world, rows, reached = drawn(seed, "terms")
        if any(scope.retire for scope in world.program.scopes):
            continue
        renewals = world.program.terms
        assert renewals is not None
        with DuckEngine(world.program, COLUMNS) as engine:
            write(engine, TableHistory(rows, reached), tmp_path / f"{seed}")
        found = pq.read_table(tmp_path / f"{seed}" / "changes.parquet").sort_by("time").to_pylist()
        known: dict[tuple[Any, ...], int] = {}
        for one in found:
            time, first = (int(one[name].timestamp() * 1_000_000) for name in ("time", "first"))
            if one["ordinal"] is None or one["ordinal"] == 0:
                assert one["accepted"] == (one["ordinal"] is None)
                assert (
                    renewals.bin_end(renewals.bin_at(time)) == time
                )  # at the instant at which a term begins
                continue
            life = one["scope"], one["unit"], renewals.bin_at(time + 1)
            known[life] = known.get(life, 0) + 1
            assert one["ordinal"] == known[life]
            ((_, limit),) = world.program.scopes[one["scope"]].allowances
            inside = limit.at_most is None or one["ordinal"] <= limit.at_most
            assert one["accepted"] == (inside and (limit.within is None or time - first <= limit.within))


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


@pytest.mark.parametrize("seed", seeds(8100, 40, quick=8))
def test_the_filter_holds_for_stamps_of_statements(seed: int, tmp_path: Path) -> None:
    """Also with clips and rows beyond max_rows: these are rows of their own."""
    world, rows, reached = drawn(seed, "any")
    clips = tuple(
        replace(one, clip=1 if one.query.kind == "flow" else None) for one in world.program.releases
    )
    scopes = tuple(replace(one, retire=False) for one in world.program.scopes)
    world.program = replace(world.program, releases=clips, scopes=scopes, terms=None)
    with DuckEngine(world.program, COLUMNS, part=5) as engine:
        assert engine._fast() is None
        write(engine, TableHistory(rows, reached), tmp_path / "stamped")
    found = pq.read_table(tmp_path / "stamped" / "changes.parquet").sort_by("time").to_pylist()
    known: dict[Any, int] = {}
    for one in found:
        if not one["ordinal"]:
            assert one["accepted"] == (one["ordinal"] is None)
            continue
        unit = one["scope"], one["unit"]
        known[unit] = known.get(unit, 0) + 1
        assert one["ordinal"] == known[unit]
        scope = world.program.scopes[one["scope"]]
        if scope.by is None:
            ((_, limit),) = scope.allowances
            lasts = int((one["time"] - one["first"]).total_seconds() * 1_000_000 + 0.5)
            inside = limit.at_most is None or one["ordinal"] <= limit.at_most
            assert one["accepted"] == (inside and (limit.within is None or lasts <= limit.within))


def test_an_empty_history(tmp_path: Path) -> None:
    schedule = Schedule(0, Span(micros=10))
    program = Program((Release("sum", SUM_X, schedule),), (Scope(("sum",), ((None, Allowance(2)),)),))
    with DuckEngine(program, COLUMNS) as engine:
        whole = stamped_result(tmp_path / "stamped")(engine, batch_table([], owned=False), 10)
    assert (whole.run.sums, whole.arrivals, whole.run.memory.rows) == ({}, 0, {})


def test_spark_is_refused_flows_that_see_every_column() -> None:
    schedule, limit = Schedule(0, Span(micros=10)), ((None, Allowance(2)),)
    own = replace(FLOW, own_columns=True)
    for query in (FLOW, own):
        program = Program((Release("flow", query, schedule),), (Scope(("flow",), limit),))
        open_stamper("duckdb", program, COLUMNS).close()
        if query is own:
            open_stamper("spark", program, COLUMNS).close()
        else:
            with pytest.raises(SpecError, match="cannot compare whole rows"):
                open_stamper("spark", program, COLUMNS)


def test_amounts_of_more_than_64_bits_are_split(tmp_path: Path) -> None:
    """A unit of several rows changes by their sum at one instant."""
    large = 2**62 + 2**61
    value = f"CASE WHEN after.x = 1 THEN {large}::HUGEINT WHEN after.x = 2 THEN -{large}::HUGEINT END"
    query = replace(SUM_X, components=(Component("sum", Native(value), -large, large, Fraction(1)),))
    flow = replace(RISE, cell=Native("NULL::INTEGER"))
    schedule, limits = Schedule(0, Span(micros=10)), ((None, Allowance(9)),)
    releases = Release("sum", query, schedule), Release("flow", flow, schedule)
    program = Program(releases, (Scope(("sum", "flow"), limits),), 3, "k")
    rows: list[Mutation] = [
        (1 + 2 * (x == 2), f"e{n}{x}", f"u{x}", {"s": "a", "x": x, "k": "p"}, None, ())
        for n in range(3)
        for x in (1, 2)
    ]
    with DuckEngine(program, COLUMNS) as engine:
        write(engine, TableHistory(batch_table(rows, owned=True), 10), tmp_path / "stamped")
        assert by_sql(tmp_path / "stamped", ["sum", "flow"]) == {}
        write(engine, TableHistory(batch_table(rows[::2], owned=True), 10), tmp_path / "one")
        assert by_sql(tmp_path / "one", ["sum", "flow"]) == {("sum", 0, 1, 0): 3 * large}
