"""One pass for many constraints gives what the oracle gives for each of them alone."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from math import isqrt
from typing import TYPE_CHECKING

import pytest

from tests.engine.harness import COLUMNS, World, batch_table, last_end, run_oracle
from tidegauge.engine.duckdb.grid import DuckGrid
from tidegauge.model.grid import PARTS, Clip, Timetable, Variant
from tidegauge.model.program import Allowance
from tidegauge.model.quantity import Span
from tidegauge.model.schedule import Schedule

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegauge.audit.worlds.oracle import Oracle
    from tidegauge.model.program import Program, Release, Scope

UNTIL = 90
Spot = tuple[str, int, int, int]
Sums = dict[Spot, int]


def variants(rng: random.Random, scope: Scope, count: int) -> list[Variant]:
    """Random constraints for the labels of a scope."""

    def limit() -> Allowance:
        return Allowance(rng.choice([None, 1, 2, 3, 4]), rng.choice([None, None, 0, 5, 15]))

    labels = [label for label, _ in scope.allowances]
    return [
        Variant(tuple((label, limit()) for label in labels), rng.choice([False, True])) for _ in range(count)
    ]


def enforcing(program: Program, chosen: list[Variant]) -> Program:
    scopes = tuple(
        replace(scope, allowances=variant.allowances, retire=variant.retire)
        for scope, variant in zip(program.scopes, chosen, strict=True)
    )
    return replace(program, scopes=scopes)


def added(into: dict[int, Sums], table: pa.Table, program: Program) -> None:
    for row in table.to_pylist():
        spot = program.releases[row["release"]].name, row["component"], row["bin"], row["cell"]
        into[row["variant"]][spot] = into[row["variant"]].get(spot, 0) + row["amount"]


def minus(one: Sums, other: Sums) -> Sums:
    spots = one.keys() | other.keys()
    return {spot: amount for spot in spots if (amount := one.get(spot, 0) - other.get(spot, 0))}


def oracle_of(program: Program, world: World) -> Oracle:
    return run_oracle(program, [(world.mutations, UNTIL, UNTIL)])


def sums_of(oracle: Oracle) -> Sums:
    return {spot: amount for spot, amount in oracle.totals.items() if amount}


def clipped(free: Oracle, held: Oracle, release: Release, clip: Clip) -> Sums:
    """What is left out of a reading, from the definition: unit by unit, each with its own weight."""
    found: Sums = defaultdict(int)
    schedule = release.schedule
    last = schedule.bin_at(UNTIL) if schedule.bins is None else schedule.bins - 1
    counted = [clip.first + clip.stride * n for n in range(clip.readings)]
    for unit in free.accepted.keys() | held.accepted.keys():
        off: dict[tuple[int, int], int] = {}
        for bin_ in {*range(last + 1), *counted}:
            first = -1 if schedule.span is None else bin_ - schedule.span
            cells: dict[int, int] = defaultdict(int)
            for sign, oracle in ((1, free), (-1, held)):
                for name, component, at, cell, amount in oracle.accepted.get(unit, ()):
                    if name == release.name and component == 0 and first < schedule.bin_at(at) <= bin_:
                        cells[cell] += sign * amount
            for cell, amount in cells.items():
                off[bin_, cell] = abs(amount) // clip.step * (1 if amount > 0 else -1)
        norm = sum(amount**2 for (bin_, _), amount in off.items() if bin_ in counted)
        weight = PARTS if norm == 0 else min(PARTS, isqrt(PARTS**2 * clip.most // norm))
        assert weight**2 * norm <= PARTS**2 * clip.most
        for (bin_, cell), amount in off.items():
            found[release.name, 0, bin_, cell] += weight * amount
    return {spot: amount for spot, amount in found.items() if amount}


def clip_of(rng: random.Random, bins: int) -> Clip:
    """Some of these bins count; a unit may be off by a few steps in a few of them."""
    first, stride = rng.randrange(bins), rng.randint(1, 3)
    most = (bins - 1 - first) // stride + 1
    return Clip(first, stride, rng.randint(1, most), rng.choice([1, 1, 3]), rng.choice([1, 2, 7, 1000]))


TERMS = (None, Schedule(7, Span(micros=7)), Schedule(2, Span(micros=19)))
"""What constraints renew by, besides not at all."""


def cumulated(steps: Sums, releases: list[Release]) -> Sums:
    found: Sums = {}
    for release in releases:
        schedule = release.schedule
        last = schedule.bin_at(UNTIL) if schedule.bins is None else schedule.bins - 1
        for cell in {spot[3] for spot in steps if spot[0] == release.name}:
            running = 0
            for bin_ in range(last + 1):
                running += steps.get((release.name, 0, bin_, cell), 0)
                if running:
                    found[release.name, 0, bin_, cell] = running
    return found


def compare(seed: int, *, plain: bool, parts: int | None = None) -> None:
    world = World(seed, plain=plain)
    rng = random.Random(seed)
    program, count = world.program, 6
    grid = [variants(rng, scope, count) for scope in program.scopes]
    other = [
        replace(
            one,
            schedule=replace(
                one.schedule,
                every=Span(micros=6),
                window=None if one.schedule.window is None else Span(micros=6),
            ),
        )
        for one in program.releases
    ]
    terms = TERMS if program.terms is None else (None, program.terms)
    timetables = [Timetable(program.releases, terms), Timetable(tuple(other), terms)]
    grid = [[replace(one, renewal=n % len(terms)) for n, one in enumerate(chosen)] for chosen in grid]
    clips: dict[int, Clip] = {}
    engine = DuckGrid(program, COLUMNS, grid)
    if parts is not None:
        engine._part = parts
    with engine:
        cut = len(world.mutations) // 2
        for rows in (world.mutations[:cut], world.mutations[cut:]):
            engine.add(batch_table(rows, owned=program.max_rows is not None), now=UNTIL)
        truth: list[dict[int, Sums]] = [defaultdict(dict) for _ in timetables]
        allowed: list[dict[int, Sums]] = [defaultdict(dict) for _ in timetables]
        missing: list[dict[int, Sums]] = [defaultdict(dict) for _ in timetables]
        steps: list[dict[int, Sums]] = [defaultdict(dict) for _ in timetables]
        reached = max(
            end for one in timetables
            if (end := last_end(replace(program, releases=one.releases), -(2**62), UNTIL))
        )  # fmt: skip
        for n, one in enumerate(program.releases):
            bins = min(ended(table.releases[n], reached) for table in timetables)
            if one.query.kind == "stock" and bins > 0:
                clips[n] = clip_of(rng, bins)
        for number, part in engine.sums(timetables, reached=reached, clips=clips):
            for into, table in (
                (truth, part.truth),
                (allowed, part.allowed),
                (missing, part.missing),
                (steps, part.clipped),
            ):
                added(into[number], table, program)
    for number, timetable in enumerate(timetables):
        releases = list(timetable.releases)
        base = replace(program, releases=timetable.releases, terms=None)
        free = [Variant(tuple((label, Allowance()) for label, _ in one.allowances)) for one in base.scopes]
        everything = replace(
            enforcing(base, free),
            releases=tuple(replace(one, clip=None) for one in base.releases),
            scopes=tuple(
                replace(one, by=None, allowances=((None, Allowance()),), retire=False) for one in base.scopes
            ),
            max_rows=None if base.max_rows is None else 1000,
        )
        inside = _inside(releases, reached)
        plain_truth = oracle_of(everything, world)
        for renewal, renewed in enumerate(terms):
            assert inside(truth[number][renewal]) == inside(sums_of(plain_truth))
            unlabelled = replace(
                enforcing(base, free),
                terms=renewed,
                scopes=tuple(
                    replace(one, by=None, allowances=((None, Allowance()),), retire=False)
                    for one in base.scopes
                ),
            )
            unlimited = oracle_of(unlabelled, world)
            assert inside(allowed[number][renewal]) == inside(sums_of(unlimited))
            for n in range(renewal, count, len(terms)):
                enforced = replace(enforcing(base, [chosen[n] for chosen in grid]), terms=renewed)
                held = oracle_of(enforced, world)
                assert inside(minus(allowed[number][renewal], missing[number][n])) == inside(sums_of(held)), n
                for at, clip in clips.items():
                    mine = [releases[at]]
                    ours = cumulated(steps[number][n], mine)
                    assert inside(ours) == inside(clipped(plain_truth, held, mine[0], clip)), n


def _inside(releases: list[Release], reached: int):  # type: ignore[no-untyped-def]
    """Only bins that have ended for this timetable."""
    ends = {one.name: one.schedule.bin_at(min(reached, last_end_of(one)) + 1) for one in releases}
    return lambda sums: {spot: n for spot, n in sums.items() if n and spot[2] < ends[spot[0]]}


def ended(release: Release, reached: int) -> int:
    """How many bins have ended by then."""
    bins = release.schedule.bin_at(reached + 1)
    return bins if release.schedule.bins is None else min(bins, release.schedule.bins)


def last_end_of(release: Release) -> int:
    return release.schedule.last_end(0, UNTIL) or -(2**62)


def seeds(first: int, quick: int, more: int) -> list[object]:
    """A few worlds in every run, more in the long one."""
    found: list[object] = list(range(first, first + quick))
    return found + [pytest.param(first + quick + n, marks=pytest.mark.slow) for n in range(more)]


@pytest.mark.parametrize("seed", seeds(2, 5, 38))
def test_every_variant_equals_the_oracle(seed: int) -> None:
    compare(seed, plain=True)


@pytest.mark.parametrize("seed", seeds(1000, 3, 17))
def test_also_where_keys_change_and_tables_are_emptied(seed: int) -> None:
    compare(seed, plain=False)


@pytest.mark.parametrize("seed", seeds(0, 1, 4))
def test_also_in_parts_that_have_no_unit_in_common(seed: int) -> None:
    compare(seed, plain=True, parts=7)
