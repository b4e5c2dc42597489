"""The declaration that `init` writes for a changelog in files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.errors import SpecError
from tidegauge.model.source import Draft
from tidegauge.source.batch.draft import line, path_of, quoted, relative, source_table, toml_table, unit_lines
from tidegauge.source.batch.guess import names_rows
from tidegauge.source.files.affix import Affix
from tidegauge.source.files.preview import preview
from tidegauge.source.files.sniff import sniff
from tidegauge.source.files.suggestion import Shape

if TYPE_CHECKING:
    from tidegauge.model.source import Asked
    from tidegauge.source.files.notation import Notation
    from tidegauge.source.files.suggestion import Suggestion


def template(asked: Asked) -> Draft:
    """A declaration from the first rows.  Raises SpecError if no column looks like a time or a key."""
    path = path_of(asked)
    found = sniff(path, changes_only=True)
    missing = [name for name, column in (("time", found.time), ("key", found.key)) if column is None]
    if missing:
        raise SpecError(
            f"{path.name} has no column that looks like its {' or its '.join(missing)}; its columns are "
            f"{', '.join(found.file.schema) or 'not named'}. Correct the first line of the file, or write a "
            "tidegauge.toml by hand: docs/sources/files.md shows how"
        )
    keys = {"path": relative(path, asked.folder), "table": table_of(path, asked), "time": found.time,
            "time_unit": found.time_unit, "key": found.key, "op": found.op, "before": found.before,
            "after": found.after}  # fmt: skip
    lines = [line(key, value) for key, value in keys.items() if value is not None]
    return drafted(
        found, source_table("files", *lines, *described(found)), table_of(path, asked), understood(found)
    )


def table_of(path: Path, asked: Asked) -> str:
    """The name of the table in SQL: as asked for, or that of the file before the first dot or wildcard."""
    stem = path.name.split(".", 1)[0].split("*", 1)[0].rstrip("-_ ")
    return asked.table or stem or "changes"


def described(found: Suggestion) -> list[str]:
    """The lines of a [source] that say what is protected, and how text is written."""
    unit = [found.unit] if found.unit else []
    lines = unit_lines(unit, key=[found.key] if found.key else [], max_rows=found.max_rows)
    lines += _written(found.notation, zoned=found.zoned)
    typed = {column: kind for column, kind in found.types.items() if kind != "text" and column != found.unit}
    if typed:
        lines.append(f"types = {toml_table(typed)}")
    return lines


def _written(notation: Notation, *, zoned: bool) -> list[str]:
    """The lines that declare a notation, without what is usual."""
    keys: dict[str, str | None] = {
        "delimiter": notation.delimiter,
        "decimal": None if notation.decimal == "." else notation.decimal,
        "thousands": notation.thousands,
        "time_zone": notation.time_zone,
    }
    lines = [line(key, value) for key, value in keys.items() if value is not None]
    if notation.date_format:
        formats = list(notation.date_format)
        lines.append(line("date_format", formats if len(formats) > 1 else formats[0]))
    if notation.nulls:
        lines.append(line("nulls", list(notation.nulls), "words that mean an empty value"))
    if notation.time_zone is None and not zoned:
        lines.append('# time_zone = "Europe/Berlin"       # of times without an offset; default: UTC')
    return lines


def drafted(found: Suggestion, source: tuple[str, ...], table: str, said: tuple[str, ...]) -> Draft:
    """The draft of a declaration; neither key nor unit is proposed as a group or a mean."""
    apart = {found.key, found.unit}
    numbers = tuple(column for column in found.numbers if column not in apart and not names_rows(column))
    words = {
        column: values
        for column, values in found.values.items()
        if column not in apart and not names_rows(column) and len(values) > 1
    }
    return Draft(
        source, table, numbers, words, understood=said, unsure=found.unsure, rows=preview(found),
        first=found.times.first, last=found.times.last, changes=found.changes,
        open_ended=found.shape is Shape.VERSIONS,
    )  # fmt: skip


def understood(found: Suggestion) -> tuple[str, ...]:
    """What the file seems to be, one line per decision, without data."""
    kind = found.shape.value
    if found.shape is Shape.CHANGES:
        if found.before:
            old, new = Affix(found.before).pattern, Affix(found.after or "").pattern
            kind += f": old values in {old}, new values in {new}"
        elif found.after:
            kind += f": new values in {Affix(found.after).pattern}"
        kind += f"; '{found.op}' says what happened" if found.op else "; one without new values is a deletion"
    lines = [f"A row is: {kind}"]
    when = found.valid_from or found.time
    if when is not None:
        until = f" to '{found.valid_to}'" if found.valid_to else ""
        lines.append(f"Time: '{when}'{until}{_how(found)}")
    if found.valid_to and found.inclusive:
        lines.append(f"'{found.valid_to}' is the last day of a version, and counts")
    if found.current and not found.valid_to:
        lines.append(f"'{found.current}' marks the version that is valid now; the others have ended")
    elif found.current:
        lines.append(f"'{found.current}' is not needed: '{found.valid_to}' says which version is current")
    lines.append(f"Key: '{found.key}'" if found.key else "Key: not found; fill it in")
    if found.unit:
        lines.append(f"Unit: '{found.unit}' looks like a person, so a person is protected, not a row")
    if signs := _signs(found.notation):
        lines.append(f"Text: {signs}")
    return tuple(lines)


def _how(found: Suggestion) -> str:
    if found.time_unit:
        return f", counted in {found.time_unit} since 1970"
    formats = f", written as {' or '.join(found.notation.date_format)}" if found.notation.date_format else ""
    zone = (
        "with its offset" if found.zoned else f"in {found.notation.time_zone or 'UTC, if it has no offset'}"
    )
    return f"{formats}, {zone}"


def _signs(notation: Notation) -> str:
    signs = {
        "fields separated by": notation.delimiter,
        "decimal sign": notation.decimal,
        "thousands sign": notation.thousands,
    }
    parts = [
        f"{words} {quoted(sign)}"
        for words, sign in signs.items()
        if sign is not None and (words, sign) != ("decimal sign", ".")
    ]
    return ", ".join(parts)
