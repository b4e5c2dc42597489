"""Converts the values of a database to columns of the embedded engine.

No value is refused.  A number beyond the range of its type becomes the nearest end of the range.  A value
that does not belong to the type becomes null.  Both depend on the value alone: so must everything that
happens to a row before it is counted.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from datetime import time as time_of_day
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation, localcontext
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.errors import SpecError
from tidegauge.model.quantity import instant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_PLAIN: Final = {
    "BIGINT": pa.int64(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "DOUBLE": pa.float64(),
    "FLOAT": pa.float32(),
    "INTEGER": pa.int32(),
    "SMALLINT": pa.int16(),
    "TIME": pa.time64("us"),
    "TIMESTAMP": pa.timestamp("us"),
    "VARCHAR": pa.string(),
}
_DECIMAL: Final = re.compile(r"DECIMAL\((\d+), ?(\d+)\)")
_DAYS: Final = (
    date.min.toordinal() - date(1970, 1, 1).toordinal(),
    date.max.toordinal() - date(1970, 1, 1).toordinal(),
)
_INSTANTS: Final = (instant(datetime.min.replace(tzinfo=UTC)), instant(datetime.max.replace(tzinfo=UTC)))
"""The first and last instant of years with four digits; infinite dates become these."""
_ZONE: Final = re.compile(r":[\d.]+([+-]\d|Z$)")
_AS_IT_IS: Final[dict[pa.DataType, type]] = {
    pa.string(): str,
    pa.int64(): int,
    pa.float64(): float,
    pa.bool_(): bool,
}
"""If every value of a column has this type, no conversion is needed."""
_TRUE: Final = ["t", "true", "1"]
_FALSE: Final = ["f", "false", "0"]


def declared_types(types: Mapping[str, str], *, key: str) -> dict[str, str]:
    """The declared types, by column.  Raises SpecError for an unknown type."""
    for name, kind in types.items():
        try:
            arrow_type(kind)
        except SpecError as refusal:
            raise SpecError(str(refusal), key=f"{key}.{name}") from None
    return dict(types)


def arrow_type(kind: str) -> pa.DataType:
    """The Arrow type of an SQL type."""
    if decimal := _DECIMAL.fullmatch(kind.upper()):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    try:
        return _PLAIN[kind.upper()]
    except KeyError:
        raise SpecError(f"{kind!r} is not a type a column can be declared as: {', '.join(_PLAIN)}, "
                        "DECIMAL(p,s)") from None  # fmt: skip


def from_text(column: pa.Array, kind: str) -> pa.Array:
    """A column of text in the database's plain notation."""
    goal = arrow_type(kind)
    if goal == pa.string():
        return column
    if goal == pa.bool_():
        lower = pc.utf8_lower(column)
        known = pc.is_in(lower, value_set=pa.array([*_TRUE, *_FALSE]))
        return pc.if_else(known, pc.is_in(lower, value_set=pa.array(_TRUE)), pa.scalar(None, pa.bool_()))
    if goal != pa.time64("us"):
        try:
            return _zoneless(column) if kind.upper() == "TIMESTAMP" else pc.cast(column, goal)
        except pa.ArrowInvalid:
            pass
    return from_values(column.to_pylist(), kind)


def _zoneless(column: pa.Array) -> pa.Array:
    """Instants in UTC; text without a zone is UTC already."""
    first = next((value for value in column.drop_null()[:1].to_pylist()), "")
    if _ZONE.search(first):
        return pc.cast(pc.cast(column, pa.timestamp("us", "UTC")), pa.timestamp("us"))
    return pc.cast(column, pa.timestamp("us"))


def from_values(values: Iterable[Any], kind: str) -> pa.Array:
    """A column of any Python values."""
    goal = arrow_type(kind)
    values = list(values)
    if set(map(type, values)) <= {NoneType, _AS_IT_IS.get(goal, NoneType)}:
        try:
            return pa.array(values, goal)
        except OverflowError:
            pass
    one = _converter(kind.upper(), goal)
    column = [None if value is None else _tried(one, value) for value in values]
    if goal == pa.date32():
        return pa.array(column, pa.int32()).view(goal)
    if goal in (pa.timestamp("us"), pa.time64("us")):
        return pa.array(column, pa.int64()).view(goal)
    return pa.array(column, goal)


def _tried(one: Callable[[Any], Any], value: Any) -> Any:
    try:
        return one(value)
    except (ValueError, TypeError, OverflowError, InvalidOperation, SpecError):
        return None


def _converter(kind: str, goal: pa.DataType) -> Callable[[Any], Any]:
    if pa.types.is_decimal(goal):
        return lambda value: _decimal(value, goal)
    if pa.types.is_integer(goal):
        end = 2 ** (goal.bit_width - 1) - 1
        return lambda value: max(-end - 1, min(end, _integer(value)))
    plain: dict[str, Callable[[Any], Any]] = {
        "BOOLEAN": _boolean,
        "DATE": _day,
        "DOUBLE": float,
        "FLOAT": float,
        "TIME": _since_midnight,
        "TIMESTAMP": _micros,
        "VARCHAR": text,
    }
    return plain[kind]


def text(value: object) -> str:
    """One value as text; numbers and truth as SQL writes them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


def _integer(value: Any) -> int:
    if isinstance(value, float) and not value.is_integer():
        raise ValueError
    return int(value)


def _boolean(value: Any) -> bool | None:
    if isinstance(value, str):
        lower = value.lower()
        return True if lower in _TRUE else False if lower in _FALSE else None
    return bool(value)


def _decimal(value: Any, goal: pa.DataType) -> Decimal | None:
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if number.is_nan():
        return None
    with localcontext(prec=goal.precision + 2, rounding=ROUND_HALF_EVEN):
        end = Decimal(10**goal.precision - 1).scaleb(-goal.scale)
        if number.is_infinite() or abs(number) >= end:
            return end.copy_sign(number)
        return number.quantize(Decimal(1).scaleb(-goal.scale))


def _beyond(value: str, ends: tuple[int, int]) -> int | None:
    """The nearest end for an infinite date, a year BC, or a year with five digits; None for other dates."""
    if value.endswith("infinity"):
        return ends[0] if value.startswith("-") else ends[1]
    if value.endswith("BC"):
        return ends[0]
    return ends[1] if re.match(r"\d{5,}-", value) else None


def _day(value: Any) -> int:
    if isinstance(value, str):
        if (end := _beyond(value, _DAYS)) is not None:
            return end
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        value = value.date()
    if isinstance(value, date):
        return value.toordinal() - date(1970, 1, 1).toordinal()
    return max(_DAYS[0], min(_DAYS[1], int(value)))


def _micros(value: Any) -> int:
    if isinstance(value, str):
        end = _beyond(value, _INSTANTS)
        return instant(value) if end is None else end
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, date):
        return instant(datetime(value.year, value.month, value.day, tzinfo=UTC))
    return max(_INSTANTS[0], min(_INSTANTS[1], int(value)))


def _since_midnight(value: Any) -> int:
    if isinstance(value, str):
        value = time_of_day.fromisoformat(value)
    if isinstance(value, time_of_day):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    return int(value)
