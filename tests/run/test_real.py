"""Real changelogs: exact sums equal to an independent computation, units with many rows included."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tests.real import FOLDER, needs_data, rows
from tidegauge.run.gauge import Gauge

if TYPE_CHECKING:
    from pathlib import Path


@needs_data
def test_enrolments_by_module_every_week(tmp_path: Path) -> None:
    modules = ["AAA", "BBB", "CCC", "DDD"]
    one = Gauge(
        source={"kind": "files", "path": str(FOLDER / "oulad.csv.gz"), "time": "ts", "entry": "entry",
                "op": "op",
                "before": "before_", "after": "after_"},
        constraint={"at_most": 4},
        budget={"epsilon": 10**9},
        releases={"modules": {"sql": "SELECT module, COUNT(*) FROM oulad WHERE region LIKE '%Region' GROUP "
                                     "BY module",
                              "groups": {"module": modules}, "start": "2012-06-01",
                                     "every": "1 week", "for": "120 weeks"}},
        store=tmp_path / "store.db",
    )  # fmt: skip
    table = one.readings() if list(one.run()) else None
    assert table is not None
    published = {(r["time"], r["module"]): r["value"] for r in table.to_pylist()}
    log = rows("oulad")
    start = datetime(2012, 6, 1, tzinfo=UTC)
    for week in range(0, 121, 10):
        end = start + timedelta(weeks=week)
        exact: dict[str, int] = defaultdict(int)
        for row in log:
            if datetime.fromisoformat(row["ts"]).replace(tzinfo=UTC) <= end:
                for side, sign in (("before_", -1), ("after_", 1)):
                    if row[f"{side}region"].endswith("Region"):
                        exact[row[f"{side}module"]] += sign
        assert {m: published[end, m] for m in modules} == {m: exact[m] for m in modules}


@needs_data
def test_seats_by_party_where_a_person_owns_many_rows(tmp_path: Path) -> None:
    limit, most_rows = 6, 3
    one = Gauge(
        source={"kind": "files", "path": str(FOLDER / "congress_committees.csv.gz"), "table": "seats",
                "time": "ts",
                "entry": "entry", "op": "op", "unit": "person", "max_rows": most_rows,
                "before": "before_", "after": "after_"},
        constraint={"at_most": limit},
        budget={"epsilon": 10**9},
        releases={"parties": {"sql": "SELECT party, COUNT(*) FROM seats GROUP BY party",
                              "groups": {"party": ["majority", "minority"]},
                              "start": "2013-01-01", "every": "3 months", "for": "12 years"}},
        store=tmp_path / "store.db",
    )  # fmt: skip
    assert len(list(one.run())) == 49 * 2
    published = {(r["time"], r["party"]): r["value"] for r in one.readings().to_pylist()}
    assert published == by_hand(
        rows("congress_committees"), limit, most_rows, sorted({time for time, _ in published})
    )


def by_hand(
    log: list[dict[str, str]], limit: int, most_rows: int, ends: list[datetime]
) -> dict[tuple[datetime, str], float]:
    """Each person alone: their rows, the first three that count, their first six changes."""
    result: dict[tuple[datetime, str], float] = defaultdict(float)
    by_person: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in log:
        by_person[row["person"]].append(row)
    for changes in by_person.values():
        seats: dict[str, str] = {}
        path: list[tuple[datetime, dict[str, int]]] = []
        for time in sorted({row["ts"] for row in changes}):
            for row in (row for row in changes if row["ts"] == time):
                party = row["after_party"] if row["op"] != "D" else None
                if party is None:
                    seats.pop(row["entry"], None)
                else:
                    seats[row["entry"]] = party
            counted = [party for party in seats.values() if party in ("majority", "minority")][:most_rows]
            view = {party: counted.count(party) for party in ("majority", "minority")}
            if view != (path[-1][1] if path else {"majority": 0, "minority": 0}):
                path.append((datetime.fromisoformat(time).replace(tzinfo=UTC), view))
        for end in ends:
            reached = [view for time, view in path[:limit] if time <= end]
            for party, seats_held in (reached[-1] if reached else {"majority": 0, "minority": 0}).items():
                result[end, party] += seats_held
    return dict(result)
