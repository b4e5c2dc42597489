"""Constraints that renew: wherever batches are cut, and what a unit does in one term stays in this term."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.engine.harness import (
    BY_STATE,
    COLUMNS,
    RISE,
    SUM_X,
    World,
    oracle_paths,
    passes,
    run_engine,
    run_oracle,
)
from tests.seeds import seeds
from tidegauge.audit.worlds import world
from tidegauge.audit.worlds.world import Table
from tidegauge.engine.duckdb.engine import DuckEngine
from tidegauge.engine.duckdb.identity import Change, RowKeys, RowTerms
from tidegauge.model.program import Allowance, Program, Release, Scope
from tidegauge.model.quantity import Span
from tidegauge.model.schedule import Schedule

if TYPE_CHECKING:
    from tests.engine.harness import Passes, Path, Spot
    from tidegauge.audit.worlds.identity import Mutation, Row
    from tidegauge.audit.worlds.world import Event

EVERY_10 = Schedule(0, Span(micros=10))
TERMS = Schedule(20, Span(micros=20))
A, B = ({"s": s, "x": x, "k": "p"} for s, x in (("a", 1), ("b", 2)))


@pytest.mark.parametrize("seed", seeds(8000, 20, quick=7))
def test_any_cut_of_a_log_gives_the_same(seed: int) -> None:
    world = World(seed, renews=True)
    log = passes(world.mutations, world.untils)
    with DuckEngine(world.program, COLUMNS) as engine:
        whole = run_engine(engine, log)
        state = whole.state
    with DuckEngine(world.program, COLUMNS, part=3) as engine:
        cut = run_engine(engine, log, world.cuts, restart=bool(seed % 2))
        assert cut.state == state
    assert (cut.paths, cut.sums, cut.true) == (whole.paths, whole.sums, whole.true)
    assert sorted(cut.paths.values()) == sorted(oracle_paths(run_oracle(world.program, log)).values())


def one_release(limit: Allowance, *, retire: bool = False, rows: int | None = None) -> Program:
    return Program(
        (Release("state", BY_STATE, EVERY_10),),
        (Scope(("state",), ((None, limit),), None, retire),),
        rows,
        "owner" if rows else None,
        terms=TERMS,
    )


def counted(
    program: Program,
    *changes: tuple[int, str, Row | None] | tuple[int, str, Row | None, str],
    untils: tuple[int, ...] = (),
) -> dict[Spot, int]:
    """The sums of this log, where the unit is 'u' if units own rows; read once, or also at these moments.

    A change is its time, key, new row and, if it renames the row, the key before.
    """
    found = []
    for moments in (untils, ()):
        readings, log = [*moments, 90], list(changes)
        parts: Passes = []
        for until in readings:
            due: list[Mutation] = [
                (one[0], one[1], "u", one[2], one[3] if len(one) == 4 else None, ())
                for one in log
                if one[0] <= until
            ]
            log = [one for one in log if one[0] > until]
            parts.append((due, until, until))
        with DuckEngine(program, COLUMNS) as engine:
            run = run_engine(engine, parts)
        oracle = run_oracle(program, parts)
        assert run.sums == {spot: amount for spot, amount in oracle.totals.items() if amount}
        found.append(run.sums)
    assert found[0] == found[1]
    return found[0]


EVERY_BIN = tuple(range(0, 90, 10))


def test_a_frozen_unit_comes_back_when_a_term_begins() -> None:
    sums = counted(one_release(Allowance(at_most=1)), (1, "e", A), (5, "e", B), untils=EVERY_BIN)
    assert sums == {("state", 0, 1, 0): 1, ("state", 0, 2, 0): -1, ("state", 0, 2, 1): 1}


def test_a_unit_that_retired_comes_back_and_retires_again() -> None:
    sums = counted(one_release(Allowance(within=5), retire=True), (1, "e", A), untils=EVERY_BIN)
    assert [sums.get(("state", 0, bin_, 0), 0) for bin_ in range(10)] == [0, 0, 1, -1, 1, -1, 1, -1, 1, -1]


def test_a_change_when_a_term_begins_is_free_and_later_ones_count() -> None:
    program = one_release(Allowance(at_most=1))
    assert counted(program, (1, "e", A), (20, "e", B), (25, "e", A), (26, "e", None), untils=EVERY_BIN) == {
        ("state", 0, 1, 0): 1,
        ("state", 0, 2, 0): -1,
        ("state", 0, 2, 1): 1,
        ("state", 0, 3, 0): 1,
        ("state", 0, 3, 1): -1,
        ("state", 0, 4, 0): -1,
    }


def test_rows_of_a_unit_come_in_the_order_of_their_keys_when_a_term_begins() -> None:
    program = one_release(Allowance(at_most=9), rows=1)
    assert counted(program, (1, "z", A), (2, "c", B), untils=EVERY_BIN) == {
        ("state", 0, 1, 0): 1,
        ("state", 0, 2, 0): -1,
        ("state", 0, 2, 1): 1,
    }


@pytest.mark.parametrize("untils", [(), (10, 20, 30), EVERY_BIN])
def test_a_clip_begins_again_with_a_term_inside_of_a_bin(untils: tuple[int, ...]) -> None:
    release = Release("rise", RISE, Schedule(0, Span(micros=30)), 1)
    program = Program((release,), (Scope(("rise",), ((None, Allowance(at_most=9)),)),), terms=TERMS)
    high = [A | {"x": x} for x in (5, 6, 7, 8)]
    log = [(11 + 5 * n, "e", row) for n, row in enumerate(high)]
    assert counted(program, *log, untils=untils) == {("rise", 0, 1, 0): 2}


def test_a_flow_does_not_count_a_change_at_the_instant_at_which_a_term_begins() -> None:
    """Its old row is of the term before, and a counted change would take the place of another one."""
    program = Program(
        (Release("rise", RISE, EVERY_10),),
        (Scope(("rise",), ((None, Allowance(at_most=1)),)),),
        terms=TERMS,
    )
    log = [(at, "e", A | {"x": x}) for at, x in ((13, 1), (20, 5), (33, 6), (37, 7), (40, 8), (45, 9))]
    assert counted(program, *log, untils=EVERY_BIN) == {("rise", 0, 4, 0): 1, ("rise", 0, 5, 0): 1}


def test_rows_come_in_the_order_of_the_keys_that_they_have_when_a_term_begins() -> None:
    """Which row counts in a term does not depend on the key that it had in the term before."""
    program = one_release(Allowance(at_most=9), rows=1)
    for renamed in (
        [(1, "z", "u", A, None, ()), (3, "a", "u", A, "z", ())],
        [(1, "z", "u", A, None, ()), (2, "k", "u", A, "z", ()), (3, "a", "u", A, "k", ())],
        [(3, "a", "u", A, None, ())],
        [(1, "a", "u", A, None, ()), (2, "b", "u", A, "a", ()), (3, "a", "u", A, None, ()),
         (4, "b", "u", None, None, ())],
    ):  # fmt: skip
        log: list[Mutation] = [*renamed, (2, "c", "u", B, None, ()), (45, "c", "u", A | {"s": "c"}, None, ())]
        parts = in_passes(log, [10, 30])
        with DuckEngine(program, COLUMNS) as engine:
            run = run_engine(engine, parts)
        assert run.sums == {spot: one for spot, one in run_oracle(program, parts).totals.items() if one}
        (path,) = run.paths.values()
        assert [accepted_at(path, at) for at in (20, 50, 90)] == [{("state", 0, 0): 1}] * 3


def moved(seed: int) -> tuple[Table, Program]:
    """Two units that own a few rows whose keys change, and a gauge with terms."""
    rng, table = random.Random(f"keys {seed}"), Table("owner")
    for at in sorted(rng.sample(range(80), 34)):
        row: Row = {"s": rng.choice("abc"), "x": rng.choice([0, 2, 5, None]), "k": rng.choice("pq?")}
        key, living = rng.choice("abcdef"), sorted(table.rows)
        known = table.rows.get(key)
        row |= {"owner": known[0] if known and rng.random() < 0.8 else rng.choice("uw")}
        others = [one for one in living if one != key]
        if known and rng.random() < 0.25:
            table.delete((at, at), key)
        elif others and rng.random() < 0.5:
            previous = rng.choice(others)
            row["owner"] = table.rows[previous][0] if rng.random() < 0.7 else row["owner"]
            table.rename((at, at), previous, key, row)
        else:
            table.put((at, at), key, row)
    limits: tuple[tuple[str | None, Allowance], ...] = ((None, Allowance(rng.choice([1, 2, 3]))),)
    by = rng.choice([None, "k"])
    if by:
        limits = (("p", Allowance(2, 6)), ("q", Allowance(3)))
    names = ("state", "sum", *rng.choice([(), ("rise",)]))
    program = Program(
        (
            Release("state", BY_STATE, Schedule(3, Span(micros=5))),
            Release("sum", SUM_X, EVERY_10),
            Release("rise", RISE, EVERY_10),
        ),
        (Scope(names, limits, by, rng.choice([False, True])),),
        rng.choice([1, 2]),
        "owner",
        terms=replace(TERMS, start=rng.randint(5, 20)),
    )
    return table, program


def as_told(log: list[Event]) -> list[Mutation]:
    """The events as an engine receives them."""
    return [(e.stamp, e.key, e.begun, e.row, e.previous, ()) for e in log]


@pytest.mark.parametrize("seed", seeds(0, 40, quick=12))
def test_keys_that_change_in_one_term_change_nothing_outside_of_it(seed: int) -> None:
    table, program = moved(seed)
    rng = random.Random(seed)
    assert program.terms is not None
    term = rng.randint(0, 1)
    begin, end = (program.terms.bin_end(term + n) for n in (0, 1))
    untils = sorted(rng.sample(range(5, 85), rng.randint(0, 5)))
    log = sorted(table.log, key=lambda event: event.arrival)
    paths = []
    for events in (log, world.without_term(log, "u", begin, end)):
        parts = in_passes(as_told(sorted(events, key=lambda event: event.arrival)), untils)
        with DuckEngine(program, COLUMNS) as engine:
            run = run_engine(engine, parts)
        assert run.sums == {spot: one for spot, one in run_oracle(program, parts).totals.items() if one}
        paths.append(run.paths)
    here, away = paths
    assert here.get("w") == away.get("w")
    flows, rest = ([one for one in path.get("u", ()) if one[0] == "rise"] for path in (here, away))
    assert [one for one in flows if not begin <= one[2] < end] == rest
    mine, other = (tuple(one for one in path.get("u", ()) if one[0] != "rise") for path in (here, away))
    for at in [*range(begin), *range(end, 91)]:
        assert accepted_at(mine, at) == accepted_at(other, at)
    assert not any(accepted_at(other, at) for at in range(begin, end))


def renamed_rows(seed: int) -> tuple[Table, Program]:
    """A few rows whose keys change, that are deleted and inserted again, and a gauge with terms."""
    rng = random.Random(f"rows {seed}")
    terms = replace(TERMS, start=rng.randint(5, 20))
    table = Table(None, terms=terms)
    for at in sorted(rng.sample(range(80), 50)):
        row: Row = {"s": rng.choice("ab"), "x": rng.choice([0, 2, 5, None]), "k": rng.choice("pq?")}
        key, living, chance = rng.choice("abc"), sorted(table.rows), rng.random()
        if chance < 0.02:
            table.truncate((at, at))
        elif chance < 0.5 and living and key not in table.rows:
            table.rename((at, at), rng.choice(living), key, row)
        elif chance > 0.6 and key in table.rows:
            table.delete((at, at), key)
        else:
            table.put((at, at), key, row)
    names = ("state", "sum", *rng.choice([(), ("rise",)]))
    limits: tuple[tuple[str | None, Allowance], ...] = ((None, Allowance(rng.choice([1, 2]))),)
    by = rng.choice([None, None, "k"])
    if by:
        limits = (("p", Allowance(1, 6)), ("q", Allowance(2)))
    program = Program(
        (
            Release("state", BY_STATE, Schedule(3, Span(micros=5))),
            Release("sum", SUM_X, EVERY_10),
            Release("rise", RISE, EVERY_10),
        ),
        (Scope(names, limits, by, rng.choice([False, True])),),
        terms=terms,
    )
    return table, program


@pytest.mark.parametrize("untils", [(), (10, 20, 30), EVERY_BIN])
def test_a_row_that_was_renamed_in_an_earlier_term_is_its_keys_own_row(untils: tuple[int, ...]) -> None:
    """It is deleted and inserted again in a later term, which allows one change."""
    program = one_release(Allowance(at_most=1))
    for earlier in (
        [(3, "a", A)],
        [(1, "z", A), (3, "a", A, "z")],
        [(1, "a", A), (2, "z", A, "a"), (3, "a", A, "z")],
        [(1, "a", B), (2, "a", None), (2, "z", A), (3, "a", A, "z")],
    ):
        sums = counted(program, *earlier, (25, "a", None), (30, "a", B), untils=untils)
        later = {spot: amount for spot, amount in sums.items() if spot[2] > 2}
        assert later == {("state", 0, 3, 0): -1, ("state", 0, 4, 1): 1}, earlier


def test_a_row_that_an_earlier_version_saw_renamed_is_its_keys_own_row() -> None:
    keys = RowKeys({"a": [0, ["z"]], "z": [1, []]}, {"z"}, RowTerms(TERMS, 0, {}))
    gone, again = (
        keys.resolve(Change(seq, time=5, key="a", previous=None, unit=None, gone=seq == 0, same_unit=False))
        for seq in range(2)
    )
    assert (gone and gone.name, again and again.name) == ("z", "z")


@pytest.mark.parametrize("seed", seeds(0, 200, quick=30))
def test_whose_a_change_is_does_not_depend_on_earlier_terms(seed: int) -> None:
    """Units are rows.  A row that is absent in one term comes back under the key that it has by then."""
    table, program = renamed_rows(seed)
    rng = random.Random(seed)
    assert program.terms is not None
    term = rng.randint(0, 1)
    begin, end = (program.terms.bin_end(term + n) for n in (0, 1))
    log = sorted(table.log, key=lambda event: event.arrival)
    unit = rng.choice(table.units)
    paths = []
    for events in (log, world.without_term(log, unit, begin, end)):
        parts = in_passes(as_told(sorted(events, key=lambda event: event.arrival)), [])
        with DuckEngine(program, COLUMNS) as engine:
            run = run_engine(engine, parts)
        assert run.sums == {spot: one for spot, one in run_oracle(program, parts).totals.items() if one}
        paths.append(tuple(one for path in run.paths.values() for one in path))
    here, away = paths
    for at in [*range(begin), *range(end, 91)]:
        both = ([one for one in path if one[0] != "rise"] for path in paths)
        mine, other = (accepted_at(tuple(one), at) for one in both)
        assert mine == other, (seed, at)
    flows, rest = (
        Counter(one for one in path if one[0] == "rise" and not begin <= one[2] < end)
        for path in (here, away)
    )
    assert flows == rest


def accepted_at(path: Path, at: int) -> dict[tuple[str, int, int], int]:
    """What a unit contributes at an instant, by what was accepted."""
    found: Counter[tuple[str, int, int]] = Counter()
    for name, component, instant, cell, amount in path:
        if instant <= at:
            found[name, component, cell] += amount
    return {spot: amount for spot, amount in found.items() if amount}


def in_passes(changes: list[Mutation], untils: list[int]) -> Passes:
    """Every change is there when it happens: none is late."""
    ordered, parts = sorted(changes, key=lambda told: told[0]), []
    for since, until in zip([-1, *untils], [*untils, 90], strict=True):
        parts.append(([told for told in ordered if since < told[0] <= until], until, until))
    return parts


def without_term(changes: list[Mutation], unit: str, begin: int, end: int) -> list[Mutation]:
    """The same log without what a unit does in one term: its rows are away,
    and back as they are at the end."""
    mine = sorted((told for told in changes if told[2] == unit), key=lambda told: told[0])
    rest = [told for told in changes if told[2] != unit or not begin <= told[0] <= end]
    keys = sorted({told[1] for told in mine if told[1] is not None})
    for key in keys:
        before = [told for told in mine if told[1] == key and told[0] < begin]
        there = [told for told in mine if told[1] == key and told[0] <= end]
        if before and before[-1][3] is not None:
            rest.append((begin, key, unit, None, None, ()))
        if there and there[-1][3] is not None:
            rest.append((end, key, unit, there[-1][3], None, ()))
    return rest


@pytest.mark.parametrize("seed", seeds(0, 30, quick=12))
def test_what_a_unit_does_in_one_term_changes_nothing_outside_of_it(seed: int) -> None:
    rng = random.Random(seed)
    at_most, within = rng.choice([(1, None), (2, None), (3, None), (2, 6), (None, 4)])
    limits: tuple[tuple[str | None, Allowance], ...] = ((None, Allowance(at_most, within)),)
    by = rng.choice([None, None, "k"])
    if by:
        limits = (("p", Allowance(at_most, within)), ("q", Allowance(4)))
    rows = rng.choice([None, 1, 2])
    program = Program(
        (
            Release("state", BY_STATE, Schedule(3, Span(micros=5))),
            Release("sum", SUM_X, EVERY_10),
            Release("rise", RISE, EVERY_10),
        ),
        (Scope(("state", "sum", *rng.choice([(), ("rise",)])), limits, by, rng.choice([False, True])),),
        rows,
        "owner" if rows else None,
        terms=replace(TERMS, start=rng.randint(5, 20)),
    )
    keys = {"u": ["e1", "e2"], "w": ["e3", "e4"]} if rows else {key: [key] for key in ("e1", "e2")}
    changes: list[Mutation] = []
    for at in rng.sample(range(80), 30):
        unit = rng.choice(sorted(keys))
        row = {"s": rng.choice("abc"), "x": rng.choice([0, 2, 5, None]), "k": rng.choice("pq?")}
        changes.append((at, rng.choice(keys[unit]), unit, rng.choice([row, row, row, None]), None, ()))
    assert program.terms is not None
    removed, term = rng.choice(sorted(keys)), rng.randint(0, 1)
    begin, end = (program.terms.bin_end(term + n) for n in (0, 1))
    untils = sorted(rng.sample(range(5, 85), rng.randint(0, 5)))
    paths = []
    for log in (changes, without_term(changes, removed, begin, end)):
        with DuckEngine(program, COLUMNS) as engine:
            paths.append(run_engine(engine, in_passes(log, untils)).paths)
    here, away = paths
    assert {u: p for u, p in here.items() if u != removed} == {u: p for u, p in away.items() if u != removed}
    whole, rest = here.get(removed, ()), away.get(removed, ())
    flows, rest_flows = ([one for one in path if one[0] == "rise"] for path in (whole, rest))
    assert [one for one in flows if not begin <= one[2] < end] == rest_flows
    assert not any(one[2] in (begin, end) for one in flows)
    mine, other = (tuple(one for one in path if one[0] != "rise") for path in (whole, rest))
    for at in [*range(begin), *range(end, 91)]:
        assert accepted_at(mine, at) == accepted_at(other, at)
    assert not any(accepted_at(other, at) for at in range(begin, end))
    if at_most is not None and by is None:
        moved = [
            at for at in range(91)
            if accepted_at(mine, at) != accepted_at(mine, at - 1) and begin <= at < end
        ]  # fmt: skip
        assert len([at for at in moved if at != begin]) <= at_most
