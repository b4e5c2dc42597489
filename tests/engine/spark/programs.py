"""The programs of the oracle's tests in expressions that every engine renders, and a run in Spark."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tests.engine.harness import (
    COLUMNS,
    START,
    World,
    batch_table,
    last_end,
    oracle_true,
    passes,
    run_engine,
    run_oracle,
)
from tidegauge.engine.duckdb.engine import DuckEngine
from tidegauge.engine.spark.engine import SparkEngine
from tidegauge.model.expression import Column, Constant, call
from tidegauge.model.query import Component, Group, Query

if TYPE_CHECKING:
    from pathlib import Path

    from tests.engine.harness import Passes, Run, Spot
    from tidegauge.audit.worlds.identity import Mutation
    from tidegauge.model.expression import Expression
    from tidegauge.model.program import Program

S, X, OLD = Column("after", "s"), Column("after", "x"), Column("before", "s")


def query(kind: str, cell: Expression, *values: Expression, groups: tuple[Group, ...] = ()) -> Query:
    return Query(
        kind=kind,  # type: ignore[arg-type]
        aggregate="count",
        table="t",
        text=str(cell),
        cell=cell,
        outside=Constant(False),
        components=tuple(Component("sum", value, -9, 9, Fraction(1)) for value in values),
        groups=groups,
        before=("s",),
        after=("s", "x"),
    )


QUERIES = {
    "state": query("stock", call("place", S, "a", "b"), Constant(1), groups=(Group("s", ("a", "b")),)),
    "sum": query(
        "stock",
        Constant(0),
        call("steps", call("double", X), -9.0, 9.0, 1.0, 1.0, 0),
        call("case", call(">", X, 3), 1, None),
    ),
    "flow": query(
        "flow",
        call(
            "case", call("and", call("=", OLD, "a"), call("in", S, "b", "c")), 0, call("is null", S), 1, None
        ),
        Constant(1),
    ),
    "rise": replace(
        query("flow", call("case", call(">", X, 3), 0, None), Constant(1)),
        before=(),
        after=("x",),
        own_columns=True,
    ),
}


def plain_program(world: World, rows: int | None = None) -> Program:
    """The program of a world, with rows as units;
    `rows`: with units that own rows, of which so many count."""
    releases = tuple(replace(one, query=QUERIES[one.name]) for one in world.program.releases)
    owner = "owner" if rows else None
    return replace(world.program, releases=releases, max_rows=rows, owner=owner, partial=())


class SparkRun:
    """An engine whose versions are committed, tick after tick."""

    def __init__(self, program: Program, store: Any) -> None:
        self.program, self.store = program, store
        self.committed: str | None = None
        self.watermark, self.arrivals = START, 0
        self.totals: dict[Spot, int] = {}
        self.true: dict[Spot, int] = {}
        self.counts: dict[str, int] = {}
        self.engine = self.open()

    def open(self) -> SparkEngine:
        engine = SparkEngine(self.program, COLUMNS)
        engine.keep_in(self.store)
        return engine

    def batch(
        self,
        mutations: list[Mutation],
        *,
        now: int,
        upto: int | None,
        restart: bool = False,
        fails: bool = False,
    ) -> None:
        """One tick; `restart`: of the engine, before.
        `fails`: everything is computed and nothing committed."""
        if restart:
            self.engine.close()
            self.engine = self.open()
        self.engine.resume(self.committed)
        table = batch_table(mutations, owned=self.program.max_rows is not None)
        self.engine.arrive(table, state=None, now=now, arrivals=self.arrivals)  # type: ignore[arg-type]
        reached = None if upto is None else last_end(self.program, self.watermark, upto)
        folds = []
        if reached is not None:
            folds = list(self.engine.fold(state=None, watermark=self.watermark, reached=reached))  # type: ignore[arg-type]
        version = self.engine.version()
        if fails:
            self.engine.forget()
            return
        self.committed, self.arrivals = version, self.arrivals + len(mutations)
        for fold in folds:
            assert reached is not None
            self.watermark = reached
            for found, sums in ((fold.totals, (self.totals, self.true)), (fold.dropped, (self.true,))):
                for one in found:
                    spot = one.release, one.component, one.bin, one.cell
                    for total in sums:
                        total[spot] = total.get(spot, 0) + one.amount
            for name, times in fold.counts.items():
                self.counts[name] = self.counts.get(name, 0) + times

    @property
    def sums(self) -> dict[Spot, int]:
        return {spot: amount for spot, amount in self.totals.items() if amount}


def run_spark(
    program: Program, log: Passes, store: Any, cuts: tuple[int, ...] = (), *, rough: bool = False
) -> SparkRun:
    """Read the log, each pass cut into batches;
    `rough`: every tick fails once, and the engine starts again."""
    run, behind = SparkRun(program, store), 0
    for mutations, now, until in log:
        inside = sorted({cut - behind for cut in cuts if behind < cut < behind + len(mutations)})
        for first, last in zip([0, *inside], [*inside, len(mutations)], strict=True):
            upto = until if last == len(mutations) else None
            if rough:
                run.batch(mutations[first:last], now=now, upto=upto, restart=True, fails=True)
            run.batch(mutations[first:last], now=now, upto=upto, restart=rough)
        behind += len(mutations)
    run.engine.close()
    return run


def require_equal(world: World, store: Path, rows: int | None = None) -> None:
    """Sums of Spark equal those of the oracle and of the embedded engine, accepted and true.

    rows: units own rows, of which so many count; then counts and state are equal as well.
    """
    program, log = plain_program(world, rows), passes(world.mutations, world.untils)
    run, oracle = run_spark(program, log, store), run_oracle(program, log)
    assert run.sums == {spot: amount for spot, amount in oracle.totals.items() if amount}
    assert {spot: amount for spot, amount in run.true.items() if amount} == oracle_true(oracle)
    with DuckEngine(program, COLUMNS) as engine:
        embedded = run_engine(engine, log)
        assert embedded.sums == run.sums
        if rows is not None:
            counts = {name: times for name, times in run.counts.items() if times and name != "late"}
            assert counts == {name: times for name, times in embedded.counts.items() if times}
        if rows is not None and program.terms is None:
            assert state_of_units(run) == state_in_memory(embedded)


def require_equal_when_rough(world: World, store: Path, rows: int | None = None) -> None:
    """The same with batches cut anywhere, where every tick fails once and the engine starts again."""
    program, log = plain_program(world, rows), passes(world.mutations, world.untils)
    rough = run_spark(program, log, store, world.cuts[:3], rough=True)
    oracle = run_oracle(program, log)
    assert rough.sums == {spot: amount for spot, amount in oracle.totals.items() if amount}
    assert {spot: amount for spot, amount in rough.true.items() if amount} == oracle_true(oracle)


Found = tuple[dict[Any, Any], dict[Any, Any]]
"""Rows by name and unit, counters by unit and scope."""


def state_of_units(run: SparkRun) -> Found:
    """The state that Spark has, where units own rows."""
    program, rows, units = run.program, {}, {}
    engine = run.open()
    engine.resume(run.committed)
    found = (
        [row.asDict(recursive=True) for row in engine._newest().collect()] if engine._version.state else []
    )
    engine.close()
    scopes = range(len(program.scopes))
    for row in found:
        if row["entry"] is not None:
            since = {s: (row[f"at{s}"] or {"since": None})["since"] for s in scopes}
            rows[row["entry"], row["unit"]] = _row(program, row, since)
            continue
        for s in scopes:
            if row[f"m{s}"] is not None:
                units[row["unit"], s] = tuple(row[f"{name}{s}"] for name in "mfle")
    return rows, units


def state_in_memory(run: Run) -> Found:
    """The same of the embedded engine."""
    scopes = range(len(run.engine.program.scopes))
    rows = {
        name: _row(run.engine.program, row, {s: row[f"since{s}"] for s in scopes})
        for name, row in run.memory.rows.items()
    }
    counters = ("moves", "first", "label", "expires")
    units = {unit: tuple(row[name] for name in counters) for unit, row in run.memory.counters.items()}
    return rows, units


def _row(program: Program, row: dict[str, Any], since: dict[int, int | None]) -> dict[str, Any]:
    """Cells and labels of a row, and since when it contributes, where it does."""
    shown = {name: value for name, value in row.items() if name[0] == "c" or name.startswith("label")}
    numbers = {release.name: i for i, release in enumerate(program.releases)}
    for s, scope in enumerate(program.scopes):
        if any(row.get(f"c{numbers[name]}") is not None for name in scope.releases):
            shown[f"since{s}"] = since[s]
    return shown
