"""The store's file: locks, keys, tables and transactions.

One SQLite file, readable by its owner alone.  One process writes (a lock file beside it says who); others may
read. Every tick is one transaction, synchronised to disk before anyone sees its readings.  What a tick erases
is overwritten with zeros, and the log of changes beside the file is emptied after every transaction.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegauge.durable import lock_file, private_file
from tidegauge.errors import StoreCorrupt, StoreError, StoreLocked
from tidegauge.store.cipher import Cipher
from tidegauge.store.signature import sign

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FORMAT: Final = 6
OLDEST: Final = 2
"""Stores from this format on can be read; the first process that writes upgrades them."""
APPLICATION: Final = 0x54494445
PATIENCE: Final = 30.0
"""Seconds to wait for another program that holds SQLite's lock on the file."""

_CACHE: Final = 128 * 1024
"""Kibibytes of pages that a writer keeps in memory: the upper levels of a state of millions of units."""

_META: Final = "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"


def begun(path: Path) -> bool:
    """Whether there is a store with something in it: a process may have died before it wrote anything."""
    if not path.exists():
        return False
    try:
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=PATIENCE)
        ) as db:
            return bool(db.execute("SELECT 1 FROM sqlite_master").fetchall())
    except sqlite3.Error:  # the next one to open it says what is wrong
        return True


class Database:
    """A connection to the store's file, for writing (alone) or for reading.

    `tables`: the statements that make the tables of a new store; a reader needs none.
    """

    def __init__(
        self, path: Path, *, write: bool, key: bytes | None = None, tables: Sequence[str] = ()
    ) -> None:
        self.path = path
        self.cipher: Cipher | None = None
        self.version = FORMAT
        self._lock: int | None = None
        if write:
            self._lock = _acquire(path)
        elif not path.exists():
            raise StoreError(
                f"{path} does not exist: nothing has been run here yet. Start with: tidegauge run; or name "
                "the store with --store"
            )
        try:
            self.connection = self._connect(write=write)
            try:
                self._prepare(key, write=write, tables=tables)
            except BaseException:
                self.connection.close()
                raise
        except (sqlite3.Error, UnicodeDecodeError) as error:
            self._release()
            raise refusal(error, str(path)) from None
        except BaseException:
            self._release()
            raise

    def _connect(self, *, write: bool) -> sqlite3.Connection:
        if write:
            try:
                os.close(private_file(self.path))
            except OSError as error:
                raise _unwritable(self.path, error) from None
        uri = f"{self.path.absolute().as_uri()}?mode={'rw' if write else 'ro'}"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=PATIENCE)
        connection.text_factory = _text
        return connection

    def _prepare(self, key: bytes | None, *, write: bool, tables: Sequence[str]) -> None:
        """Require a store, make one of an empty file, and find its cipher; before anything is changed."""
        db = self.connection
        db.execute("PRAGMA temp_store = MEMORY")
        empty = not db.execute("SELECT 1 FROM sqlite_master").fetchall()
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if empty and not write:
            raise StoreError(
                f"{self.path} is empty: nothing has been run here yet. Start with: tidegauge run"
            )
        if not empty and (application != APPLICATION or not OLDEST <= version <= FORMAT):
            raise StoreError(
                f"{self.path} is not a store of this version of Tidegauge "
                f"(format {version}, this version reads {OLDEST} to {FORMAT}). Nothing was changed."
            )
        self.version = FORMAT if empty else version
        if empty:
            self.cipher = None if key is None else Cipher.fresh(key)
        else:
            self.cipher = self._unlocked(key)
        if write:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA secure_delete = ON")
            db.execute("PRAGMA foreign_keys = ON")
            db.execute(f"PRAGMA cache_size = -{_CACHE}")
            db.execute("PRAGMA wal_autocheckpoint = 0")  # `empty_log` moves the pages, once
        if empty:
            with self.transaction():
                _create(db, self.cipher, tables)

    def _unlocked(self, key: bytes | None) -> Cipher | None:
        record = self.connection.execute("SELECT value FROM meta WHERE key = 'cipher'").fetchone()
        if record is None and key is None:
            return None
        if record is None:
            raise StoreError(
                f"{self.path} is not encrypted, but [store] key names a key. Nothing was changed. A "
                "store is encrypted from its beginning or not at all: take the key out of the declaration; "
                "or start another gauge with a store of its own (the privacy losses of both gauges add up)."
            )
        if key is None:
            raise StoreError(
                f"{self.path} is encrypted, and no key was given. Nothing was changed. Name the "
                "environment variable "
                'that holds its key: [store] key = "env:TIDEGAUGE_KEY"'
            )
        return Cipher.recognise(record[0], key, store=str(self.path))

    def get(self, key: str) -> str | None:
        """A value that is kept once and is public, or None."""
        row = self.connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return row[0] if row else None

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """All values whose keys begin with this prefix, by the rest of the key."""
        rows = self.connection.execute(
            "SELECT substr(key, length(?) + 1), value FROM meta WHERE substr(key, 1, length(?)) = ?",
            (prefix, prefix, prefix),
        )
        return dict(rows)

    def set(self, key: str, value: str) -> None:
        """Keep a public value; inside a transaction."""
        self.connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of it or nothing; durable when it returns."""
        with refusing(str(self.path)):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:  # a full disk ends it by itself
                    self.connection.execute("ROLLBACK")
                raise
        self.empty_log()

    def empty_log(self) -> None:
        """Move what was committed into the file and cut the log: pages in it hold what was erased since.

        Never waits: while another process reads, the log stays until the next transaction, or until the file
        is closed.
        """
        self.connection.execute("PRAGMA busy_timeout = 0")
        try:
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.OperationalError:  # the log has everything; the next transaction tries again
            return
        finally:
            self.connection.execute(f"PRAGMA busy_timeout = {PATIENCE * 1000:.0f}")

    def sign(self) -> None:
        """Sign everything that is kept once, or add it up; inside the transaction that wrote it."""
        sign(self.connection, self.cipher)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Everything read inside is of one moment, even if another process writes meanwhile."""
        if self.connection.in_transaction:
            yield
            return
        with refusing(str(self.path)):
            self.connection.execute("BEGIN")
            try:
                yield
            finally:
                self.connection.execute("COMMIT")

    def close(self) -> None:
        """Close the file and let others write."""
        self.connection.close()
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _text(stored: bytes) -> str:
    """A text as it is in the file.  Python's own error would quote it where it is damaged."""
    return stored.decode("utf-8", "replace")


@contextmanager
def refusing(name: str) -> Iterator[None]:
    """A block in which SQLite's errors are refusals, but for a second value where there may be one."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise refusal(error, name) from None


def refusal(error: sqlite3.Error | UnicodeDecodeError, name: str) -> StoreError:
    """What an error of SQLite means for the user.  SQLite's own message may quote data and is dropped."""
    kind = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if isinstance(error, UnicodeDecodeError):  # SQLite's message quotes a damaged name
        kind = sqlite3.SQLITE_CORRUPT
    match kind:
        case sqlite3.SQLITE_FULL:
            return StoreError(
                f"{name} cannot grow: the disk is full, or a quota is reached. What was not committed was "
                "rolled back; nothing is lost. Make room, then start again."
            )
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreLocked(
                f"{name} has been locked by another program for {PATIENCE:.0f} seconds (a backup, an open "
                "sqlite3 shell). What was not committed was rolled back; nothing is lost. Close it, then "
                "start again."
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return StoreError(
                f"{name} cannot be written, or not in this folder: it, its folder or its disk is read-only. "
                "What was not committed was rolled back; nothing is lost. Give the gauge's user the right "
                "to write, then start again."
            )
        case sqlite3.SQLITE_IOERR:
            return StoreError(
                f"{name}: the disk reports an error ({getattr(error, 'sqlite_errorname', 'SQLITE_IOERR')}). "
                "What was not committed was rolled back. Check that the disk works and has room, then start "
                "again."
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return StoreCorrupt(
                f"{name} is not a usable store: it is damaged, or no SQLite file at all. Name another with "
                "--store, or restore the newest copy that tidegauge verify accepts.",
                advice=None,
            )
        case _:
            return StoreError(
                f"{name} cannot be used ({getattr(error, 'sqlite_errorname', type(error).__name__)}). "
                "What was committed before is kept."
            )


def _unwritable(path: Path, error: OSError) -> StoreError:
    return StoreError(f"{path} cannot be opened for writing: {error.strerror}. Nothing was changed.")


def _create(connection: sqlite3.Connection, cipher: Cipher | None, tables: Sequence[str]) -> None:
    for statement in (_META, *tables):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    if cipher is not None:
        connection.execute("INSERT INTO meta VALUES ('cipher', ?)", (cipher.record(),))
        sign(connection, cipher)


def _acquire(path: Path) -> int:
    """Hold the lock file; the system lets go of it when the process ends, however it ends."""
    try:
        return lock_file(Path(f"{path}.lock"))
    except BlockingIOError:
        raise StoreLocked(
            f"{path} is in use by another process. Nothing was changed. "
            "Wait for it to end, or stop it; reading verbs (readings, status, ledger) work meanwhile."
        ) from None
    except OSError as error:
        raise _unwritable(path, error) from None
