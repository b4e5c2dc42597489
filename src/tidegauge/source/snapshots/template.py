"""The declaration that `init` writes for a table that is read whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from tidegauge.model.quantity import instant
from tidegauge.source.batch.draft import (
    Outline,
    chosen,
    draft,
    guessed_key,
    head,
    key_lines,
    line,
    path_of,
    relative,
    source_table,
)
from tidegauge.source.batch.guess import CURRENT, DELETED, by_name, ends_unknown, validity, version_begin
from tidegauge.source.files import template as files
from tidegauge.source.files.sniff import sniff
from tidegauge.source.files.suggestion import Shape
from tidegauge.source.postgres.kind import needs_extra
from tidegauge.source.snapshots.readers import DuckDBReader
from tidegauge.source.sqlite import template as sqlite
from tidegauge.source.sqlite.kind import MAGIC

if TYPE_CHECKING:
    from tidegauge.model.source import Asked, Draft
    from tidegauge.source.files.suggestion import Suggestion

_EVERY = line("every", "1 day", "the time from one read of the whole table to the next")


def template(asked: Asked) -> Draft:
    """A declaration from the table's columns; one with columns of validity contains its past."""
    if not asked.server and head(asked)[8:12] != b"DUCK" and not head(asked).startswith(MAGIC):
        return _of_file(asked)
    of, place, found = _of_database(asked)
    span = validity(found.columns)
    marks = [mark for mark in (by_name(CURRENT, found.columns), by_name(DELETED, found.columns)) if mark]
    key = key_lines(found, sure=of in ("sqlite", "postgres"))
    begins, current = version_begin(found.columns), by_name(CURRENT, found.columns)
    deleted = by_name(DELETED, found.columns)
    unsure: tuple[str, ...] = ()
    if span is not None:
        begins, past = span[0], _validity(*span, deleted=deleted)
    elif begins is not None and current is not None:
        past, unsure = _marked(begins, current, deleted=deleted), (ends_unknown(begins, current),)
    else:
        begins, past = None, [_EVERY]
    lines = source_table("snapshots", line("of", of), *place, *key, *past)
    begun = draft(lines, found, apart=() if begins is None else (begins, *(span or ()), *marks))
    begun = replace(begun, unsure=(*begun.unsure, *unsure))
    if of != "duckdb" or begins is None:
        return begun
    first, last = _ends(DuckDBReader(path_of(asked), found.table), begins)
    return replace(begun, first=first, last=last, open_ended=True)


def _ends(reader: DuckDBReader, column: str) -> tuple[int | None, int | None]:
    """The first and the last time in a column."""
    ends = [pc.min_max(times).as_py() for (times,) in reader.scan([], {column: "TIMESTAMP"})]
    known = [instant(at) for one in ends for at in one.values() if at is not None]
    return (min(known), max(known)) if known else (None, None)


def _validity(
    valid_from: str, valid_to: str, *, deleted: str | None = None, inclusive: bool = False
) -> list[str]:
    lines = [
        line("valid_from", valid_from),
        line("valid_to", valid_to, "empty in the version that is valid now"),
    ]
    if inclusive:
        lines.append("inclusive = true                  # a version is still valid on the day of valid_to")
    if deleted is not None:
        lines.append(line("deleted", deleted, "marks a version as a deletion"))
    return lines


def _marked(valid_from: str, current: str, *, deleted: str | None) -> list[str]:
    lines = [
        line("valid_from", valid_from),
        line("current", current, "true in the version that is valid now"),
    ]
    if deleted is not None:
        lines.append(line("deleted", deleted, "marks a version as a deletion"))
    return lines


def _of_file(asked: Asked) -> Draft:
    """A declaration from the first rows of csv, jsonl or parquet files."""
    path = path_of(asked)
    found = sniff(path)
    table = files.table_of(path, asked)
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    of = {".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}.get(suffix, "csv")
    place = [line("of", of), line("path", relative(path, asked.folder)), line("table", table)]
    key = 'key = ""                          # fill in: the column, or columns, that identify a row'
    place.append(line("key", found.key) if found.key else key)
    lines = source_table("snapshots", *place, *_past(found), *files.described(found))
    return files.drafted(found, lines, table, files.understood(found))


def _past(found: Suggestion) -> list[str]:
    if found.shape is Shape.VERSIONS and found.valid_from and not found.valid_to:
        return _marked(found.valid_from, str(found.current), deleted=found.deleted)
    if found.shape is Shape.VERSIONS and found.valid_from and found.valid_to:
        return _validity(found.valid_from, found.valid_to, deleted=found.deleted, inclusive=found.inclusive)
    if found.shape is Shape.PICTURES and found.time and found.every:
        return [
            line("taken", found.time, "the date of each picture of the whole table"),
            line("every", found.every, "the time from one picture to the next"),
        ]
    return [_EVERY]


def _of_database(asked: Asked) -> tuple[str, list[str], Outline]:
    """The database that contains the table, the lines that say where it is, and its columns and key."""
    if asked.server:
        try:
            from tidegauge.source.postgres import template as postgres  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise needs_extra(error) from None
        return "postgres", *postgres.outline(asked)
    if head(asked).startswith(MAGIC):
        return "sqlite", *sqlite.outline(asked)
    path = path_of(asked)
    reader = DuckDBReader(path, chosen(DuckDBReader(path, "").tables(), asked.table))
    place = [line("path", relative(path, asked.folder)), line("table", reader.table)]
    return "duckdb", place, Outline(reader.table, reader.columns, guessed_key(reader.columns))
