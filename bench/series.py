"""Series of real changelogs on which the choice of at_most is tried (bench.usefulness).

Three files: road traffic fines, university enrolments, committee seats.  Units are single rows or persons
with several rows; periods are days, weeks and months; groups, filters, counts, sums and means.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Case:
    """One series: a file, its release, and who the unit is."""

    name: str
    file: str
    what: str
    release: dict[str, Any]
    source: dict[str, Any] = field(default_factory=dict)
    held_out: bool = False
    """Looked at only after the mechanism of the choice was fixed."""
    invented: bool = False
    """Its file is made by bench.invented and has the rows after each change alone."""


STATUS = [
    "Create Fine", "Send Fine", "Insert Fine Notification", "Add penalty", "Send for Credit Collection",
    "Payment", "Insert Date Appeal to Prefecture", "Send Appeal to Prefecture",
    "Receive Result Appeal from Prefecture", "Notify Result Appeal to Offender", "Appeal to Judge",
]  # fmt: skip
MODULES = ["AAA", "BBB", "CCC", "DDD", "EEE", "FFF", "GGG"]
REGIONS = [
    "Scotland", "East Anglian Region", "London Region", "South Region", "North Western Region",
    "West Midlands Region", "South West Region", "East Midlands Region", "Wales", "South East Region",
    "Yorkshire Region", "North Region", "Ireland",
]  # fmt: skip
PARTIES = ["majority", "minority"]
FILES = {
    "traffic_fines": ("2000-02-01", {"day": "4880 days", "week": "4880 days", "month": "160 months"}),
    "oulad": ("2012-04-01", {"day": "1050 days", "week": "1050 days", "month": "34 months"}),
    "congress_committees": ("2012-12-01", {"day": "4900 days", "week": "4900 days", "month": "160 months"}),
}
EVERY = {"day": "1 day", "week": "7 days", "month": "1 month"}


def _case(
    name: str,
    file: str,
    what: str,
    period: str,
    sql: str,
    *,
    groups: dict[str, list[str]] | None = None,
    rows: int | None = None,
    held_out: bool = False,
    **release: Any,
) -> Case:
    start, lengths = FILES[file]
    declared = {"sql": sql, "every": EVERY[period], "start": start, "for": lengths[period], **release}
    if groups:
        declared["groups"] = groups
    source = {} if rows is None else {"unit": "person", "max_rows": rows}
    return Case(name, file, what, declared, source, held_out)


def _by(column: str, where: str = "") -> str:
    return f"SELECT {column}, COUNT(*) FROM t{where and ' WHERE ' + where} GROUP BY {column}"


FINES, COURSES, SEATS = FILES
CASES = (
    _case("fines by status", FINES, "fine, 11 statuses, daily", "day", _by("status"),
          groups={"status": STATUS}),
    _case("fines by payments", FINES, "fine, 3 numbers of payments, weekly", "week", _by("n_payments"),
          groups={"n_payments": ["0", "1", "2"]}),
    _case("fines under appeal", FINES, "fine, one number, weekly", "week",
          "SELECT COUNT(*) FROM t WHERE status LIKE '%Appeal%'"),
    _case("seats by party", SEATS, "seat, 2 parties, weekly", "week", _by("party"),
          groups={"party": PARTIES}),
    _case("seats of persons", SEATS, "person with up to 20 seats, 2 parties, weekly", "week", _by("party"),
          groups={"party": PARTIES}, rows=20),
    _case("enrolments by module", COURSES, "enrolment, 7 modules, weekly", "week", _by("module"),
          groups={"module": MODULES}),
    _case("enrolments of persons", COURSES, "person with up to 3 enrolments, one number, daily", "day",
          "SELECT COUNT(*) FROM t", rows=3),
)  # fmt: skip
"""Those on the page."""
MORE = (
    _case("persons, five seats count", SEATS, "person with up to 5 seats, 2 parties, weekly", "week",
          _by("party"), groups={"party": PARTIES}, rows=5),
    _case("fines by status, monthly", FINES, "fine, 11 statuses, monthly", "month", _by("status"),
          groups={"status": STATUS}),
    _case("fines unpaid", FINES, "fine, one number, monthly", "month",
          "SELECT COUNT(*) FROM t WHERE n_payments = 0 AND status <> 'Send for Credit Collection'"),
    _case("fines by vehicle", FINES, "fine, 3 classes that never change, monthly", "month",
          _by("vehicleclass"), groups={"vehicleclass": ["A", "C", "M"]}),
    _case("payments", FINES, "fine, SUM of 0 to 3 payments, weekly", "week",
          "SELECT SUM(n_payments) FROM t", bounds={"n_payments": [0, 3]}),
    _case("chairs", SEATS, "seat, one small number, weekly", "week",
          "SELECT COUNT(*) FROM t WHERE title LIKE 'Chair%'"),
    _case("mean rank", SEATS, "seat, AVG of ranks 1 to 20, monthly", "month",
          "SELECT AVG(rank) FROM t", bounds={"rank": [1, 20]}),
    _case("active by region", COURSES, "person with up to 2 enrolments, 13 regions, weekly", "week",
          _by("region", "result IS NULL"), groups={"region": REGIONS}, rows=2),
    _case("active students", COURSES, "enrolment, one number, daily", "day",
          "SELECT COUNT(*) FROM t WHERE result IS NULL"),
    _case("seats of Senate persons", SEATS, "person with up to 10 seats, one number, monthly", "month",
          "SELECT COUNT(*) FROM t WHERE committee LIKE 'S%'", rows=10),
    _case("fines at collection", FINES, "fine, one number, daily", "day",
          "SELECT COUNT(*) FROM t WHERE status = 'Send for Credit Collection'", held_out=True),
    _case("fines being sent", FINES, "fine, 2 statuses, weekly", "week",
          _by("status", "article = 157"), groups={"status": ["Create Fine", "Send Fine"]}, held_out=True),
    _case("fines with penalty, article 7", FINES, "fine, 5 statuses, monthly", "month",
          _by("status", "article = 7"), groups={"status": [*STATUS[:4], "Payment"]}, held_out=True),
    _case("points", FINES, "fine, SUM of 0 to 10 points while open, monthly", "month",
          "SELECT SUM(points) FROM t WHERE status <> 'Payment'", bounds={"points": [0, 10]}, held_out=True),
    _case("seats of low rank", SEATS, "seat, 2 parties, daily", "day", _by("party", "rank <= 3"),
          groups={"party": PARTIES}, held_out=True),
    _case("persons, ten seats count", SEATS, "person with up to 10 seats, 2 parties, daily", "day",
          _by("party"), groups={"party": PARTIES}, rows=10, held_out=True),
    _case("House persons, three seats count", SEATS, "person with up to 3 seats, one number, monthly",
          "month", "SELECT COUNT(*) FROM t WHERE committee LIKE 'H%'", rows=3, held_out=True),
    _case("sum of ranks", SEATS, "seat, SUM of ranks 0 to 10, weekly", "week",
          "SELECT SUM(rank) FROM t", bounds={"rank": [0, 10]}, held_out=True),
    _case("enrolments by age", COURSES, "enrolment, 3 ages, monthly", "month", _by("age_band"),
          groups={"age_band": ["0-35", "35-55", "55<="]}, held_out=True),
    _case("results", COURSES, "person with up to 3 enrolments, 3 results, weekly", "week", _by("result"),
          groups={"result": ["Pass", "Fail", "Distinction"]}, rows=3, held_out=True),
    _case("active women", COURSES, "enrolment, 2 presentations, weekly", "week",
          _by("presentation", "gender = 'F' AND result IS NULL"), groups={"presentation": ["2013J", "2014J"]},
          held_out=True),
)  # fmt: skip
"""Further ones, for a run with --all."""
