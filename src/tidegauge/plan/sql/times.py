"""Dates, times and intervals.  A result out of range is NULL."""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from tidegauge.plan.sql.refusals import Mismatch
from tidegauge.plan.sql.terms import NUMBERS, TIMES, Kind, Term, apply, number, time

UNITS: Final = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
PARTS: Final = (*UNITS, "isoyear", "dow", "isodow", "doy")
PART_NODES: Final = (exp.Year, exp.Quarter, exp.Month, exp.Week, exp.WeekOfYear, exp.Day, exp.DayOfMonth,
                     exp.DayOfWeek, exp.DayOfWeekIso, exp.DayOfYear, exp.Hour, exp.Minute,
                     exp.Second)  # fmt: skip
_ALIASES: Final = {"day_of_week": "dow", "dayofweek_iso": "isodow", "day_of_year": "doy",
                   "day_of_month": "day", "week_of_year": "week"}  # fmt: skip
_SPANS: Final = frozenset({*UNITS, "millisecond", "microsecond"})
_SPAN: Final = re.compile(r"\s*(-?\d{1,9})\s*([a-z]+)", re.IGNORECASE)


def _unit(written: str, accepted: tuple[str, ...]) -> str:
    unit = _ALIASES.get(written.lower(), written.lower())
    if unit not in accepted:
        raise Mismatch(f"{written.lower() or 'nothing'!r} is no unit here; use one of {', '.join(accepted)}")
    return unit


def part(written: str, at: Term) -> Term:
    """A field of a time, as an integer."""
    return apply(Kind.INTEGER, "part", _unit(written, PARTS), time(at))


def truncated(written: str, at: Term) -> Term:
    """The start of the year, month, ... of a time."""
    return apply(Kind.TIMESTAMP, "truncate", _unit(written, UNITS), time(at))


def difference(written: str, start: Term, end: Term) -> Term:
    """The number of boundaries of the unit between two times."""
    return apply(Kind.INTEGER, "difference", _unit(written, UNITS), time(start), time(end))


def interval(node: exp.Expr) -> Term:
    """INTERVAL 3 DAY, INTERVAL '3 days', INTERVAL '1 day 2 hours'."""
    amount, unit = node.this, node.args.get("unit")
    written = f"{amount.name if isinstance(amount, exp.Literal) else ''} {unit.name if unit else ''}"
    spans = [(count, name.lower().removesuffix("s")) for count, name in _SPAN.findall(written)]
    if not spans or _SPAN.sub("", written).strip() or not _SPANS.issuperset(name for _, name in spans):
        raise Mismatch("an interval is whole numbers with units, such as INTERVAL '3 days'")
    return apply(Kind.INTERVAL, "interval", " ".join(f"{count} {name}" for count, name in spans))


def shifted(sign: str, left: Term, right: Term) -> Term | None:
    """A sum or difference with a date, time or interval; None if neither side is one."""
    kinds = {left.kind, right.kind}
    if not kinds & {*TIMES, Kind.INTERVAL}:
        return None
    if sign == "+" and left.kind is Kind.INTERVAL:
        left, right = right, left
    if sign != "*" and left.kind is not Kind.INTERVAL and right.kind is Kind.INTERVAL:
        return apply(Kind.TIMESTAMP, "later" if sign == "+" else "earlier", time(left), right)
    if sign == "-" and left.kind is right.kind is Kind.DATE:
        return apply(Kind.INTEGER, "difference", "day", right, left)
    if sign != "*" and left.kind is Kind.DATE and right.kind in NUMBERS:
        return apply(Kind.DATE, "days later" if sign == "+" else "days earlier", left, number(right))
    raise Mismatch(
        f"{left.kind.value} {sign} {right.kind.value} is not defined; "
        "shift a time by an INTERVAL, and take the distance of two times with date_diff('day', a, b)"
    )
