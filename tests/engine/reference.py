"""What docs/expressions.md says, in plain Python: the value of an expression on one change.

Times are datetimes without a zone, in UTC; infinite times and years outside 1 to 9999 are not covered.
"""

from __future__ import annotations

import math
import re
import unicodedata
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from tidegauge.model.expression import Call, Column, Constant

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegauge.model.expression import Expression

Value = Any
Row = dict[str, Any] | None

NUMBER: Final = re.compile(
    r"[ \t\n\v\f\r]*([+-]?)(\d+(?:_\d+)*\.?(?:\d+(?:_\d+)*)?|\.\d+(?:_\d+)*)(e[+-]?\d+)?"
    r"[ \t\n\v\f\r]*",
    re.IGNORECASE | re.ASCII,
)
SPECIAL: Final = re.compile(r"[ \t\n\v\f\r]*([+-]?)(nan|inf|infinity)[ \t\n\v\f\r]*", re.IGNORECASE)
TIME: Final = re.compile(
    r"(\d{1,4})([-/ ])(\d{1,2})\2(\d{1,2})"
    r"(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?"
    r"(?:Z|\s?([+-])(\d\d)(?::?(\d\d))?|\s([A-Za-z_/]+))?)?"
)
BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64, "INT128": 128, "HUGEINT": 128}
UNSIGNED: Final = {"UTINYINT": 8, "USMALLINT": 16, "UINTEGER": 32, "UBIGINT": 64}


def evaluate(expression: Expression, before: Row = None, after: Row = None) -> Value:
    """The value on a change from `before` to `after` (None: the row does not exist)."""
    match expression:
        case Constant(value):
            return value
        case Column(side, name):
            row = before if side == "before" else after
            return None if row is None else row[name]
        case Call("present", (Constant(side),)):
            return (before if side == "before" else after) is not None
        case Call(operation, arguments):
            return OPERATIONS[operation](*(evaluate(one, before, after) for one in arguments))
    raise AssertionError(expression)


def strict(function: Callable[..., Value]) -> Callable[..., Value]:
    """NULL if any argument is NULL."""
    return lambda *values: None if any(value is None for value in values) else function(*values)


def rank(value: Value) -> Value:
    """Text compares by code points, NaN equals NaN and comes after every number."""
    if isinstance(value, float) and math.isnan(value):
        return (1, 0)
    return (
        value.encode() if isinstance(value, str) else (0, value) if isinstance(value, int | float) else value
    )


def compare(holds: Callable[[Value, Value], bool]) -> Callable[..., Value]:
    return strict(lambda left, right: holds(rank(left), rank(right)))


def conjunction(*values: Value) -> Value:
    return False if any(one is False for one in values) else None if None in values else True


def negation(value: Value) -> Value:
    return None if value is None else not value


def disjunction(*values: Value) -> Value:
    return negation(conjunction(*map(negation, values)))


equal = compare(lambda left, right: bool(left == right))
at_most = compare(lambda left, right: bool(left <= right))


def same(left: Value, right: Value) -> bool:
    return left is right if left is None or right is None else bool(equal(left, right))


def between(value: Value, least: Value, most: Value) -> Value:
    return conjunction(at_most(least, value), at_most(value, most))


def like(value: Value, pattern: Value, escape: Value = None) -> Value:
    if value is None:
        return None
    found, characters = "", iter(pattern)
    for one in characters:
        if one == escape:
            found += re.escape(next(characters))
        else:
            found += {"%": ".*", "_": "."}.get(one, re.escape(one))
    return re.fullmatch(found, value, re.DOTALL) is not None


def ilike(value: Value, pattern: Value, escape: Value = None) -> Value:
    return like(value and lower(value), lower(pattern), escape and lower(escape))


def case(*arms: Value) -> Value:
    pairs = zip(arms[:-1:2], arms[1:-1:2], strict=True)
    return next((value for test, value in pairs if test is True), arms[-1])


def extreme(choose: Callable[..., Value]) -> Callable[..., Value]:
    return lambda *values: choose((one for one in values if one is not None), key=rank, default=None)


def lower(text: str) -> str:
    return "".join(one.lower()[0] for one in text)


def upper(text: str) -> str:
    return "".join("ẞ" if one == "ß" else raised if len(raised := one.upper()) == 1 else one for one in text)


# -- numbers -------------------------------------------------------------------------------------------------


def away(value: Fraction) -> int:
    """The nearest integer, halves away from zero."""
    return int(abs(value) + Fraction(1, 2)) * (1 if value > 0 else -1)


def written(text: str) -> Fraction | None:
    found = NUMBER.fullmatch(text)
    return Fraction(Decimal("".join(part or "" for part in found.groups()))) if found else None


def double(value: Value) -> Value:
    if not isinstance(value, str):
        return float(value)
    if found := SPECIAL.fullmatch(value):
        return float(found[1] + found[2])
    return None if written(value) is None else float(value.replace("_", ""))


def boolean(value: Value) -> Value:
    words = {"true": True, "t": True, "yes": True, "y": True, "1": True,
             "false": False, "f": False, "no": False, "n": False, "0": False}  # fmt: skip
    return words.get(value.lower()) if isinstance(value, str) else bool(value)


def text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def whole_text(value: float) -> str | None:
    return str(int(value)) if math.isfinite(value) and abs(value) < 2**127 else None


def cast(kind: str, value: Value) -> Value:
    if kind == "BOOLEAN":
        return bool(value)
    if kind.startswith("DECIMAL"):
        return decimal(value, *(int(size) for size in re.findall(r"\d+", kind)))
    exact = whole(value)
    least, most = (
        (0, 2 ** UNSIGNED[kind]) if kind in UNSIGNED else (-(2 ** (BITS[kind] - 1)), 2 ** (BITS[kind] - 1))
    )
    return exact if exact is not None and least <= exact < most else None


def whole(value: Value) -> int | None:
    """As an integer: a double rounds halves to even, a decimal and a text away from zero."""
    if isinstance(value, str):
        if based := re.fullmatch(r"\s*0(x[0-9a-f]+|b[01]+)\s*", value, re.IGNORECASE):
            return int(based[1][1:], 16 if based[1][0] in "xX" else 2)
        found = written(value)
        return None if found is None else away(found)
    if isinstance(value, Decimal):
        return away(Fraction(value))
    return round(value) if math.isfinite(value) else None


def decimal(value: Value, digits: int, places: int = 0) -> Decimal | None:
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        steps = away(Fraction(value * 10.0**places))
    else:
        exact = written(value) if isinstance(value, str) else Fraction(value)
        if exact is None:
            return None
        steps = away(exact * 10**places)
    return Decimal(steps).scaleb(-places) if abs(steps) < 10**digits else None


def arithmetic(function: Callable[[float, float], float]) -> Callable[..., Value]:
    def run(left: float, right: float) -> float:
        try:
            return function(left, right)
        except (OverflowError, ValueError):
            return math.nan

    return strict(run)


def divide(left: float, right: float) -> float | None:
    return None if right == 0 else left / right


def truncated_quotient(left: float, right: float) -> float | None:
    quotient = divide(left, right)
    return quotient if quotient is None or not math.isfinite(quotient) else float(math.trunc(quotient))


def remainder(left: float, right: float) -> float | None:
    return None if right == 0 else math.nan if math.isinf(left) else math.fmod(left, right)


def stay(function: Callable[[float], int]) -> Callable[[float], float]:
    return lambda value: float(function(value)) if math.isfinite(value) else value


def round_to(value: float, digits: int) -> float:
    scale = 10.0 ** abs(digits)
    scaled = value * scale if digits >= 0 else value / scale
    if not math.isfinite(scaled):
        return value
    rounded = float(away(Fraction(scaled)))
    return rounded / scale if digits >= 0 else rounded * scale


def counts(value: Value) -> int:
    return 0 if value is None else 1


def counts_number(value: Value) -> int:
    return 0 if value is None or math.isnan(value) else 1


def steps(value: Value, *settings: Any) -> int:
    low, high, denominator, numerator, centre = settings
    if value is None or math.isnan(value):
        return 0
    return away(Fraction(min(max(value, low), high) * denominator / numerator)) - int(centre)


# -- text ----------------------------------------------------------------------------------------------------


def trim(*, left: bool, right: bool) -> Callable[..., str]:
    def run(value: str, characters: str | None = None) -> str:
        gone = [
            unicodedata.category(one) == "Zs" if characters is None else one in characters for one in value
        ]
        first, last = 0, len(value)
        while left and first < last and gone[first]:
            first += 1
        while right and first < last and gone[last - 1]:
            last -= 1
        return value[first:last]

    return run


def substring(value: str, start: float, length: float | None = None) -> str | None:
    begin, size = whole(start), None if length is None else whole(length)
    if begin is None or (length is not None and size is None):
        return None
    begin = begin - 1 if begin >= 0 else len(value) + begin
    if size is None:
        return value[max(begin, 0) :]
    first, last = sorted((begin, begin + size))
    return value[max(first, 0) : max(last, 0)]


# -- times ---------------------------------------------------------------------------------------------------


def text_timestamp(value: str) -> datetime | None:
    found = TIME.fullmatch(value)
    if found is None:
        return None
    year, _, month, day, hour, minute, second, fraction, sign, hours, minutes, zone = found.groups()
    try:
        at = datetime(int(year), int(month), int(day))  # noqa: DTZ001
        clock = int(hour or 0), int(minute or 0), int(second or 0)
        if clock[0] > 24 or (clock[0] == 24 and clock[1:] != (0, 0)) or clock[1] > 59 or clock[2] > 59:
            return None
        micros = int((fraction or "0").ljust(6, "0")[:6])
        at += timedelta(hours=clock[0], minutes=clock[1], seconds=clock[2], microseconds=micros)
        if zone and zone != "UTC":
            offset = at.replace(tzinfo=ZoneInfo(zone)).utcoffset()
            assert offset is not None
            return at - offset
        if sign:
            at -= (1 if sign == "+" else -1) * timedelta(hours=int(hours), minutes=int(minutes or 0))
    except ValueError:
        return None
    return at


def time_text(value: datetime) -> str:
    found = f"{value:%Y-%m-%d %H:%M:%S}".rjust(19, "0")
    return found + (f".{value.microsecond:06d}".rstrip("0") if value.microsecond else "")


def part(unit: str, at: datetime) -> int:
    iso = at.isocalendar()
    found = {"quarter": (at.month + 2) // 3, "isoyear": iso.year, "week": iso.week, "isodow": iso.weekday,
             "dow": iso.weekday % 7, "doy": at.timetuple().tm_yday}  # fmt: skip
    return found[unit] if unit in found else int(getattr(at, unit))


def truncate(unit: str, at: datetime) -> datetime:
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    match unit:
        case "second":
            return at.replace(microsecond=0)
        case "minute":
            return at.replace(second=0, microsecond=0)
        case "hour":
            return at.replace(minute=0, second=0, microsecond=0)
        case "day":
            return midnight
        case "week":
            return midnight - timedelta(days=at.weekday())
        case "month":
            return midnight.replace(day=1)
        case "quarter":
            return midnight.replace(month=(at.month - 1) // 3 * 3 + 1, day=1)
    return midnight.replace(month=1, day=1)


def difference(unit: str, start: datetime, end: datetime) -> int:
    start, end = (one if isinstance(one, datetime) else timestamp(one) for one in (start, end))
    if unit in {"year", "quarter", "month"}:
        months = {"year": 12, "quarter": 3, "month": 1}[unit]
        return (end.year * 12 + end.month - 1) // months - (start.year * 12 + start.month - 1) // months
    length = {"week": timedelta(7), "day": timedelta(1), "hour": timedelta(hours=1),
              "minute": timedelta(minutes=1), "second": timedelta(seconds=1)}[unit]  # fmt: skip
    return (truncate(unit, end) - truncate(unit, start)) // length


def timestamp(value: date) -> datetime:
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)  # noqa: DTZ001


def shift(sign: int) -> Callable[..., Value]:
    def run(at: datetime, spans: str) -> datetime | None:
        months, days, micros = 0, 0, 0
        for count, unit in re.findall(r"(-?\d+) ([a-z]+)", spans):
            amount = sign * int(count)
            months += amount * {"year": 12, "quarter": 3, "month": 1}.get(unit, 0)
            days += amount * {"week": 7, "day": 1}.get(unit, 0)
            micros += amount * {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000,
                                "millisecond": 1000, "microsecond": 1}.get(unit, 0)  # fmt: skip
        year, month = divmod(at.year * 12 + at.month - 1 + months, 12)
        last = (datetime(year + month // 11, (month + 1) % 12 + 1, 1) - timedelta(1)).day  # noqa: DTZ001
        return at.replace(year=year, month=month + 1, day=min(at.day, last)) + timedelta(days, 0, micros)

    return run


def days(sign: int) -> Callable[..., Value]:
    def run(at: date, number: float) -> date | None:
        count = cast("INT", number)
        return None if count is None else at + timedelta(sign * count)

    return run


def place(value: Value, *values: Value) -> int | None:
    return next((n for n, one in enumerate(values) if equal(value, one)), None)


OPERATIONS: Final[dict[str, Callable[..., Value]]] = {
    "and": conjunction, "or": disjunction, "not": negation,
    "=": equal, "<>": compare(lambda left, right: bool(left != right)),
    "<": compare(lambda left, right: bool(left < right)), "<=": at_most,
    ">": compare(lambda left, right: bool(left > right)),
    ">=": compare(lambda left, right: bool(left >= right)),
    "same": same, "differs": lambda left, right: not same(left, right),
    "is null": lambda value: value is None, "is not null": lambda value: value is not None,
    "is": lambda value, truth: value is truth, "is not": lambda value, truth: value is not truth,
    "between": between, "in": lambda value, *values: disjunction(*(equal(value, one) for one in values)),
    "like": like, "not like": lambda *given: negation(like(*given)),
    "ilike": ilike, "not ilike": lambda *given: negation(ilike(*given)),
    "case": case, "coalesce": lambda *values: next((one for one in values if one is not None), None),
    "least": extreme(min), "greatest": extreme(max),
    "nullif": lambda left, right: None if equal(left, right) else left,
    "double": strict(double), "boolean": strict(boolean), "text": strict(text),
    "date": strict(lambda value: value.date() if isinstance(value, datetime) else value),
    "timestamp": strict(timestamp), "utc": strict(lambda value: value),
    "text timestamp": strict(text_timestamp),
    "time text": strict(time_text), "whole text": strict(whole_text), "cast": strict(cast),
    "negative": strict(lambda value: -value), "+": arithmetic(lambda left, right: left + right),
    "-": arithmetic(lambda left, right: left - right), "*": arithmetic(lambda left, right: left * right),
    "/": strict(divide), "%": strict(remainder), "div": strict(truncated_quotient),
    "abs": strict(abs), "floor": strict(stay(math.floor)),
    "ceil": strict(stay(math.ceil)), "round": strict(round_to),
    "lower": strict(lower), "upper": strict(upper), "length": strict(len),
    "concat": lambda *values: "".join(one for one in values if one is not None),
    "join": strict(lambda left, right: left + right),
    "trim": strict(trim(left=True, right=True)), "ltrim": strict(trim(left=True, right=False)),
    "rtrim": strict(trim(left=False, right=True)), "substring": strict(substring),
    "at": datetime.fromisoformat, "interval": lambda spans: spans,
    "part": strict(part), "truncate": strict(truncate), "difference": strict(difference),
    "later": strict(shift(1)), "earlier": strict(shift(-1)),
    "days later": strict(days(1)), "days earlier": strict(days(-1)),
    "place": place, "cell": strict(lambda so_far, size, position: so_far * size + position),
    "where": lambda condition, cell: cell if condition is True else None,
    "outside": lambda condition, cell: condition is True and cell is None,
    "counts": counts, "counts number": counts_number, "steps": steps,
}  # fmt: skip
