"""The lines of a [source] table that `init` writes, for all kinds."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SourceError, SpecError
from tidegauge.model.source import Draft

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tidegauge.model.source import Asked

UNITS: Final = (
    "person", "person_id", "user", "user_id", "patient", "patient_id", "customer", "customer_id",
    "member", "member_id", "student", "student_id", "client", "client_id", "account_id",
)  # fmt: skip
"""Column names that probably name a unit."""
_KEYS: Final = ("id", "entry", "key", "pk", "uuid")
_NUMBERS: Final = ("SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")
_NAMES: Final = re.compile(r"(^|_)(id|key|uuid|name|mail|email|person|patient|user|note|address|phone)$")
"""Columns that identify something, and so make no groups."""
_HEAD: Final = 1 << 16


@dataclass(frozen=True)
class Outline:
    """A table, its columns and their SQL types, and its primary key, if these are known."""

    table: str
    columns: Mapping[str, str]
    key: Sequence[str]


def path_of(asked: Asked) -> Path:
    """The named path.  Raises SpecError if --schema was given, too: a file has no schema."""
    if asked.schema is not None:
        raise SpecError("is for tables of PostgreSQL", key="--schema")
    assert asked.what is not None
    return Path(asked.what)


def head(asked: Asked) -> bytes:
    """The beginning of the named file; empty if it is not a file.  Raises SourceError if unreadable."""
    if asked.what is None or asked.server or Path(asked.what).is_dir():
        return b""
    try:
        with Path(asked.what).open("rb") as file:
            return file.read(_HEAD)
    except OSError as error:
        raise SourceError(f"the file cannot be read ({error.strerror})", path=asked.what) from None


def relative(path: Path, folder: Path) -> str:
    """The path relative to the folder of the declaration, if it is in that folder."""
    try:
        return path.resolve().relative_to(folder.resolve()).as_posix()
    except ValueError:
        return path.resolve().as_posix()


def quoted(value: str) -> str:
    """A string of TOML."""
    return json.dumps(value, ensure_ascii=False)


def bare(name: str) -> str:
    """A key of TOML, quoted if necessary."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quoted(name)


def toml_table(values: Mapping[str, str]) -> str:
    """An inline table of strings."""
    return f"{{ {', '.join(f'{bare(name)} = {quoted(value)}' for name, value in values.items())} }}"


def line(key: str, value: str | list[str], remark: str = "") -> str:
    """One line of a declaration, with the remark as a comment."""
    shown = quoted(value) if isinstance(value, str) else f"[{', '.join(map(quoted, value))}]"
    return f"{key} = {shown}".ljust(34 if remark else 0) + (f"# {remark}" if remark else "")


def source_table(kind: str, *lines: str) -> tuple[str, ...]:
    """A [source] of this kind."""
    return ("[source]", f'kind = "{kind}"', *lines)


def unit_lines(columns: Iterable[str]) -> list[str]:
    """Comments that show how a unit is declared, with the most probable column."""
    whose = next((column for column in columns if column.lower() in UNITS), "person_id")
    return [
        line("# unit", whose, "what privacy protects, where a person may own several rows; with it:"),
        "# max_rows = 3                    # how many rows of one person count at any time",
    ]


def key_lines(found: Outline, *, sure: bool) -> list[str]:
    """The lines that declare the primary key.  `sure`: the database declares it."""
    if not found.key:
        return ['key = ""                          # fill in: the column, or columns, that identify its rows']
    key = found.key[0] if len(found.key) == 1 else list(found.key)
    return [
        line("key", key, "the primary key" if sure else "guessed: the column that identifies its rows"),
        *unit_lines(found.columns),
    ]


def guessed_key(columns: Iterable[str]) -> list[str]:
    """The most probable primary key."""
    named = list(columns)
    return [next((key for key in _KEYS if key in named), named[0])] if named else []


def chosen(tables: Sequence[str], wanted: str | None) -> str:
    """The wanted table, or the only one.  Raises SpecError if it does not exist or is not clear."""
    if wanted is None and len(tables) == 1:
        return tables[0]
    there = f"there are: {', '.join(tables)}" if tables else "there is none that can be read here"
    if wanted is None:
        raise SpecError(f"say which table; {there}", key="--table")
    if wanted not in tables:
        raise SpecError(f"there is no table of this name that can be read; {there}", key="--table")
    return wanted


def draft(
    source: Iterable[str], found: Outline, *, apart: Iterable[str] = (), then: str = "tidegauge plan"
) -> Draft:
    """A declaration with these lines.  No release is proposed for the key and the columns `apart`."""
    left_out = {*found.key, *apart}
    kinds = {name: kind for name, kind in found.columns.items() if name not in left_out}
    numbers = tuple(name for name, kind in kinds.items() if kind.startswith(_NUMBERS))
    words: dict[str, tuple[str, ...]] = {
        name: () for name, kind in kinds.items() if kind == "VARCHAR" and not _NAMES.search(name.lower())
    }
    return Draft(tuple(source), found.table, numbers, words, then)
