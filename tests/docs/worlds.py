"""Data for the declarations of the docs: three rows wherever a [source] table says that its rows are."""

from __future__ import annotations

import csv
import gzip
import json
import sqlite3
import time
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pyarrow as pa
from psycopg import sql
from pyarrow import parquet

from tidegauge.testing import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Row = dict[str, Any]
FIRST: Final = date(2025, 12, 20)
NOW: Final = datetime(2026, 1, 20, tzinfo=UTC)
"""The time of day for sources whose rows carry their times.  Live sources have the machine's."""
VALUES: Final[Row] = {
    "admitted": date(2026, 1, 5), "age": 40, "amount": 12.5,
    "born": date(1990, 5, 1), "cost": 10, "fare": "multi",
    "insured": True, "region": "north", "status": "infected", "stay": 3, "ward": "north",
}  # fmt: skip
"""A row: every column that a page of the docs names."""
TYPES: Final = {str: "TEXT", int: "INTEGER", float: "DOUBLE PRECISION", bool: "BOOLEAN", date: "DATE"}


def rows(source: Row) -> Iterator[Row]:
    """Three rows with the declared key and unit."""
    typed = dict.fromkeys(source.get("types", {}), 0.5) | dict.fromkeys(source.get("columns", {}), "x")
    for number in (1, 2, 3):
        unit = {source["unit"]: number} if source.get("unit") else {}
        yield {source.get("key", "id"): number} | unit | typed | VALUES


def written(value: Any, source: Row) -> Any:
    """A value as the declaration says that text is written."""
    if isinstance(value, date) and (form := source.get("date_format")):
        return value.strftime(form)
    return str(value).replace(".", source.get("decimal", ".")) if isinstance(value, float) else value


def write_text(path: Path, found: list[Row], source: Row) -> None:
    """Rows as a csv or jsonl file, gzipped where the name says so."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", encoding="utf-8") as file:
        if ".jsonl" in path.name:
            file.writelines(json.dumps(row, default=str) + "\n" for row in found)
            return
        writer = csv.DictWriter(file, list(found[0]), delimiter=source.get("delimiter", ","))
        writer.writeheader()
        for row in found:
            writer.writerow({name: written(value, source) for name, value in row.items()})


def files(source: Row, folder: Path, _dsn: str) -> None:
    before, after = source.get("before"), source.get("after", "")
    found = []
    for number, row in enumerate(rows(source)):
        keys = {source["key"], source.get("unit")}
        values = {name: value for name, value in row.items() if name not in keys}
        one = {source["time"]: datetime.combine(FIRST + timedelta(days=number), datetime.min.time())}
        one |= {name: row[name] for name in keys if name}
        one |= {before + name: None for name in values} if before else {}
        found.append(one | {after + name: value for name, value in values.items()})
    path = folder / source["path"].replace("*", "1")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, found, source)


def sqlite(source: Row, folder: Path, _dsn: str) -> None:
    found = list(rows(source))
    key = source.setdefault("key", "id")
    columns = ", ".join(f'"{name}" {TYPES[type(value)]}' for name, value in found[0].items() if name != key)
    with closing(sqlite3.connect(folder / source["path"])) as db, db:
        db.execute(f'CREATE TABLE "{source["table"]}" ("{key}" INTEGER PRIMARY KEY, {columns})')
        db.executemany(
            f'INSERT INTO "{source["table"]}" VALUES ({", ".join("?" * len(found[0]))})',
            [[str(one) if isinstance(one, date) else one for one in row.values()] for row in found],
        )


def table_of(dsn: str, source: Row, found: list[Row]) -> None:
    """A table of a PostgreSQL server."""
    schema, table, key = source.get("schema", "public"), source["table"], source["key"]
    history = "valid_from" in source
    columns = ", ".join(
        f'"{name}" {"TIMESTAMPTZ" if isinstance(value, datetime) else TYPES.get(type(value), "TIMESTAMPTZ")}'
        + (" PRIMARY KEY" if name == key and not history else "")
        for name, value in found[0].items()
    )
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
        name = sql.Identifier(schema, table)
        db.execute(sql.SQL("CREATE TABLE {} ").format(name) + sql.SQL(f"({columns})"))
        places = sql.SQL(", ").join([sql.Placeholder()] * len(found[0]))
        with db.cursor() as cursor:
            cursor.executemany(
                sql.SQL("INSERT INTO {} VALUES ({})").format(name, places),
                [list(row.values()) for row in found],
            )


def postgres(source: Row, _folder: Path, dsn: str) -> None:
    table_of(dsn, source, list(rows(source)))


def snapshots(source: Row, folder: Path, dsn: str) -> None:
    found = list(rows(source))
    begin = datetime.combine(FIRST, datetime.min.time(), UTC)
    more: dict[str, Any] = {
        "valid_from": begin,
        "valid_to": None,
        "deleted": False,
        "current": True,
        "taken": FIRST,
    }
    found = [row | {source[key]: value for key, value in more.items() if key in source} for row in found]
    if source["of"] == "postgres":
        table_of(dsn, source, found)
        return
    path = folder / source["path"]
    path.parent.mkdir(parents=True, exist_ok=True)
    if source["of"] == "parquet":
        parquet.write_table(pa.Table.from_pylist(found), path)
    else:
        write_text(path, found, source)


def debezium(source: Row, folder: Path, _dsn: str) -> None:
    events = folder / source["path"]
    events.mkdir(parents=True)
    lines = []
    for number, row in enumerate(rows(source)):
        micros = int(datetime.combine(FIRST, datetime.min.time(), UTC).timestamp()) * 1_000_000 + number
        origin = {"name": "h", "schema": source["schema"], "table": source["table"], "ts_us": micros}
        origin |= {"sequence": json.dumps([str(number), str(number)])}
        after = {name: row[name] for name in (*source["columns"], source["unit"])} | {"born": 7425}
        lines.append(json.dumps({"op": "c", "before": None, "after": after, "source": origin}))
    (events / "1.jsonl").write_text("\n".join(lines) + "\n", "utf-8")


WRITERS: Final[dict[str, Callable[[Row, Path, str], None]]] = {
    "debezium": debezium, "files": files, "postgres": postgres, "snapshots": snapshots, "sqlite": sqlite,
}  # fmt: skip


def needs_server(source: Row) -> bool:
    return source["kind"] == "postgres" or source.get("of") == "postgres"


def lives(source: Row) -> bool:
    """Whether the source gives its changes the machine's time."""
    return source["kind"] in {"sqlite", "postgres"} or (
        source["kind"] == "snapshots" and not {"valid_from", "taken"} & set(source)
    )


def clock(source: Row) -> Callable[[], int]:
    """A clock on which two weeks of readings are due; of a live source, the machine's."""
    if lives(source):
        return lambda: time.time_ns() // 1000
    return Clock(int(NOW.timestamp()) * 1_000_000)


def start(source: Row) -> str:
    """The first reading of a release that declares none: the day before the clock's."""
    today = datetime.now(UTC) if lives(source) else NOW
    return f"{(today - timedelta(days=1)).date()}"
