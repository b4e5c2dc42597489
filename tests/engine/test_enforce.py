"""The engine equals the oracle, integer for integer, on random changelogs;
and what becomes of single changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engine.harness import (
    BY_STATE,
    COLUMNS,
    FLOW,
    RISE,
    SUM_X,
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
from tidegauge.engine.duckdb import views
from tidegauge.engine.duckdb.engine import DuckEngine
from tidegauge.model.program import Allowance, Program, Release, Scope
from tidegauge.model.quantity import Span
from tidegauge.model.schedule import Schedule

if TYPE_CHECKING:
    from tests.engine.harness import Passes, Spot
    from tidegauge.audit.worlds.identity import Mutation, Row


def both(program: Program, log: Passes) -> dict[Spot, int]:
    """What the engine and the oracle have counted, if it is the same."""
    with DuckEngine(program, COLUMNS) as engine:
        run = run_engine(engine, log)
    oracle = run_oracle(program, log)
    assert run.sums == {spot: amount for spot, amount in oracle.totals.items() if amount}
    assert run.watermark == oracle.watermark
    assert run.true == oracle_true(oracle)
    assert sorted(run.excess.values()) == sorted(oracle_excess(oracle).values())
    ours, theirs = run.paths, oracle_paths(oracle)
    if program.max_rows is None:  # rows have other names there
        assert sorted(ours.values()) == sorted(theirs.values())
    else:
        assert ours == theirs
    return run.sums


@pytest.mark.parametrize("seed", seeds(0, 40, quick=16))
def test_engine_equals_oracle(seed: int) -> None:
    world = World(seed, plain=True)
    both(world.program, passes(world.mutations, world.untils))


@pytest.mark.parametrize("seed", seeds(1000, 60, quick=20))
def test_engine_follows_keys_that_change_values_left_out_and_emptied_tables(seed: int) -> None:
    world = World(seed)
    both(world.program, passes(world.mutations, world.untils))


@pytest.mark.parametrize("seed", [seed for seed in range(12) if World(seed, plain=True).program.max_rows][:3])
def test_units_that_may_have_very_many_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "_MOST_LATEST", 0)
    world = World(seed, plain=True)
    both(world.program, passes(world.mutations, world.untils))


@pytest.mark.parametrize("seed", seeds(5000, 40, quick=14))
def test_engine_equals_oracle_where_constraints_renew(seed: int) -> None:
    world = World(seed, renews=True, plain=bool(seed % 2))
    both(world.program, passes(world.mutations, world.untils))


EVERY_10 = Schedule(0, Span(micros=10))


def row(s: str, x: int) -> Row:
    return {"s": s, "x": x, "k": "p"}


def told(time: int, key: str, new: Row | None, *, previous: str | None = None) -> Mutation:
    return time, key, None, new, previous, ()


def passed(*times: tuple[int, list[Mutation]]) -> Passes:
    """Readings of a log: until when, and what had been added to it."""
    return [(mutations, until, until) for until, mutations in times]


def test_a_row_that_changes_its_key_keeps_its_counters_also_where_it_does_not_change() -> None:
    scopes = (
        Scope(("state",), ((None, Allowance(at_most=2)),)),
        Scope(("sum",), ((None, Allowance(at_most=1)),)),
    )
    program = Program((Release("state", BY_STATE, EVERY_10), Release("sum", SUM_X, EVERY_10)), scopes)
    log = passed(
        (2, [told(1, "e1", row("a", 2))]),
        (10, [told(5, "e2", row("b", 2), previous="e1")]),
        (30, [told(20, "e2", row("b", 5))]),
    )
    assert ("sum", 0, 2, 0) not in both(program, log)


def test_a_row_that_changes_its_key_keeps_what_it_used_of_every_clip() -> None:
    releases = (
        Release("flow", FLOW, Schedule(0, Span(micros=100)), 1),
        Release("rise", RISE, Schedule(0, Span(micros=100)), 1),
    )
    program = Program(releases, (Scope(("flow", "rise"), ((None, Allowance()),)),))
    log = passed(
        (2, [told(1, "e1", row("a", 5))]),
        (10, [told(5, "e2", row("b", 0), previous="e1")]),
        (100, [told(20, "e2", row("b", 5))]),
    )
    assert both(program, log) == {("flow", 0, 1, 0): 1, ("rise", 0, 1, 0): 1}


ONCE = Program((Release("sum", SUM_X, EVERY_10),), (Scope(("sum",), ((None, Allowance(at_most=1)),)),))


@pytest.mark.parametrize("untils", [[3, 10], [3, 10, 25], []])
def test_a_row_inserted_under_a_freed_key_starts_with_fresh_counters(untils: list[int]) -> None:
    log = [told(1, "e1", row("a", 2)), told(5, "e2", row("a", 2), previous="e1"), told(20, "e1", row("b", 3))]
    assert both(ONCE, passes(log, untils))["sum", 0, 2, 0] == 3


@pytest.mark.parametrize("untils", [[3, 10], [3, 5, 10], []])
def test_a_key_that_another_row_passed_goes_on_with_the_counters_of_its_own(untils: list[int]) -> None:
    log = [
        told(1, "e1", row("a", 2)),
        told(1, "e2", row("a", 2)),
        told(4, "e1", None),
        told(5, "e1", row("a", 2), previous="e2"),
        told(6, "e3", row("a", 2), previous="e1"),
        told(20, "e1", row("b", 3)),
        told(21, "e2", row("b", 4)),
    ]
    assert both(ONCE, passes(log, untils))["sum", 0, 3, 0] == 4
    assert ("sum", 0, 2, 0) not in both(ONCE, passes(log, untils))


def test_a_unit_that_was_not_asked_for_gives_no_row_its_changes_back() -> None:
    with DuckEngine(ONCE, COLUMNS) as engine:
        run = Run(engine)
        for n, (x, unit) in enumerate([(2, "u"), (5, "u"), (7, "w")]):
            run.batch([(10 * n + 5, "e1", unit, row("a", x), None, ())], now=10 * n + 10, upto=10 * n + 10)
    assert run.sums == {("sum", 0, 1, 0): 2}


@pytest.mark.parametrize("retire", [False, True])
def test_limits_beyond_all_numbers_overflow_nothing(retire: bool) -> None:
    limits = ((None, Allowance(at_most=10**30, within=2**63 - 1)),)
    releases = Release("sum", SUM_X, EVERY_10), Release("rise", RISE, EVERY_10, 10**30)
    program = Program(releases, (Scope(("sum", "rise"), limits, None, retire),))
    log = passed((10, [told(1, "e1", row("a", 5))]), (30, [told(20, "e1", row("a", 2))]))
    assert both(program, log)["sum", 0, 2, 0] == -3


def test_a_stamp_in_the_future_takes_effect_on_arrival_and_holds_nothing_back() -> None:
    log = passed((10, [told(95, "e1", row("a", 2)), told(5, "e2", row("a", 3))]), (20, []))
    assert both(ONCE, log) == {("sum", 0, 1, 0): 5}


def test_changes_beyond_the_last_end_wait_for_the_next() -> None:
    log = passed((14, [told(12, "e1", row("a", 2)), told(5, "e2", row("a", 3))]), (19, []), (20, []))
    with DuckEngine(ONCE, COLUMNS) as engine:
        run = run_engine(engine, log[:2])
        assert (run.sums, run.watermark, engine.waiting().num_rows) == ({("sum", 0, 1, 0): 3}, 10, 1)
    assert both(ONCE, log) == {("sum", 0, 1, 0): 3, ("sum", 0, 2, 0): 2}


def test_late_changes_of_a_unit_are_one_change_however_they_arrive() -> None:
    twice = Program((Release("sum", SUM_X, EVERY_10),), (Scope(("sum",), ((None, Allowance(at_most=2)),)),))
    log = passed((30, []), (40, [told(3, "e1", row("a", 2)), told(7, "e1", row("a", 5))]),
                 (60, [told(55, "e1", row("a", 3))]))  # fmt: skip
    for cuts in ((), (1,)):
        with DuckEngine(twice, COLUMNS) as engine:
            run = run_engine(engine, log, cuts)
        assert run.sums == {
            ("sum", 0, 4, 0): 5,
            ("sum", 1, 4, 0): 1,
            ("sum", 0, 6, 0): -2,
            ("sum", 1, 6, 0): -1,
        }


def test_a_displaced_row_stays_as_it_is_and_is_counted_for_the_operator() -> None:
    log = passed((10, [told(1, "e1", row("a", 2)), told(2, "e2", row("a", 3)),
                       told(3, "e1", row("a", 3), previous="e2")]))  # fmt: skip
    with DuckEngine(ONCE, COLUMNS) as engine:
        run = run_engine(engine, log)
    assert (run.sums, run.counts["displaced"]) == ({("sum", 0, 1, 0): 5}, 1)


def test_a_row_inserted_and_deleted_at_once_is_no_deletion_of_an_unknown_one() -> None:
    log = passed((10, [told(1, "e1", row("a", 2)), told(1, "e1", None), told(1, "e2", None)]))
    with DuckEngine(ONCE, COLUMNS) as engine:
        assert run_engine(engine, log).counts["deleted_unknown"] == 1


def test_keys_that_look_like_names_are_other_rows() -> None:
    odd = "\x1f1\x1fe1"
    log = [
        told(1, odd, row("a", 2)),
        told(1, "e1", row("a", 2)),
        told(2, "e2", row("a", 2), previous="e1"),
        told(12, "e1", row("a", 3)),
    ]
    assert both(ONCE, passes(log, [10]))["sum", 0, 2, 0] == 3


def test_a_query_that_does_not_bind_is_refused_when_planned() -> None:
    from tidegauge.errors import QueryError

    release = Release("r", query("stock", "0", "date_part('year', after.x)"), Schedule(0, Span(micros=1)))
    with pytest.raises(QueryError, match=r"release\.r\.sql"):
        DuckEngine(Program((release,), (Scope(("r",), ((None, Allowance()),)),)), COLUMNS)


def test_what_cannot_be_computed_counts_as_nothing_however_often_it_stands_there() -> None:
    number = "CAST(after.s AS BIGINT)"
    twice = query("stock", f"CASE WHEN {number} + {number} > 2 THEN 0 END", f"{number} * 2", f"{number} + 1")
    program = Program(
        (Release("r", twice, Schedule(0, Span(micros=10))),), (Scope(("r",), ((None, Allowance()),)),)
    )
    mutations: list[Mutation] = [
        (1, name, None, {"s": s, "x": None, "k": None}, None, ())
        for name, s in (("e1", "4"), ("e2", "four"), ("e3", "9" * 19), ("e4", None))
    ]
    with DuckEngine(program, COLUMNS) as engine:
        run = run_engine(engine, passed((10, mutations)))
    assert run.sums == {("r", 0, 1, 0): 8, ("r", 1, 1, 0): 5}
