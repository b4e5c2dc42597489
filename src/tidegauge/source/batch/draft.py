"""The lines of a [source] table that `init` writes, for all kinds."""

from __future__ import annotations

import glob
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SourceError, SpecError
from tidegauge.model.person import looks_like_person, person_columns
from tidegauge.model.source import Draft
from tidegauge.source.batch.guess import KEYS, by_name, like_key, names_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tidegauge.model.source import Asked

_NUMBERS: Final = ("SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")
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
    """The first bytes of the file, or of the first that a glob names; empty if it is no file.

    Raises SourceError if the file cannot be read.
    """
    if asked.what is None or asked.server or Path(asked.what).is_dir():
        return b""
    path = Path(asked.what)
    if not path.exists() and glob.has_magic(asked.what):
        path = Path(next(iter(sorted(glob.glob(asked.what, recursive=True))), asked.what))  # noqa: PTH207
    try:
        with path.open("rb") as file:
            return file.read(_HEAD)
    except OSError as error:
        raise SourceError(
            f"the file cannot be read ({error.strerror}). Nothing was written. Check the path",
            path=asked.what,
        ) from None


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


def unit_lines(columns: Iterable[str], *, key: Iterable[str] = (), max_rows: int = 3) -> list[str]:
    """The lines that declare a unit, if a column looks like a person; else a comment that shows them."""
    whose = next(iter(person_columns(columns)), None)
    if whose is None and any(map(looks_like_person, key)):
        return []  # a row is a person
    if whose is None:
        return [
            line("# unit", "person_id", "if a person may own several rows, declare both:"),
            "# max_rows = 3                    # this protects a person instead of a row",
        ]
    return [
        line("unit", whose, "what privacy protects: a person, who may own several rows"),
        f"max_rows = {max_rows}".ljust(34) + "# rows of one person that count at any time",
    ]


def key_lines(found: Outline, *, sure: bool) -> list[str]:
    """The lines that declare the primary key.  `sure`: the database declares it."""
    if not found.key:
        return ['key = ""                          # fill in: the column, or columns, that identify a row']
    key = found.key[0] if len(found.key) == 1 else list(found.key)
    return [
        line("key", key, "the primary key" if sure else "guessed: the column that identifies a row"),
        *unit_lines((column for column in found.columns if column not in found.key), key=found.key),
    ]


def guessed_key(columns: Iterable[str]) -> list[str]:
    """The most probable primary key."""
    named = list(columns)
    likely = [by_name(KEYS, named), *filter(like_key, named), *named]
    return [next(column for column in likely if column is not None)] if named else []


def chosen(tables: Sequence[str], wanted: str | None) -> str:
    """The wanted table, or the only one.  Raises SpecError if it does not exist or is not clear."""
    if wanted is None and len(tables) == 1:
        return tables[0]
    there = f"there are: {', '.join(tables)}" if tables else "none can be read (a database role needs SELECT)"
    if wanted is None:
        raise SpecError(f"say which table; {there}", key="--table")
    if wanted not in tables:
        raise SpecError(f"no table of this name can be read; {there}", key="--table")
    return wanted


def draft(
    source: Iterable[str], found: Outline, *, apart: Iterable[str] = (), then: str = "tidegauge plan"
) -> Draft:
    """A declaration with these lines.  No release is proposed for the key and the columns `apart`."""
    left_out = {*found.key, *apart}
    kinds = {name: kind for name, kind in found.columns.items() if name not in left_out}
    free = {
        name: kind for name, kind in kinds.items() if not names_rows(name) and not looks_like_person(name)
    }
    numbers = tuple(name for name, kind in free.items() if kind.startswith(_NUMBERS))
    words: dict[str, tuple[str, ...]] = {name: () for name, kind in free.items() if kind == "VARCHAR"}
    return Draft(tuple(source), found.table, numbers, words, then)
