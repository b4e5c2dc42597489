"""The store's file: who may open it, and what it is made of.

One SQLite file, readable by its owner alone.  One process writes (a lock file beside it says who); others may read.
Every tick is one transaction, synchronised to disk before anyone sees its readings.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegauge.errors import StoreCorrupt, StoreError, StoreLocked

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMAT: Final = 1
APPLICATION: Final = 0x54494445

_TABLES: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE ledger (
    seq INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,
    previous TEXT NOT NULL, hash TEXT NOT NULL UNIQUE);
CREATE TABLE ticks (
    seq INTEGER PRIMARY KEY, watermark INTEGER NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL UNIQUE);
CREATE TABLE journal (
    release TEXT NOT NULL, component INTEGER NOT NULL, number INTEGER NOT NULL, cell INTEGER NOT NULL,
    bin INTEGER NOT NULL, value TEXT NOT NULL, tick INTEGER NOT NULL REFERENCES ticks(seq),
    PRIMARY KEY (release, component, number, cell)) WITHOUT ROWID;
CREATE INDEX journal_by_tick ON journal (tick);
CREATE TABLE readings (
    release TEXT NOT NULL, number INTEGER NOT NULL, cell INTEGER NOT NULL, time INTEGER NOT NULL,
    value REAL, stderr REAL, low REAL NOT NULL, high REAL NOT NULL, PRIMARY KEY (release, number, cell)) WITHOUT ROWID;
CREATE TABLE totals (
    release TEXT NOT NULL, component INTEGER NOT NULL, bin INTEGER NOT NULL, cell INTEGER NOT NULL,
    amount TEXT NOT NULL, PRIMARY KEY (release, component, bin, cell)) WITHOUT ROWID;
CREATE TABLE counts (name TEXT PRIMARY KEY, amount INTEGER NOT NULL) WITHOUT ROWID;
"""


class Database:
    """A connection to the store's file, for writing (alone) or for reading."""

    def __init__(self, path: Path, *, write: bool) -> None:
        self.path = path
        self._lock: int | None = None
        if write:
            self._lock = _acquire(path)
        elif not path.exists():
            raise StoreError(
                f"{path.name} does not exist: nothing has been run here yet. Start with: tidegauge run"
            )
        try:
            self.connection = self._connect(write=write)
        except BaseException:
            self._release()
            raise

    def _connect(self, *, write: bool) -> sqlite3.Connection:
        fresh = not self.path.exists()
        if write:
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            self.path.chmod(0o600)
        uri = f"{self.path.absolute().as_uri()}?mode={'rw' if write else 'ro'}"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30)
        try:
            if write:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA temp_store = MEMORY")
            if fresh or (write and not connection.execute("SELECT 1 FROM sqlite_master").fetchall()):
                _create(connection)
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
        except sqlite3.DatabaseError as error:
            connection.close()
            raise StoreCorrupt(f"{self.path.name} is not a usable store: {error}") from None
        if application != APPLICATION or version != FORMAT:
            connection.close()
            raise StoreError(
                f"{self.path.name} is not a store of this version of Tidegauge "
                f"(format {version}, this version reads {FORMAT}). Nothing was changed."
            )
        return connection

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of it or nothing; durable when it returns."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield self.connection
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    def close(self) -> None:
        """Close the file and let others write."""
        self.connection.close()
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for statement in _TABLES.split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute("COMMIT")


def _acquire(path: Path) -> int:
    """Hold the lock file; the system lets go of it when the process ends, however it ends."""
    lock = Path(f"{path}.lock")
    try:
        handle = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(
            f"{path.name} cannot be opened for writing: {error.strerror}. Nothing was changed."
        ) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise StoreLocked(
            f"{path.name} is in use by another process. Nothing was changed. "
            "Wait for it to end, or stop it; reading verbs (readings, status, ledger) work meanwhile."
        ) from None
    return handle
