"""Expressions in Spark's SQL, over two structs `before` and `after`.

The session computes in ANSI mode and in UTC (tidegauge.engine.spark.session).  Nothing here may raise: every
operation that can fail has a form that gives NULL instead.  docs/expressions.md says what each one gives.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from tidegauge.engine import words
from tidegauge.engine.spark import values
from tidegauge.errors import QueryError
from tidegauge.model.expression import Call, Column, Constant, Native

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tidegauge.model.expression import Expression, Scalar
    from tidegauge.model.query import Component

    Kind = Literal["text", "integer", "decimal", "double", "boolean", "date", "time", "null"]

_SPACE_SEPARATORS: Final = (
    " \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
)
_CHOICES: Final = frozenset({"case", "coalesce", "least", "greatest", "nullif"})
_KINDS: Final[dict[str, Kind]] = {
    **dict.fromkeys(("double", "negative", "+", "-", "*", "/", "%", "div"), "double"),
    **dict.fromkeys(("abs", "floor", "ceil", "round"), "double"),
    **dict.fromkeys(("text", "time text", "whole text", "lower", "upper", "concat", "join"), "text"),
    **dict.fromkeys(("trim", "ltrim", "rtrim", "substring"), "text"),
    **dict.fromkeys(("date", "days later", "days earlier"), "date"),
    **dict.fromkeys(("timestamp", "utc", "text timestamp", "at", "truncate", "later", "earlier"), "time"),
    **dict.fromkeys(("length", "part", "difference", "place", "cell", "where"), "integer"),
    **dict.fromkeys(("counts", "counts number", "steps"), "integer"),
}  # fmt: skip
"""What operations give, where it is always the same; the others give booleans."""
_DECIMAL: Final = re.compile(r"DECIMAL\((\d+)(?:, (\d+))?\)")
_FIELDS: Final = {"isoyear": "YEAROFWEEK", "dow": "DOW", "isodow": "DOW_ISO"}


def quote(name: str) -> str:
    """The name as an identifier of Spark's SQL, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def literal(value: Scalar) -> str:
    """The value as a literal of Spark's SQL."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return f"{value}L" if -(2**63) < value < 2**63 else f"CAST('{value}' AS BIGINT)"
        case float():
            return f"double('{value!r}')"
    return "'" + "".join(map(_escaped, str(value))) + "'"


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    return character if character.isprintable() or character > "\x9f" else f"\\u{ord(character):04x}"


def _arms(found: str, listed: Sequence[tuple[str, int]]) -> str:
    """SQL: the number of the first of these values that is the one that was found."""
    return f"CASE {found} {' '.join(f'WHEN {one} THEN {n}L' for one, n in listed)} END"


def _halved(found: str, listed: Sequence[tuple[str, int]]) -> str:
    """The same for sorted texts: few comparisons, however many there are."""
    if len(listed) <= _FEW:
        return _arms(found, listed)
    middle = len(listed) // 2
    low, high = (_halved(found, part) for part in (listed[:middle], listed[middle:]))
    return f"CASE WHEN {found} < {listed[middle][0]} THEN {low} ELSE {high} END"


_FEW: Final = 4
_places = partial(words.word, re.compile(r"-?\d+"))


class Renderer:
    """Renders expressions over rows with columns of these types, as Spark names them."""

    def __init__(self, types: Mapping[str, str]) -> None:
        self._types = types
        self._rules = self._all_rules()

    def __call__(self, expression: Expression) -> str:
        """The expression in Spark's SQL.  Raises QueryError where Spark has nothing for it."""
        match expression:
            case Constant(value):
                return literal(value)
            case Column(side, name):
                return f"{side}.{quote(name)}"
            case Call(operation, arguments):
                return self._rules[operation](*arguments)
            case Native():
                raise QueryError(
                    "is in the SQL of the embedded engine, as early versions committed it; "
                    "it runs with kind = 'duckdb' alone"
                )
        raise AssertionError(expression)

    def amount(self, component: Component) -> str:
        """The integer that counts: NULL is 0, and nothing lies beyond the bounds and 0."""
        found = f"coalesce(CAST({self(component.value)} AS BIGINT), 0L)"
        return f"least(greatest({found}, {min(component.lower, 0)}L), {max(component.upper, 0)}L)"

    def kind(self, expression: Expression) -> Kind:
        """What kind of value an expression gives."""
        match expression:
            case Constant(value):
                found: dict[type, Kind] = {str: "text", bool: "boolean", int: "integer", float: "double"}
                return found.get(type(value), "null")
            case Column(_, name):
                return _kind_of_type(self._types[name])
            case Call("cast", (Constant(name), _)):
                return _kind_of_type(str(name))
            case Call("case", arguments):
                return self._first_kind([*arguments[1:-1:2], arguments[-1]])
            case Call(operation, arguments) if operation in _CHOICES:
                return self._first_kind(arguments)
            case Call(operation, _):
                return _KINDS.get(operation, "boolean")
        return "null"

    def _first_kind(self, expressions: tuple[Expression, ...] | list[Expression]) -> Kind:
        return next((kind for one in expressions if (kind := self.kind(one)) != "null"), "null")

    # -- rules -----------------------------------------------------------------------------------------------

    def _function(self, name: str, *arguments: Expression) -> str:
        return f"{name}({', '.join(map(self, arguments))})"

    def _between_words(self, word: str, *arguments: Expression) -> str:
        return "(" + f" {word} ".join(map(self, arguments)) + ")"

    def _chosen(self, name: str, *arguments: Expression) -> str:
        """least and greatest of Spark need two arguments."""
        return self._function(name, *arguments) if len(arguments) > 1 else self(arguments[0])

    def _between(self, value: Expression, least: Expression, most: Expression) -> str:
        return f"({self(value)} BETWEEN {self(least)} AND {self(most)})"

    def _in(self, value: Expression, *listed: Expression) -> str:
        found = self(value)
        return "(" + " OR ".join(f"{found} = {self(one)}" for one in listed) + ")"

    def _like(self, value: Expression, pattern: Expression, escape: Expression | None = None) -> str:
        """As a regular expression: Spark's own LIKE always has an escape character and refuses patterns."""
        return f"({self._text(value)} RLIKE {literal(_as_regex(_value(pattern), _value(escape)))})"

    def _ilike(self, value: Expression, pattern: Expression, escape: Expression | None = None) -> str:
        small = [None if one is None else _small(str(one)) for one in (_value(pattern), _value(escape))]
        return f"({values.lower(self._text(value))} RLIKE {literal(_as_regex(*small))})"

    def _case(self, *arms: Expression) -> str:
        *pairs, default = map(self, arms)
        body = " ".join(
            f"WHEN CAST({test} AS BOOLEAN) THEN {value}"
            for test, value in zip(pairs[::2], pairs[1::2], strict=True)
        )
        return f"CASE {body} ELSE {default} END"

    def _double(self, value: Expression) -> str:
        if self.kind(value) == "text":
            return values.double_of_text(self(value))
        return f"CAST({self(value)} AS DOUBLE)"

    def _boolean(self, value: Expression) -> str:
        kind, found = self.kind(value), self(value)
        if kind == "text":
            return values.boolean_of_text(found)
        return found if kind == "boolean" else f"CAST({found} AS BOOLEAN)"

    def _text(self, value: Expression) -> str:
        kind, found = self.kind(value), self(value)
        if kind == "text":
            return found
        return values.text_of_double(found) if kind == "double" else f"CAST({found} AS STRING)"

    def _cast(self, name: Expression, value: Expression) -> str:
        goal, kind, found = words.sql_type(name), self.kind(value), self(value)
        if goal == "BOOLEAN":
            return self._boolean(value) if kind in ("text", "boolean", "null") else f"({found} <> 0)"
        if parts := _DECIMAL.fullmatch(goal):
            return values.decimal(found, kind, int(parts[1]), int(parts[2] or 0))
        if goal in values.WIDTHS or goal in values.UNSIGNED:
            return values.integer(found, kind, goal)
        raise QueryError(f"the engine 'spark' cannot cast to {goal}; use kind = 'duckdb'")

    def _whole_text(self, value: Expression) -> str:
        return f"CAST({values.integer(self(value), 'double', 'INT128')} AS STRING)"

    def _divided(self, sign: str, left: Expression, right: Expression) -> str:
        return f"({self(left)} {sign} nullif({self(right)}, 0D))"

    def _round(self, value: Expression, digits: Expression) -> str:
        return values.rounded(self(value), int(_places(digits)))

    def _concat(self, *texts: Expression) -> str:
        return "concat(" + ", ".join(f"coalesce({self._text(one)}, '')" for one in texts) + ")"

    def _trim(self, side: str, text: Expression, characters: Expression | None = None) -> str:
        what = literal(_SPACE_SEPARATORS) if characters is None else self(characters)
        return f"trim({side} {what} FROM {self._text(text)})"

    def _substring(self, text: Expression, start: Expression, length: Expression | None = None) -> str:
        places = [
            None if one is None else values.integer(self(one), self.kind(one), "BIGINT")
            for one in (start, length)
        ]
        assert places[0] is not None
        return values.substring(self._text(text), places[0], places[1])

    def _time(self, value: Expression) -> str:
        return self(value) if self.kind(value) == "time" else f"CAST({self(value)} AS TIMESTAMP)"

    def _part(self, unit: Expression, time: Expression) -> str:
        name = words.unit(unit)
        part = f"extract({_FIELDS.get(name, name.upper())} FROM {self._time(time)})"
        if name == "dow":
            return f"({part} - 1)"
        return f"CAST(floor({part}) AS BIGINT)" if name == "second" else part

    def _difference(self, unit: Expression, start: Expression, end: Expression) -> str:
        return values.difference(words.unit(unit), self._time(start), self._time(end))

    def _moved(self, sign: int, time: Expression, span: Expression) -> str:
        months, days, micros = (sign * one for one in _parts(span))
        return values.moved(self._time(time), months, days, micros)

    def _days(self, sign: str, date: Expression, number: Expression) -> str:
        days = values.integer(self(number), self.kind(number), "INT")
        return f"date_add(CAST({self(date)} AS DATE), CAST({sign}({days}) AS INT))"

    def _place(self, value: Expression, *listed: Expression) -> str:
        found, places = self(value), {one: n for n, one in reversed(list(enumerate(listed)))}
        texts = [one for one in places if isinstance(one, Constant) and isinstance(one.value, str)]
        if self.kind(value) != "text" or len(texts) < len(places) or len(found) > values.SHORT:
            return f"({_arms(found, [(self(one), n) for one, n in places.items()])})"
        texts.sort(key=lambda one: str(one.value).encode())
        return f"({_halved(found, [(self(one), places[one]) for one in texts])})"

    def _outside(self, condition: Expression, cell: Expression) -> str:
        return f"coalesce({self(condition)} AND {self(cell)} IS NULL, FALSE)"

    def _counts_number(self, value: Expression) -> str:
        return f"CASE WHEN nullif({self(value)}, {values.NAN}) IS NULL THEN 0L ELSE 1L END"

    def _steps(self, value: Expression, *settings: Expression) -> str:
        """Clamped, scaled to the grid and rounded half away from zero; NULL and NaN are 0."""
        low, high, denominator, numerator, centre = map(self, settings)

        def clamped(number: str) -> str:
            scaled = f"least(greatest({number}, {low}), {high})"
            if denominator != literal(1.0):
                scaled = f"({scaled} * {denominator})"
            if numerator != literal(1.0):
                scaled = f"({scaled} / {numerator})"
            found = f"CAST({values.half_away(scaled)} AS BIGINT)"
            shifted = found if centre == literal(0) else f"({found} - {centre})"
            return f"CASE WHEN {number} IS NULL OR isnan({number}) THEN 0L ELSE {shifted} END"

        return values.let(self(value), clamped)

    def _all_rules(self) -> dict[str, Callable[..., str]]:
        joined, not_same = self._between_words, lambda left, right: f"(NOT ({self(left)} <=> {self(right)}))"
        signs = ("=", "<>", "<", "<=", ">", ">=", "+", "-", "*")
        return {
            "present": lambda side: f"({words.side(side)} IS NOT NULL)",
            "and": partial(joined, "AND"), "or": partial(joined, "OR"),
            "not": lambda one: f"(NOT {self(one)})",
            **{sign: partial(joined, sign) for sign in signs},
            "same": partial(joined, "<=>"), "differs": not_same,
            "is": partial(joined, "<=>"), "is not": not_same,
            "is null": lambda one: f"({self(one)} IS NULL)",
            "is not null": lambda one: f"({self(one)} IS NOT NULL)",
            "between": self._between, "in": self._in,
            "like": self._like, "not like": lambda *given: f"(NOT {self._like(*given)})",
            "ilike": self._ilike, "not ilike": lambda *given: f"(NOT {self._ilike(*given)})",
            "case": self._case,
            **{name: partial(self._function, name) for name in ("coalesce", "nullif", "abs")},
            **{name: partial(self._chosen, name) for name in ("least", "greatest")},
            "floor": lambda one: values.floor(self(one)),
            "ceil": lambda one: values.floor(self(one), up=True),
            "round": self._round, "length": lambda one: f"length({self._text(one)})",
            "lower": lambda one: values.lower(self._text(one)),
            "upper": lambda one: values.upper(self._text(one)),
            "concat": self._concat, "join": partial(joined, "||"), "substring": self._substring,
            "trim": partial(self._trim, "BOTH"), "ltrim": partial(self._trim, "LEADING"),
            "rtrim": partial(self._trim, "TRAILING"),
            "double": self._double, "boolean": self._boolean, "text": self._text, "cast": self._cast,
            "date": lambda one: f"CAST({self(one)} AS DATE)", "timestamp": self._time, "utc": self._time,
            "text timestamp": lambda one: values.timestamp_of_text(self._text(one)),
            "time text": lambda one: values.let(self._time(one), values.text_of_time),
            "whole text": self._whole_text,
            "negative": lambda one: f"(-{self(one)})",
            "/": partial(self._divided, "/"), "%": partial(self._divided, "%"),
            "div": lambda left, right: values.cut(self._divided("/", left, right)),
            "at": lambda at: f"TIMESTAMP '{words.instant(at)}'",
            "interval": lambda spans: f"INTERVAL '{words.spans(spans)}'",
            "part": self._part, "difference": self._difference,
            "truncate": lambda unit, time: f"date_trunc('{words.unit(unit)}', {self._time(time)})",
            "later": partial(self._moved, 1), "earlier": partial(self._moved, -1),
            "days later": partial(self._days, ""), "days earlier": partial(self._days, "-"),
            "place": self._place,
            "cell": lambda cell, size, place: f"({self(cell)} * {self(size)} + {self(place)})",
            "where": lambda condition, cell: f"CASE WHEN {self(condition)} THEN {self(cell)} END",
            "outside": self._outside,
            "counts": lambda one: f"CASE WHEN {self(one)} IS NULL THEN 0L ELSE 1L END",
            "counts number": self._counts_number,
            "steps": self._steps,
        }  # fmt: skip


def _kind_of_type(name: str) -> Kind:
    if name.startswith("DECIMAL"):
        return "decimal"
    plain: dict[str, Kind] = {
        "STRING": "text", "VARCHAR": "text", "DOUBLE": "double", "FLOAT": "double", "BOOLEAN": "boolean",
        "DATE": "date", "TIMESTAMP": "time",
    }  # fmt: skip
    return plain.get(name, "integer")


def _value(expression: Expression | None) -> Scalar:
    """The value of a pattern, which is a constant."""
    if expression is None:
        return None
    if not isinstance(expression, Constant):
        raise QueryError("the engine 'spark' takes constant patterns alone")
    return expression.value


def _small(text: str) -> str:
    return "".join(one.lower()[0] for one in text)


def _as_regex(pattern: Scalar, escape: Scalar = None) -> str | None:
    if pattern is None:
        return None
    found, characters = "", iter(str(pattern))
    for one in characters:
        taken = next(characters, "") if one == escape else one
        plain = "".join(f"\\x{{{ord(character):x}}}" for character in taken)
        found += plain if one == escape else {"%": ".*", "_": "."}.get(one, plain)
    return rf"(?s)\A{found}\z"


def _parts(span: Expression) -> tuple[int, int, int]:
    """Months, days and microseconds of an interval."""
    if not (isinstance(span, Call) and span.operation == "interval"):
        raise QueryError("the engine 'spark' takes constant intervals alone")
    parts = words.spans(span.arguments[0]).split(" ")
    found = [0, 0, 0]
    for number, unit in zip(map(int, parts[::2]), parts[1::2], strict=True):
        for n, sizes in enumerate((values.MONTHS, values.DAYS, values.MICROS)):
            found[n] += number * sizes.get(unit, 0)
    return found[0], found[1], found[2]


def seen(watched: tuple[str, ...] | None) -> str:
    """SQL, after a condition: it is an insertion, a deletion or an update of a watched column."""
    if watched is None:
        return ""
    differ = (f"NOT (before.{quote(name)} <=> after.{quote(name)})" for name in watched)
    return f" AND ({' OR '.join(['NOT alive', 'NOT was_alive', *differ])})"
