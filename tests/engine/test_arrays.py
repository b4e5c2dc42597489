"""Ticks that are folded over arrays are those of the statements, and of the oracle."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.engine.harness import (
    BY_STATE,
    COLUMNS,
    Run,
    World,
    oracle_excess,
    oracle_paths,
    oracle_true,
    passes,
    query,
    run_engine,
    run_oracle,
)
from tests.seeds import seeds
from tidegauge.engine.duckdb import arrays
from tidegauge.engine.duckdb.engine import DuckEngine
from tidegauge.model.program import Allowance, Program, Release, Scope
from tidegauge.model.quantity import Span
from tidegauge.model.schedule import Schedule

if TYPE_CHECKING:
    from tests.engine.harness import Passes
    from tidegauge.audit.worlds.identity import Mutation


def by_statements(program: Program, log: Passes, cuts: tuple[int, ...] = ()) -> Run:
    with DuckEngine(program, COLUMNS) as engine:
        engine._arrays = None
        return run_engine(engine, log, cuts)


def over_arrays(program: Program, log: Passes, cuts: tuple[int, ...] = (), part: int = 2_000_000) -> Run:
    with DuckEngine(program, COLUMNS, part=part) as engine:
        assert engine._arrays is not None
        return run_engine(engine, log, cuts)


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("seed", seeds(8000, 60, quick=12))
def test_arrays_equal_the_oracle(seed: int, plain: bool) -> None:
    world = World(seed, plain=plain, simple=True)
    log = passes(world.mutations, world.untils)
    oracle = run_oracle(world.program, log)
    for cuts in ((), world.cuts):
        run = over_arrays(world.program, log, cuts)
        assert run.sums == {spot: amount for spot, amount in oracle.totals.items() if amount}
        assert run.true == oracle_true(oracle)
        assert sorted(run.excess.values()) == sorted(oracle_excess(oracle).values())
        assert sorted(run.paths.values()) == sorted(oracle_paths(oracle).values())


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("seed", seeds(8500, 60, quick=12))
def test_arrays_and_statements_leave_the_same_state(seed: int, plain: bool) -> None:
    world = World(seed, plain=plain, simple=True)
    log = passes(world.mutations, world.untils)
    one, other = over_arrays(world.program, log, world.cuts), by_statements(world.program, log, world.cuts)
    parts = over_arrays(world.program, log, world.cuts, part=3)
    for run in (one, parts):
        assert (run.memory.rows, run.memory.counters) == (other.memory.rows, other.memory.counters)
        assert (run.sums, run.paths, run.true) == (other.sums, other.paths, other.true)
        assert run.counts == other.counts


def test_sums_beyond_64_bits() -> None:
    most = 2**63 - 1
    schedule = Schedule(0, Span(micros=10))
    large = query("stock", "0", f"CASE WHEN after.x > 0 THEN {most} ELSE {-most} END")
    large = replace(large, components=(replace(large.components[0], lower=-most, upper=most),))
    program = Program((Release("sum", large, schedule),), (Scope(("sum",), ((None, Allowance()),)),))
    rows: list[Mutation] = [(1, f"e{n}", None, {"s": "a", "x": 1, "k": "p"}, None, ()) for n in range(5)]
    back: list[Mutation] = [(11, "e0", None, {"s": "a", "x": -1, "k": "p"}, None, ())]
    run = over_arrays(program, [(rows, 10, 10), (back, 20, 20)])
    assert run.sums == {("sum", 0, 1, 0): 5 * most, ("sum", 0, 2, 0): -2 * most}


@pytest.mark.parametrize("dense", [0, 1 << 22])
def test_many_bins_and_cells_are_added_up_without_an_array_of_all(
    dense: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "_DENSE", dense)
    world = World(8001, plain=True, simple=True)
    log = passes(world.mutations, world.untils)
    assert over_arrays(world.program, log).sums == by_statements(world.program, log).sums


def test_a_unit_with_a_digest_of_format_2_goes_through_the_statements() -> None:
    schedule = Schedule(0, Span(micros=10))
    program = Program((Release("state", BY_STATE, schedule),), (Scope(("state",), ((None, Allowance()),)),))
    row = {"s": "a", "x": 1, "k": "p"}
    with DuckEngine(program, COLUMNS) as engine:
        run = Run(engine)
        run.batch([(1, "e1", None, row, None, ()), (1, "e2", None, row, None, ())], now=10, upto=10)
        run.memory.rows["e1",]["digest"] = 5
        run.batch([(11, "e1", None, {**row, "s": "b"}, None, ())], now=20, upto=20)
        assert run.watched is not None
        assert run.watched.others
        assert run.memory.rows["e1",]["digest"] < 0
        assert run.sums[("state", 0, 2, 1)] == 1


def test_the_twin_that_must_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fold that takes no unit for one that needs the statements accepts too much."""
    fold = arrays.ArrayFold.fold

    def careless(*args: object) -> object:
        folded, others = fold(*args)  # type: ignore[arg-type]
        return folded, others.slice(0, 0)

    def differs(seed: int) -> bool:
        world = World(seed, plain=True, simple=True)
        log = passes(world.mutations, world.untils)
        return over_arrays(world.program, log).sums != by_statements(world.program, log).sums

    assert not any(map(differs, range(8000, 8006)))
    monkeypatch.setattr(arrays.ArrayFold, "fold", careless)
    assert any(map(differs, range(8000, 8006)))
