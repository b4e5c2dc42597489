"""Random queries beside plain SQL, over typed columns and over the same rows as text;
and over data made to break them."""

from __future__ import annotations

from collections import defaultdict
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from math import inf, nan
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegauge.engine.duckdb.render import render
from tidegauge.plan.sql.compile import compile_query

if TYPE_CHECKING:
    from tidegauge.model.query import Query

ARROW = {
    "VARCHAR": pa.string(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "DECIMAL(10,2)": pa.decimal128(10, 2),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", tz="UTC"),
    "BLOB": pa.binary(),
}
CONNECTION = duckdb.connect()
CONNECTION.execute("SET TimeZone = 'Pacific/Apia'")  # nothing may depend on it

Cells = dict[int, tuple[int, ...]]


def changes(rows: list[Any], types: dict[str, str]) -> pa.Table:
    struct = pa.struct([(name, ARROW[kind]) for name, kind in types.items()])
    return pa.table({"before": pa.array([None] * len(rows), struct), "after": pa.array(rows, struct)})


def all_measured(queries: list[Query], table: pa.Table) -> list[tuple[Cells, int]]:
    """What every query measures, in one statement, as the engine runs them;
    every value is checked on the way."""
    wanted = [
        render(part)
        for query in queries
        for part in (query.cell, query.outside, *(one.value for one in query.components))
    ]
    CONNECTION.register("t", table)
    rows = CONNECTION.execute(f"SELECT {', '.join(wanted)} FROM t").fetchall()
    results, at = [], 0
    for query in queries:
        width = 2 + len(query.components)
        results.append(_summed(query, [row[at : at + width] for row in rows]))
        at += width
    return results


def _summed(query: Query, rows: list[Any]) -> tuple[Cells, int]:
    cells: Cells = defaultdict(lambda: (0,) * len(query.components))
    beyond, known = 0, len(query.cells)
    for cell, outside, *parts in rows:
        assert cell is None or (isinstance(cell, int) and 0 <= cell < known)
        assert isinstance(outside, bool)
        assert not (outside and cell is not None)
        for part, component in zip(parts, query.components, strict=True):
            assert isinstance(part, int)
            assert component.lower <= part <= component.upper or part == 0
        beyond += outside
        if cell is not None:
            cells[cell] = tuple(a + b for a, b in zip(cells[cell], parts, strict=True))
    return dict(cells), beyond


def all_counted(conditions: list[str], rows: list[Any], types: dict[str, str], **declared: Any) -> list[int]:
    queries = [
        compile_query(f"SELECT COUNT(*) FROM t WHERE {where}", table="t", columns=types, **declared)
        for where in conditions
    ]
    return [cells.get(0, (0,))[0] for cells, _ in all_measured(queries, changes(rows, types))]


TYPED = {
    "i": "BIGINT",
    "x": "DOUBLE",
    "m": "DECIMAL(10,2)",
    "t": "VARCHAR",
    "b": "BOOLEAN",
    "d": "DATE",
    "s": "TIMESTAMP",
}
QUARTERS = st.integers(-40, 40).map(lambda n: n / 4)
DAYS = st.integers(0, 800).map(lambda n: date.fromordinal(date(2024, 12, 1).toordinal() + n))
ROW = st.fixed_dictionaries({
    "i": st.none() | st.integers(-10, 10),
    "x": st.none() | QUARTERS,
    "m": st.none() | QUARTERS.map(Decimal),
    "t": st.none() | st.sampled_from(["", "a", "B", "ab", "o'b", "ü", " a "]),
    "b": st.none() | st.booleans(),
    "d": st.none() | DAYS,
    "s": st.none() | st.builds(
        lambda day, hour: datetime(day.year, day.month, day.day, hour),  # noqa: DTZ001
        DAYS, st.integers(0, 23),
    ),
})  # fmt: skip


def either(*choices: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(*choices)


def formed(pattern: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(lambda filled: pattern.format(*filled))


LITERAL = either(st.integers(-5, 5).map(str), QUARTERS.map(str))
WORD = st.sampled_from(["''", "'a'", "'B'", "'o''b'", "'ü'", "'z'"])
MOMENT = either(DAYS.map(lambda day: f"DATE '{day}'"), DAYS.map(lambda day: f"TIMESTAMP '{day} 12:00:00'"))
SIGN = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
UNIT = st.sampled_from(["year", "quarter", "month", "week", "day", "hour"])
# Each column in a context that says what it is, so that the same query means the same over text.
NUMBER = st.sampled_from(["(i + 0)", "(x + 0)", "(m * 1)", "LENGTH(t)"])
MOMENTS = st.sampled_from(["CAST(d AS DATE)", "(s + INTERVAL '0 days')", "date_trunc('month', s)",
                           "date_trunc('week', d)",
                           "(s - INTERVAL '1 month 2 hours')"])  # fmt: skip
TEXTS = st.sampled_from(["t", "LOWER(t)", "UPPER(t)", "TRIM(t)", "SUBSTRING(t, 1, 1)", "(t || 'b')",
                         "CONCAT(t, 'a')",
                         "COALESCE(t, 'z')", "NULLIF(t, 'a')"])  # fmt: skip
NUMERIC = st.recursive(
    either(NUMBER, LITERAL, formed("EXTRACT({} FROM s)", UNIT),
           formed("date_diff('{}', s, {})", UNIT, MOMENT),
           formed("date_part('dow', {})", MOMENTS), st.just("year(d)")),
    lambda inner: either(
        formed("({} {} {})", inner, st.sampled_from(["+", "-", "*"]), inner),
        formed("({} / {})", inner, st.sampled_from(["2", "4.0", "-8"])),
        formed("({} % {})", inner, st.sampled_from(["3", "0.5"])),
        formed("{}({})", st.sampled_from(["ABS", "FLOOR", "CEIL", "-", "ROUND"]), inner),
        formed("COALESCE({}, {})", inner, inner),
        formed("{}({}, {})", st.sampled_from(["LEAST", "GREATEST", "NULLIF"]), inner, inner),
        formed("CASE WHEN b = TRUE THEN {} ELSE {} END", inner, inner),
    ),
    max_leaves=4,
)  # fmt: skip
CONDITION = st.recursive(
    either(
        formed("{} {} {}", NUMERIC, SIGN, LITERAL),
        formed("{} BETWEEN {} AND {}", NUMERIC, LITERAL, LITERAL),
        formed("{} NOT IN ({}, {})", NUMERIC, LITERAL, LITERAL),
        formed("{} {} {}", TEXTS, SIGN, WORD),
        formed("{} IN ({}, {})", TEXTS, WORD, WORD),
        formed("{} {} {}", TEXTS, st.sampled_from(["LIKE", "ILIKE", "NOT LIKE"]),
               st.sampled_from(["'a%'", "'%B'", "'_'"])),
        formed("{} {} {}", MOMENTS, SIGN, MOMENT),
        formed("{} IS NULL", either(NUMERIC, TEXTS, MOMENTS)),
        formed("CASE (i + 0) WHEN 1 THEN {} WHEN 2 THEN {} END = 1", LITERAL, LITERAL),
        st.sampled_from(["b = TRUE", "b IS NOT TRUE", "CAST(b AS BOOLEAN)", "b IS DISTINCT FROM FALSE"]),
    ),
    lambda inner: either(formed("({} AND {})", inner, inner), formed("({} OR {})", inner, inner),
                         formed("(NOT {})", inner)),
    max_leaves=4,
)  # fmt: skip
GROUPING = st.sampled_from([
    ("t", ["a", "", "o'b"]), ("LOWER(t)", ["a", "b", "ab"]),
    ("i + 0", [-1, 0, 1, 2, 3]), ("x + 0", ["0.25", "-1", "3"]),
    ("date_trunc('year', s)", ["2025-01-01", "2026-01-01"]),
    ("b = TRUE", [True, False]), ("CAST(d AS DATE)", ["2025-03-01"]),
    ("CASE WHEN i + 0 > 0 THEN 'up' ELSE 'down' END", ["up", "down"]), ("year(d)", [2025, 2026]),
])  # fmt: skip


def as_text(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: None if value is None else str(value).lower() if name == "b" else str(value)
        for name, value in row.items()
    }


def plainly(rows: list[dict[str, Any]], sql: str) -> list[Any]:
    table = pa.table(
        {name: pa.array([row[name] for row in rows], ARROW[kind]) for name, kind in TYPED.items()}
    )
    CONNECTION.register("t", table)
    return CONNECTION.execute(sql).fetchall()


@given(rows=st.lists(ROW, max_size=12), conditions=st.lists(CONDITION, min_size=1, max_size=6))
@settings(derandomize=True, deadline=None, max_examples=50)
def test_conditions_beside_plain_sql(rows: list[dict[str, Any]], conditions: list[str]) -> None:
    counts = ", ".join(f"COUNT(*) FILTER (WHERE {where})" for where in conditions)
    expected: list[int] = list(*plainly(rows, f"SELECT {counts} FROM t"))
    assert all_counted(conditions, rows, TYPED) == expected
    assert (
        all_counted(conditions, [as_text(row) for row in rows], dict.fromkeys(TYPED, "VARCHAR")) == expected
    )


def check_groups(rows: list[dict[str, Any]], one: Any, two: Any, value: str, where: str) -> None:
    sql = f"SELECT {one[0]} AS g, {two[0]} AS h, {{}} FROM t WHERE {where} GROUP BY g, h"
    declared: dict[str, Any] = {
        "groups": {"g": one[1], "h": two[1]},
        "bounds": {"v": (Fraction(-5), Fraction(20))},
    }
    steps = f"SUM(ROUND(LEAST(GREATEST({value}, -5), 20) * 10000)) FILTER (WHERE ({value}) IS NOT NULL)"
    plain = {
        (_shown(g), _shown(h)): (int(total or 0), present)
        for g, h, total, present in plainly(rows, sql.format(f"{steps}, COUNT({value})"))
    }
    for types, given_rows in (
        (TYPED, rows),
        (dict.fromkeys(TYPED, "VARCHAR"), [as_text(row) for row in rows]),
    ):
        query = compile_query(sql.format(f"AVG({value}) AS v"), table="t", columns=types, **declared)
        ((cells, _),) = all_measured([query], changes(given_rows, types))
        names = [tuple(_shown(part) for part in (cell or {}).values()) for cell in query.cells]
        centre = int(query.components[0].centre * 10000)
        found = {names[cell]: (total + centre * present, present) for cell, (total, present) in cells.items()}
        assert found == {group: numbers for group, numbers in plain.items() if group in names}


GROUPED = given(rows=st.lists(ROW, max_size=12), one=GROUPING, two=GROUPING, value=NUMERIC, where=CONDITION)


@GROUPED
@settings(derandomize=True, deadline=None, max_examples=25)
def test_groups_beside_plain_sql(
    rows: list[dict[str, Any]], one: Any, two: Any, value: str, where: str
) -> None:
    check_groups(rows, one, two, value, where)


@pytest.mark.slow
@GROUPED
@settings(derandomize=True, deadline=None, max_examples=60)
def test_many_groups_beside_plain_sql(
    rows: list[dict[str, Any]], one: Any, two: Any, value: str, where: str
) -> None:
    check_groups(rows, one, two, value, where)


def _shown(value: Any) -> str:
    """One spelling for a group, however the engine or the declaration writes it."""
    text = str(value).removesuffix(" 00:00:00")
    try:
        return str(float(text))
    except ValueError:
        return text


# Nothing in the data can fail -------------------------------------------------------------------------------

NASTY_TYPES = {**TYPED, "u": "UBIGINT", "f": "FLOAT", "z": "TIMESTAMP WITH TIME ZONE", "o": "BLOB"}
EDGES = [-(2**63), 2**63 - 1, -(2**63) + 1, 2**63 - 2, 0, 1, -1, 253402300800000000, -62135596800000001]
DAY_EDGES = [-(2**31), 2**31 - 1, 2**31 - 2, -(2**31) + 1, 0, 1, -1, 2932897, -719163]


def nasty_table() -> pa.Table:
    columns = {
        "i": pa.array(EDGES, pa.int64()),
        "x": pa.array([nan, inf, -inf, 1.7e308, -1.7e308, 5e-324, -0.0, 0.5, 2.0**63], pa.float64()),
        "m": pa.array([Decimal("99999999.99"), Decimal("-99999999.99"),
                       *map(Decimal, ["0", "0.01", "1", "-1", "2", "3", "4"])],
                      pa.decimal128(10, 2)),
        "t": pa.array(["", "NaN", "☃'\"\\", "9" * 400, "infinity", "-5", "2026-13-45",
                       "2026-01-01T00:00:00+99:00", "\x00"]),
        "b": pa.array([True, False, None] * 3),
        "d": pa.array(DAY_EDGES, pa.int32()).view(pa.date32()),
        "s": pa.array(EDGES, pa.int64()).view(pa.timestamp("us")),
        "u": pa.array([0, 1, 2, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 2, 255, 256], pa.uint64()),
        "f": pa.array([nan, inf, -inf, 3e38, -3e38, 1e-45, -0.0, 0.5, 2.0**63], pa.float32()),
        "z": pa.array(EDGES, pa.int64()).view(pa.timestamp("us", tz="UTC")),
        "o": pa.array([b"\xff\x00", None, b""] * 3),
    }  # fmt: skip
    rotated = [
        pa.StructArray.from_arrays(
            [pa.concat_arrays([column[n * turn % 9:], column[: n * turn % 9]])
             for n, column in enumerate(columns.values())],
            names=list(columns),
        )
        for turn in range(4)
    ]  # fmt: skip
    struct = pa.concat_arrays([*rotated, pa.array([None, {}], rotated[0].type)])
    return pa.table({"before": struct, "after": struct})


NASTY = nasty_table()
COLUMN = st.sampled_from([*TYPED, "z"])
RAW_NUMBER = st.sampled_from(["i", "x", "m", "t", "u", "f"])
RAW_TIME = st.sampled_from(["d", "s", "z", "t", "CAST(t AS DATE)", "CAST(x AS VARCHAR)"])
ANY_NUMBER = st.recursive(
    either(RAW_NUMBER, LITERAL,
           st.sampled_from(["0", "1e308", "9223372036854775807", "LENGTH(t)", "year(t)"]),
           formed("date_diff('{}', {}, {})", UNIT, RAW_TIME, RAW_TIME),
           formed("EXTRACT({} FROM {})", UNIT, RAW_TIME)),
    lambda inner: either(
        formed("({} {} {})", inner, st.sampled_from(["+", "-", "*", "/", "%"]), inner),
        formed("{}({})", st.sampled_from(["ABS", "FLOOR", "CEIL", "-", "ROUND"]), inner),
        formed("ROUND({}, {})", inner, st.sampled_from(["3", "-3", "20"])),
        formed("CAST({} AS {})", inner,
               st.sampled_from(["TINYINT", "BIGINT", "UBIGINT", "HUGEINT", "DECIMAL(4,1)", "DOUBLE"])),
        formed("CAST(CAST({} AS VARCHAR) AS INTEGER)", inner),
        formed("LENGTH(SUBSTRING(t, {}, {}))", inner, inner),
        formed("LEAST({}, {})", inner, inner),
        formed("CASE WHEN {} > {} THEN {} END", inner, inner, inner),
        formed("(d + 1 * {} - d)", inner),
    ),
    max_leaves=5,
)  # fmt: skip
ANY_TIME = st.recursive(
    RAW_TIME,
    lambda inner: either(
        formed("({} {} INTERVAL '{} {}')", inner, st.sampled_from("+-"),
               st.sampled_from(["1", "-3", "999999999"]), UNIT),
        formed("date_trunc('{}', {})", UNIT, inner),
        formed("CAST({} AS TIMESTAMP)", inner),
        formed("CAST(CAST({} AS TIMESTAMP) AS DATE)", inner),
    ),
    max_leaves=3,
)  # fmt: skip
ANY_CONDITION = either(
    formed("{} {} {}", ANY_NUMBER, SIGN, ANY_NUMBER),
    formed("{} {} TIMESTAMP '2026-01-01'", ANY_TIME, SIGN),
    formed("CAST({} AS BOOLEAN)", either(ANY_NUMBER, st.just("t"), st.just("b"))),
    formed("CAST({} AS VARCHAR) LIKE '%1_'", either(ANY_NUMBER, ANY_TIME)),
    formed("{} IS NOT NULL", either(ANY_NUMBER, ANY_TIME, st.just("o"))),
    formed("TIMESTAMP '9999-12-31' + INTERVAL '999999999 {}' > {}", UNIT, ANY_TIME),
    st.sampled_from(["1 % 0 = 1", "CAST(300 AS TINYINT) = 1", "CAST(1 / 0 AS INT) = 0",
                     "SUBSTRING('a', 99999999999, 1) = ''"]),
)  # fmt: skip


DOMAINS = {"b": ["true", "false"], **{column: ["2026-01-01", "1970-01-01"] for column in "dsz"}}


def check_that_nothing_fails(where: str, value: str, group: str, values: list[Any]) -> None:
    grouped = {"groups": {"g": DOMAINS.get(group, values)}}
    bounded = {**grouped, "bounds": {"v": (Fraction(-1, 2), Fraction(10))}}
    queries = [
        compile_query(sql, table="t", columns=NASTY_TYPES, **declared)
        for sql, declared in (
            (f"SELECT {group} AS g, AVG({value}) AS v FROM t WHERE {where} GROUP BY g", bounded),
            (f"SELECT {group} AS g, SUM({value}) AS v FROM t GROUP BY g", bounded),
            (f"SELECT {group} AS g, COUNT({value}) FROM t WHERE NOT {where} GROUP BY g", grouped),
        )
    ]
    all_measured(queries, NASTY)


ANYTHING = given(
    where=ANY_CONDITION,
    value=ANY_NUMBER,
    group=either(ANY_NUMBER, COLUMN),
    values=st.sampled_from([[0, 1], ["0", "1"]]),
)


@ANYTHING
@settings(derandomize=True, deadline=None, max_examples=40)
def test_nothing_in_the_data_fails(where: str, value: str, group: str, values: list[Any]) -> None:
    check_that_nothing_fails(where, value, group, values)


@pytest.mark.slow
@ANYTHING
@settings(derandomize=True, deadline=None, max_examples=100)
def test_nothing_in_the_data_fails_whatever_is_asked(
    where: str, value: str, group: str, values: list[Any]
) -> None:
    check_that_nothing_fails(where, value, group, values)
