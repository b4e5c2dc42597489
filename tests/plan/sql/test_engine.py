"""What compiled queries give in the embedded engine, beside Python, on plain and on nasty text."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from math import inf, isfinite, isnan, nan
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegauge.engine.duckdb.render import render
from tidegauge.errors import QueryError
from tidegauge.plan.sql.compile import compile_query

ARROW = {
    "VARCHAR": pa.string(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", tz="UTC"),
}
CONNECTION = duckdb.connect()
CONNECTION.execute("SET TimeZone = 'Pacific/Apia'")  # nothing may depend on it


def measured(
    sql: str, rows: list[Any], types: dict[str, str], old: list[Any] | None = None, **declared: Any
) -> tuple[dict[int, tuple[int, ...]], int]:
    """The exact sums of every cell, and how many rows lie outside all of them."""
    query = compile_query(sql, table="t", columns=types, **declared)
    struct = pa.struct([(name, ARROW[kind]) for name, kind in types.items()])
    table = pa.table({"before": pa.array(old or [None] * len(rows), struct), "after": pa.array(rows, struct)})
    CONNECTION.register("t", table)
    sums = ", ".join(f"SUM({render(component.value)})" for component in query.components)
    found = CONNECTION.execute(f"SELECT {render(query.cell)} AS cell, {sums} FROM t GROUP BY cell").fetchall()
    ((outside,),) = CONNECTION.execute(
        f"SELECT COUNT(*) FILTER (WHERE {render(query.outside)}) FROM t"
    ).fetchall()
    return {cell: tuple(parts) for cell, *parts in found if cell is not None}, outside


def counted(where: str, rows: list[Any], types: dict[str, str], dialect: str = "duckdb") -> int:
    cells, _ = measured(f"SELECT COUNT(*) FROM t WHERE {where}", rows, types, dialect=dialect)
    return cells.get(0, (0,))[0]


NUMBERS: dict[str | None, float | None] = {
    None: None, "": None, " ": None, "abc": None, "1,5": None,
    "0x10": None, "o'brien": None, "☃": None, '"': None,
    "5": 5, " 5 ": 5, "5.0": 5, "-0": 0, "3.5": 3.5,
    "1e3": 1000, "-7": -7, "NaN": nan, "nan": nan, "inf": inf,
    "Infinity": inf, "-inf": -inf, "9007199254740993": 9007199254740992,
    "99999999999999999999": 1e20, "true": None,
    "2026-01-01": None, "\x00": None, "5;drop table t": None,
}  # fmt: skip
TEXT = {"v": "VARCHAR"}
TEXT_ROWS = [{"v": text} for text in NUMBERS]


def half_away(value: Fraction) -> int:
    return int(abs(value) + Fraction(1, 2)) * (1 if value > 0 else -1)


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ("v > 3", lambda v: v > 3 or isnan(v)),
        ("v = 5", lambda v: v == 5),
        ("v + 1 = 6", lambda v: v == 5),
        ("v IN (5, 1000)", lambda v: v in (5, 1000)),
        ("v BETWEEN -10 AND 5.5", lambda v: -10 <= v <= 5.5),
        ("NOT v > 3", lambda v: not (v > 3 or isnan(v))),
        ("ABS(v) = 7", lambda v: v == -7),
        ("1 / v > 0", lambda v: isnan(v) or 0 < v < inf),
        ("v % 2 = 1", lambda v: isfinite(v) and v > 0 and v % 2 == 1),
    ],
)
def test_text_beside_a_number_is_a_number(where: str, holds: Any) -> None:
    expected = sum(1 for value in NUMBERS.values() if value is not None and holds(value))
    assert counted(where, TEXT_ROWS, TEXT) == expected


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("v = '5'", 1),
        ("v = ''", 1),
        ("v IS NULL", 1),
        ("v LIKE '5%'", 3),
        ("v = 'o''brien'", 1),
        ("v = '☃'", 1),
        ("v ILIKE 'NAN'", 2),
        ("LENGTH(v) = 0", 1),
        ("v = '5;drop table t'", 1),
        ("v", 1),
        ("v = TRUE", 1),
        ("v IS NOT TRUE", len(NUMBERS) - 1),
        ("v = DATE '2026-01-01'", 1),
        ("year(v) = 2026", 1),
        ("CAST(v AS DATE) + 1 = '2026-01-02'", 1),
    ],
)
def test_text_beside_other_things(where: str, expected: int) -> None:
    assert counted(where, TEXT_ROWS, TEXT) == expected


@pytest.mark.parametrize(
    ("low", "high", "grid"), [(0, 110, "1/1000"), (-3, 3, "1/4"), (4, 6, "1"), (-9, 0, "3"), (0, 6, "2/3")]
)
def test_sums_averages_and_counts_of_text(low: int, high: int, grid: str) -> None:
    step = Fraction(grid)
    declared: dict[str, Any] = {"bounds": {"v": (Fraction(low), Fraction(high))}, "grids": {"v": step}}
    present = [value for value in NUMBERS.values() if value is not None and not isnan(value)]
    steps = [half_away(Fraction(min(max(value, low), high)) / step) for value in present]
    assert measured("SELECT SUM(v) FROM t", TEXT_ROWS, TEXT, **declared) == ({0: (sum(steps),)}, 0)
    centre = (low + high) / step // 2
    mean = (sum(one - centre for one in steps), len(present))
    assert measured("SELECT AVG(v) FROM t", TEXT_ROWS, TEXT, **declared) == ({0: mean}, 0)
    assert measured("SELECT COUNT(v) FROM t", TEXT_ROWS, TEXT) == ({0: (len(NUMBERS) - 1,)}, 0)


@pytest.mark.parametrize(
    ("domain", "cells", "outside"),
    [
        (["o'brien", "", "☃", "\x00", 'x"; drop table y; --', "a"], dict.fromkeys(range(6), (1,)), 6),
        ([4, 5], {1: (2,)}, 10),
        ([False, True], {1: (2,)}, 10),
    ],
)
def test_domains_of_any_kind(domain: list[Any], cells: dict[int, Any], outside: int) -> None:
    texts = ["a", "o'brien", "", "☃", "\x00", 'x"; drop table y; --', None, "b", "5", "5.0", "true", "T"]
    sql = "SELECT v, COUNT(*) FROM t GROUP BY v"
    assert measured(sql, [{"v": text} for text in texts], TEXT, groups={"v": domain}) == (cells, outside)


def test_times_are_utc_whatever_the_session() -> None:
    types = {"v": "VARCHAR", "z": "TIMESTAMP WITH TIME ZONE", "n": "TIMESTAMP"}
    midnight = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [{"v": text, "z": midnight, "n": midnight.replace(tzinfo=None)} for text in (
        "2026-01-01", "2026-01-01 00:00:00", "2026-01-01T00:00:00Z", "2026-01-01T02:00:00+02:00",
        "2025-12-31 19:00:00.000-05", "2026-01-01 01:00:00 Europe/Berlin")]  # fmt: skip
    for where in (
        "v = DATE '2026-01-01'", "v = TIMESTAMP '2026-01-01T00:00:00+00:00'",
        "CAST(v AS TIMESTAMPTZ) = n", "z = n",
        "z = '2026-01-01'", "z = CAST(v AS TIMESTAMP)", "year(z) = 2026 AND EXTRACT(hour FROM z) = 0",
        "CAST(z AS DATE) = DATE '2026-01-01'",
        "CAST(v AS DATE) = DATE '2026-01-01'", "date_trunc('day', z) = z",
        "date_diff('day', z, v) = 0", "z + INTERVAL '1 day' = '2026-01-02'",
        "CAST(z AS VARCHAR) = '2026-01-01 00:00:00'",
    ):  # fmt: skip
        assert counted(where, rows, types) == len(rows), where


def test_a_stock_does_not_count_what_is_gone() -> None:
    rows: list[Any] = [{"v": None}, None, {"v": "1"}]
    assert counted("v IS NULL", rows, TEXT) == 1
    for sql in ("SELECT COUNT(*) FROM t", "SELECT COUNT(*) FROM t WHERE TRUE"):
        assert measured(sql, rows, TEXT) == ({0: (2,)}, 0)


def test_a_flow_counts_changes() -> None:
    old: list[Any] = [None, {"v": "1"}, {"v": "1"}, {"v": "2"}]
    new: list[Any] = [{"v": "1"}, {"v": "2"}, None, {"v": "2"}]
    for sql, cells, declared in (
        ("SELECT COUNT(*) FROM changes(t)", {0: (4,)}, {}),
        ("SELECT COUNT(*) FROM changes(t) WHERE before.v = '1' AND after.v = '2'", {0: (1,)}, {}),
        ("SELECT COUNT(*) FROM changes(t) WHERE before.v IS NULL", {0: (1,)}, {}),
        ("SELECT COUNT(*) FROM changes(t) WHERE after.v IS NULL", {0: (1,)}, {}),
        ("SELECT COUNT(*) FROM changes(t) WHERE before.v IS DISTINCT FROM after.v", {0: (3,)}, {}),
        ("SELECT COUNT(after.v) FROM changes(t)", {0: (3,)}, {}),
        ("SELECT SUM(after.v - before.v) AS d FROM changes(t)", {0: (1,)},
         {"bounds": {"d": (Fraction(-5), Fraction(5))}, "grids": {"d": Fraction(1)}}),
        ("SELECT AVG(after.v) FROM changes(t)", {0: (5 - 3 * 2, 3)},
         {"bounds": {"v": (Fraction(0), Fraction(4))}, "grids": {"v": Fraction(1)}}),
        ("SELECT before.v AS a, after.v AS b, COUNT(*) FROM changes(t) GROUP BY a, b", {1: (1,), 3: (1,)},
         {"groups": {"a": ["1", "2"], "b": [1, 2]}}),
    ):  # fmt: skip
        assert measured(sql, new, TEXT, old, **declared)[0] == cells, sql


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "sqlite"])
def test_integers_divide_as_the_dialect_says(dialect: str) -> None:
    types = {"i": "BIGINT"}
    rows = [{"i": i} for i in range(-3, 4)]
    assert counted("i / 2 = 1", rows, types, dialect=dialect) == (1 if dialect == "duckdb" else 2)
    assert counted("i / 2.0 = 1", rows, types, dialect=dialect) == 1
    for three in ("i + 1", "COALESCE(i + 1, NULL)", "CASE WHEN i > 0 THEN i + 1 END", "LEAST(i + 1, 9)"):
        assert counted(f"CAST({three} AS VARCHAR) = '3'", rows, types, dialect=dialect) == 1, three


@given(
    steps=st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=20),
    places=st.integers(0, 9),
    kind=st.sampled_from(["VARCHAR", "DOUBLE"]),
    bound=st.integers(1, 10**6),
)
@settings(derandomize=True, deadline=None, max_examples=60)
def test_a_decimal_on_the_grid_is_met_exactly(steps: list[int], places: int, kind: str, bound: int) -> None:
    grid, shift = Fraction(1, 10**places), 10**15  # almost 2^50, where a DOUBLE has fewest digits to spare
    written = [f"{Decimal(shift + step).scaleb(-places):f}" for step in steps]
    rows = [{"v": text if kind == "VARCHAR" else float(text)} for text in written]
    low, high = shift - bound, shift + bound
    declared: dict[str, Any] = {"bounds": {"v": (low * grid, high * grid)}, "grids": {"v": grid}}
    expected = sum(min(max(shift + step, low), high) for step in steps)
    assert measured("SELECT SUM(v) FROM t", rows, {"v": kind}, **declared) == ({0: (expected,)}, 0)


def test_the_largest_bounds_are_met_exactly() -> None:
    top = 2**50
    for grid in (Fraction(1), Fraction(1, 100), Fraction(1, 10**9), Fraction(7, 3)):
        declared: dict[str, Any] = {"bounds": {"v": (-top * grid, top * grid)}, "grids": {"v": grid}}
        for value, expected in ((inf, top), (1e300, top), (-inf, -top), (float((top - 1) * grid), top - 1)):
            found = measured("SELECT SUM(v) FROM t", [{"v": value}], {"v": "DOUBLE"}, **declared)
            assert found == ({0: (expected,)}, 0)


@pytest.mark.parametrize(
    ("kind", "value", "where"),
    [
        ("UUID", "uuid()", "LENGTH(v) = 36"),
        ("ENUM('a', 'b')", "'b'", "v = 'b' AND UPPER(v) = 'B'"),
        ("JSON", "'[1]'", "v = '[1]'"),
        ("TIME", "'12:00:00'", "v = '12:00:00'"),
        ("TIMESTAMP_NS", "'2026-01-31 12:00:00'", "v = TIMESTAMP '2026-01-31 12:00:00' AND day(v) = 31"),
        ("TIMESTAMP_S", "'2026-01-31 12:00:00'", "INTERVAL '1 hour' + v > '2026-01-31T12:59:59Z'"),
        ("TIMESTAMPTZ", "'infinity'",
         "v > '9999-12-31' AND year(v) IS NULL AND CAST(v AS VARCHAR) = 'infinity'"),
        ("DATE", "'2026-02-01'",
         "dow(v) = 0 AND date_add(v, INTERVAL 1 MONTH) = '2026-03-01' AND date(v) = v"),
        ("HUGEINT", "170141183460469231731687303715884105727", "v > 9223372036854775808 AND v + 1 > 1e38"),
        ("UHUGEINT", "340282366920938463463374607431768211455", "v > 3e38 AND -v < 0"),
        ("UBIGINT", "18446744073709551615", "v > -1 AND v <> 18446744073709551614 OR v > 1e19"),
        ("TINYINT", "-128", "v = -128 AND ABS(v) = 128 AND -v = 128 AND v * v = 16384 AND v IN (-128, 3000)"),
        ("BIGINT", "9007199254740993",
         "v = 9007199254740993 AND v <> 9007199254740992 AND v = '9007199254740993'"),
        ("DECIMAL(18,3)", "0.100",
         "v = 0.1 AND v * 3 < 0.31 AND CAST(v AS VARCHAR) = '0.100' AND v IN ('0.1', '7')"),
        ("FLOAT", "0.5", "v = 0.5 AND ROUND(v) = 1 AND CAST('5' AS INT) / 10 = v"),
        ("BOOLEAN", "TRUE", "v AND v = 'true' AND NOT v IS FALSE AND CAST(v AS INT) = 1"),
        ("BLOB", "'x'", "v IS NOT NULL"),
        ("INTEGER[]", "[1]", "v IS NOT NULL"),
        ("STRUCT(a INTEGER)", "{'a': 1}", "v IS NOT NULL"),
        ("VARCHAR", "'2026-01-31 23:59:60'", "CAST(v AS DATE) IS NULL OR CAST(v AS DATE) >= '2026-01-31'"),
    ],
)  # fmt: skip
def test_columns_of_every_type(kind: str, value: str, where: str) -> None:
    query = compile_query(f"SELECT COUNT(*) FROM t WHERE {where}", table="t", columns={"v": kind})
    row = f"SELECT struct_pack(v := CAST({value} AS {kind})) AS after"
    assert CONNECTION.execute(f"SELECT {render(query.cell)} FROM ({row})").fetchall() == [(0,)]


def test_a_column_of_an_unknown_type_is_tested_for_null_alone() -> None:
    compile_query("SELECT COUNT(v) FROM t WHERE v IS NOT NULL", table="t", columns={"v": "NOVELTY"})
    with pytest.raises(QueryError, match="can only be tested for NULL"):
        compile_query("SELECT COUNT(*) FROM t WHERE v = 1", table="t", columns={"v": "NOVELTY"})
