"""JSON: the type of what records and answers hold, and readers that check what a record says.

A reader returns the value in its type, or raises TypeError, which never shows the value.  Code that reads a
record that may have been altered catches it and says which record that is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn, TypeAlias

Json: TypeAlias = "str | int | float | bool | Sequence[Json] | Mapping[str, Json] | None"
"""Any JSON value."""
JsonObject: TypeAlias = Mapping[str, Json]
"""A JSON object, for reading; what writes one returns dict[str, Json]."""
Scalar: TypeAlias = int | float | str
"""A number or a text."""

_NAMES: Final[dict[type, str]] = {
    str: "a text",
    bool: "true or false",
    int: "an integer",
    float: "a number",
    type(None): "null",
}


def parse_json(text: str | bytes) -> Json:
    """The value of a JSON text.  Raises ValueError where the text is not JSON."""
    found: Json = json.loads(text)
    return found


def as_text(value: Json) -> str:
    """A text."""
    if not isinstance(value, str):
        _refuse("a text", value)
    return value


def as_whole(value: Json) -> int:
    """An integer."""
    if isinstance(value, bool) or not isinstance(value, int):
        _refuse("an integer", value)
    return value


def as_number(value: Json) -> float:
    """A number, whole or not; an integer stays an integer."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse("a number", value)
    return value


def as_flag(value: Json) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        _refuse("true or false", value)
    return value


def as_scalar(value: Json) -> Scalar:
    """A number or a text."""
    return value if isinstance(value, str) else as_number(value)


def as_list(value: Json) -> Sequence[Json]:
    """A list."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        _refuse("a list", value)
    return value


def as_object(value: Json) -> JsonObject:
    """An object."""
    if not isinstance(value, Mapping):
        _refuse("an object", value)
    return value


def objects(value: Json) -> list[JsonObject]:
    """A list of objects."""
    return [as_object(one) for one in as_list(value)]


def lists(value: Json) -> list[Sequence[Json]]:
    """A list of lists."""
    return [as_list(one) for one in as_list(value)]


def tables(value: Json) -> dict[str, JsonObject]:
    """An object whose values are objects."""
    return {name: as_object(one) for name, one in as_object(value).items()}


def texts(value: Json) -> dict[str, str]:
    """An object whose values are texts."""
    return {name: as_text(one) for name, one in as_object(value).items()}


def _refuse(wanted: str, value: Json) -> NoReturn:
    found = _NAMES.get(type(value), "an object" if isinstance(value, Mapping) else "a list")
    raise TypeError(f"{found} where {wanted} is needed")
