"""Names for SQL statements, and secrets from the environment."""

from __future__ import annotations

import os
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SpecError
from tidegauge.model.quoting import literal, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["key_columns", "listed", "literal", "nearest", "no_column", "no_table", "quote", "secret"]

_SHOWN: Final = 12
"""So many names are listed in a message."""


def listed(names: Iterable[str]) -> str:
    """SQL identifiers, with commas between them."""
    return ", ".join(map(quote, names))


def key_columns(key: str | Sequence[str], *, required: bool = False) -> tuple[str, ...]:
    """The columns of a primary key, of which one may be given by its name alone."""
    if required and not key:
        raise SpecError("name the columns of the primary key", key="source.key")
    return (key,) if isinstance(key, str) else tuple(key)


def nearest(wanted: str, names: Iterable[str]) -> str:
    """The end of a message: a name that is similar to the wanted one, or the names that there are."""
    known = {name.lower(): name for name in names}
    if near := get_close_matches(wanted.lower(), known, n=1):
        return f"did you mean {quote(known[near[0]])}?"
    found = sorted(known.values())
    if not found:
        return "there is none."
    return f"there are: {listed(found[:_SHOWN])}{', ...' if len(found) > _SHOWN else ''}."


def no_table(wanted: str, names: Iterable[str]) -> str:
    """The message for a table that does not exist.  `names`: those of the tables that do."""
    near = nearest(wanted, names)
    return f"there is no table {quote(wanted)}; {near} Nothing was read. Correct [source] table."


def no_column(table: str, missing: Sequence[str], columns: Iterable[str]) -> str:
    """The message for columns that a table does not have.  `columns`: those that it has."""
    return f"{quote(table)} has no column {listed(missing)}; {nearest(missing[0], columns)}"


def no_key_or_unit(table: str, missing: Sequence[str], columns: Iterable[str]) -> str:
    """The message for columns of the declared key or unit that a table does not have."""
    return f"{no_column(table, missing, columns)} Correct [source] key or unit."


def secret(text: str, *, key: str) -> str:
    """The secret itself, or for 'env:NAME' the value of that environment variable."""
    if not text.startswith("env:"):
        return text
    name = text.removeprefix("env:")
    value = os.environ.get(name)
    if not value:
        raise SpecError(f"the environment variable {name} is not set", key=key)
    return value
