"""Expressions in DuckDB's SQL, over two structs `before` and `after`.

Every operation that can fail has a TRY of its own.  The TRY around a whole expression is a second net only:
DuckDB computes what several expressions share once, outside of that TRY.
"""

from __future__ import annotations

import json
from functools import lru_cache, partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from tidegauge.engine import words
from tidegauge.model import quoting
from tidegauge.model.expression import Call, Column, Constant, Native
from tidegauge.model.quoting import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidegauge.model.expression import Expression, Scalar
    from tidegauge.model.query import Component

__all__ = ["amount", "literal", "quote", "render"]

_YEAR_ONE: Final = "TIMESTAMP '0001-01-01 00:00:00'"
# A clock time with something after it that is no digit: an offset or the name of a zone.
_ZONED: Final = r"':[0-9][0-9.:]*\s*[A-Za-z+-]'"
_NAN: Final = "CAST('NaN' AS DOUBLE)"
_FEW: Final = 64
"""The place of a value among so many is found by a search."""
_MANY: Final = 1000
"""An ENUM of more values is a type with a name."""


def render(expression: Expression) -> str:
    """The expression in DuckDB's SQL."""
    match expression:
        case Constant(value):
            return literal(value)
        case Column(side, name):
            return f"{side}.{quote(name)}"
        case Native(text):
            return text
        case Call(operation, arguments):
            return _RULES[operation](*arguments)
    raise AssertionError(expression)


def amount(component: Component) -> str:
    """The integer that counts: NULL is 0, and whatever `value` says, nothing lies beyond the bounds and 0.

    The loss is computed from the bounds, so the engine enforces them and does not rely on `value`.
    """
    found = f"coalesce(TRY(CAST({render(component.value)} AS BIGINT)), 0)"
    return f"least(greatest({found}, {min(component.lower, 0)}), {max(component.upper, 0)})"


def literal(value: Scalar) -> str:
    """The value as an SQL literal."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return f"({value})" if value < 0 else str(value)
        case float():
            digits = repr(value)
            digits = digits if "e" in digits else f"{digits}e0"
            return f"({digits})" if value < 0 else digits
    return quoting.literal(str(value))


def _function(name: str, *arguments: Expression) -> str:
    return f"{name}({', '.join(map(render, arguments))})"


def _between_words(word: str, *arguments: Expression) -> str:
    return "(" + f" {word} ".join(map(render, arguments)) + ")"


def _suffix(word: str, value: Expression) -> str:
    return f"({render(value)} {word})"


def _try_cast(kind: str, value: Expression) -> str:
    return f"TRY_CAST({render(value)} AS {kind})"


def _between(value: Expression, least: Expression, most: Expression) -> str:
    return f"({render(value)} BETWEEN {render(least)} AND {render(most)})"


def _in(value: Expression, *values: Expression) -> str:
    return f"({render(value)} IN ({', '.join(map(render, values))}))"


def _like(word: str, value: Expression, pattern: Expression, escape: Expression | None = None) -> str:
    ending = f" ESCAPE {render(escape)}" if escape is not None else ""
    return f"({render(value)} {word} {render(pattern)}{ending})"


def _case(*arms: Expression) -> str:
    *pairs, default = map(render, arms)
    body = " ".join(f"WHEN {test} THEN {value}" for test, value in zip(pairs[::2], pairs[1::2], strict=True))
    return f"CASE {body} ELSE {default} END"


def _text_timestamp(value: Expression) -> str:
    text = render(value)
    return (
        f"CASE WHEN LENGTH({text}) > 12 AND REGEXP_MATCHES({text}, {_ZONED}) "
        f"THEN TRY(TRY_CAST({text} AS TIMESTAMPTZ) AT TIME ZONE 'UTC') ELSE TRY_CAST({text} AS TIMESTAMP) END"
    )


def _time_text(value: Expression) -> str:
    """What lies before DuckDB's first instant would be fatal to it."""
    return f"CASE WHEN {render(value)} >= {_YEAR_ONE} THEN CAST({render(value)} AS VARCHAR) END"


def _divided(sign: str, left: Expression, right: Expression) -> str:
    return f"({render(left)} {sign} NULLIF({render(right)}, 0e0))"


def _substring(text: Expression, *places: Expression) -> str:
    cut = (_try_cast("BIGINT", place) for place in places)
    return f"TRY(SUBSTRING({', '.join([render(text), *cut])}))"


def _of_unit(name: str, unit: Expression, *times: Expression) -> str:
    return f"TRY({name}('{words.unit(unit)}', {', '.join(map(render, times))}))"


def _difference(unit: Expression, start: Expression, end: Expression) -> str:
    """Weeks begin on Mondays; what DATE_DIFF counts as a week is another thing in each version of DuckDB."""
    if words.unit(unit) != "week":
        return _of_unit("DATE_DIFF", unit, start, end)
    mondays = ", ".join(f"DATE_TRUNC('week', {render(time)})" for time in (start, end))
    return f"TRY(DATE_DIFF('day', {mondays}) // 7)"


def _days(sign: str, date: Expression, number: Expression) -> str:
    return f"TRY({render(date)} {sign} {_try_cast('INTEGER', number)})"


def _place(value: Expression, *values: Expression) -> str:
    """A list is searched from its beginning; many texts are the values of an ENUM, which has a hash table."""
    if len(values) > _FEW and (kind := _enum(values, named=len(values) > _MANY)) is not None:
        text = f"CAST({render(value)} AS VARCHAR)"
        return f"CAST(ENUM_CODE(TRY_CAST({text} AS {kind})) AS BIGINT)"
    return f"(LIST_POSITION([{', '.join(map(render, values))}], {render(value)}) - 1)"


@lru_cache(maxsize=64)
def _enum(values: tuple[Expression, ...], *, named: bool) -> str | None:
    """The ENUM of these values, or the name of its type (see `types`); None where they cannot be one."""
    texts = _texts(values)
    if len(set(texts)) != len(values):
        return None
    if not named:
        return f"ENUM({', '.join(map(literal, texts))})"
    return f"groups_{blake2b(json.dumps(texts).encode(), digest_size=16).hexdigest()}"


def types(expression: Expression) -> dict[str, list[str]]:
    """The types that a connection must have to compute an expression: name -> values of the ENUM, in order.

    DuckDB would read an ENUM of many values again wherever a statement has it, which takes longer than
    the data.
    """
    found = {}
    match expression:
        case Call("place", (value, *values)):
            if len(values) > _MANY and (name := _enum(tuple(values), named=True)) is not None:
                found[name] = _texts(values)
            return found | types(value)
        case Call(_, arguments):
            for one in arguments:
                found |= types(one)
    return found


def _texts(values: Sequence[Expression]) -> list[str]:
    return [one.value for one in values if isinstance(one, Constant) and isinstance(one.value, str)]


def _cell(so_far: Expression, size: Expression, place: Expression) -> str:
    return f"({render(so_far)} * {render(size)} + {render(place)})"


def _where(condition: Expression, cell: Expression) -> str:
    return f"TRY(CASE WHEN {render(condition)} THEN {render(cell)} END)"


def _outside(condition: Expression, cell: Expression) -> str:
    return f"COALESCE(TRY({render(condition)} AND {render(cell)} IS NULL), FALSE)"


def _counts(value: Expression) -> str:
    return f"CASE WHEN TRY({render(value)}) IS NULL THEN 0 ELSE 1 END"


def _counts_number(value: Expression) -> str:
    return f"CASE WHEN TRY(NULLIF({render(value)}, {_NAN})) IS NULL THEN 0 ELSE 1 END"


def _steps(value: Expression, *settings: Expression) -> str:
    """Clamped, scaled to the grid and rounded half away from zero; NULL and NaN are 0."""
    low, high, denominator, numerator, centre = map(render, settings)
    scaled = f"LEAST(GREATEST({render(value)}, {low}), {high})"
    if denominator != "1.0e0":
        scaled += f" * {denominator}"
    if numerator != "1.0e0":
        scaled += f" / {numerator}"
    rounded = f"TRY_CAST(ROUND({scaled}) AS BIGINT)"
    shifted = rounded if centre == "0" else f"{rounded} - {centre}"
    return f"TRY(CASE WHEN NULLIF({render(value)}, {_NAN}) IS NULL THEN 0 ELSE {shifted} END)"


_RULES: Final[dict[str, Callable[..., str]]] = {
    "present": lambda side: f"{words.side(side)} IS NOT NULL",
    "and": partial(_between_words, "AND"),
    "or": partial(_between_words, "OR"),
    "not": lambda value: f"(NOT {render(value)})",
    **{sign: partial(_between_words, sign) for sign in ("=", "<>", "<", "<=", ">", ">=", "+", "-", "*")},
    "same": partial(_between_words, "IS NOT DISTINCT FROM"),
    "differs": partial(_between_words, "IS DISTINCT FROM"),
    "is null": partial(_suffix, "IS NULL"),
    "is not null": partial(_suffix, "IS NOT NULL"),
    "is": partial(_between_words, "IS"),
    "is not": partial(_between_words, "IS NOT"),
    "between": _between,
    "in": _in,
    **{word: partial(_like, word.upper()) for word in ("like", "not like", "ilike", "not ilike")},
    "case": _case,
    **{name: partial(_function, name.upper()) for name in (
        "coalesce", "least", "greatest", "nullif", "abs", "floor", "ceil", "round", "lower", "upper",
        "length", "concat", "trim", "ltrim", "rtrim")},
    "double": partial(_try_cast, "DOUBLE"),
    "boolean": partial(_try_cast, "BOOLEAN"),
    "text": lambda value: f"CAST({render(value)} AS VARCHAR)",
    "date": partial(_try_cast, "DATE"),
    "timestamp": partial(_try_cast, "TIMESTAMP"),
    "utc": lambda value: f"TRY({render(value)} AT TIME ZONE 'UTC')",
    "text timestamp": _text_timestamp,
    "time text": _time_text,
    "whole text": lambda value: f"CAST({_try_cast('HUGEINT', value)} AS VARCHAR)",
    "cast": lambda kind, value: _try_cast(words.sql_type(kind), value),
    "negative": lambda value: f"(-{render(value)})",
    "/": partial(_divided, "/"),
    "%": partial(_divided, "%"),
    "div": lambda left, right: f"TRUNC{_divided('/', left, right)}",
    "join": partial(_between_words, "||"),
    "substring": _substring,
    "at": lambda at: f"TIMESTAMP '{words.instant(at)}'",
    "interval": lambda spans: f"INTERVAL '{words.spans(spans)}'",
    "part": lambda unit, time: f"DATE_PART('{words.unit(unit)}', {render(time)})",
    "truncate": partial(_of_unit, "DATE_TRUNC"),
    "difference": _difference,
    "later": lambda time, span: f"TRY({render(time)} + {render(span)})",
    "earlier": lambda time, span: f"TRY({render(time)} - {render(span)})",
    "days later": partial(_days, "+"),
    "days earlier": partial(_days, "-"),
    "place": _place,
    "cell": _cell,
    "where": _where,
    "outside": _outside,
    "counts": _counts,
    "counts number": _counts_number,
    "steps": _steps,
}  # fmt: skip
