"""How the text in a file writes fields, numbers and times, and the SQL that reads this text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidegauge.errors import SpecError
from tidegauge.source.batch.names import literal

SQL_TYPES: Final = {
    "text": "VARCHAR",
    "integer": "BIGINT",
    "number": "DOUBLE",
    "decimal": "DECIMAL(38,9)",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
}
"""What a column may be declared as -> the type of the embedded engine."""

_CLOCK: Final = r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,9})?)?"
_ZONE: Final = r"(Z|[+-]([01]\d|2[0-3])(:?[0-5]\d)?)"
_ISO: Final = rf"\d{{4}}-\d{{2}}-\d{{2}}([T ]{_CLOCK}{_ZONE}?)?"
_ISO_WITH_ZONE: Final = rf"\d{{4}}-\d{{2}}-\d{{2}}[T ]{_CLOCK}{_ZONE}"
_WHOLE: Final = r"\s*[+-]?\d+(\.0*)?\s*"
_BLANKS: Final = "[ \u00a0\u202f]"
"""A blank between thousands may be one that does not break the line."""
_DELIMITER: Final = re.compile(r"[\t!#$%&*,/:;<=>?@^|~ ]")
_WORDS: Final = {"YYYY": "%Y", "YY": "%y", "MM": "%m", "DD": "%d", "HH": "%H", "SS": "%S"}

MACROS: Final = (
    # Only TIMESTAMPTZ heeds an offset in text.  Text without an offset is read in the session's zone, UTC.
    f"""CREATE MACRO instant(written) AS
        CASE WHEN regexp_full_match(replace(trim(written), ' UTC', 'Z'), '{_ISO}')
        THEN epoch_us(TRY_CAST(replace(trim(written), ' UTC', 'Z') AS TIMESTAMPTZ)) END""",
    f"""CREATE MACRO instant_in(written, zone) AS
        CASE WHEN regexp_full_match(replace(trim(written), ' UTC', 'Z'), '{_ISO_WITH_ZONE}')
        THEN instant(written)
        WHEN regexp_full_match(trim(written), '{_ISO}')
        THEN epoch_us(timezone(zone, TRY_CAST(trim(written) AS TIMESTAMP))) END""",
    """CREATE MACRO since_epoch(written, per_unit) AS
        CAST(floor(TRY_CAST(written AS DECIMAL(27, 9)) * per_unit) AS DECIMAL(38, 0))""",
    "CREATE MACRO in_calendar(micros) AS micros BETWEEN -62135596800000000 AND 253402300799999999",
    "CREATE MACRO at_instant(micros) AS CASE WHEN in_calendar(micros) THEN make_timestamp(micros) END",
    f"""CREATE MACRO as_integer(written) AS
        CASE WHEN regexp_full_match(written, '{_WHOLE}') THEN TRY_CAST(written AS BIGINT) END""",
)
"""Definitions for the scratch engine; the SQL of a notation uses them."""


@dataclass(frozen=True, kw_only=True)
class Notation:
    """What the user declares of the text in a file; the default is RFC 4180, decimal points and ISO 8601.

    `time_zone` is the zone of times that have no offset, UTC if it is not given.  `nulls` are words that mean
    an empty value in columns with a declared type.
    """

    delimiter: str | None = None
    decimal: str = "."
    thousands: str | None = None
    date_format: tuple[str, ...] = ()
    time_zone: str | None = None
    nulls: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.delimiter is not None and not _DELIMITER.fullmatch(self.delimiter):
            raise SpecError(
                r'must be one character, like ";", "|" or "\t" (the tab), and neither a quote nor a letter',
                key="source.delimiter",
            )
        if self.decimal not in (".", ","):
            raise SpecError('must be "." or ","', key="source.decimal")
        if self.thousands is not None and self.thousands not in (".", ",", "'", "’", " "):
            raise SpecError('must be ".", ",", "\'" or " "', key="source.thousands")
        if self.thousands == self.decimal:
            raise SpecError(
                'must not be the decimal sign; declare decimal as well, like decimal = ","',
                key="source.thousands",
            )
        for form in self.date_format:
            _require_date_format(form)
        if self.time_zone is not None:
            _require_time_zone(self.time_zone)

    @property
    def example(self) -> str:
        """How a time is written, for messages: public examples, never data."""
        examples = (*map(_example, self.date_format), "2026-01-31", "2026-01-31T12:00:00Z")
        return " or ".join(dict.fromkeys(examples))

    def instant(self, text: str) -> str:
        """SQL: the microseconds since 1970 of a time in text; NULL where the text is no time."""
        zone = self.time_zone
        iso = f"instant({text})" if zone is None else f"instant_in({text}, {literal(zone)})"
        return _coalesce([iso, *(self._parsed(form, text) for form in self.date_format)])

    def is_empty(self, text: str) -> str:
        """SQL: whether text means that there is no value."""
        words = ", ".join(map(literal, ("", *self.nulls)))
        return f"coalesce(trim({text}), '') IN ({words})"

    def local(self, timestamp: str) -> str:
        """SQL: the microseconds since 1970 of a timestamp without a zone."""
        at_zone = timestamp if self.time_zone is None else f"timezone({literal(self.time_zone)}, {timestamp})"
        return f"epoch_us({at_zone})"

    def number(self, text: str) -> str:
        """SQL: the number in text, as text with a decimal point; NULL where the text is no number."""
        if self.decimal == "." and self.thousands is None:
            return text
        point = re.escape(self.decimal)
        split = _BLANKS if self.thousands == " " else re.escape(self.thousands or "")
        grouped = rf"|\d{{1,3}}({split}\d{{3}})+" if self.thousands else ""
        shape = rf"[+-]?(\d+{grouped})?({point}\d*)?([eE][+-]?\d+)?"
        plain = f"regexp_replace(trim({text}), {literal(split)}, '', 'g')" if split else f"trim({text})"
        return (
            f"CASE WHEN regexp_full_match(trim({text}), {literal(shape)}) "
            f"THEN replace({plain}, {literal(self.decimal)}, '.') END"
        )

    def value(self, kind: str, text: str) -> str:
        """SQL: the value of a declared type in text; NULL where the text is no such value."""
        if kind == "text":
            return text
        if kind == "boolean":
            return f"TRY_CAST({text} AS BOOLEAN)"
        if kind == "integer":
            return f"as_integer({self.number(text)})"
        if kind in ("number", "decimal"):
            return f"TRY_CAST({self.number(text)} AS {SQL_TYPES[kind]})"
        timestamp = f"at_instant({self.instant(text)})"
        if kind == "timestamp":
            return timestamp
        if self.time_zone is not None:
            timestamp = f"timezone({literal(self.time_zone)}, timezone('UTC', {timestamp}))"
        return f"CAST({timestamp} AS DATE)"

    def _parsed(self, form: str, text: str) -> str:
        found = f"try_strptime(trim({text}), {literal(form)})"
        return f"epoch_us({found})" if "%z" in form else self.local(found)


def _coalesce(choices: list[str]) -> str:
    return choices[0] if len(choices) == 1 else f"coalesce({', '.join(choices)})"


def _example(form: str) -> str:
    signs = {"%d": "31", "%m": "01", "%Y": "2026", "%y": "26", "%H": "14", "%I": "02", "%M": "05", "%S": "09",
             "%p": "PM", "%b": "Jan", "%B": "January", "%f": "25", "%n": "25", "%z": "+0200",
             "%j": "031"}  # fmt: skip
    return re.sub(r"%.", lambda found: signs.get(found.group(), found.group()), form)


def _require_date_format(form: str) -> None:
    """Raise SpecError unless the format names a day, a month and a year."""
    if (
        "%" not in form
        and (guess := re.sub("YYYY|YY|MM|DD|HH|SS", lambda word: _WORDS[word[0]], form)) != form
    ):
        raise SpecError(f"write %d, %m and %Y, like {guess!r}", key="source.date_format")
    if not re.search("%[yY]", form) or not ("%j" in form or ("%d" in form and re.search("%[mbB]", form))):
        raise SpecError(
            'must name day, month and year, like "%d.%m.%Y" or "%m/%d/%Y %H:%M:%S"', key="source.date_format"
        )
    if unknown := set(re.findall("%(.?)", form)) - set("aAbBdfHIjmMnpSyYz"):
        raise SpecError(
            f"%{min(unknown)} is not known; use %d, %m, %Y, %y, %b, %H, %I, %p, %M, %S, %f and %z",
            key="source.date_format",
        )


def _require_time_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise SpecError(
            f"{name!r} is not the name of a time zone; write one like Europe/Berlin or America/New_York",
            key="source.time_zone",
        ) from None
