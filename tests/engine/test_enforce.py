"""The engine equals the oracle, integer for integer, on random changelogs cut into random batches."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.oracle import Mutation, Oracle, Row, Sees
from tidegauge.engine.duckdb import DuckEngine
from tidegauge.model.expression import Constant, Native
from tidegauge.model.program import Folded, Limit, Program, Release, Scope
from tidegauge.model.quantity import Span
from tidegauge.model.query import Component, Group, Query
from tidegauge.model.schedule import Schedule

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


RISE = query("flow", "CASE WHEN after.x > 3 THEN 0 END", "1")


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


class Memory:
    """A store in memory."""

    def __init__(self, engine: DuckEngine) -> None:
        self.engine = engine
        self.rows: dict[str, Row] = {}
        self.counters: dict[tuple[str, int], Row] = {}
        self.clips: dict[tuple[str, int], Row] = {}

    @staticmethod
    def table(rows: list[Row], columns: dict[str, str]) -> pa.Table:
        kinds = {"VARCHAR": pa.string(), "BIGINT": pa.int64()}
        return pa.Table.from_pylist(rows, pa.schema([(name, kinds[kind]) for name, kind in columns.items()]))

    def entries(self, keys: Any) -> pa.Table:
        return self.table([self.rows[key] for key in keys if key in self.rows], self.engine.entry_columns)

    def all_entries(self) -> pa.Table:
        return self.table(list(self.rows.values()), self.engine.entry_columns)

    def entries_of(self, units: Any) -> pa.Table:
        return self.table(
            [row for row in self.rows.values() if row["unit"] in units], self.engine.entry_columns
        )

    def units(self, units: Any) -> pa.Table:
        return self.table(
            [row for row in self.counters.values() if row["unit"] in units], self.engine.unit_columns
        )

    def used(self, units: Any) -> pa.Table:
        return self.table(
            [row for row in self.clips.values() if row["unit"] in units], self.engine.used_columns
        )

    def expiring(self, upto: int) -> list[str]:
        return [
            r["unit"] for r in self.counters.values() if r["expires"] is not None and r["expires"] <= upto
        ]

    def apply(self, folded: Folded) -> None:
        for entry in folded.gone:
            self.rows.pop(entry, None)
        for unit in folded.void:
            self.counters = {key: row for key, row in self.counters.items() if key[0] != unit}
            self.clips = {key: row for key, row in self.clips.items() if key[0] != unit}
        self.rows |= {row["entry"]: row for row in folded.entries.to_pylist()}
        self.counters |= {(row["unit"], row["scope"]): row for row in folded.units.to_pylist()}
        self.clips |= {(row["unit"], row["release"]): row for row in folded.used.to_pylist()}


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


ROWS = st.none() | st.fixed_dictionaries(
    {
        "s": st.sampled_from(["a", "b", "c", None]),
        "x": st.sampled_from([0, 2, 5, 20, None]),
        "k": st.sampled_from("pq?"),
    }
)
KEYS = st.sampled_from(["e1", "e2", "e3", "e4", "e5"])
TIMES = st.integers(0, 40)
UNITS = st.sampled_from(["u", "w", "u", "w", None])
PLAIN = st.tuples(TIMES, KEYS, UNITS, ROWS, st.none(), st.just(()))
RENAMED = st.tuples(TIMES, KEYS, UNITS, ROWS.filter(bool), KEYS, st.just(()))
SHORT = st.tuples(
    TIMES,
    KEYS,
    UNITS,
    ROWS.filter(bool),
    st.none(),
    st.sets(st.sampled_from(["s", "x", "k", "owner"]), min_size=1).map(tuple),
)
EMPTIED = st.tuples(TIMES, st.none(), st.none(), st.none(), st.none(), st.just(()))
PLAIN_LOGS = st.lists(PLAIN, max_size=25)
FULL_LOGS = st.lists(st.one_of(PLAIN, PLAIN, RENAMED, SHORT, EMPTIED), max_size=25)
LIMITS = st.one_of(
    st.builds(Limit, at_most=st.integers(1, 4)),
    st.builds(Limit, within=st.integers(0, 15)),
    st.builds(Limit, at_most=st.integers(1, 4), within=st.integers(0, 15)),
    st.just(Limit()),
)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    releases = (
        Release(
            "state",
            BY_STATE,
            Schedule(
                draw(st.integers(0, 10)),
                Span(micros=draw(st.integers(1, 9))),
                draw(st.sampled_from([None, 1, 3])),
            ),
        ),
        Release(
            "sum",
            SUM_X,
            Schedule(5, Span(micros=7), None, draw(st.sampled_from([None, Span(micros=14), Span(micros=4)]))),
        ),
        Release("flow", FLOW, Schedule(0, Span(micros=10), None), draw(st.sampled_from([None, 1, 2]))),
        Release("rise", RISE, Schedule(0, Span(micros=15), None), draw(st.sampled_from([None, 1, 2]))),
    )
    together = draw(st.booleans())
    names: list[tuple[str, ...]] = (
        [("state", "sum", "flow", "rise")] if together else [("state", "flow", "rise"), ("sum",)]
    )
    scopes = []
    for group in names:
        if draw(st.booleans()):
            limits: tuple[tuple[str | None, Limit], ...] = (("p", draw(LIMITS)), ("q", draw(LIMITS)))
            by: str | None = "k"
        else:
            limits, by = ((None, draw(LIMITS)),), None
        scopes.append(Scope(group, limits, by, draw(st.booleans())))
    max_rows = draw(st.sampled_from([None, 1, 2, 3]))
    return Program(releases, tuple(scopes), max_rows, "owner" if max_rows else None, (("k", 0), ("s", 0)))


ROUNDS = settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
CUTS = st.lists(st.integers(0, 45), max_size=3)


@ROUNDS
@given(programs(), PLAIN_LOGS, CUTS)
def test_engine_equals_oracle(program: Program, mutations: list[Mutation], cuts: list[int]) -> None:
    with DuckEngine(program, COLUMNS) as engine:
        run_both(engine, Oracle(program, SEES), mutations, cuts)


@ROUNDS
@given(programs(), FULL_LOGS, CUTS)
def test_engine_follows_keys_that_change_values_left_out_and_emptied_tables(
    program: Program, mutations: list[Mutation], cuts: list[int]
) -> None:
    with DuckEngine(program, COLUMNS) as engine:
        run_both(engine, Oracle(program, SEES), mutations, cuts)


EVERY_10 = Schedule(0, Span(micros=10))


def row(s: str, x: int) -> Row:
    return {"s": s, "x": x, "k": "p"}


def told(time: int, key: str, new: Row | None, *, previous: str | None = None) -> Mutation:
    return time, key, None, new, previous, ()


def test_a_row_that_changes_its_key_keeps_its_counters_also_where_it_does_not_change() -> None:
    scopes = Scope(("state",), ((None, Limit(at_most=2)),)), Scope(("sum",), ((None, Limit(at_most=1)),))
    program = Program((Release("state", BY_STATE, EVERY_10), Release("sum", SUM_X, EVERY_10)), scopes)
    log = [told(1, "e1", row("a", 2)), told(5, "e2", row("b", 2), previous="e1"), told(20, "e2", row("b", 5))]
    with DuckEngine(program, COLUMNS) as engine:
        assert ("sum", 0, 2, 0) not in run_both(engine, Oracle(program, SEES), log, [2, 10])


def test_a_row_that_changes_its_key_keeps_what_it_used_of_every_clip() -> None:
    releases = (
        Release("flow", FLOW, Schedule(0, Span(micros=100)), 1),
        Release("rise", RISE, Schedule(0, Span(micros=100)), 1),
    )
    program = Program(releases, (Scope(("flow", "rise"), ((None, Limit()),)),))
    log = [
        told(1, "e1", row("a", 5)),
        told(5, "e2", row("b", 0), previous="e1"),
        told(20, "e2", row("b", 5)),
    ]
    with DuckEngine(program, COLUMNS) as engine:
        totals = run_both(engine, Oracle(program, SEES), log, [2, 10])
    assert totals == {("flow", 0, 1, 0): 1, ("rise", 0, 1, 0): 1}


@pytest.mark.parametrize("cuts", [[3, 10], [3, 5, 10], []])
def test_who_comes_after_a_row_that_took_a_key_and_left_it_begins_anew(cuts: list[int]) -> None:
    program = Program((Release("sum", SUM_X, EVERY_10),), (Scope(("sum",), ((None, Limit(at_most=1)),)),))
    log = [
        told(1, "e1", row("a", 2)),
        told(1, "e2", row("a", 2)),
        told(5, "e1", row("a", 2), previous="e2"),
        told(6, "e3", row("a", 2), previous="e1"),
        told(20, "e1", row("b", 3)),
        told(21, "e4", None),
    ]
    with DuckEngine(program, COLUMNS) as engine:
        assert run_both(engine, Oracle(program, SEES), log, cuts)["sum", 0, 2, 0] == 3


def test_a_unit_that_was_not_asked_for_gives_no_row_its_changes_back() -> None:
    program = Program((Release("sum", SUM_X, EVERY_10),), (Scope(("sum",), ((None, Limit(at_most=1)),)),))
    with DuckEngine(program, COLUMNS) as engine:
        memory, totals = Memory(engine), []
        for n, (x, unit) in enumerate([(2, "u"), (5, "u"), (7, "w")]):
            table = batch_table([(10 * n + 5, "e1", unit, row("a", x), None, ())], owned=True)
            folded = engine.fold(table, state=memory, watermark=10 * n, upto=10 * n + 10, arrivals=n)
            memory.apply(folded)
            totals += [(total.component, total.amount) for total in folded.totals]
    assert totals == [(0, 2)]


@pytest.mark.parametrize("retire", [False, True])
def test_limits_beyond_all_numbers_overflow_nothing(retire: bool) -> None:
    limits = ((None, Limit(at_most=10**30, within=2**63 - 1)),)
    releases = Release("sum", SUM_X, EVERY_10), Release("rise", RISE, EVERY_10, 10**30)
    program = Program(releases, (Scope(("sum", "rise"), limits, None, retire),))
    log = [told(1, "e1", row("a", 5)), told(20, "e1", row("a", 2))]
    with DuckEngine(program, COLUMNS) as engine:
        assert run_both(engine, Oracle(program, SEES), log, [10])["sum", 0, 2, 0] == -3


def test_news_of_after_what_a_batch_reaches_is_not_lost() -> None:
    program = Program((Release("sum", SUM_X, EVERY_10),), (Scope(("sum",), ((None, Limit(at_most=2)),)),))
    with DuckEngine(program, COLUMNS) as engine:
        table = batch_table([told(95, "e1", row("a", 2)), told(5, "e2", row("a", 3))], owned=False)
        folded = engine.fold(table, state=Memory(engine), watermark=0, upto=10, arrivals=0)
    assert [(total.bin, total.amount) for total in folded.totals] == [(1, 5)]


def run_both(
    engine: DuckEngine, oracle: Oracle, mutations: list[Mutation], cuts: list[int]
) -> dict[tuple[str, int, int, int], int]:
    """Cut by cut; what both have counted, if it is the same."""
    memory, watermark, arrived = Memory(engine), START, 0
    totals: dict[tuple[str, int, int, int], int] = {}
    share = -(-len(mutations) // (len(cuts) + 1)) if mutations else 1
    for n, cut in enumerate([*sorted(cuts), 50]):
        part = mutations[n * share : (n + 1) * share]
        upto = max([cut, *(time for time, *_ in part)])
        table = batch_table(part, owned=engine.program.max_rows is not None)
        folded = engine.fold(table, state=memory, watermark=watermark, upto=upto, arrivals=arrived)
        assert folded.watermark == oracle.batch(part, watermark, upto)
        watermark, arrived = folded.watermark, arrived + len(part)
        memory.apply(folded)
        for total in folded.totals:
            key = total.release, total.component, total.bin, total.cell
            totals[key] = totals.get(key, 0) + total.amount
    totals = {key: amount for key, amount in totals.items() if amount}
    assert totals == {key: amount for key, amount in oracle.totals.items() if amount}
    return totals


def test_a_query_that_does_not_bind_is_refused_when_planned() -> None:
    from tidegauge.errors import QueryError

    release = Release("r", query("stock", "0", "date_part('year', after.x)"), Schedule(0, Span(micros=1)))
    with pytest.raises(QueryError, match=r"release\.r\.sql"):
        DuckEngine(Program((release,), (Scope(("r",), ((None, Limit()),)),)), COLUMNS)


def test_what_cannot_be_computed_counts_as_nothing_however_often_it_stands_there() -> None:
    number = "CAST(after.s AS BIGINT)"
    twice = query("stock", f"CASE WHEN {number} + {number} > 2 THEN 0 END", f"{number} * 2", f"{number} + 1")
    program = Program(
        (Release("r", twice, Schedule(0, Span(micros=10))),), (Scope(("r",), ((None, Limit()),)),)
    )
    mutations: list[Mutation] = [
        (1, name, None, {"s": s, "x": None, "k": None}, None, ())
        for name, s in (("e1", "4"), ("e2", "four"), ("e3", "9" * 19), ("e4", None))
    ]
    with DuckEngine(program, COLUMNS) as engine:
        table = batch_table(mutations, owned=False)
        folded = engine.fold(table, state=Memory(engine), watermark=START, upto=5, arrivals=0)
    assert {(total.component, total.amount) for total in folded.totals} == {(0, 8), (1, 5)}
