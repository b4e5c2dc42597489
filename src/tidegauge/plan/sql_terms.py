"""Typed pieces of the embedded engine's SQL, and how one kind is read as another without ever failing.

Text is read in context: beside a number it is a number, beside a date a time, as a condition true or false, and NULL
where it is none.  Arithmetic is done in DOUBLE, where nothing overflows.  Times are UTC without a zone.

Every operation that can fail stands in a TRY of its own.  The TRY around a whole expression is no more than a second net:
the engine computes what several expressions share once, and outside of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from sqlglot.errors import ParseError
from sqlglot.expressions import DataType, DataTypeParam, DType

from tidegauge.errors import SpecError
from tidegauge.model.quantity import instant, moment
from tidegauge.plan.sql_refusals import Mismatch, refuse

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction


class Kind(Enum):
    """What a piece of SQL gives, in words of an error message."""

    TEXT = "text"
    INTEGER = "an integer"
    DECIMAL = "a decimal number"
    DOUBLE = "a number"
    BOOLEAN = "a boolean"
    DATE = "a date"
    TIMESTAMP = "a time"
    INTERVAL = "an interval"
    NULL = "NULL"
    OTHER = "a value that can only be tested for NULL"


NUMBERS: Final = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE})
TIMES: Final = frozenset({Kind.DATE, Kind.TIMESTAMP})
_KINDS: Final = {
    **dict.fromkeys([DType.TINYINT, DType.SMALLINT, DType.INT, DType.BIGINT, DType.INT128, DType.UTINYINT,
                     DType.USMALLINT, DType.UINT, DType.UBIGINT], Kind.INTEGER),
    DType.DECIMAL: Kind.DECIMAL,
    **dict.fromkeys([DType.DOUBLE, DType.FLOAT, DType.UINT128], Kind.DOUBLE),
    DType.BOOLEAN: Kind.BOOLEAN,
    DType.DATE: Kind.DATE,
    **dict.fromkeys([DType.TIMESTAMP, DType.TIMESTAMPNTZ, DType.TIMESTAMPTZ, DType.DATETIME], Kind.TIMESTAMP),
    **dict.fromkeys([DType.TEXT, DType.VARCHAR, DType.CHAR], Kind.TEXT),
}  # fmt: skip
_DIGITS: Final = re.compile(r"\d+|\(-\d+\)")
_LARGEST: Final = 2**63
_YEAR_ONE: Final = "TIMESTAMP '0001-01-01 00:00:00'"
# A clock time with something after it that is no digit: an offset or the name of a zone.
_ZONED: Final = r"':[0-9][0-9.:]*\s*[A-Za-z+-]'"


@dataclass(frozen=True)
class Term:
    """SQL and what it gives; `literal` is set for a text in quotes, which is read when the query is compiled."""

    sql: str
    kind: Kind
    whole: bool = False
    """Whether a DOUBLE is the result of integers alone."""
    literal: str | None = None


def name(identifier: str) -> str:
    """The identifier in double quotes."""
    return '"' + identifier.replace('"', '""') + '"'


def text_literal(value: str) -> Term:
    """A text in single quotes."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Mismatch(f"{value!r} is not valid Unicode text") from None
    return Term("'" + value.replace("'", "''") + "'", Kind.TEXT, literal=value)


def integer_literal(value: int) -> Term:
    """An integer, or the nearest DOUBLE where 64 bits are too few."""
    if abs(value) >= _LARGEST:
        return replace(double_literal(value), whole=True)
    return Term(f"({value})" if value < 0 else str(value), Kind.INTEGER)


def double_literal(value: float | Fraction) -> Term:
    """The DOUBLE nearest to the value."""
    try:
        digits = repr(float(value) + 0.0)  # there is one zero
    except OverflowError:
        digits = "inf"
    if digits.lstrip("-") in {"inf", "nan"}:
        raise Mismatch("a number must be finite and fit a DOUBLE (about 1.8e308)")
    sql = digits if "e" in digits else f"{digits}e0"
    return Term(f"({sql})" if value < 0 else sql, Kind.DOUBLE)


def number_literal(digits: str) -> Term:
    """A number as written in SQL or in quotes."""
    try:
        return integer_literal(int(digits))
    except ValueError:
        pass
    try:
        return double_literal(float(digits))
    except ValueError:
        raise Mismatch(f"{digits!r} stands where a number is needed") from None


def time_literal(written: str) -> Term:
    """A date or time as written in quotes, in UTC."""
    try:
        at = moment(instant(written)).replace(tzinfo=None)
    except (SpecError, OverflowError):
        raise Mismatch(
            f"{written!r} stands where a date or time is needed (write 2026-01-31 or 2026-01-31T12:00:00Z)"
        ) from None
    return Term(f"TIMESTAMP '{at.isoformat(' ')}'", Kind.TIMESTAMP)


def boolean_literal(written: str) -> Term:
    """TRUE or FALSE, as written in quotes."""
    if written.strip().lower() not in {"true", "false"}:
        raise Mismatch(f"{written!r} stands where 'true' or 'false' is needed")
    return Term(written.strip().upper(), Kind.BOOLEAN)


def column(sql: str, declared: str) -> Term:
    """A column of a declared type: times in UTC, what has a text form as text."""
    try:
        base = DataType.build(declared, dialect="duckdb").this
    except ParseError:
        return Term(sql, Kind.OTHER)
    match base:
        case DType.TIMESTAMPTZ:
            return Term(f"TRY({sql} AT TIME ZONE 'UTC')", Kind.TIMESTAMP)
        case DType.TIMESTAMP_S | DType.TIMESTAMP_MS | DType.TIMESTAMP_NS:
            return Term(f"TRY_CAST({sql} AS TIMESTAMP)", Kind.TIMESTAMP)
        case DType.UUID | DType.ENUM | DType.JSON | DType.TIME:
            return Term(f"CAST({sql} AS VARCHAR)", Kind.TEXT)
        case DType.FLOAT | DType.UINT128:
            return Term(f"CAST({sql} AS DOUBLE)", Kind.DOUBLE)
    return Term(sql, _KINDS.get(base, Kind.OTHER))


def cast(term: Term, to: DataType) -> Term:
    """CAST, with NULL for what cannot be cast; TIMESTAMP is UTC, with a zone or without."""
    kind, sizes = _KINDS.get(to.this), [int(size.name) for size in to.find_all(DataTypeParam)]
    if kind is None or (to.expressions and not (kind is Kind.DECIMAL and 38 >= sizes[0] >= max(sizes))):
        refuse("type", f"CAST to {to.sql('duckdb')}")
    if term.kind in {Kind.OTHER, Kind.INTERVAL}:
        raise Mismatch(f"{term.kind.value} cannot be CAST")
    if kind is Kind.TIMESTAMP:
        return time(term)
    if kind is Kind.TEXT:
        return text(term)
    if kind is Kind.DATE:
        return Term(f"TRY_CAST({time(term).sql} AS DATE)", kind)
    if term.kind in TIMES:
        raise Mismatch(f"{term.kind.value} cannot be CAST to {to.sql('duckdb')}; use EXTRACT or date_diff")
    if kind is Kind.BOOLEAN and term.kind is Kind.TEXT:
        return boolean(term)
    if kind is Kind.DOUBLE or (kind is Kind.DECIMAL and not sizes):
        return replace(number(term), whole=False)
    if term.literal is not None:
        term = number_literal(term.literal)
    return Term(f"TRY_CAST({term.sql} AS {to.sql('duckdb')})", kind)


def number(term: Term) -> Term:
    """The term as a DOUBLE."""
    if term.literal is not None:
        return number(number_literal(term.literal))
    if _DIGITS.fullmatch(term.sql):
        return replace(double_literal(int(term.sql.strip("()"))), whole=True)
    match term.kind:
        case Kind.DOUBLE:
            return term
        case Kind.INTEGER | Kind.DECIMAL | Kind.BOOLEAN | Kind.NULL:
            return Term(
                f"CAST({term.sql} AS DOUBLE)", Kind.DOUBLE, whole=term.kind in {Kind.INTEGER, Kind.NULL}
            )
        case Kind.TEXT:
            return Term(f"TRY_CAST({term.sql} AS DOUBLE)", Kind.DOUBLE)
    raise Mismatch(f"a number is needed where {term.kind.value} stands")


def time(term: Term) -> Term:
    """The term as a TIMESTAMP in UTC."""
    if term.literal is not None:
        return time_literal(term.literal)
    match term.kind:
        case Kind.TIMESTAMP:
            return term
        case Kind.DATE | Kind.NULL:
            return Term(f"TRY_CAST({term.sql} AS TIMESTAMP)", Kind.TIMESTAMP)
        case Kind.TEXT:
            return Term(
                f"CASE WHEN LENGTH({term.sql}) > 12 AND REGEXP_MATCHES({term.sql}, {_ZONED}) "
                f"THEN TRY(TRY_CAST({term.sql} AS TIMESTAMPTZ) AT TIME ZONE 'UTC') "
                f"ELSE TRY_CAST({term.sql} AS TIMESTAMP) END",
                Kind.TIMESTAMP,
            )
    raise Mismatch(f"a date or time is needed where {term.kind.value} stands")


def boolean(term: Term) -> Term:
    """The term as a condition."""
    if term.literal is not None:
        return boolean_literal(term.literal)
    match term.kind:
        case Kind.BOOLEAN:
            return term
        case Kind.TEXT | Kind.NULL:
            return Term(f"TRY_CAST({term.sql} AS BOOLEAN)", Kind.BOOLEAN)
    hint = "; write <> 0" if term.kind in NUMBERS else ""
    raise Mismatch(f"a condition is needed where {term.kind.value} stands{hint}")


def text(term: Term) -> Term:
    """The term as VARCHAR."""
    if term.kind is Kind.TEXT:
        return term
    if term.kind in {Kind.INTERVAL, Kind.OTHER}:
        raise Mismatch(f"text is needed where {term.kind.value} stands")
    if term.kind is Kind.TIMESTAMP:  # what lies before the engine's first instant would be fatal to it
        return Term(f"CASE WHEN {term.sql} >= {_YEAR_ONE} THEN CAST({term.sql} AS VARCHAR) END", Kind.TEXT)
    sql = f"TRY_CAST({term.sql} AS HUGEINT)" if term.kind is Kind.DOUBLE and term.whole else term.sql
    return Term(f"CAST({sql} AS VARCHAR)", Kind.TEXT)


def alike(terms: Sequence[Term]) -> list[Term]:
    """The terms as one kind, so that they can be compared or stand for one another."""
    typed = {term.kind for term in terms} - {Kind.NULL, Kind.TEXT}
    if typed == {Kind.INTEGER}:
        terms = [term if term.literal is None else number_literal(term.literal) for term in terms]
    kinds = {term.kind for term in terms} - {Kind.NULL}
    if len(kinds) <= 1 and kinds <= {Kind.TEXT, Kind.INTEGER, Kind.BOOLEAN, Kind.DATE}:
        return list(terms)
    for family, read_as in ((NUMBERS, number), (TIMES, time), ({Kind.BOOLEAN}, boolean)):
        if typed <= family:
            return [read_as(term) for term in terms]
    found = " and ".join(sorted(kind.value for kind in kinds))
    raise Mismatch(f"{found} cannot be compared or mixed; CAST one of them")
