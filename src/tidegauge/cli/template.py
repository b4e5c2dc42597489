"""The first tidegauge.toml, from what a table's columns seem to be."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SpecError
from tidegauge.plan.spec.source import KINDS
from tidegauge.source.batch import outline
from tidegauge.source.files.sniff import UNITS, sniff

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tidegauge.source.batch.outline import Outline

_NUMBERS: Final = ("SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")
_NAMES: Final = re.compile(r"(^|_)(id|key|uuid|name|mail|email|person|patient|user|note|address|phone)$")
"""Columns that name something, and so make no groups."""
_SETTINGS: Final = re.compile(
    r"\b(host|hostaddr|port|user|password|dbname|service|passfile)\s*=", re.IGNORECASE
)
"""What a connection string of keywords and values has in it."""
_VERSIONS: Final = ("dbt_valid_from", "dbt_valid_to")


@dataclass(frozen=True)
class Draft:
    """What is known of a source: the lines that declare it, and what its releases can speak of."""

    source: Iterable[str]
    table: str
    numbers: list[str]
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Columns of text, and their values where they are known."""
    next: str = "tidegauge plan"
    """What to do once the declaration is as it should be."""


def template(
    what: str | None, folder: Path, *, kind: str | None, table: str | None, schema: str | None
) -> Draft:
    """A first declaration of what lies there."""
    if kind is not None and kind not in KINDS:
        raise SpecError(f"one of {', '.join(KINDS)}", key="--kind")
    if what is None:
        if kind != "debezium":
            raise SpecError(
                "say where the table is: tidegauge init changes.csv, app.db, exports/patients.parquet --kind snapshots, "
                "env:DATABASE_URL --table patients; or --kind debezium --table patients for events over HTTP or Kafka"
            )
        return _received(table)
    if what.startswith("env:"):
        return _server(what, kind or "postgres", schema, table)
    if "://" in what or _SETTINGS.search(what):
        raise SpecError(
            "a connection string may hold a password: put it into the environment and write env:NAME_OF_THE_VARIABLE"
        )
    if schema is not None:
        raise SpecError("is for tables of PostgreSQL", key="--schema")
    path = Path(what)
    found = outline.kind_of(path)
    if kind == "snapshots" or found == "duckdb":
        if kind not in (None, "snapshots"):
            raise SpecError(
                f"a DuckDB file cannot be followed as {kind}; read it whole: snapshots", key="--kind"
            )
        return _snapshots(path, folder, found if found in ("sqlite", "duckdb") else "parquet", table)
    if kind is not None and found != kind and (kind, found) != ("debezium", "files"):
        raise SpecError(f"{path.name} does not look like one of {kind}, but of {found}", key="--kind")
    drafts = {"sqlite": _sqlite, "debezium": _events, "files": _files}
    return drafts[kind or found](path, folder, table)


def text(draft: Draft) -> str:
    """A whole tidegauge.toml, with the rest of what could be said in comments."""
    return "\n".join([*draft.source, *_rest(draft), ""])


def _quoted(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    """A key of TOML."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _quoted(name)


def _line(key: str, value: str | list[str], remark: str = "") -> str:
    shown = _quoted(value) if isinstance(value, str) else f"[{', '.join(map(_quoted, value))}]"
    return f"{key} = {shown}".ljust(34 if remark else 0) + (f"# {remark}" if remark else "")


def _lines(kind: str, *lines: str) -> list[str]:
    return ["[source]", f'kind = "{kind}"', *lines]


def _relative(path: Path, folder: Path) -> str:
    try:
        return path.resolve().relative_to(folder.resolve()).as_posix()
    except ValueError:
        return path.resolve().as_posix()


def _unit(columns: Iterable[str]) -> list[str]:
    whose = next((column for column in columns if column.lower() in UNITS), "person_id")
    return [
        _line("# unit", whose, "what privacy protects, where a person may own several rows; with it:"),
        "# max_rows = 3                    # how many rows of one person count at any time",
    ]


def _entry(found: Outline, *, sure: bool) -> list[str]:
    if not found.key:
        return [
            'entry = ""                        # fill in: the column, or columns, that tell its rows apart'
        ]
    key = found.key[0] if len(found.key) == 1 else list(found.key)
    return [
        _line("entry", key, "the primary key" if sure else "guessed: the column that tells its rows apart"),
        *_unit(found.columns),
    ]


def _draft(source: list[str], found: Outline, then: str = "tidegauge plan") -> Draft:
    apart = {*found.key, *_VERSIONS}
    kinds = {name: kind for name, kind in found.columns.items() if name not in apart}
    numbers = [name for name, kind in kinds.items() if kind.startswith(_NUMBERS)]
    words: dict[str, tuple[str, ...]] = {
        name: () for name, kind in kinds.items() if kind == "VARCHAR" and not _NAMES.search(name.lower())
    }
    return Draft(source, found.table, numbers, words, then)


def _server(dsn: str, kind: str, schema: str | None, table: str | None) -> Draft:
    if kind not in ("postgres", "snapshots"):
        raise SpecError(
            f"a table of PostgreSQL cannot be read as {kind}; one of postgres, snapshots", key="--kind"
        )
    found = outline.postgres(dsn, schema or "public", table)
    place = [
        _line("dsn", dsn, "the connection string stays in the environment"),
        _line("table", found.table),
        *([_line("schema", schema)] if schema else []),
    ]
    if kind == "snapshots":
        return _read_whole("postgres", place, found)
    return _draft(
        _lines("postgres", *place, *_entry(found, sure=True)), found, "tidegauge doctor; tidegauge plan"
    )


def _sqlite(path: Path, folder: Path, table: str | None) -> Draft:
    found = outline.sqlite(path, table)
    place = [_line("path", _relative(path, folder)), _line("table", found.table)]
    lines = _lines("sqlite", *place, *_entry(found, sure=True))
    return _draft(lines, found, "tidegauge init --install (triggers that record changes); tidegauge plan")


def _snapshots(path: Path, folder: Path, of: str, table: str | None) -> Draft:
    read = {"sqlite": outline.sqlite, "duckdb": outline.duckdb, "parquet": outline.parquet}
    found = read[of](path, table)
    return _read_whole(of, [_line("path", _relative(path, folder)), _line("table", found.table)], found)


def _read_whole(of: str, place: list[str], found: Outline) -> Draft:
    if found.columns.keys() >= set(_VERSIONS):
        past = [
            _line(name, column) for name, column in zip(("valid_from", "valid_to"), _VERSIONS, strict=True)
        ]
    else:
        past = [_line("every", "1 day", "the time from one look at the whole table to the next")]
    entry = _entry(found, sure=of in ("sqlite", "postgres"))
    return _draft(_lines("snapshots", _line("of", of), *place, *entry, *past), found)


def _events(path: Path, folder: Path, table: str | None) -> Draft:
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not files:
        raise SpecError(f"there are no events (*.jsonl) in {path} to see the columns in")
    found = outline.debezium(files, table)
    place = [_line("path", _relative(path, folder), "a file, a folder, or a pattern of files of JSON lines")]
    return _told(place, found)


def _received(table: str | None) -> Draft:
    if table is None:
        raise SpecError("say which table", key="--table")
    place = [
        _line("inbox", "inbox", "a folder; tidegauge serve receives events into it"),
        _line("token", "env:INBOX_TOKEN", "what a sender proves itself by"),
        _line("# topic", "server.public.name", "instead of inbox and token, from Kafka:"),
        '# kafka = { "bootstrap.servers" = "localhost:9092" }',
    ]
    return _told(place, outline.Outline(table, {}, ()))


def _told(place: list[str], found: Outline) -> Draft:
    kinds = ", ".join(f"{_key(name)} = {_quoted(kind)}" for name, kind in found.columns.items())
    columns = 'columns = {}                      # fill in: { id = "BIGINT", status = "VARCHAR" }'
    if kinds:
        columns = f"columns = {{ {kinds} }}"
    return _draft(
        _lines("debezium", *place, _line("table", found.table), *_entry(found, sure=False), columns), found
    )


def _files(path: Path, folder: Path, table: str | None) -> Draft:
    found = sniff(path)
    missing = [name for name, column in (("time", found.time), ("entry", found.entry)) if column is None]
    if missing:
        raise SpecError(
            f"{path.name} has no column that looks like its {' or its '.join(missing)}. "
            "Write a tidegauge.toml by hand: docs/sources/files.md shows how"
        )
    name = table or path.name.split(".", 1)[0]
    keys = {"path": _relative(path, folder), "table": name, "time": found.time, "entry": found.entry, "op": found.op,
            "before": found.before, "after": found.after}  # fmt: skip
    lines = [_line(key, value) for key, value in keys.items() if value is not None]
    lines += _unit([found.unit] if found.unit else [])
    typed = {column: kind for column, kind in found.types.items() if kind != "text"}
    if typed:
        pairs = ", ".join(f"{_key(column)} = {_quoted(kind)}" for column, kind in typed.items())
        lines.append(f"types = {{ {pairs} }}")
    numbers = [column for column, kind in found.types.items() if kind in ("integer", "number")]
    return Draft(_lines("files", *lines), name, numbers, found.values)


def _rest(draft: Draft) -> list[str]:
    table = '"' + draft.table.replace('"', '""') + '"'
    lines = [
        "",
        "[constraint]                      # what bounds the loss of one unit, for ever",
        "at_most = 4                       # changes that count, the first included",
        '# within = "30 days"              # and / or: all of them so soon after the first',
        'on_excess = "freeze"              # or "retire": leave at the last allowed change',
        "",
        "[budget]                          # for one unit, for all releases together, for ever",
        "epsilon = 1",
        "delta = 1e-6                      # without it: pure epsilon",
        "",
        "[release.total]",
        f"sql = {_quoted(f'SELECT COUNT(*) FROM {table}')}",
        '# start = "2026-01-01"            # the first reading; default: when the plan is committed',
        'every = "1 day"',
        'for = "1 year"                    # or "ever"',
        "",
        "# [release.change_7_days]          # how that changed in a week: the same measurements tell it, at no cost",
        '# of = "total"',
        '# window = "7 days"',
    ]
    for column, values in list(draft.words.items())[:1]:
        quoted = '"' + column.replace('"', '""') + '"'
        seen = "the groups below were seen in the data: keep only what is public anyway"
        lines += [
            "",
            f"# [release.{_key(f'by_{column}')}]".ljust(34)
            + f"# {seen if values else 'declare every group: they are public'}",
            f"# sql = {_quoted(f'SELECT {quoted}, COUNT(*) FROM {table} GROUP BY {quoted}')}",
            f"# groups.{_key(column)} = [{', '.join(map(_quoted, values or ('one', 'another')))}]",
            '# every = "1 day"',
        ]
    for column in draft.numbers[:1]:
        quoted = '"' + column.replace('"', '""') + '"'
        lines += [
            "",
            f"# [release.{_key(f'mean_{column}')}]",
            f"# sql = {_quoted(f'SELECT AVG({quoted}) FROM {table}')}",
            f"# bounds.{_key(column)} = [0, 100]".ljust(34)
            + "# values are clamped into these; choose them without looking",
            '# every = "1 day"',
        ]
    return lines
