"""How far each publisher has come, kept in the store.

A cursor says how many readings of each release were delivered, and, while a batch is being delivered, how far
that batch goes: after a kill the same batch is delivered again.  Only the process that holds the store's lock
writes cursors; each publisher does so through a connection of its own.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from tidegauge.model.json import as_object, as_whole, parse_json
from tidegauge.store.database import PATIENCE, refusal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS outbox (publisher TEXT PRIMARY KEY, target TEXT NOT NULL, "
    "sent TEXT NOT NULL, pending TEXT, document TEXT NOT NULL, seal INTEGER NOT NULL) WITHOUT ROWID"
)


@dataclass(frozen=True)
class Cursor:
    """How far a publisher has come."""

    target: str = ""
    """What it publishes to; another target starts from the first reading."""
    sent: Mapping[str, int] = field(default_factory=dict)
    """Readings delivered of each release, from its first on; absent is 0."""
    pending: Mapping[str, int] | None = None
    """Where `sent` will be once the batch that is being delivered has arrived; None: there is none."""
    document: str = ""
    """What identifies the plan, the ledger and the description that were delivered."""
    seal: int = 0
    """The last seal that was delivered."""


class Cursors:
    """The cursors of a store, through a connection of its own; for one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._db = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=PATIENCE,
                check_same_thread=False,
            )  # fmt: skip
            try:
                self._db.execute("PRAGMA synchronous = FULL")
                self._db.execute("PRAGMA secure_delete = ON")
                if not self._known():
                    self._db.execute(_TABLE)
                    self._empty_log()
            except BaseException:
                self._db.close()
                raise
        except sqlite3.Error as error:
            raise refusal(error, path.name) from None

    def _known(self) -> bool:
        return bool(self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'outbox'").fetchall())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def get(self, publisher: str, target: str) -> Cursor:
        """The publisher's cursor; a new one where it published to something else before, or nothing."""
        found = cursor_of(self._db, publisher)
        return found if found is not None and found.target == target else Cursor(target)

    def put(self, publisher: str, cursor: Cursor) -> None:
        """Make the publisher's cursor durable."""
        pending = None if cursor.pending is None else _text(cursor.pending)
        try:
            self._db.execute(
                "INSERT OR REPLACE INTO outbox VALUES (?, ?, ?, ?, ?, ?)",
                (publisher, cursor.target, _text(cursor.sent), pending, cursor.document, cursor.seal),
            )
        except sqlite3.Error as error:
            raise refusal(error, self._path.name) from None
        self._empty_log()

    def _empty_log(self) -> None:
        """The log beside the store is emptied after every transaction, this one included."""
        self._db.execute("PRAGMA busy_timeout = 0")
        with suppress(sqlite3.OperationalError):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self._db.execute(f"PRAGMA busy_timeout = {PATIENCE * 1000:.0f}")


def cursor_of(db: sqlite3.Connection, publisher: str) -> Cursor | None:
    """The cursor that a store has of a publisher."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'outbox'").fetchall():
        return None
    row = db.execute(
        "SELECT target, sent, pending, document, seal FROM outbox WHERE publisher = ?", (publisher,)
    ).fetchone()
    if row is None:
        return None
    target, sent, pending, document, seal = row
    return Cursor(target, _map(sent), None if pending is None else _map(pending), document, seal)


def _text(numbers: Mapping[str, int]) -> str:
    return json.dumps(dict(numbers), sort_keys=True, ensure_ascii=False)


def _map(text: str) -> dict[str, int]:
    return {name: as_whole(number) for name, number in as_object(parse_json(text)).items()}
