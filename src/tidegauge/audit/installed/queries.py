"""Queries whose sums follow from a few lines of Python: WHERE, groups, NULL, NaN, bounds, grids and dates."""

from __future__ import annotations

from datetime import datetime
from itertools import product
from math import isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidegauge.audit.findings import require
from tidegauge.audit.replay.pairs import Stage
from tidegauge.audit.worlds.rehearsal import MemoryLog, Subject
from tidegauge.audit.worlds.world import Random, Table
from tidegauge.run.gauge import Gauge
from tidegauge.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegauge.audit.worlds.world import Row

COLUMNS: Final = {
    "id": "VARCHAR", "s": "VARCHAR", "c": "VARCHAR", "x": "BIGINT", "y": "DOUBLE", "b": "BOOLEAN",
    "d": "TIMESTAMP",
}  # fmt: skip
_TEXTS: Final = ("a", "b", "A", "ab", "", None)
_NUMBERS: Final = (-7, 0, 1, 2, 3, 10, None)
_FLOATS: Final = (-0.5, 0.24, 0.25, 1.5, 2.5, 99.0, nan, None)
_DATES: Final = (*map(datetime.fromisoformat, ("2024-02-29T23:59", "2023-12-31", "2024-03-01")), None)


class Asked(NamedTuple):
    """A release, and what each row adds to it: a cell and an amount in steps of the grid, or None."""

    release: dict[str, Any]
    adds: Callable[[Row], tuple[int, int] | None]
    component: int = 0


def _count(sql: str, accepts: Callable[[Any], Any]) -> Asked:
    """A count of the rows that WHERE accepts."""
    return Asked({"sql": sql}, lambda row: (0, 1) if accepts(row) else None)


def _grouped(row: Row) -> tuple[int, int] | None:
    known = {("a", "p"): 0, ("a", "q"): 1, ("b", "p"): 2, ("b", "q"): 3}
    found = known.get((str(row["s"]), str(row["c"])))
    return None if found is None or row["x"] is None else (found, 1)


def _positive(value: Any) -> bool:
    return value is not None and bool(value > 0)


def _clamped(value: Any, low: float, high: float, step: float) -> int:
    """The value, clamped, in steps of the grid, rounded half away from zero; NULL and NaN give 0."""
    if value is None or isnan(value):
        return 0
    steps = min(max(value, low), high) / step
    return int(steps + 0.5) if steps >= 0 else -int(-steps + 0.5)


_T: Final = "SELECT COUNT(*) FROM t WHERE "
QUERIES: Final[dict[str, Asked]] = {
    "equal": _count(_T + "s = 'a'", lambda r: r["s"] == "a"),
    "differs": _count(_T + "s <> 'a'", lambda r: r["s"] not in ("a", None)),
    "not": _count(_T + "NOT (s = 'a' OR x > 2)",
                  lambda r: r["s"] not in ("a", None) and r["x"] is not None and r["x"] <= 2),
    "and_or": _count(_T + "s = 'a' AND x > 0 OR s = 'b' AND x <= 0",
                     lambda r: r["x"] is not None and ((r["s"] == "a" and r["x"] > 0)
                                                       or (r["s"] == "b" and r["x"] <= 0))),
    "between": _count(_T + "x BETWEEN 1 AND 3", lambda r: r["x"] in (1, 2, 3)),
    "in_list": _count(_T + "s IN ('a', 'ab')", lambda r: r["s"] in ("a", "ab")),
    "not_in": _count(_T + "x NOT IN (0, 1)", lambda r: r["x"] not in (0, 1, None)),
    "like": _count(_T + "s LIKE 'a%'", lambda r: r["s"] in ("a", "ab")),
    "null": _count(_T + "s IS NULL", lambda r: r["s"] is None),
    "not_null": _count(_T + "x IS NOT NULL AND b", lambda r: r["x"] is not None and r["b"]),
    "is_false": _count(_T + "b = FALSE", lambda r: r["b"] is False),
    "lower": _count(_T + "LOWER(s) = 'a'", lambda r: r["s"] in ("a", "A")),
    "case_": _count(_T + "CASE WHEN x > 2 THEN 'big' WHEN x > 0 THEN 'small' ELSE 'no' END = 'small'",
                    lambda r: r["x"] in (1, 2)),
    "coalesce": _count(_T + "COALESCE(x, 3) = 3", lambda r: r["x"] in (3, None)),
    "arithmetic": _count(_T + "x * 2 - 1 >= 5", lambda r: r["x"] is not None and r["x"] * 2 - 1 >= 5),
    "since": _count(_T + "d >= '2024-02-29'", lambda r: r["d"] is not None and r["d"].year == 2024),
    "of_year": _count(_T + "EXTRACT(year FROM d) = 2023",
                      lambda r: r["d"] is not None and r["d"].year == 2023),
    "week": _count(_T + "DATE_DIFF('week', d, TIMESTAMP '2024-03-12') = 2",
                   lambda r: r["d"] is not None and r["d"].month in (2, 3)),
    "month": _count(_T + "DATE_TRUNC('month', d) = '2024-02-01'",
                    lambda r: r["d"] is not None and r["d"].month == 2),
    "later": _count(_T + "d + INTERVAL '1 day' >= '2024-03-01 23:00'",
                    lambda r: r["d"] is not None and r["d"].year == 2024),
    "substring": _count(_T + "SUBSTRING(s, 2, 1) = 'b'", lambda r: r["s"] == "ab"),
    "joined": _count(_T + "s || c = 'ap'", lambda r: (r["s"], r["c"]) == ("a", "p")),
    "length": _count(_T + "LENGTH(s) = 2 OR LENGTH(s) = 0", lambda r: r["s"] in ("ab", "")),
    "divided": _count(_T + "x / 2 >= 1.5 AND x % 2 = 1", lambda r: r["x"] == 3),
    "whole_parts": _count(_T + "x // 2 = -3 OR x // 3 = 3", lambda r: r["x"] in (-7, 10)),
    "by_zero": _count(_T + "10 / x > 4", lambda r: r["x"] in (1, 2)),
    "rounded": _count(_T + "ROUND(y) = 3 OR ABS(y) = 0.5", lambda r: r["y"] in (2.5, -0.5)),
    "cast": _count(_T + "CAST(x AS VARCHAR) = '10'", lambda r: r["x"] == 10),
    "nullif": _count(_T + "NULLIF(x, 3) IS NULL", lambda r: r["x"] in (3, None)),
    "greatest": _count(_T + "GREATEST(x, 2) = 2", lambda r: r["x"] is None or r["x"] <= 2),
    "many_groups": Asked({"sql": "SELECT s, COUNT(*) FROM t GROUP BY s",
                          "groups": {"s": [f"no{n}" for n in range(80)] + ["b", "a"]}},
                         lambda r: (81, 1) if r["s"] == "a" else (80, 1) if r["s"] == "b" else None),
    "sum_coarse": Asked({"sql": "SELECT SUM(x) FROM t", "bounds": {"x": [-6, 9]}, "grid": {"x": 3}},
                        lambda r: (0, _clamped(r["x"], -6, 9, 3))),
    "sum_below_zero": Asked({"sql": "SELECT SUM(x) FROM t", "bounds": {"x": [-9, -2]}, "grid": {"x": 1}},
                            lambda r: (0, _clamped(r["x"], -9, -2, 1))),
    "of_column": Asked({"sql": "SELECT COUNT(x) FROM t"}, lambda r: None if r["x"] is None else (0, 1)),
    "groups": Asked({"sql": "SELECT s, c, COUNT(x) FROM t GROUP BY s, c",
                     "groups": {"s": ["a", "b"], "c": ["p", "q"]}}, _grouped),
    "sum_": Asked({"sql": "SELECT SUM(x) FROM t WHERE b", "bounds": {"x": [-2, 5]}, "grid": {"x": 1}},
                  lambda r: (0, _clamped(r["x"], -2, 5, 1)) if r["b"] else None),
    "sum_float": Asked({"sql": "SELECT SUM(y) FROM t", "bounds": {"y": [-1, 4]}, "grid": {"y": 0.5}},
                       lambda r: (0, _clamped(r["y"], -1, 4, 0.5))),
    "numbers": Asked({"sql": "SELECT AVG(y) FROM t", "bounds": {"y": [0, 3]}},
                     lambda r: None if r["y"] is None or isnan(float(str(r["y"]))) else (0, 1), component=1),
    "sum_text": Asked({"sql": "SELECT c, SUM(x) FROM t GROUP BY c", "bounds": {"x": [0, 3]}, "grid": {"x": 1},
                       "groups": {"c": ["p", "q"]}},
                      lambda r: None if r["c"] is None else ("pq".index(str(r["c"])),
                                                             _clamped(r["x"], 0, 3, 1))),
    "three_groups": Asked({"sql": "SELECT b, s, c, COUNT(*) FROM t GROUP BY b, s, c",
                           "groups": {"b": [True, False], "s": ["a", "b", "ab"], "c": ["q", "p"]}},
                          lambda r: None if r["s"] not in ("a", "b", "ab") or None in (r["c"], r["b"]) else
                          (6 * (not r["b"]) + 2 * ("a", "b", "ab").index(r["s"]) + (r["c"] == "p"), 1)),
    "groups_of_numbers": Asked({"sql": "SELECT x, COUNT(*) FROM t GROUP BY x", "groups": {"x": [3, -7]}},
                               lambda r: (0, 1) if r["x"] == 3 else (1, 1) if r["x"] == -7 else None),
    "filtered": Asked({"sql": "SELECT COUNT(*) FILTER (WHERE x > 0) FROM t WHERE s = 'a'"},
                      lambda r: (0, 1) if r["s"] == "a" and _positive(r["x"]) else None),
    "sum_of_formula": Asked({"sql": "SELECT SUM(2 * x - 1) AS total FROM t", "bounds": {"total": [-5, 9]},
                             "grid": {"total": 1}},
                            lambda r: None if r["x"] is None else
                            (0, _clamped(2 * int(str(r["x"])) - 1, -5, 9, 1))),
    "distances": Asked({"sql": "SELECT AVG(x) FROM t", "bounds": {"x": [0, 5]}, "grid": {"x": 1}},
                       lambda r: None if r["x"] is None else (0, _clamped(r["x"], 0, 5, 1) - 2)),
    "if_": _count(_T + "IF(x > 2, 'a', s) = 'a'",
                  lambda r: (r["x"] is not None and r["x"] > 2) or r["s"] == "a"),
    "case_of": _count(_T + "CASE s WHEN 'a' THEN 1 WHEN 'b' THEN 2 ELSE 3 END = 3",
                      lambda r: r["s"] not in ("a", "b")),
    "case_without": _count(_T + "CASE s WHEN 'a' THEN x END > 0",
                           lambda r: r["s"] == "a" and _positive(r["x"])),
    "not_like": _count(_T + "s NOT LIKE 'a%'", lambda r: r["s"] in ("b", "A", "")),
    "any_case": _count(_T + "s ILIKE 'A_'", lambda r: r["s"] == "ab"),
    "not_any_case": _count(_T + "s NOT ILIKE 'A%'", lambda r: r["s"] in ("b", "")),
    "escaped": _count(_T + "s || '%' LIKE '_!%' ESCAPE '!'", lambda r: r["s"] in ("a", "b", "A")),
    "is_not_true": _count(_T + "b IS NOT TRUE", lambda r: not r["b"]),
    "distinct": _count(_T + "s IS DISTINCT FROM LOWER(s)", lambda r: r["s"] == "A"),
    "least": _count(_T + "LEAST(x, 2) = 2", lambda r: r["x"] is None or r["x"] >= 2),
    "upper": _count(_T + "UPPER(s) = 'AB'", lambda r: r["s"] == "ab"),
    "trimmed": _count(_T + "TRIM('  ' || s || ' ') = 'a' OR LTRIM(' ' || s || ' ') = 'b ' "
                      "OR RTRIM(' ' || s || ' ') = ' ab'", lambda r: r["s"] in ("a", "b", "ab")),
    "concat": _count(_T + "CONCAT(s, '-', c) IN ('a-p', '-q')",
                     lambda r: (r["s"], r["c"]) == ("a", "p") or (not r["s"] and r["c"] == "q")),
    "floor": _count(_T + "FLOOR(y) = -1 OR CEIL(y) = 1", lambda r: r["y"] in (-0.5, 0.24, 0.25)),
    "negative": _count(_T + "-x = 7", lambda r: r["x"] == -7),
    "remainder": _count(_T + "x % 3 = -1 OR x % 3 = 2", lambda r: r["x"] in (-7, 2)),
    "day_of_week": _count(_T + "EXTRACT(dow FROM d) = 0 OR EXTRACT(isodow FROM d) = 4",
                          lambda r: r["d"] is not None and r["d"].month in (12, 2)),
    "quarter": _count(_T + "EXTRACT(quarter FROM d) = 4 AND EXTRACT(week FROM d) = 52",
                      lambda r: r["d"] is not None and r["d"].month == 12),
    "day_of_year": _count(_T + "EXTRACT(doy FROM d) = 61",
                          lambda r: r["d"] is not None and r["d"].month == 3),
    "of_day": _count(_T + "EXTRACT(day FROM d) = 29 AND EXTRACT(hour FROM d) = 23 AND "
                     "EXTRACT(minute FROM d) = 59", lambda r: r["d"] is not None and r["d"].month == 2),
    "earlier": _count(_T + "d - INTERVAL '1 day' < '2023-12-31'",
                      lambda r: r["d"] is not None and r["d"].month == 12),
    "days_between": _count(_T + "DATE_DIFF('day', d, TIMESTAMP '2024-03-01') = 1",
                           lambda r: r["d"] is not None and r["d"].month == 2),
    "months_between": _count(_T + "DATE_DIFF('month', d, TIMESTAMP '2024-03-01') = 3",
                             lambda r: r["d"] is not None and r["d"].month == 12),
    "as_date": _count(_T + "CAST(d AS DATE) = DATE '2024-02-29'",
                      lambda r: r["d"] is not None and r["d"].month == 2),
}  # fmt: skip
_HALF: Final = _count(_T + "x / 2 IN (1, -3)", lambda r: r["x"] in (2, 3, -7))
SPOKEN: Final[dict[str, dict[str, Asked]]] = {
    "duckdb": QUERIES,
    "postgres": {
        "half": _HALF,
        "half_of_float": _count(_T + "x / 2.0 = 1.5", lambda r: r["x"] == 3),
        "like": _count(_T + "s LIKE 'a%'", lambda r: r["s"] in ("a", "ab")),
        "escaped": _count(_T + r"s || '_' LIKE '_\_'", lambda r: r["s"] in ("a", "b", "A")),
        "any_case": _count(_T + "s NOT ILIKE 'A%'", lambda r: r["s"] in ("b", "")),
        "text_of": _count(_T + "x::text = '10'", lambda r: r["x"] == 10),
        "part_of": _count(_T + "SUBSTRING(s FROM 2 FOR 1) = 'b'", lambda r: r["s"] == "ab"),
        "trimmed": _count(_T + "TRIM(LEADING ' ' FROM ' ' || s || ' ') = 'a '", lambda r: r["s"] == "a"),
        "day_of_week": _count(_T + "date_part('dow', d) = 0",
                              lambda r: r["d"] is not None and r["d"].month == 12),
    },
    "sqlite": {
        "half": _HALF,
        "like": _count(_T + "s LIKE 'A%'", lambda r: r["s"] in ("a", "A", "ab")),
        "not_like": _count(_T + "s NOT LIKE 'A%'", lambda r: r["s"] in ("b", "")),
        "if_": _count(_T + "IIF(x > 2, 'a', s) = 'a'",
                      lambda r: (r["x"] is not None and r["x"] > 2) or r["s"] == "a"),
        "if_null": _count(_T + "IFNULL(x, 3) = 3", lambda r: r["x"] in (3, None)),
        "part_of": _count(_T + "SUBSTR(s, 2, 1) = 'b'", lambda r: r["s"] == "ab"),
        "joined": _count(_T + "s || c = 'ap'", lambda r: (r["s"], r["c"]) == ("a", "p")),
    },
}  # fmt: skip
"""By dialect: some words mean something else in another one."""


def _rows() -> list[Row]:
    """Every value of every column, in pairs of neighbours."""
    found: list[Row] = []
    for n, (text, number) in enumerate(product(_TEXTS, _NUMBERS)):
        found.append({
            "s": text, "x": number, "c": ("p", "q", None)[n % 3], "y": _FLOATS[n % len(_FLOATS)],
            "b": (True, False, None)[n // 2 % 3], "d": _DATES[n % len(_DATES)],
        })  # fmt: skip
    return found


def check_queries(dialect: str = "duckdb") -> None:
    """Check that every query has the sums that its few lines of Python compute.  Raises Discrepancy."""
    at = {"start": "1970-01-01T00:00:00.000010Z", "every": "10 microseconds", "for": "10 microseconds"}
    plain, queries = {**at, "strategy": {"name": "disjoint", "base": 0}}, SPOKEN[dialect]
    source = MemoryLog("t", COLUMNS, Random(0), owner=None, informed=False)
    with ScratchFolder() as folder:
        spec = Gauge(
            source=source,
            budget={"rho": 1},
            constraint={"at_most": 2},
            releases={name: {**one.release, **plain} for name, one in queries.items()},
        ).spec
        spoken = spec.source.model_copy(update={"dialect": dialect})
        spec = spec.model_copy(update={"source": spoken})
        gauge = Gauge(spec, source=source, store=Path(folder.name) / "store.db", now=lambda: 0)
        subject = Subject(gauge.spec, gauge.plan())
    table, rows = Table(None), _rows()
    for n, row in enumerate(rows):
        table.put((3, 3), f"k{n}", row)
    measured = Stage(subject, table.log, (60,), 1).whole.measured
    for name, one in queries.items():
        plan = next(each for each in subject.plan.releases if each.release.name == name)
        right = [0] * len(plan.release.query.cells)
        for row in rows:
            if (added := one.adds(row)) is not None:
                right[added[0]] += added[1]
        refine = plan.component_plans[one.component].refine
        found = [measured[name, one.component, 0, cell].exact for cell in range(len(right))]
        require(found == [refine * amount for amount in right], f"query '{name}' sums something else")
