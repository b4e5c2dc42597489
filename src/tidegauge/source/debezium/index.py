"""The index of an inbox: the received events, and the last place of each row and each log.

The index is an SQLite file beside the files of events.  It has keyed hashes of the events and rows, no
values.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from contextlib import closing, suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SourceError, StoreCorrupt
from tidegauge.model.quantity import SECOND
from tidegauge.source.debezium.log import RESTORED, Restored

if TYPE_CHECKING:
    from pathlib import Path

    from tidegauge.source.debezium.events import Event
    from tidegauge.source.debezium.log import Mark
    from tidegauge.source.debezium.rows import Key

FILE: Final = "index.db"
KEPT: Final = 30 * 86_400 * SECOND
"""Microseconds for which an event is remembered.

The last place of a row is remembered without limit: an older event is refused, not counted twice.
"""
_TOLERATED: Final = 300 * SECOND
"""Most microseconds by which a clock may be set or requests may overtake one another.

A lower place with a time that is later by more means another log.
"""
_COMPARED: Final = 16
_COUNTS: Final = ("refused_at_the_door", "refused_out_of_order", "refused_after_a_restore")
_TABLES: Final = """
    CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS counts (name TEXT PRIMARY KEY, amount INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS events (
        id BLOB PRIMARY KEY, log BLOB, place BLOB, stamp INTEGER NOT NULL, received INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS places ON events (log, place) WHERE log IS NOT NULL;
    CREATE TABLE IF NOT EXISTS latest (row BLOB PRIMARY KEY, place BLOB NOT NULL) WITHOUT ROWID;
"""


class OutOfOrder(SourceError):
    """A change that was received after a later change of the same row."""


class Index:
    """The events that an inbox has received.  One process uses it, one call at a time."""

    def __init__(self, folder: Path) -> None:
        path = folder / FILE
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute(
                "PRAGMA synchronous = NORMAL"
            )  # `settle` syncs; what is lost is read again from the files
            self._db.executescript(_TABLES)
            self._db.execute("INSERT OR IGNORE INTO settings VALUES ('salt', ?)", (secrets.token_bytes(32),))
            (self._salt,) = self._db.execute("SELECT value FROM settings WHERE name = 'salt'").fetchone()
        except sqlite3.DatabaseError:
            raise StoreCorrupt(
                "the inbox's index cannot be read, so repetitions could not be recognised. Nothing was "
                "received. Put the file back from a copy, or start a new gauge with a new inbox",
                advice=None,
            ) from None

    def begin(self) -> None:
        """Begin a request, which is written completely or not at all."""
        self._db.execute("BEGIN IMMEDIATE")

    def commit(self, file: str, end: int) -> None:
        """End a request: its events are durable in this file, up to this byte."""
        self._db.executemany("INSERT OR REPLACE INTO settings VALUES (?, ?)", [("file", file), ("end", end)])
        self._db.execute("COMMIT")

    def rollback(self) -> None:
        """Undo a request that was refused."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    @property
    def indexed(self) -> tuple[str, int]:
        """The file, and the byte in it, up to which events are in the index."""
        found = dict(self._db.execute("SELECT name, value FROM settings WHERE name IN ('file', 'end')"))
        return found.get("file", ""), found.get("end", 0)

    def count(self, refusal: SourceError) -> None:
        """Count a refused request for the operator, if the index can be written."""
        kinds: dict[type[SourceError], str] = {OutOfOrder: _COUNTS[1], Restored: _COUNTS[2]}
        name = kinds.get(type(refusal), _COUNTS[0])
        statement = "INSERT INTO counts VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET amount = amount + 1"
        with suppress(sqlite3.Error):
            self._db.execute(statement, (name,))

    def add(
        self,
        event: Event,
        place: Mark,
        keys: tuple[Key | None, Key | None],
        received: int,
        *,
        judged: bool = True,
    ) -> bool:
        """Remember the event.  Returns whether it is new.

        judged: whether to raise OutOfOrder and Restored; False for an event that is already in a file.
        """
        source = event.source
        table = [place.log, source.get("db"), source.get("schema"), source.get("table")]
        named = self._hash("event", table, place.place.hex(), event.kind, *keys)
        log = None if event.kind == "r" else self._hash("log", place.log)
        known = self._db.execute("SELECT stamp FROM events WHERE id = ?", (named,)).fetchone()
        if known is not None:
            if known[0] // 1000 != event.time // 1000 and judged:
                raise Restored(f"the event lies at the log position of another event, or {RESTORED}")
            return False
        if log is not None:
            if judged:
                self._require_same_log(log, place.place, min(event.time, received))
            rows = [self._hash("row", table, key) for key in keys if key is not None]
            self._in_order(event, place.place, rows, self._hash("table", table), judged=judged)
        self._db.execute(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?)", (named, log, place.place, event.time, received)
        )
        return True

    def _in_order(self, event: Event, place: bytes, rows: list[bytes], table: bytes, *, judged: bool) -> None:
        """Raise OutOfOrder unless each row's changes come in the order of the log.

        A truncation is a change of every row.  `table` is the key of the last truncation, and with a suffix
        the key of the last change of any row.
        """
        asked, newest = [*rows, table], table + b"*"
        if event.kind == "t":
            asked.append(newest)
        for name in asked if judged else ():
            known = self._db.execute("SELECT place FROM latest WHERE row = ?", (name,)).fetchone()
            if known is not None and known[0] > place:
                raise OutOfOrder(
                    "a later change of the same row was received before this one: what is known of the row "
                    "is newer, and this change would undo it. Send the changes of each row in the order of "
                    "the log. Where the database was restored from a backup, start a new gauge"
                )
        for name in [*rows, newest, *([table] if event.kind == "t" else [])]:
            self._db.execute(
                "INSERT INTO latest VALUES (?, ?) ON CONFLICT (row) DO UPDATE SET place = max(place, "
                "excluded.place)",
                (name, place),
            )

    def _require_same_log(self, log: bytes, place: bytes, time: int) -> None:
        """Raise Restored if events at higher places were committed long before this event.

        Most of the next places must agree, so that a single wrong time does not decide about other events.
        """
        stamps = self._db.execute(
            "SELECT stamp FROM events WHERE log = ? AND place > ? ORDER BY place LIMIT ?",
            (log, place, _COMPARED),
        ).fetchall()
        if 2 * sum(stamp + _TOLERATED < time for (stamp,) in stamps) > len(stamps):
            raise Restored(f"the event lies {RESTORED}")

    def _hash(self, *parts: object) -> bytes:
        return blake2b(json.dumps(parts).encode(), digest_size=16, key=self._salt).digest()

    def settle(self, now: int) -> None:
        """Make the index durable, and remove events that are too old to be sent again."""
        self._db.execute(
            "PRAGMA synchronous = FULL"
        )  # a checkpoint alone syncs nothing while the index is read
        self._db.execute("INSERT OR REPLACE INTO settings VALUES ('settled', ?)", (now,))
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("DELETE FROM events WHERE received < ?", (now - KEPT,))
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def refused(folder: Path) -> dict[str, int]:
    """The number of requests that an inbox has refused, by reason.  For the operator alone."""
    amounts = dict.fromkeys(_COUNTS, 0)
    if (folder / FILE).exists():
        try:
            address = f"{(folder / FILE).resolve().as_uri()}?mode=ro"
            with closing(sqlite3.connect(address, uri=True)) as db:
                amounts |= dict(db.execute("SELECT name, amount FROM counts"))
        except sqlite3.DatabaseError:
            raise StoreCorrupt("the inbox's index cannot be read") from None
    return amounts
