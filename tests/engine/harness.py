"""Programs, changelogs and a store in memory, for tests of the engine."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidegauge.engine.duckdb.arrays import ArrayFold
from tidegauge.model.expression import Constant, Native
from tidegauge.model.program import Allowance, Program, Release, Scope, Total
from tidegauge.model.quantity import Span
from tidegauge.model.query import Component, Group, Query
from tidegauge.model.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidegauge.audit.worlds.identity import Mutation, Row
    from tidegauge.audit.worlds.oracle import Oracle, Sees
    from tidegauge.engine.duckdb.engine import DuckEngine
    from tidegauge.model.program import Arrived, Folded

COLUMNS = {"s": "VARCHAR", "x": "BIGINT", "k": "VARCHAR"}
START = -(2**62)


def query(kind: str, cell: str, *values: str, groups: tuple[Group, ...] = ()) -> Query:
    return Query(
        kind=kind,  # type: ignore[arg-type]
        aggregate="count",
        table="t",
        text=cell,
        cell=Native(cell),
        outside=Constant(False),
        components=tuple(Component("sum", Native(value), -9, 9, Fraction(1)) for value in values),
        groups=groups,
        before=("s",),
        after=("s", "x"),
    )


BY_STATE = query(
    "stock", "CASE after.s WHEN 'a' THEN 0 WHEN 'b' THEN 1 END", "1", groups=(Group("s", ("a", "b")),)
)
SUM_X = query(
    "stock",
    "0",
    "CASE WHEN after.x IS NOT NULL THEN greatest(-9, least(9, after.x)) END",
    "CASE WHEN after.x > 3 THEN 1 END",
)
FLOW = query(
    "flow", "CASE WHEN before.s = 'a' AND after.s IN ('b', 'c') THEN 0 WHEN after.s IS NULL THEN 1 END", "1"
)


RISE = replace(  # sees updates of its own column alone, as flows of newer plans do
    query("flow", "CASE WHEN after.x > 3 THEN 0 END", "1"), before=(), after=("x",), own_columns=True
)


def by_state(_: Row | None, row: Row | None) -> tuple[int, tuple[int, ...]] | None:
    assert row is not None
    return ("ab".index(row["s"]), (1,)) if row["s"] in ("a", "b") else None


def sum_x(_: Row | None, row: Row | None) -> tuple[int, tuple[int, ...]] | None:
    assert row is not None
    x = row["x"]
    return 0, ((max(-9, min(9, x)), int(x > 3)) if x is not None else (0, 0))


def flow(old: Row | None, new: Row | None) -> tuple[int, tuple[int, ...]] | None:
    after = new["s"] if new else None
    if old and old["s"] == "a" and after in ("b", "c"):
        return 0, (1,)
    return (1, (1,)) if after is None else None


def rise(_: Row | None, new: Row | None) -> tuple[int, tuple[int, ...]] | None:
    return (0, (1,)) if new and new["x"] is not None and new["x"] > 3 else None


SEES: Sees = {"state": by_state, "sum": sum_x, "flow": flow, "rise": rise}


def _texts(values: Any) -> set[str]:
    return set(values.to_pylist() if isinstance(values, pa.Array | pa.ChunkedArray) else values)


class Memory:
    """A store in memory."""

    def __init__(self, engine: DuckEngine) -> None:
        self.engine = engine
        self.rows: dict[tuple[str, ...], Row] = {}
        self.counters: dict[tuple[str, int], Row] = {}
        self.clips: dict[tuple[str, int], Row] = {}
        self.records: dict[str, Any] = {}
        self.pending: list[pa.Table] = []
        self.watermark = START

    @staticmethod
    def table(rows: list[Row], columns: Mapping[str, str]) -> pa.Table:
        kinds = {"VARCHAR": pa.string(), "BIGINT": pa.int64()}
        return pa.Table.from_pylist(rows, pa.schema([(name, kinds[kind]) for name, kind in columns.items()]))

    def entries(self, names: Any) -> pa.Table:
        wanted = _texts(names)
        found = [row for row in self.rows.values() if row["entry"] in wanted]
        return self.table(found, self.engine.layout.entries)

    def all_entries(self) -> pa.Table:
        return self.table(list(self.rows.values()), self.engine.layout.entries)

    def entries_of(self, units: Any) -> pa.Table:
        wanted = _texts(units)
        found = [row for row in self.rows.values() if row["unit"] in wanted]
        return self.table(found, self.engine.layout.entries)

    def units(self, units: Any) -> pa.Table:
        wanted = _texts(units)
        found = [row for row in self.counters.values() if row["unit"] in wanted]
        return self.table(found, self.engine.layout.units)

    def used(self, units: Any) -> pa.Table:
        wanted = _texts(units)
        found = [row for row in self.clips.values() if row["unit"] in wanted]
        return self.table(found, self.engine.layout.used)

    def expiring(self, upto: int) -> pa.Array:
        due = {r["unit"] for r in self.counters.values() if r["expires"] is not None and r["expires"] <= upto}
        return pa.array(sorted(due), pa.string())

    def waiting(self) -> Iterator[pa.Table]:
        return iter(self.pending)

    def keys(self, names: Any) -> dict[str, Any]:
        return {
            key: json.loads(record) for key, record in self.records.items() if names is None or key in names
        }

    def any_keys(self) -> bool:
        return bool(self.records)

    def apply(self, folded: Folded) -> None:
        for row in folded.gone.to_pylist():
            self.rows.pop(tuple(row.values()), None)
        own = "unit" in self.engine.layout.entries
        self.rows |= {
            (row["entry"], row["unit"]) if own else (row["entry"],): row for row in folded.entries.to_pylist()
        }
        self.counters |= {(row["unit"], row["scope"]): row for row in folded.units.to_pylist()}
        self.clips |= {(row["unit"], row["release"]): row for row in folded.used.to_pylist()}

    def note(self, arrived: Arrived) -> None:
        for key, record in arrived.keys.items():
            self.records.pop(key, None)
            if record is not None:
                self.records[key] = json.dumps(record)


Spot = tuple[str, int, int, int]
Path = tuple[tuple[str, int, int, int, int], ...]


class Watched(ArrayFold):
    """Notes which changes count."""

    accepted: list[tuple[str, tuple[str, int, int, int], int]] | None = None
    others = False

    def fold(self, *args: Any) -> tuple[Folded, pa.Array]:
        folded, others = super().fold(*args)
        self.others = len(others) > 0
        return folded, others

    def _totals(self, versions: Any, views: Any, moved: Any, plain: Any, reached: int) -> Iterator[Total]:
        self.accepted = []
        for one, scope in zip(moved, self._program.scopes, strict=True):
            for stock in self._stocks(scope):
                cell, *values = self._views.view(stock)
                for at in one.version[plain[one.unit]]:
                    unit, instant = versions.names[versions.unit[at]].as_py(), int(versions.instant[at])
                    for side, sign in enumerate((1, -1)):
                        if views[cell][side].there[at]:
                            index = int(views[cell][side].numbers[at])
                            for j, value in enumerate(values):
                                amount = sign * int(views[value][side].numbers[at])
                                self.accepted.append((unit, (stock.name, j, instant, index), amount))
        return super()._totals(versions, views, moved, plain, reached)


class Run:
    """An engine with its store, batch after batch."""

    def __init__(self, engine: DuckEngine) -> None:
        self.engine, self.memory = engine, Memory(engine)
        self.watched = None if engine._arrays is None else Watched(engine.program, engine._sql)
        engine._arrays = self.watched
        self.watermark, self.arrivals = START, 0
        self.totals: dict[Spot, int] = {}
        self.dropped: dict[Spot, int] = {}
        self.accepted: dict[str, dict[tuple[str, int, int, int], int]] = {}
        self.counts: dict[str, int] = {}

    def batch(
        self, mutations: list[Mutation], *, now: int, upto: int | None = None, restart: bool = False
    ) -> None:
        """Let a batch arrive, and with `upto` let take effect what does; `restart`: of the engine, before."""
        if restart:
            self.engine.forget()
        table = batch_table(mutations, owned=self.engine.program.max_rows is not None)
        arrived = self.engine.arrive(table, state=self.memory, now=now, arrivals=self.arrivals)
        self.memory.note(arrived)
        self._count(arrived.counts)
        since, self.arrivals = self.arrivals, self.arrivals + len(mutations)
        reached = None if upto is None else last_end(self.engine.program, self.watermark, upto)
        if reached is None:
            self.memory.pending.append(self.engine.waiting(since))
            return
        for folded in self.engine.fold(state=self.memory, watermark=self.watermark, reached=reached):
            self.memory.apply(folded)
            self._count(folded.counts)
            self._accept()
            for total in folded.totals:
                spot = total.release, total.component, total.bin, total.cell
                self.totals[spot] = self.totals.get(spot, 0) + total.amount
            for total in folded.dropped:
                spot = total.release, total.component, total.bin, total.cell
                self.dropped[spot] = self.dropped.get(spot, 0) + total.amount
        self.memory.pending = [self.engine.waiting()]
        self.memory.watermark = self.watermark = reached

    def _count(self, counts: dict[str, int]) -> None:
        self.counts |= {name: self.counts.get(name, 0) + amount for name, amount in counts.items()}

    def _accept(self) -> None:
        """Look into the engine: which change of which unit counts."""
        names = [release.name for release in self.engine.program.releases]
        if self.watched is not None and self.watched.accepted is not None:
            for unit, spot, amount in self.watched.accepted:
                path = self.accepted.setdefault(unit, {})
                path[spot] = path.get(spot, 0) + amount
            self.watched.accepted = None
            if not self.watched.others:
                return
        elif self.watched is not None and not self.engine._fresh:
            return
        for s in range(len(self.engine.program.scopes)):
            found = self.engine._rows(f"""
                SELECT unit, release, component, instant, cell, amount FROM accepted_{s} UNION ALL
                SELECT unit, release, component, instant, cell, amount FROM accepted_flow_{s}
                WHERE most IS NULL OR ordinal <= most""")
            for unit, release, component, instant, cell, amount in found:
                path, spot = self.accepted.setdefault(unit, {}), (names[release], component, instant, cell)
                path[spot] = path.get(spot, 0) + int(amount)

    @property
    def sums(self) -> dict[Spot, int]:
        return {spot: amount for spot, amount in self.totals.items() if amount}

    @property
    def true(self) -> dict[Spot, int]:
        """What the sums would be without any constraint."""
        found = {
            spot: self.totals.get(spot, 0) + self.dropped.get(spot, 0) for spot in self.totals | self.dropped
        }
        return {spot: amount for spot, amount in found.items() if amount}

    @property
    def excess(self) -> dict[tuple[str, int], str]:
        """Per unit and scope the true contribution less the accepted one, as the state has it."""
        return {
            spot: counters["excess"] for spot, counters in self.memory.counters.items() if counters["excess"]
        }

    @property
    def paths(self) -> dict[str, Path]:
        found = {
            unit: tuple(sorted((*spot, amount) for spot, amount in path.items() if amount))
            for unit, path in self.accepted.items()
        }
        return {unit: path for unit, path in found.items() if path}

    @property
    def state(self) -> tuple[Any, ...]:
        waiting = pa.concat_tables([self.engine.waiting()]).to_pylist()
        memory = self.memory
        return memory.rows, memory.counters, memory.clips, memory.records, waiting, self.watermark


def last_end(program: Program, watermark: int, upto: int) -> int | None:
    """The end of the last bin of any release after the watermark."""
    ends = (release.schedule.last_end(0, upto) for release in program.releases)
    return max((end for end in ends if end is not None and end > watermark), default=None)


def oracle_paths(oracle: Oracle) -> dict[str, Path]:
    found = {}
    for unit, changes in oracle.accepted.items():
        path: dict[tuple[str, int, int, int], int] = {}
        for *spot, amount in changes:
            path[tuple(spot)] = path.get(tuple(spot), 0) + amount  # type: ignore[index, arg-type]
        found[unit] = tuple(sorted((*spot, amount) for spot, amount in path.items() if amount))
    return {unit: path for unit, path in found.items() if path}


def oracle_true(oracle: Oracle) -> dict[Spot, int]:
    bins = {release.name: release.schedule.bins for release in oracle.program.releases}
    return {
        spot: amount
        for spot, amount in oracle.true.items()
        if amount and ((last := bins[spot[0]]) is None or spot[2] < last)
    }


def oracle_excess(oracle: Oracle) -> dict[tuple[str, int], str]:
    names = [release.name for release in oracle.program.releases]
    found = {}
    for (scope, unit), known in oracle.units.items():
        parts = sorted(
            (names.index(name), component, cell, amount)
            for name, component, cell in known.raw.keys() | known.contribution.keys()
            if (
                amount := known.raw.get((name, component, cell), 0)
                - known.contribution.get((name, component, cell), 0)
            )
        )
        if parts:
            found[unit, scope] = " ".join(":".join(map(str, part)) for part in parts)
    return found


def batch_table(mutations: list[Mutation], *, owned: bool) -> pa.Table:
    shape = pa.struct([("s", pa.string()), ("x", pa.int64()), ("k", pa.string())])
    afters = [
        m[3] and {name: None if name in m[5] else value for name, value in m[3].items()} for m in mutations
    ]
    units = [m[2] if owned and m[3] and "owner" not in m[5] else None for m in mutations]
    return pa.table(
        {
            "time": pa.array([m[0] for m in mutations], pa.int64()),
            "entry": pa.array([m[1] for m in mutations], pa.string()),
            "unit": pa.array(units, pa.string()),
            "before": pa.array([None for _ in mutations], shape),
            "after": pa.array(afters, shape),
            "informed": pa.array([False for _ in mutations], pa.bool_()),
            "previous": pa.array([m[4] for m in mutations], pa.string()),
            "kept": pa.array([list(m[5]) or None for m in mutations], pa.list_(pa.string())),
        }
    )


Passes = list[tuple[list["Mutation"], int, int]]
"""What is in the log at each reading of it, the clock then, and up to when it was read."""


def passes(mutations: list[Mutation], untils: list[int]) -> Passes:
    """The log as a live source is read: at these moments, and once when everything has long happened."""
    share = -(-len(mutations) // (len(untils) + 1)) if mutations else 1
    return [
        (mutations[n * share : (n + 1) * share], until + 2 * (n % 2), until)
        for n, until in enumerate([*sorted(untils), 90])
    ]


def run_oracle(program: Program, log: Passes) -> Oracle:
    from tidegauge.audit.worlds.oracle import Oracle

    oracle = Oracle(program, SEES)
    for mutations, now, until in log:
        oracle.arrive(mutations, now)
        reached = last_end(program, oracle.watermark, until)
        if reached is not None:
            oracle.close(reached)
    return oracle


def run_engine(engine: DuckEngine, log: Passes, cuts: tuple[int, ...] = (), *, restart: bool = False) -> Run:
    """Read the log, each pass cut into batches behind so many changes of all."""
    run, behind = Run(engine), 0
    for mutations, now, until in log:
        inside = sorted({cut - behind for cut in cuts if behind < cut < behind + len(mutations)})
        for first, last in zip([0, *inside], [*inside, len(mutations)], strict=True):
            upto = until if last == len(mutations) else None
            run.batch(mutations[first:last], now=now, upto=upto, restart=restart)
        behind += len(mutations)
    return run


class World:
    """A program, a log and its readings, drawn at random: long logs over few keys, in which rows meet."""

    def __init__(self, seed: int, *, plain: bool = False, renews: bool = False, simple: bool = False) -> None:
        self.rng = random.Random(seed)
        self.program = self._program()
        if simple:
            self.program = self._simple(plain=plain)
        if renews:
            start, every = self.rng.randint(0, 30), Span(micros=self.rng.randint(6, 25))
            self.program = replace(self.program, terms=Schedule(start, every))
        size = self.rng.randint(10, 40)
        self.mutations = [self._mutation(plain=plain) for _ in range(size)]
        self.untils = [self.rng.randint(0, 50) for _ in range(self.rng.randint(0, 4))]
        self.cuts = tuple(self.rng.randint(1, size) for _ in range(self.rng.randint(1, 12)))

    def _limit(self) -> Allowance:
        at_most, within = self.rng.choice([None, 1, 2, 2, 3, 4]), self.rng.choice([None, None, 0, 5, 15])
        return Allowance(at_most=at_most, within=within)

    def _program(self) -> Program:
        pick = self.rng.choice
        spans = [None, Span(micros=14), Span(micros=4)]
        releases = (
            Release("state", BY_STATE,
                    Schedule(pick(range(11)), Span(micros=pick(range(1, 10))), pick([None, 1, 3]))),
            Release("sum", SUM_X, Schedule(5, Span(micros=7), None, pick(spans))),
            Release("flow", FLOW, Schedule(0, Span(micros=10), None), pick([None, 1, 2])),
            Release("rise", RISE, Schedule(0, Span(micros=15), None), pick([None, 1, 2])),
        )  # fmt: skip
        names: list[tuple[str, ...]] = pick(
            [[("state", "sum", "flow", "rise")], [("state", "flow", "rise"), ("sum",)]]
        )
        scopes = []
        for group in names:
            limits: tuple[tuple[str | None, Allowance], ...] = ((None, self._limit()),)
            by = pick([None, None, "k"])
            if by:
                limits = (("p", self._limit()), ("q", self._limit()))
            scopes.append(Scope(group, limits, by, pick([False, False, True])))
        rows = pick([None, None, 1, 2, 3])
        return Program(releases, tuple(scopes), rows, "owner" if rows else None, (("k", 0), ("s", 0)))

    def _simple(self, *, plain: bool) -> Program:
        """The same stocks where units are rows, all with one allowance, and later changes are ignored."""
        scopes = tuple(
            Scope(
                tuple(name for name in scope.releases if name in ("state", "sum")), ((None, self._limit()),)
            )
            for scope in self.program.scopes
        )
        every = (*self.program.partial, ("x", 0))
        partial = self.rng.choice([(), every]) if plain else every
        return Program(self.program.releases[:2], scopes, partial=partial)

    def _mutation(self, *, plain: bool) -> Mutation:
        pick, chance = self.rng.choice, self.rng.random()
        time, key, unit = self.rng.randint(0, 60), pick(["e1", "e2", "e3", "e4"]), pick(["u", "w", "v", None])
        row = {"s": pick(["a", "b", "c", None]), "x": pick([0, 2, 5, 20, None]), "k": pick("pq?")}
        if plain or chance < 0.55:
            return time, key, unit, None if pick(range(4)) == 0 else row, None, ()
        if chance < 0.85:
            return time, key, unit, row, pick(["e1", "e2", "e3", "e4"]), ()
        if chance < 0.95:
            return (
                time,
                key,
                unit,
                row,
                None,
                tuple(self.rng.sample(["s", "x", "k", "owner"], pick([1, 2, 3]))),
            )
        return time, None, None, None, None, ()
