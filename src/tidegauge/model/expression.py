"""Expressions over one row or one change: a small tree that every engine renders in its own language.

A committed plan holds expressions as text, `v1:` and JSON.  A literal is a JSON scalar, a column is ["after",
name] or ["before", name], and everything else is an operation with its arguments: ["and", ["=", ["after",
"ward"], "a"], ...]. The operations are listed in OPERATIONS; docs/expressions.md says what each one gives.
No operation fails: what cannot be computed is NULL.  Every engine gives the same value for an expression, to
the last bit (tests/engine/semantics.py).
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from tidegauge.errors import StoreError
from tidegauge.model.json import as_list, as_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic_core import CoreSchema

    from tidegauge.model.json import Json

Side = Literal["before", "after"]
Scalar = str | int | float | bool | None

VERSION: Final = "v1:"
SIDES: Final[tuple[Side, ...]] = ("before", "after")
ANY: Final = 1 << 30

OPERATIONS: Final[dict[str, tuple[int, int]]] = {
    # which rows
    "present": (1, 1),  # whether the row of this side ("before" or "after") is there
    "and": (1, ANY), "or": (1, ANY), "not": (1, 1),
    "=": (2, 2), "<>": (2, 2), "<": (2, 2), "<=": (2, 2), ">": (2, 2), ">=": (2, 2),
    "same": (2, 2), "differs": (2, 2),  # NULL equals NULL here
    "is null": (1, 1), "is not null": (1, 1), "is": (2, 2), "is not": (2, 2),  # is: TRUE or FALSE
    "between": (3, 3), "in": (2, ANY),
    "like": (2, 3), "not like": (2, 3), "ilike": (2, 3), "not ilike": (2, 3),  # value, pattern, escape
    # one value from others
    "case": (3, ANY),  # condition, value, ..., value otherwise
    "coalesce": (1, ANY), "least": (1, ANY), "greatest": (1, ANY), "nullif": (2, 2),
    # what one kind of value is read as; NULL where it is none
    "double": (1, 1), "boolean": (1, 1), "text": (1, 1), "date": (1, 1),
    "timestamp": (1, 1),  # of a date, or of a time of another precision
    "utc": (1, 1),  # a time with a zone
    "text timestamp": (1, 1),  # of a text, with a zone or without
    "time text": (1, 1),  # the text of a time; NULL before the year 1
    "whole text": (1, 1),  # the text of a double that is the result of integers
    "cast": (2, 2),  # type, value
    # numbers
    "negative": (1, 1), "+": (2, 2), "-": (2, 2), "*": (2, 2), "/": (2, 2), "%": (2, 2), "div": (2, 2),
    "abs": (1, 1), "floor": (1, 1), "ceil": (1, 1), "round": (2, 2),
    # text
    "lower": (1, 1), "upper": (1, 1), "length": (1, 1), "concat": (1, ANY), "join": (2, 2),
    "trim": (1, 2), "ltrim": (1, 2), "rtrim": (1, 2), "substring": (2, 3),
    # times
    "at": (1, 1), "interval": (1, 1),  # literals
    "part": (2, 2), "truncate": (2, 2), "difference": (3, 3),  # unit, time(s)
    "later": (2, 2), "earlier": (2, 2),  # time, interval
    "days later": (2, 2), "days earlier": (2, 2),  # date, number
    # what a release measures
    "place": (2, ANY),  # value, the declared values: its place among them, from 0
    "cell": (3, 3),  # cell so far, number of values of the next group, place in it
    "where": (2, 2),  # condition, cell
    "outside": (2, 2),  # condition, cell: whether the condition holds and no declared cell does
    "counts": (1, 1), "counts number": (1, 1),  # 1 if there is a value (or a number that is not NaN), else 0
    "steps": (6, 6),  # number, lowest, highest, denominator and numerator of the grid, centre in steps
}  # fmt: skip
"""Operation -> the least and the most arguments it takes."""


class Expression(ABC):
    """A node of the tree; str() is its canonical text."""

    @abstractmethod
    def json(self) -> Json:
        """The node as JSON."""

    def children(self) -> tuple[Expression, ...]:
        """The arguments of an operation."""
        return ()

    def walk(self) -> Iterator[Expression]:
        """This node and everything below it."""
        yield self
        for child in self.children():
            yield from child.walk()

    def __str__(self) -> str:
        return VERSION + json.dumps(self.json(), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> CoreSchema:
        from pydantic_core import core_schema  # noqa: PLC0415  (a record is read where pydantic is there)

        return core_schema.no_info_plain_validator_function(
            parse, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )


@dataclass(frozen=True)
class Constant(Expression):
    """A text, number, boolean or NULL."""

    value: Scalar

    def json(self) -> Scalar:
        """The scalar itself."""
        return self.value


@dataclass(frozen=True)
class Column(Expression):
    """A column of the old or the new row."""

    side: Side
    name: str

    def json(self) -> list[str]:
        """Its side and its name."""
        return [self.side, self.name]


@dataclass(frozen=True)
class Call(Expression):
    """An operation with its arguments."""

    operation: str
    arguments: tuple[Expression, ...]

    def json(self) -> list[Json]:
        """The operation and its arguments."""
        return [self.operation, *(one.json() for one in self.arguments)]

    def children(self) -> tuple[Expression, ...]:
        """Its arguments."""
        return self.arguments


@dataclass(frozen=True)
class Native(Expression):
    """DuckDB's SQL, from a plan that was committed before there were expressions."""

    text: str

    def json(self) -> str:
        """The SQL."""
        return self.text

    def __str__(self) -> str:
        return self.text


def call(operation: str, *arguments: Expression | Scalar) -> Call:
    """The operation on these arguments; a plain value becomes a constant."""
    least, most = OPERATIONS[operation]
    assert least <= len(arguments) <= most, operation
    return Call(operation, tuple(one if isinstance(one, Expression) else Constant(one) for one in arguments))


def parse(text: object) -> Expression:
    """The expression with this canonical text.  Raises StoreError for an operation of a later version."""
    if isinstance(text, Expression):
        return text
    assert isinstance(text, str)
    if not text.startswith(VERSION):
        return Native(text)
    return _node(json.loads(text.removeprefix(VERSION)))


def _node(found: Json) -> Expression:
    if found is None or isinstance(found, str | int | float):
        return Constant(found)
    first, *rest = as_list(found)
    operation = as_text(first)
    side = next((one for one in SIDES if one == operation), None)
    if side is not None and len(rest) == 1 and isinstance(rest[0], str):
        return Column(side, rest[0])
    least, most = OPERATIONS.get(operation, (1, 0))
    if not least <= len(rest) <= most:
        raise StoreError(
            f"the plan has an expression that this version of Tidegauge does not know ({operation!r}). "
            "Nothing was read or spent. Install the version that committed the plan, or a later one."
        )
    return Call(operation, tuple(_node(one) for one in rest))
