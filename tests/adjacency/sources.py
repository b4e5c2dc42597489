"""The same log through every kind of source that can be made to state given times:
in batches cut at random."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tests.adjacency.world import COLUMNS
from tidegauge.model.mutation import Batch
from tidegauge.model.source import FollowedSource
from tidegauge.source.debezium import source as debezium
from tidegauge.source.debezium.source import Debezium
from tidegauge.source.files.source import Files
from tidegauge.source.sqlite import source as sqlite
from tidegauge.source.sqlite.source import SQLite
from tidegauge.source.sqlite.triggers import install, log_name

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pytest

    from tests.adjacency.world import Event
    from tidegauge.model.mutation import Source

LEFT_OUT: Final = "__debezium_unavailable_value"


class Log(FollowedSource):
    """In memory: whatever a log can say."""

    table = "t"
    columns = COLUMNS
    leaves_out = 0

    def __init__(self, rng: random.Random, *, owned: bool, informed: bool) -> None:
        self._rng, self._owned, self._informed = rng, owned, informed
        self.events: list[Event] = []

    def write(self, events: Sequence[Event]) -> None:
        self.events += events

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        done, end = int(position or 0), len(self.events)
        while done < end and self._rng.random() < 0.8:
            step = self._rng.choice((0, 1, 1, 2, 3, 8))
            part = self.events[done : min(done + step, end)]
            done += len(part)
            yield Batch(rows=self._rows(part), position=str(done), upto=None)
        yield Batch(rows=self._rows(self.events[done:end]), position=str(end), upto=until)

    def _rows(self, events: Sequence[Event]) -> pa.Table:
        kinds = {"VARCHAR": pa.string(), "BIGINT": pa.int64()}
        row = pa.struct([(name, kinds[kind]) for name, kind in COLUMNS.items()])
        afters = [event.row and event.row | dict.fromkeys(event.kept) for event in events]
        units = [
            event.row["owner"] if self._owned and event.row and "owner" not in event.kept else None
            for event in events
        ]
        said = [self._informed and event.key is not None for event in events]
        befores = [
            event.before and event.before | {"id": event.previous or event.key} if one else None
            for event, one in zip(events, said, strict=True)
        ]
        return pa.table(
            {
                "time": pa.array([event.stamp for event in events], pa.int64()),
                "entry": pa.array([event.key for event in events], pa.string()),
                "unit": pa.array(units, pa.string()),
                "before": pa.array(befores, row),
                "after": pa.array(afters, row),
                "informed": pa.array(said, pa.bool_()),
                "previous": pa.array([event.previous for event in events], pa.string()),
                "kept": pa.array([list(event.kept) or None for event in events], pa.list_(pa.string())),
            }
        )


class DebeziumLog:
    """A file of change events that grows."""

    def __init__(self, folder: Path, *, owned: bool, informed: bool) -> None:
        self._path, self._owned, self._informed = folder / "events.jsonl", owned, informed
        self._path.touch()

    def write(self, events: Sequence[Event]) -> None:
        with self._path.open("a") as file:
            file.writelines(json.dumps(self._line(event)) + "\n" for event in events)

    def _line(self, event: Event) -> dict[str, Any]:
        source = {"table": "t", "ts_us": event.stamp}
        if event.key is None:
            return {"op": "t", "source": source, "before": None, "after": None}
        gone = dict.fromkeys(COLUMNS) | {"id": event.previous or event.key}
        old = event.before | gone if event.before and self._informed else gone
        old = {**old, **({} if event.before is None or not self._informed else event.before)}
        old |= {"id": event.previous or event.key}
        if event.row is None:
            return {"op": "d", "source": source, "before": old, "after": None}
        after = event.row | dict.fromkeys(event.kept, LEFT_OUT)
        if event.before is None or not (self._informed or event.previous):
            kind = "c" if event.before is None else "u"
            return {"op": kind, "source": source, "before": None, "after": after}
        return {"op": "u", "source": source, "before": old, "after": after}

    def source(self) -> Source:
        unit = "owner" if self._owned else None
        return Debezium(self._path, "t", key="id", unit=unit, columns=COLUMNS)


class FilesLog:
    """A folder of files, one a pass; a key that changes and an emptied table are deletions and insertions."""

    def __init__(self, folder: Path, rng: random.Random, *, owned: bool) -> None:
        self._folder, self._rng, self._owned = folder, rng, owned
        self._written = 0
        self.write([])

    def write(self, events: Sequence[Event]) -> None:
        lines = []
        for event in events:
            row = dict.fromkeys(COLUMNS) if event.row is None else event.row
            assert event.previous is None
            assert event.key is not None
            values = {f"after_{name}": value for name, value in row.items() if name != "id"}
            lines.append(
                {"at": event.stamp, "id": event.key, "op": "d" if event.row is None else "u", **values}
            )
        names = ["at", "id", "op", *(f"after_{name}" for name in COLUMNS if name != "id")]
        text = [",".join(names)]
        text += [",".join("" if line[name] is None else str(line[name]) for name in names) for line in lines]
        (self._folder / f"part{self._written:03}.csv").write_text("\n".join(text) + "\n")
        self._written += 1

    def source(self) -> Source:
        return Files(
            "part*.csv", time="at", time_unit="microseconds", key="id",
            unit="owner" if self._owned else None, after="after_",
            op="op", table="t", types={"x": "integer"}, base=self._folder,
            batch_rows=self._rng.choice((1, 2, 3, 1000)),
        )  # fmt: skip


class SQLiteLog:
    """A database that an application writes; what its triggers wrote down is then given the times
    of the log."""

    def __init__(self, folder: Path, *, owned: bool) -> None:
        self._path, self._owned = folder / "app.db", owned
        kinds = {"VARCHAR": "TEXT", "BIGINT": "INTEGER"}
        columns = ", ".join(
            f"{name} {kinds[kind]}{' PRIMARY KEY NOT NULL' if name == 'id' else ''}"
            for name, kind in COLUMNS.items()
        )
        with closing(sqlite3.connect(self._path, isolation_level=None)) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute(f"CREATE TABLE t ({columns})")
        install(self._path, "t")

    def write(self, events: Sequence[Event]) -> None:
        names = ", ".join(COLUMNS)
        with closing(sqlite3.connect(self._path, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous = OFF")
            db.execute("BEGIN")
            for event in events:
                (last,) = db.execute(
                    f'SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = "{log_name("t")}"'
                ).fetchone()
                values = None if event.row is None else [event.row[name] for name in COLUMNS]
                if event.key is None:
                    db.execute("DELETE FROM t")
                elif values is None:
                    db.execute("DELETE FROM t WHERE id = ?", [event.key])
                else:
                    settings = ", ".join(f"{name} = ?" for name in COLUMNS)
                    done = db.execute(
                        f"UPDATE t SET {settings} WHERE id = ?", [*values, event.previous or event.key]
                    )
                    if not done.rowcount:
                        db.execute(f"INSERT INTO t ({names}) VALUES ({', '.join('?' * len(values))})", values)
                db.execute(f'UPDATE "{log_name("t")}" SET at = ? WHERE id > ?', [event.stamp, last])
            db.execute("COMMIT")

    def source(self) -> Source:
        return SQLite(self._path, "t", unit="owner" if self._owned else None)


def cut_batches(patch: pytest.MonkeyPatch, size: int) -> None:
    """How many rows the followed sources deliver at a time."""
    patch.setattr(debezium, "_BATCH", size)
    patch.setattr(sqlite, "_BATCH", size)
