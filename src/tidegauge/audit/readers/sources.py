"""The same log through the readers of real sources, each in a scratch folder."""

from __future__ import annotations

import json
import sqlite3
from abc import abstractmethod
from contextlib import closing
from typing import TYPE_CHECKING, Final

from tidegauge.audit.installed.exercises import COLUMNS
from tidegauge.model.kinds import SOURCES
from tidegauge.model.source import FollowedSource, Location
from tidegauge.plan.spec.declaration import GaugeSpec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from tidegauge.audit.worlds.world import Event
    from tidegauge.model.history import History
    from tidegauge.model.mutation import Batch
    from tidegauge.model.source import OpenSource

_SQLITE: Final = {"VARCHAR": "TEXT", "BIGINT": "INTEGER"}


class WrittenLog(FollowedSource):
    """A log that is written as a real application or connector writes it, and read by the real reader."""

    def __init__(self, kind: str, folder: Path, *, owner: str | None) -> None:
        self._folder, self._owner, self._kind = folder, owner, kind
        self._written = 0
        self._begin()
        self._inner: OpenSource | None = None

    def _open(self) -> OpenSource:
        if self._inner is None:
            declared = GaugeSpec.parse(
                {
                    "source": {"kind": self._kind, **self._declared()},
                    "budget": {"rho": 1},
                    "release": {"r": {"sql": "SELECT COUNT(*) FROM t", "every": "1 day"}},
                }
            ).source
            where = Location(self._folder, self._folder / "store.db")
            self._inner = SOURCES.named(self._kind).open(declared, where)
        return self._inner

    @property
    def table(self) -> str:
        """Always t."""
        return "t"

    @property
    def columns(self) -> Mapping[str, str]:
        """As the reader finds them."""
        return self._open().columns

    def select(self, columns: Collection[str]) -> None:
        """Pass on."""
        self._open().select(columns)

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        """What the real reader delivers."""
        return self._open().read(position, until)

    def history(self, until: int) -> History | None:
        """The whole past, where the real reader has it as one value."""
        return self._open().history(until)

    def acknowledge(self, position: str) -> None:
        """Pass on."""
        self._open().acknowledge(position)

    def close(self) -> None:
        """Close the reader; the next read opens it again."""
        if self._inner is not None:
            self._inner.close()
        self._inner = None

    @abstractmethod
    def _begin(self) -> None:
        """Make an empty log."""

    @abstractmethod
    def _declared(self) -> dict[str, object]:
        """The `[source]` table without its kind."""

    @abstractmethod
    def write(self, events: Sequence[Event]) -> None:
        """Append to the log."""


class DebeziumLog(WrittenLog):
    """A file of change events that grows."""

    def _begin(self) -> None:
        (self._folder / "events.jsonl").touch()

    def _declared(self) -> dict[str, object]:
        owned = {"unit": self._owner, "max_rows": 1} if self._owner else {}
        return {"path": "events.jsonl", "table": "t", "key": "id", "columns": COLUMNS, **owned}

    def write(self, events: Sequence[Event]) -> None:
        """One line a change."""
        with (self._folder / "events.jsonl").open("a") as file:
            file.writelines(json.dumps(self._line(event)) + "\n" for event in events)

    @staticmethod
    def _line(event: Event, **more: object) -> dict[str, object]:
        source = {"table": "t", "ts_us": event.stamp, **more}
        if event.key is None:
            return {"op": "t", "source": source, "before": None, "after": None}
        old = None
        if event.before is not None or event.row is None:
            old = dict.fromkeys(COLUMNS) | (event.before or {}) | {"id": event.previous or event.key}
        if event.row is None:
            return {"op": "d", "source": source, "before": old, "after": None}
        after = event.row | {"id": event.key}
        return {"op": "u" if old else "c", "source": source, "before": old, "after": after}


class InboxLog(DebeziumLog):
    """Events that a connector posts to the inbox; it posts them all again after every pass."""

    def _begin(self) -> None:
        self._sent: list[dict[str, object]] = []

    def _declared(self) -> dict[str, object]:
        plain = {name: value for name, value in super()._declared().items() if name != "path"}
        return plain | {"inbox": "inbox", "token": "env:NOT_USED"}

    def write(self, events: Sequence[Event]) -> None:
        """Post all events, old and new, in two requests that overlap."""
        from tidegauge.source.debezium.inbox import Inbox  # noqa: PLC0415
        from tidegauge.source.debezium.rows import Reading  # noqa: PLC0415

        for event in events:
            place = f'["{10 * len(self._sent) + 5}", "{10 * len(self._sent) + 7}"]'
            self._sent.append(self._line(event, connector="postgresql", name="c", sequence=place))
        reading = Reading("t", key="id", unit=self._owner, columns=COLUMNS)
        with closing(Inbox(self._folder / "inbox", reading)) as inbox:
            for part in (self._sent[:-1], self._sent):
                inbox.append(json.dumps(part).encode())


class SQLiteLog(WrittenLog):
    """A database that an application writes; its triggers' log is then given the times of the events."""

    def _begin(self) -> None:
        columns = ", ".join(
            f"{name} {_SQLITE[kind]}{' PRIMARY KEY NOT NULL' if name == 'id' else ''}"
            for name, kind in COLUMNS.items()
        )
        with closing(self._database()) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute(f"CREATE TABLE t ({columns})")
        self._inner = None
        self._open().install()
        self.close()

    def _database(self) -> sqlite3.Connection:
        return sqlite3.connect(self._folder / "app.db", isolation_level=None)

    def _declared(self) -> dict[str, object]:
        owned = {"unit": self._owner, "max_rows": 1} if self._owner else {}
        return {"path": "app.db", "table": "t", **owned}

    def write(self, events: Sequence[Event]) -> None:
        """Statements of an application."""
        from tidegauge.source.sqlite.triggers import log_name  # noqa: PLC0415

        names, log = ", ".join(COLUMNS), log_name("t")
        settings = ", ".join(f"{name} = ?" for name in COLUMNS)
        with closing(self._database()) as db:
            db.execute("BEGIN")
            for event in events:
                (last,) = db.execute(
                    "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?", [log]
                ).fetchone()
                row = None if event.row is None else event.row | {"id": event.key}
                values = None if row is None else [row.get(name) for name in COLUMNS]
                if event.key is None:
                    db.execute("DELETE FROM t")
                elif values is None:
                    db.execute("DELETE FROM t WHERE id = ?", [event.key])
                elif not db.execute(
                    f"UPDATE t SET {settings} WHERE id = ?",
                    [*values, event.previous or event.key],
                ).rowcount:
                    marks = ", ".join("?" * len(values))
                    db.execute(f"INSERT INTO t ({names}) VALUES ({marks})", values)
                db.execute(f'UPDATE "{log}" SET at = ? WHERE id > ?', [event.stamp, last])
            db.execute("COMMIT")


class FilesLog(WrittenLog):
    """A folder of CSV files, one for each pass; it has new rows and deletions."""

    follows = False
    has_past = True

    def _begin(self) -> None:
        self.write([])

    def _declared(self) -> dict[str, object]:
        owned = {"unit": self._owner, "max_rows": 1} if self._owner else {}
        return {
            "path": "part*.csv", "table": "t", "time": "at", "time_unit": "microseconds", "key": "id",
            "after": "after_", "op": "op", "types": {"x": "integer"}, **owned,
        }  # fmt: skip

    def write(self, events: Sequence[Event]) -> None:
        """One more file."""
        names = ["at", "id", "op", *(f"after_{name}" for name in COLUMNS if name != "id")]
        lines = [",".join(names)]
        for event in events:
            row = event.row or {}
            values: list[object] = [event.stamp, event.key, "u" if event.row else "d"]
            values += [row.get(name) for name in COLUMNS if name != "id"]
            lines.append(",".join("" if value is None else str(value) for value in values))
        (self._folder / f"part{self._written:03}.csv").write_text("\n".join(lines) + "\n", "utf-8")
        self._written += 1
