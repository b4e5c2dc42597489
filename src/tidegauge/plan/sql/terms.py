"""Expressions with their kinds, and conversions between kinds that never fail.

Text is converted by context: beside a number to a number, beside a date to a time, as a condition to true or
false; to NULL if the conversion is impossible.  Arithmetic is in DOUBLE, which does not overflow.  Times are
UTC without a zone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from math import inf, isfinite
from typing import TYPE_CHECKING, Final

from sqlglot.errors import ParseError
from sqlglot.expressions import DataType, DataTypeParam, DType

from tidegauge.errors import SpecError
from tidegauge.model.expression import Column, Constant, Expression, call
from tidegauge.model.quantity import instant, moment
from tidegauge.plan.sql.refusals import Mismatch, refuse

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction


class Kind(Enum):
    """The kind of a value, in words for error messages."""

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
_LARGEST: Final = 2**63


@dataclass(frozen=True)
class Term:
    """An expression and its kind; `literal` is a text in quotes, converted when the query is compiled."""

    expression: Expression
    kind: Kind
    whole: bool = False
    """Whether a DOUBLE is the result of integers alone."""
    literal: str | None = None


def apply(kind: Kind, operation: str, *arguments: Term | str | int, whole: bool = False) -> Term:
    """The operation on these terms.  A str or int argument is a unit, a type or a number."""
    given = (one.expression if isinstance(one, Term) else one for one in arguments)
    return Term(call(operation, *given), kind, whole=whole)


def text_literal(value: str) -> Term:
    """A text in single quotes."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Mismatch(f"{value!r} is not valid Unicode text") from None
    return Term(Constant(value), Kind.TEXT, literal=value)


def integer_literal(value: int) -> Term:
    """An integer, or the nearest DOUBLE if 64 bits are too few."""
    if abs(value) >= _LARGEST:
        return replace(double_literal(value), whole=True)
    return Term(Constant(value), Kind.INTEGER)


def double_literal(value: float | Fraction) -> Term:
    """The DOUBLE nearest to the value."""
    try:
        nearest = float(value) + 0.0  # there is one zero
    except OverflowError:
        nearest = inf
    if not isfinite(nearest):
        raise Mismatch("a number must be finite and fit a DOUBLE (about 1.8e308)")
    return Term(Constant(nearest), Kind.DOUBLE)


def number_literal(digits: str) -> Term:
    """A number as written in SQL or in quotes."""
    try:
        return integer_literal(int(digits))
    except ValueError:
        pass
    try:
        return double_literal(float(digits))
    except ValueError:
        raise Mismatch(f"{digits!r} is not a number") from None


def time_literal(written: str) -> Term:
    """A date or time as written in quotes, in UTC."""
    try:
        at = moment(instant(written)).replace(tzinfo=None)
    except (SpecError, OverflowError):
        raise Mismatch(
            f"{written!r} is not a date or time (write 2026-01-31 or 2026-01-31T12:00:00Z)"
        ) from None
    return apply(Kind.TIMESTAMP, "at", at.isoformat(" "))


def boolean_literal(written: str) -> Term:
    """TRUE or FALSE, as written in quotes."""
    if written.strip().lower() not in {"true", "false"}:
        raise Mismatch(f"{written!r} is neither 'true' nor 'false'")
    return Term(Constant(written.strip().lower() == "true"), Kind.BOOLEAN)


def column(found: Column, declared: str) -> Term:
    """A column of a declared type.  Times are converted to UTC, other types with a text form to text."""
    try:
        base = DataType.build(declared, dialect="duckdb").this
    except ParseError:
        return Term(found, Kind.OTHER)
    match base:
        case DType.TIMESTAMPTZ:
            return Term(call("utc", found), Kind.TIMESTAMP)
        case DType.TIMESTAMP_S | DType.TIMESTAMP_MS | DType.TIMESTAMP_NS:
            return Term(call("timestamp", found), Kind.TIMESTAMP)
        case DType.UUID | DType.ENUM | DType.JSON | DType.TIME:
            return Term(call("text", found), Kind.TEXT)
        case DType.FLOAT | DType.UINT128:
            return Term(call("double", found), Kind.DOUBLE)
    return Term(found, _KINDS.get(base, Kind.OTHER))


def cast(term: Term, to: DataType) -> Term:
    """CAST; NULL if a value cannot be cast.  TIMESTAMP is UTC, with a zone or without."""
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
        return apply(kind, "date", time(term))
    if term.kind in TIMES:
        raise Mismatch(f"{term.kind.value} cannot be CAST to {to.sql('duckdb')}; use EXTRACT or date_diff")
    if kind is Kind.BOOLEAN and term.kind is Kind.TEXT:
        return boolean(term)
    if kind is Kind.DOUBLE or (kind is Kind.DECIMAL and not sizes):
        return replace(number(term), whole=False)
    if term.literal is not None:
        term = number_literal(term.literal)
    return apply(kind, "cast", to.sql("duckdb"), term)


def integer(term: Term) -> int | None:
    """The integer of a literal; None for other terms."""
    match term.expression:
        case Constant(int(value)) if term.kind is Kind.INTEGER:
            return value
    return None


def number(term: Term) -> Term:
    """The term as a DOUBLE."""
    if term.literal is not None:
        return number(number_literal(term.literal))
    if (digits := integer(term)) is not None:
        return replace(double_literal(digits), whole=True)
    match term.kind:
        case Kind.DOUBLE:
            return term
        case Kind.INTEGER | Kind.DECIMAL | Kind.BOOLEAN | Kind.NULL:
            return apply(Kind.DOUBLE, "double", term, whole=term.kind in {Kind.INTEGER, Kind.NULL})
        case Kind.TEXT:
            return apply(Kind.DOUBLE, "double", term)
    raise Mismatch(f"a number is needed here, not {term.kind.value}")


def time(term: Term) -> Term:
    """The term as a TIMESTAMP in UTC."""
    if term.literal is not None:
        return time_literal(term.literal)
    match term.kind:
        case Kind.TIMESTAMP:
            return term
        case Kind.DATE | Kind.NULL:
            return apply(Kind.TIMESTAMP, "timestamp", term)
        case Kind.TEXT:
            return apply(Kind.TIMESTAMP, "text timestamp", term)
    raise Mismatch(f"a date or time is needed here, not {term.kind.value}")


def boolean(term: Term) -> Term:
    """The term as a condition."""
    if term.literal is not None:
        return boolean_literal(term.literal)
    match term.kind:
        case Kind.BOOLEAN:
            return term
        case Kind.TEXT | Kind.NULL:
            return apply(Kind.BOOLEAN, "boolean", term)
    hint = "; write <> 0" if term.kind in NUMBERS else ""
    raise Mismatch(f"a condition is needed here, not {term.kind.value}{hint}")


def text(term: Term) -> Term:
    """The term as VARCHAR."""
    if term.kind is Kind.TEXT:
        return term
    if term.kind in {Kind.INTERVAL, Kind.OTHER}:
        raise Mismatch(f"text is needed here, not {term.kind.value}")
    if term.kind is Kind.TIMESTAMP:
        return apply(Kind.TEXT, "time text", term)
    return apply(Kind.TEXT, "whole text" if term.kind is Kind.DOUBLE and term.whole else "text", term)


def alike(terms: Sequence[Term]) -> list[Term]:
    """The terms, converted to one kind, so that they can be compared or replace each other."""
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
