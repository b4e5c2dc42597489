"""Exact numbers, instants and durations, from what a user wrote.

Inside Tidegauge an instant is an int, microseconds since 1970-01-01 UTC, and a duration is an int of
microseconds or a whole number of calendar months.  Theory also takes plain numbers; a duration and a plain
number never mix.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NamedTuple

from tidegauge.errors import SpecError
from tidegauge.model.json import as_whole

if TYPE_CHECKING:
    from tidegauge.model.json import JsonObject

Number = int | float | Decimal | Fraction
Quantity = Number | timedelta | datetime | str

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

_UNITS: Final = {"microsecond": 1, "millisecond": 1000, "second": SECOND, "minute": MINUTE, "hour": HOUR,
                 "day": DAY, "week": 7 * DAY}  # fmt: skip
_CALENDAR: Final = {"month": 1, "quarter": 3, "year": 12}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PART: Final = re.compile(r"\s*(?:(\d+(?:\.\d+)?)\s*)?([a-z]+)\s*,?")


class Exact(NamedTuple):
    """A number and whether it measures time (in microseconds) or is plain."""

    value: Fraction
    temporal: bool


def fraction(value: Number | str) -> Fraction:
    """The number that was written: 0.1 is one tenth, not the double next to it."""
    if isinstance(value, int | Fraction) and not isinstance(value, bool):
        return Fraction(value)
    try:
        return Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        raise SpecError(f"'{value}' is not a finite number") from None


def exact(value: Quantity | Exact) -> Exact:
    """A plain number, or a time or duration in microseconds."""
    if isinstance(value, Exact):
        return value
    if isinstance(value, timedelta):
        return Exact(Fraction(micros(value)), temporal=True)
    if isinstance(value, datetime):
        return Exact(Fraction(instant(value)), temporal=True)
    if isinstance(value, str):
        return Exact(Fraction(Span.parse(value).fixed()), temporal=True)
    return Exact(fraction(value), temporal=False)


def alike(*values: Quantity | Exact) -> list[Fraction]:
    """The values as fractions of one unit; refused if plain numbers and times are mixed."""
    pairs = [exact(value) for value in values]
    if len({pair.temporal for pair in pairs}) > 1:
        raise SpecError("plain numbers and times or durations cannot be compared; use one or the other")
    return [pair.value for pair in pairs]


def micros(value: timedelta) -> int:
    """A timedelta in whole microseconds, exactly."""
    return value // timedelta(microseconds=1)


def instant(value: datetime | str) -> int:
    """Microseconds since the epoch; a time without a zone is UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            raise SpecError(
                f"{value!r} is not a date or time (write 2026-01-31 or 2026-01-31T12:00:00Z)"
            ) from None
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return micros(value - _EPOCH)


def moment(at: int) -> datetime:
    """The instant as an aware datetime in UTC."""
    return _EPOCH + timedelta(microseconds=at)


def rfc3339(at: int) -> str:
    """The instant as RFC 3339 UTC text, with no more digits than needed."""
    text = moment(at).isoformat(timespec="seconds" if at % SECOND == 0 else "microseconds")
    return text.replace("+00:00", "Z")


@dataclass(frozen=True, order=True)
class Span:
    """A duration: whole calendar months, or microseconds, never both."""

    months: int = 0
    micros: int = 0

    def __post_init__(self) -> None:
        if self.months and self.micros:
            raise SpecError("a duration is either calendar months and years or days and shorter, not both")
        if self.months < 0 or self.micros < 0 or not (self.months or self.micros):
            raise SpecError("a duration must be longer than 0")

    @classmethod
    def parse(cls, value: str | timedelta | Span) -> Span:
        """Read '1 day', '90 minutes', '2 years', '1 hour 30 minutes'."""
        if isinstance(value, Span):
            return value
        if isinstance(value, timedelta):
            return cls(micros=micros(value))
        if not isinstance(value, str):
            raise SpecError(
                f"{value} is not a duration: write it with its unit ('1 day', '90 minutes', '2 years')"
            )
        text, at, months, total = value.strip().lower(), 0, 0, Fraction(0)
        while at < len(text) and (part := _PART.match(text, at)):
            count, unit = Fraction(part[1] or 1), part[2].removesuffix("s")
            if unit in _CALENDAR and count.denominator == 1:
                months += int(count) * _CALENDAR[unit]
            elif unit in _UNITS:
                total += count * _UNITS[unit]
            else:
                break
            at = part.end()
        if not text or at < len(text) or total.denominator != 1:
            raise SpecError(f"{value!r} is not a duration (write '1 day', '90 minutes', '2 years')")
        return cls(months=months, micros=int(total))

    @classmethod
    def from_json(cls, record: JsonObject) -> Span:
        """The duration of a declaration in its canonical form."""
        return cls(**{name: as_whole(value) for name, value in record.items()})

    def fixed(self) -> int:
        """Its length in microseconds, where it has one length."""
        if self.months:
            raise SpecError(f"'{self}' has no fixed length; write it in days")
        return self.micros

    def after(self, start: int, times: int = 1) -> int:
        """The instant `times` of these spans after start; the day of month is kept where the month has it."""
        if not self.months:
            return start + times * self.micros
        begin = moment(start)
        year, month = divmod(begin.year * 12 + begin.month - 1 + times * self.months, 12)
        for day in range(begin.day, 27, -1):
            try:
                return instant(begin.replace(year=year, month=month + 1, day=day))
            except ValueError:
                continue
        return instant(begin.replace(year=year, month=month + 1))

    def __str__(self) -> str:
        if self.months:
            count, unit = (self.months // 12, "year") if self.months % 12 == 0 else (self.months, "month")
        else:
            unit, size = next((u, s) for u, s in reversed(_UNITS.items()) if self.micros % s == 0)
            if unit == "week":
                unit, size = "day", DAY
            count = self.micros // size
        return f"{count} {unit}{'' if count == 1 else 's'}"
