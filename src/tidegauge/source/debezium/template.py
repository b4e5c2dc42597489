"""The declaration that `init` writes for Debezium's events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.errors import SourceError, SpecError
from tidegauge.model.json import as_text
from tidegauge.source.batch.draft import (
    Outline,
    chosen,
    draft,
    guessed_key,
    key_lines,
    line,
    path_of,
    relative,
    source_table,
    toml_table,
)
from tidegauge.source.debezium.events import event, written

if TYPE_CHECKING:
    from pathlib import Path

    from tidegauge.model.source import Asked, Draft

_LINES: Final = 1000
_GUESSES: Final = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE"}


def looks_like_events(path: Path, begins: bytes) -> bool:
    """Whether a file of JSON with this beginning contains events."""
    first = begins.partition(b"\n")[0].strip()
    if path.suffix not in (".jsonl", ".ndjson", ".json") or not first.startswith(b"{"):
        return False
    try:
        return event(first) is not None
    except SourceError:
        return False


def template(asked: Asked) -> Draft:
    """A declaration of events in files; if no file was named, of events that will be received."""
    if asked.what is None:
        return _received(asked.table)
    path = path_of(asked)
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not files:
        raise SpecError(
            f"there are no events (*.jsonl) in {path} to see the columns in; "
            "name a folder or file with events, or use --table for events to come"
        )
    found = _outline(files[0], asked.table)
    place = line(
        "path", relative(path, asked.folder), "a file, a folder, or a pattern of files of JSON lines"
    )
    return _declared([place], found)


def _received(table: str | None) -> Draft:
    if table is None:
        raise SpecError("say which table: --table patients", key="--table")
    place = [
        line("inbox", "inbox", "a folder; tidegauge serve receives events into it"),
        line("token", "env:INBOX_TOKEN", "how a sender authenticates"),
        line("# topic", "server.public.name", "instead of inbox and token, from Kafka:"),
        '# kafka = { "bootstrap.servers" = "localhost:9092" }',
    ]
    return _declared(place, Outline(table, {}, ()))


def _declared(place: list[str], found: Outline) -> Draft:
    columns = 'columns = {}                      # fill in: { id = "BIGINT", status = "VARCHAR" }'
    if found.columns:
        columns = f"columns = {toml_table(found.columns)}"
    lines = [*place, line("table", found.table), *key_lines(found, sure=False), columns]
    return draft(source_table("debezium", *lines), found)


def _outline(file: Path, table: str | None) -> Outline:
    """A table as the first events describe it."""
    tables: dict[str, dict[str, str]] = {}
    with file.open("rb") as lines:
        for number, text in zip(range(1, _LINES + 1), lines, strict=False):
            try:
                found = event(text)
            except SourceError as error:
                raise SourceError(f"{file.name}, line {number}: {error}") from None
            if found is not None and isinstance(name := found.source.get("table"), str):
                described = {as_text(one["field"]): written(one)[0] for one in found.fields or ()}
                seen = {column: _guess(value) for column, value in (found.after or {}).items()}
                known = tables.setdefault(name, {})
                guessed = {column: kind for column, kind in seen.items() if kind or column not in known}
                tables[name] = known | guessed | described
    name = chosen(sorted(tables), table)
    columns = {column: kind or "VARCHAR" for column, kind in tables.get(name, {}).items()}
    return Outline(name, columns, guessed_key(columns))


def _guess(value: object) -> str:
    return "" if value is None else _GUESSES.get(type(value), "VARCHAR")
