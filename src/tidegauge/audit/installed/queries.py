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
}  # fmt: skip


def _rows() -> list[Row]:
    """Every value of every column, in pairs of neighbours."""
    found: list[Row] = []
    for n, (text, number) in enumerate(product(_TEXTS, _NUMBERS)):
        found.append({
            "s": text, "x": number, "c": ("p", "q", None)[n % 3], "y": _FLOATS[n % len(_FLOATS)],
            "b": (True, False, None)[n // 2 % 3], "d": _DATES[n % len(_DATES)],
        })  # fmt: skip
    return found


def check_queries() -> None:
    """Check that every query has the sums that its few lines of Python compute.  Raises Discrepancy."""
    at = {"start": "1970-01-01T00:00:00.000010Z", "every": "10 microseconds", "for": "10 microseconds"}
    plain = {**at, "strategy": {"name": "disjoint", "base": 0}}
    with ScratchFolder() as folder:
        gauge = Gauge(
            source=MemoryLog("t", COLUMNS, Random(0), owner=None, informed=False),
            budget={"rho": 1},
            constraint={"at_most": 2},
            releases={name: {**one.release, **plain} for name, one in QUERIES.items()},
            store=Path(folder.name) / "store.db",
            now=lambda: 0,
        )
        subject = Subject(gauge.spec, gauge.plan())
    table, rows = Table(None), _rows()
    for n, row in enumerate(rows):
        table.put((3, 3), f"k{n}", row)
    measured = Stage(subject, table.log, (60,), 1).whole.measured
    for name, one in QUERIES.items():
        plan = next(each for each in subject.plan.releases if each.release.name == name)
        right = [0] * len(plan.release.query.cells)
        for row in rows:
            if (added := one.adds(row)) is not None:
                right[added[0]] += added[1]
        refine = plan.component_plans[one.component].refine
        found = [measured[name, one.component, 0, cell].exact for cell in range(len(right))]
        require(found == [refine * amount for amount in right], f"query '{name}' sums something else")
