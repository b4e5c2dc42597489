"""Where a batch is cut, and whether another unit is there, has no effect on what becomes of a unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engine.harness import (
    BY_STATE,
    COLUMNS,
    SEES,
    Run,
    World,
    oracle_paths,
    passes,
    run_engine,
    run_oracle,
)
from tests.seeds import seeds
from tidegauge.audit.worlds.identity import renamed
from tidegauge.audit.worlds.oracle import Oracle
from tidegauge.engine.duckdb.engine import DuckEngine
from tidegauge.model.program import Allowance, Program, Release, Scope
from tidegauge.model.quantity import Span
from tidegauge.model.schedule import Schedule

if TYPE_CHECKING:
    from tests.engine.harness import Passes, Path
    from tidegauge.audit.worlds.identity import Mutation


@pytest.mark.parametrize("seed", seeds(2000, 50, quick=14))
def test_any_cut_of_a_log_gives_the_same(seed: int) -> None:
    world = World(seed)
    program, cuts, restart = world.program, world.cuts, bool(seed % 2)
    log = passes(world.mutations, world.untils)
    with DuckEngine(program, COLUMNS) as engine:
        whole = run_engine(engine, log)
        state = whole.state
    with DuckEngine(program, COLUMNS, part=3) as engine:  # and also where units take effect in several parts
        cut = run_engine(engine, log, cuts, restart=restart)
        assert cut.state == state
    assert (cut.paths, cut.sums) == (whole.paths, whole.sums)
    oracle = run_oracle(program, log)
    assert cut.sums == {spot: amount for spot, amount in oracle.totals.items() if amount}
    assert sorted(cut.paths.values()) == sorted(oracle_paths(oracle).values())


@pytest.mark.parametrize("seed", seeds(3000, 30, quick=10))
def test_a_sorted_source_may_say_how_far_it_has_come(seed: int) -> None:
    world = World(seed)
    program, cuts = world.program, world.cuts
    ordered = sorted(world.mutations, key=lambda told: told[0])
    with DuckEngine(program, COLUMNS) as engine:
        whole = Run(engine)
        whole.batch(ordered, now=100, upto=90)
    with DuckEngine(program, COLUMNS) as engine:
        cut = Run(engine)
        for first, last in zip([0, *sorted(cuts)], [*sorted(cuts), len(ordered)], strict=True):
            part, rest = ordered[first:last], ordered[last:]
            reached = min(told[0] for told in rest) - 1 if rest else 90
            cut.batch(part, now=100, upto=reached)
    assert (cut.paths, cut.sums) == (whole.paths, whole.sums)


def without(program: Program, log: Passes, unit: str) -> Passes:
    """The log of the same world without one unit: a row that came from it begins,
    one that went to it ends."""
    oracle, rest = Oracle(program, SEES), []
    for mutations, now, until in log:
        kept = []
        for told, became in zip(mutations, oracle.arrive(mutations, now), strict=True):
            time, key, _, _, previous, _ = renamed(told)
            mine = [one for one in became if one[0] == unit]
            others = [one for one in became if one[0] != unit]
            if key is None or not mine:
                kept.append(told)
            elif others:
                ((other, new, _),) = others
                if new is None:
                    kept.append((time, previous or key, None, None, None, ()))
                else:
                    kept.append((time, key, other, new, None, ()))
        rest.append((kept, now, until))
    return rest


def units_of(program: Program, log: Passes) -> list[str]:
    oracle = Oracle(program, SEES)
    found = [
        one[0] for mutations, now, _ in log for became in oracle.arrive(mutations, now) for one in became
    ]
    return sorted(set(found))


def reported(program: Program, mutations: list[Mutation]) -> list[Mutation]:
    """The same log as a source with units delivers it:
    a rename onto a living row comes after that one's deletion."""
    if program.max_rows is None:
        return mutations
    told: list[Mutation] = []
    living: set[str] = set()
    for time, key, unit, row, previous, left_out in map(renamed, mutations):
        if key is None:
            living.clear()
        elif previous is not None:
            if key in living:
                told.append((time, key, None, None, None, ()))
            living.discard(previous)
        told.append((time, key, unit, row, previous, left_out))
        if key is not None:
            (living.discard if row is None else living.add)(key)
    return told


@pytest.mark.parametrize("seed", seeds(4000, 60, quick=18))
def test_no_unit_has_an_effect_on_another(seed: int) -> None:
    world = World(seed)
    program = world.program
    log = passes(reported(program, world.mutations), world.untils)
    removed = world.rng.choice(units_of(program, log))
    rest = without(program, log, removed)
    oracle = run_oracle(program, log)
    theirs = {unit: path for unit, path in oracle_paths(oracle).items() if unit != removed}
    with DuckEngine(program, COLUMNS) as engine:
        alone = run_engine(engine, rest).paths
    assert sorted(alone.values()) == sorted(theirs.values())
    if program.max_rows is not None:
        assert alone == theirs


def dead_keys(passing: bool) -> Passes:
    """Five rows come and go; A, if it is there, passes their keys; then a row is inserted under each."""
    row = {"s": "a", "x": 1, "k": "p"}
    keys = [f"e{n}" for n in range(5)]
    come: list[Mutation] = [(1, key, None, row, None, ()) for key in keys]
    go: list[Mutation] = [(12, key, None, None, None, ()) for key in keys]
    a: list[Mutation] = [(23, "a", None, row, None, ())]
    at = "a"
    for key in [*keys, "a"]:
        a.append((24, key, None, row, at, ()))
        at = key
    again: list[Mutation] = [(35, key, None, row, None, ()) for key in keys]
    last: list[Mutation] = [(35, "a", None, None, None, ())]
    if not passing:
        a, last = [], []
    return [(part, 10 * n, 10 * n) for n, part in enumerate([come, go, a, [*again, *last]], start=1)]


@pytest.mark.parametrize("cuts", [(), tuple(range(1, 24))])
def test_a_row_that_passes_dead_keys_gives_them_no_changes_back(cuts: tuple[int, ...]) -> None:
    schedule = Schedule(0, Span(micros=10))
    program = Program(
        (Release("state", BY_STATE, schedule),), (Scope(("state",), ((None, Allowance(at_most=2)),)),)
    )
    found: list[dict[str, Path]] = []
    for passing in (True, False):
        with DuckEngine(program, COLUMNS) as engine:
            run = run_engine(engine, dead_keys(passing), cuts)
        found.append(run.paths)
        assert run.sums.get(("state", 0, 4, 0), 0) == (-1 if passing else 0)
    with_a, without_a = found
    assert {unit: path for unit, path in with_a.items() if unit != "a"} == without_a
