"""What a table looks like, from the database's own catalog: a first draft of a declaration, without a look at its rows."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SourceError, SpecError
from tidegauge.source.batch.names import secret
from tidegauge.source.debezium.events import event, written
from tidegauge.source.snapshots import readers
from tidegauge.source.sqlite import triggers as sqlite_triggers
from tidegauge.source.sqlite.source import SQLite

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

_KEYS: Final = ("id", "entry", "key", "pk", "uuid")
_LINES: Final = 1000
_GUESSES: Final = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE"}


@dataclass(frozen=True)
class Outline:
    """A table, its columns and their SQL types, and its primary key, as far as they are known."""

    table: str
    columns: Mapping[str, str]
    key: Sequence[str]


def kind_of(path: Path) -> str:
    """What is in a file: sqlite, duckdb, debezium (events), or else a changelog: files."""
    if path.is_dir():
        return "debezium"
    try:
        with path.open("rb") as file:
            head = file.read(1 << 16)
    except OSError as error:
        raise SourceError(f"the file cannot be read ({error.strerror})", path=str(path)) from None
    if head.startswith(b"SQLite format 3\0"):
        return "sqlite"
    if head[8:12] == b"DUCK":
        return "duckdb"
    line = head.partition(b"\n")[0].strip()
    if path.suffix in (".jsonl", ".ndjson", ".json") and line.startswith(b"{"):
        try:
            return "files" if event(line) is None else "debezium"
        except SourceError:
            pass
    return "files"


def sqlite(path: Path, table: str | None) -> Outline:
    """A table of an SQLite file."""
    with closing(sqlite_triggers.connect(path)) as connection:
        found = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~' "
            f"AND name NOT LIKE '~{sqlite_triggers.META}%' ESCAPE '~' ORDER BY name"
        )
        name = _chosen([name for (name,) in found], table)
        key = sqlite_triggers.primary_key(connection, name)
    return Outline(name, SQLite(path, name).columns, key)


def duckdb(path: Path, table: str | None) -> Outline:
    """A table of a DuckDB file."""
    names = readers.DuckDBReader(path, "").tables()
    name = _chosen(names, table)
    columns = readers.DuckDBReader(path, name).columns
    return Outline(name, columns, _guessed(columns))


def parquet(path: Path, table: str | None) -> Outline:
    """Parquet files that make one table."""
    reader = readers.ParquetReader(path, table)
    return Outline(reader.table, reader.columns, _guessed(reader.columns))


def postgres(dsn: str, schema: str, table: str | None) -> Outline:
    """A table of a PostgreSQL server."""
    try:
        from tidegauge.source.postgres import reader as postgres_reader  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError:
        raise SpecError("PostgreSQL needs an extra: pip install 'tidegauge[postgres]'") from None
    url = secret(dsn, key="dsn")
    name = _chosen(postgres_reader.tables(url, schema), table)
    reader = postgres_reader.PostgresReader(url, name, schema=schema)
    return Outline(name, reader.columns, reader.key())


def debezium(files: Sequence[Path], table: str | None) -> Outline:
    """A table as the first events tell of it."""
    tables: dict[str, dict[str, str]] = {}
    for file in files[:1]:
        with file.open("rb") as lines:
            for _, line in zip(range(_LINES), lines, strict=False):
                told = event(line)
                if told is not None and isinstance(name := told.source.get("table"), str):
                    described = {one["field"]: written(one)[0] for one in told.fields or ()}
                    found = {column: _guess(value) for column, value in (told.after or {}).items()}
                    known = tables.setdefault(name, {})
                    tables[name] = {
                        **known,
                        **{n: k for n, k in found.items() if k or n not in known},
                        **described,
                    }
    name = _chosen(sorted(tables), table)
    columns = {column: kind or "VARCHAR" for column, kind in tables.get(name, {}).items()}
    return Outline(name, columns, _guessed(columns))


def _guess(value: Any) -> str:
    return "" if value is None else _GUESSES.get(type(value), "VARCHAR")


def _guessed(columns: Iterable[str]) -> list[str]:
    named = list(columns)
    return [next((key for key in _KEYS if key in named), named[0])] if named else []


def _chosen(tables: Sequence[str], wanted: str | None) -> str:
    if wanted is None and len(tables) == 1:
        return tables[0]
    there = f"there are: {', '.join(tables)}" if tables else "there is none that can be read here"
    if wanted is None:
        raise SpecError(f"say which table; {there}", key="--table")
    if wanted not in tables:
        raise SpecError(f"there is no table of this name that can be read; {there}", key="--table")
    return wanted
