"""What an inbox has received: which events, how far each row has come, and how far each log.

The index is a SQLite file beside the files of events.  It holds keyed hashes of the events and rows, no values.
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
"""How long an event is remembered.  A row's last place is remembered for good, so that what is older is refused, not counted twice."""
_TOLERATED: Final = 300 * SECOND
"""By how much a clock may be set, or posts overtake one another, before a lower place with a later stamp means another log."""
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
    """A change of a row of which a later change was received before."""


class Index:
    """The memory of an inbox; one process uses it, one call at a time."""

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
                "the inbox's index cannot be read, so repetitions could not be recognised. Nothing was received. Put the file back "
                "from a copy, or start a new gauge with a new inbox"
            ) from None

    def begin(self) -> None:
        """Begin a request: what follows is kept as a whole or not at all."""
        self._db.execute("BEGIN IMMEDIATE")

    def commit(self, file: str, end: int) -> None:
        """The request's events are durable up to here."""
        self._db.executemany("INSERT OR REPLACE INTO settings VALUES (?, ?)", [("file", file), ("end", end)])
        self._db.execute("COMMIT")

    def rollback(self) -> None:
        """The request was refused."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    @property
    def indexed(self) -> tuple[str, int]:
        """The file and the place in it up to which events are in the index."""
        found = dict(self._db.execute("SELECT name, value FROM settings WHERE name IN ('file', 'end')"))
        return found.get("file", ""), found.get("end", 0)

    def count(self, refusal: SourceError) -> None:
        """Count a refused request, for the operator, where that can be written."""
        kinds: dict[type[SourceError], str] = {OutOfOrder: _COUNTS[1], Restored: _COUNTS[2]}
        name = kinds.get(type(refusal), _COUNTS[0])
        statement = "INSERT INTO counts VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET amount = amount + 1"
        with suppress(sqlite3.Error):
            self._db.execute(statement, (name,))

    def add(
        self,
        told: Event,
        place: Mark,
        keys: tuple[Key | None, Key | None],
        received: int,
        *,
        judged: bool = True,
    ) -> bool:
        """Whether the event is new; remembers it.

        Raises OutOfOrder and Restored; not where the event has been kept already (`judged` is False).
        """
        source = told.source
        table = [place.log, source.get("db"), source.get("schema"), source.get("table")]
        named = self._hash("event", table, place.place.hex(), told.kind, *keys)
        log = None if told.kind == "r" else self._hash("log", place.log)
        known = self._db.execute("SELECT stamp FROM events WHERE id = ?", (named,)).fetchone()
        if known is not None:
            if known[0] // 1000 != told.time // 1000 and judged:
                raise Restored(f"the event lies at the log position of another event, or {RESTORED}")
            return False
        if log is not None:
            if judged:
                self._require_same_log(log, place.place, min(told.time, received))
            rows = [self._hash("row", table, key) for key in keys if key is not None]
            self._in_order(told, place.place, rows, self._hash("table", table), judged=judged)
        self._db.execute(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?)", (named, log, place.place, told.time, received)
        )
        return True

    def _in_order(self, told: Event, place: bytes, rows: list[bytes], table: bytes, *, judged: bool) -> None:
        """Hold each row's changes to the order of the log; a truncation is a change of every row.

        `table` names the last truncation, and with a suffix the last change of any row.
        """
        asked, newest = [*rows, table], table + b"*"
        if told.kind == "t":
            asked.append(newest)
        for name in asked if judged else ():
            known = self._db.execute("SELECT place FROM latest WHERE row = ?", (name,)).fetchone()
            if known is not None and known[0] > place:
                raise OutOfOrder(
                    "a later change of the same row was received before this one: what is known of the row is newer, and this change "
                    "would undo it. Send the changes of each row in the order of the log. Where the database was restored from "
                    "a backup, start a new gauge"
                )
        for name in [*rows, newest, *([table] if told.kind == "t" else [])]:
            self._db.execute(
                "INSERT INTO latest VALUES (?, ?) ON CONFLICT (row) DO UPDATE SET place = max(place, excluded.place)",
                (name, place),
            )

    def _require_same_log(self, log: bytes, place: bytes, time: int) -> None:
        """Refuse an event at a lower place than events that were committed long before it: no log is like that.

        The next places are asked, and most of them must say so: one odd time stamp decides nothing about other events.
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
        """Make everything durable, and forget the events that are too old to come again."""
        self._db.execute("PRAGMA synchronous = FULL")  # a checkpoint alone syncs nothing while somebody reads
        self._db.execute("INSERT OR REPLACE INTO settings VALUES ('settled', ?)", (now,))
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("DELETE FROM events WHERE received < ?", (now - KEPT,))
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()


def refused(folder: Path) -> dict[str, int]:
    """How many requests an inbox has refused, and why: for the operator alone."""
    amounts = dict.fromkeys(_COUNTS, 0)
    if (folder / FILE).exists():
        try:
            address = f"{(folder / FILE).resolve().as_uri()}?mode=ro"
            with closing(sqlite3.connect(address, uri=True)) as db:
                amounts |= dict(db.execute("SELECT name, amount FROM counts"))
        except sqlite3.DatabaseError:
            raise StoreCorrupt("the inbox's index cannot be read") from None
    return amounts
