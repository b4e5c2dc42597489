"""One story through every kind of source: the same readings, the same losses, whichever kind delivers it.

The story plays in the year 2100 by an injected clock.  Sources that stamp changes themselves (triggers,
logical replication, snapshots) stamp them with today's date, so these changes arrive late and take effect in
the window that is open: the same window as in the sources that carry their own times.
"""

from __future__ import annotations

import csv
import json
import os
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pyarrow as pa
import pyarrow.csv
from pyarrow import parquet

from tests.golden.dump import Exact, Seeded, dumped, readings
from tidegauge import Gauge
from tidegauge.testing import Clock, Script

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Row = dict[str, Any]
Day = list[tuple[int, Row | None, Row | None]]
"""Changes of one day: key, the row before and after; a key changes at most once a day."""

DAY: Final = 86_400_000_000
START: Final = 4_102_444_800_000_000
"""The first of January 2100."""
COLUMNS: Final = ("person", "ward", "age")
NAMES: Final = ("person", "ward")
UNIT: Final[dict[str, Any]] = {"unit": "person", "max_rows": 2}


def story() -> list[Day]:
    """Six days of ten people with up to three rows each."""
    table: dict[int, Row] = {}
    days: list[Day] = []
    for day in range(6):
        changes: Day = []
        for key in range(1, 25):
            turn = (key * 7 + day * 11) % 6
            if day and turn > 2:
                continue
            before = table.get(key)
            age = (key * 13) % 80 + day
            after = {"person": f"n{key % 10}", "ward": "abc"[(key + day * turn) % 3], "age": age}
            if turn == 1 and day:
                if before is None:
                    continue
                del table[key]
                changes.append((key, before, None))
            elif before != after:
                table[key] = after
                changes.append((key, before, after))
        days.append(changes)
    return days


def _time(day: int) -> int:
    """When everything of a day happens: at noon of the day before its reading."""
    return START + day * DAY - DAY // 2


class CsvFile:
    """A csv file in the value-change format that grows."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "changes.csv"
        self.declared: Row = {"kind": "files", "path": "changes.csv", "table": "t", "time": "at",
                              "entry": "id",
                              "before": "before_", "after": "after_", "types": {"age": "integer"}, **UNIT,
                              "unit": "person"}  # fmt: skip
        with self.path.open("w", newline="") as file:
            sides = [f"{side}_{name}" for side in ("before", "after") for name in COLUMNS[1:]]
            csv.writer(file).writerow(["at", "id", "person", *sides])

    def write(self, day: int, changes: Day) -> None:
        with self.path.open("a", newline="") as file:
            for key, before, after in changes:
                person = (after or before or {})["person"]
                cells = [side[name] if side else "" for side in (before, after) for name in COLUMNS[1:]]
                csv.writer(file).writerow([_stamp(day), key, person, *cells])


class JsonLines:
    """JSON lines in the new-value format that grow."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "t.jsonl"
        self.declared: Row = {"kind": "files", "path": "t.jsonl", "time": "at", "entry": "id",
                              "after": "after_",
                              "op": "op", "time_unit": "microseconds", **UNIT,
                              "types": {"person": "text", "ward": "text", "age": "integer"}}  # fmt: skip

    def write(self, day: int, changes: Day) -> None:
        with self.path.open("a") as file:
            for key, before, after in changes:
                kind = "d" if after is None else "u" if before else "i"
                row = {"at": _time(day), "id": key, "op": kind}
                row |= {f"after_{name}": (after or {}).get(name) for name in COLUMNS}
                file.write(json.dumps(row | {"person": (after or before or {})["person"]}) + "\n")


class ParquetFiles:
    """One parquet file a day, in the value-change format."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.declared: Row = {"kind": "files", "path": "day-*.parquet", "table": "t", "time": "at",
                              "entry": "id",
                              "before": "before_", "after": "after_", **UNIT}  # fmt: skip

    def write(self, day: int, changes: Day) -> None:
        columns: Row = {
            "at": pa.array([_time(day)] * len(changes), pa.timestamp("us", tz="UTC")),
            "id": pa.array([key for key, _, _ in changes], pa.int64()),
            "person": pa.array([(one or other or {})["person"] for _, one, other in changes], pa.string()),
        }
        for name, kind in (("ward", pa.string()), ("age", pa.int64())):
            for side, number in (("before", 1), ("after", 2)):
                images = [change[number] for change in changes]
                columns[f"{side}_{name}"] = pa.array([one and one[name] for one in images], kind)  # type: ignore[index]
        parquet.write_table(pa.table(columns), self.folder / f"day-{day}.parquet")


class Debezium:
    """A file of Debezium's events that grows."""

    def __init__(self, folder: Path) -> None:
        self.path, self.sequence = folder / "events.jsonl", 0
        kinds = {"id": "BIGINT", "person": "VARCHAR", "ward": "VARCHAR", "age": "BIGINT"}
        self.declared: Row = {"kind": "debezium", "path": "events.jsonl", "table": "t", "entry": "id",
                              "columns": kinds, **UNIT}  # fmt: skip

    def write(self, day: int, changes: Day) -> None:
        with self.path.open("a") as file:
            for key, before, after in changes:
                self.sequence += 1
                kind = "d" if after is None else "u" if before else "c"
                place = json.dumps([str(self.sequence)] * 2)
                source = {"connector": "postgresql", "schema": "public", "table": "t", "sequence": place}
                event = {
                    "before": before and {"id": key, **before},
                    "after": after and {"id": key, **after},
                    "op": kind,
                    "source": source | {"ts_us": _time(day)},
                }
                file.write(json.dumps(event) + "\n")


class _Snapshots:
    """A file that is written whole every day."""

    def __init__(self, folder: Path, form: str) -> None:
        self.path, self._rows = folder / f"t.{form}", dict[int, Row]()
        self.declared: Row = {"kind": "snapshots", "of": form, "path": f"t.{form}", "table": "t",
                              "entry": "id",
                              **UNIT}  # fmt: skip

    def rows(self, changes: Day) -> pa.Table:
        """The rows after these changes as well."""
        for key, _, after in changes:
            self._rows.pop(key, None)
            self._rows |= {} if after is None else {key: after}
        kinds = pa.schema({"id": pa.int64(), "person": pa.string(), "ward": pa.string(), "age": pa.int64()})
        return pa.Table.from_pylist([{"id": key, **row} for key, row in self._rows.items()], kinds)


class SnapshotsParquet(_Snapshots):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "parquet")

    def write(self, day: int, changes: Day) -> None:
        del day
        parquet.write_table(self.rows(changes), self.path)


class SnapshotsCsv(_Snapshots):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "csv")
        self.declared |= {"types": {"id": "integer", "age": "integer"}}

    def write(self, day: int, changes: Day) -> None:
        del day
        pyarrow.csv.write_csv(self.rows(changes), self.path)


class _Database:
    """A table of an SQLite file that an application changes."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "app.db"
        self.run(
            ["CREATE TABLE t (id INTEGER PRIMARY KEY, person TEXT NOT NULL, ward TEXT, age INTEGER)"], [()]
        )

    def run(self, statements: list[str], values: list[tuple[Any, ...]]) -> None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            for statement, given in zip(statements, values, strict=True):
                connection.execute(statement, given)

    def write(self, day: int, changes: Day) -> None:
        del day
        statements, values = [], []
        for key, _, after in changes:
            if after is None:
                statements.append("DELETE FROM t WHERE id = ?")
                values.append((key,))
            else:
                statements.append(
                    "INSERT INTO t VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET person = excluded.person, "
                    "ward = excluded.ward, age = excluded.age"
                )
                values.append((key, *(after[name] for name in COLUMNS)))
        self.run(statements, values)


class Sqlite(_Database):
    """Followed by triggers."""

    declared: Final = {"kind": "sqlite", "path": "app.db", "table": "t", "entry": "id", **UNIT}


class SnapshotsSqlite(_Database):
    """Read whole every day."""

    declared: Final = {
        "kind": "snapshots",
        "of": "sqlite",
        "path": "app.db",
        "table": "t",
        "entry": "id",
        **UNIT,
    }


class History:
    """A table that keeps every version of its rows."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "versions.db"
        self.declared: Row = {"kind": "snapshots", "of": "sqlite", "path": "versions.db", "table": "t",
                              "entry": "id",
                              "valid_from": "since", "valid_to": "till", **UNIT}  # fmt: skip
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute(
                "CREATE TABLE t (id INTEGER, person TEXT, ward "
                "TEXT, age INTEGER, since INTEGER, till INTEGER)"
            )

    def write(self, day: int, changes: Day) -> None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            for key, _, after in changes:
                connection.execute("UPDATE t SET till = ? WHERE id = ? AND till IS NULL", (_time(day), key))
                if after is not None:
                    values = (key, *(after[name] for name in COLUMNS), _time(day))
                    connection.execute("INSERT INTO t VALUES (?, ?, ?, ?, ?, NULL)", values)


class Object:
    """A source that is an object."""

    def __init__(self, folder: Path) -> None:
        del folder
        self.life: list[tuple[Any, ...]] = []
        self.declared = Script(
            columns={"person": "VARCHAR", "ward": "VARCHAR", "age": "BIGINT"}, changes=self.life
        )

    def write(self, day: int, changes: Day) -> None:
        for key, before, after in changes:
            self.life.append((_time(day), str(key), after, (after or before or {})["person"]))


class Postgres:
    """A table of a PostgreSQL server, followed by logical replication."""

    def __init__(self, dsn: str) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True)
        self.connection.execute(
            "CREATE TABLE t (id bigint PRIMARY KEY, person text NOT NULL, ward text, age bigint)"
        )

    declared: Final = {
        "kind": "postgres",
        "dsn": "env:TIDEGAUGE_GOLDEN_DSN",
        "table": "t",
        "entry": "id",
        **UNIT,
    }

    def write(self, day: int, changes: Day) -> None:
        del day
        with self.connection.transaction():
            for key, _, after in changes:
                if after is None:
                    self.connection.execute("DELETE FROM t WHERE id = %s", (key,))
                else:
                    self.connection.execute(
                        "INSERT INTO t VALUES (%s, %s, %s, %s) ON CONFLICT (id) DO UPDATE SET "
                        "person = excluded.person, ward = excluded.ward, age = excluded.age",
                        (key, *(after[name] for name in COLUMNS)),
                    )


def _stamp(day: int) -> str:
    return f"2{'099-12-31' if day == 0 else f'100-01-{day:02}'}T12:00:00Z"


KINDS: Final[dict[str, Callable[[Path], Any]]] = {
    "files_csv": CsvFile,
    "files_jsonl": JsonLines,
    "files_parquet": ParquetFiles,
    "debezium": Debezium,
    "snapshots_csv": SnapshotsCsv,
    "snapshots_parquet": SnapshotsParquet,
    "snapshots_sqlite": SnapshotsSqlite,
    "history": History,
    "sqlite": Sqlite,
    "object": Object,
}
"""Every kind that needs no server."""


def _releases(schedule: Row) -> Row:
    disjoint = {"strategy": {"name": "disjoint", "base": 0}, **schedule}
    return {
        "by_ward": {
            "sql": "SELECT ward, COUNT(*) FROM t GROUP BY ward",
            "groups": {"ward": ["a", "b"]},
            "share": "0.25",
            **disjoint,
        },
        "moved": {
            "sql": "SELECT COUNT(*) FROM changes(t) WHERE before.ward <> after.ward",
            "share": "0.25",
            **disjoint,
        },
        "mean_age": {"sql": "SELECT AVG(age) FROM t", "bounds": {"age": [0, 90]}, "share": "0.5", **disjoint},
    }


PROMISE: Final[Row] = {"constraint": {"at_most": 5}, "budget": {"epsilon": 400, "delta": "1e-6"}}


def _gauge(folder: Path, declared: Any, sampler: object, now: int) -> Gauge:
    releases = _releases({"start": "2100-01-01", "every": "1 day", "for": "10 days"})
    own = {} if isinstance(declared, dict) else UNIT
    options: Row = {"now": Clock(now), "sampler": sampler, "base": folder, "store": folder / "store.db"}
    return Gauge(source=declared, releases=releases, **PROMISE, **own, **options)


def _lived(folder: Path, make: Callable[[Path], Any], sampler: Callable[[int], object]) -> Gauge:
    """The gauge once the story is over: a run a day, each in a process of its own as far as it can tell."""
    folder.mkdir(parents=True)
    writer = make(folder)
    gauge = None
    for day, changes in enumerate(story()):
        writer.write(day, changes)
        if day == 0 and isinstance(writer, Sqlite):
            _gauge(folder, writer.declared, sampler(day), START).install()
        gauge = _gauge(folder, writer.declared, sampler(day), START + day * DAY + DAY // 24)
        list(gauge.run())
    assert gauge is not None
    return gauge


def of_source(make: Callable[[Path], Any], folder: Path) -> dict[str, Any]:
    """What the story leads to when this kind of source delivers it."""
    seeded = dumped(_lived(folder / "seeded", make, Seeded))
    exact = _lived(folder / "exact", make, lambda _: Exact())
    return seeded | {"exact": [row[3] for row in readings(exact)]}


def of_postgres(dsn: str, folder: Path) -> dict[str, Any]:
    """What is published without noise after each day of the story.

    A server's clock cannot be set: windows are short, and how many of them a day takes depends on the
    machine, so only the first readings after each day are compared.  Rows of the first day are loaded, at a
    moment that depends on the machine.
    """
    os.environ["TIDEGAUGE_GOLDEN_DSN"] = dsn
    writer = Postgres(dsn)
    try:
        releases = _releases({"every": "100 milliseconds", "for": "1 day"})
        gauge = Gauge(
            source=writer.declared,
            releases={name: releases[name] for name in ("by_ward", "mean_age")},
            sampler=Exact(),
            store=folder / "store.db",
            **PROMISE,
        )
        days = []
        for day, changes in enumerate(story()):
            writer.write(day, changes)
            if day == 0:
                gauge.install()
            days.append(_after(gauge, datetime.now(UTC)))
        gauge.uninstall()
    finally:
        writer.connection.close()
        del os.environ["TIDEGAUGE_GOLDEN_DSN"]
    return {"exact_by_day": days[1:]}


def _after(gauge: Gauge, moment: datetime) -> list[Any]:
    """The values of the first readings at or after a moment."""
    found: list[Any] = []
    while not found:
        list(gauge.run())
        later = [one for one in gauge.published() if one.time >= moment]
        first = min((one.time for one in later), default=None)
        found = [one.value for one in later if one.time == first]
        time.sleep(0.05)
    return found
