"""From format 2 to format 3, in one transaction.

Format 3 seals the journal once an instant instead of once a tick, lets changes wait until they take effect,
keeps secrets in a table of their own and, in an encrypted store, signs everything that is kept once.  What
format 2 sealed stays as it is: the beginning of the chain.

A process that is killed in between leaves a store of format 2.  Digests of rows
(tidegauge.engine.duckdb.digest) need no upgrade: old and new ones differ in form, and a row gets a new one
with its next change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.errors import StoreCorrupt
from tidegauge.store.public.journal import Journal
from tidegauge.store.public.ledger import Ledger
from tidegauge.store.secret.pending import WAITING
from tidegauge.store.secret.secrets import SECRETS, WERE_META, Secrets

if TYPE_CHECKING:
    import sqlite3

    from tidegauge.store.database import Database

_CHAIN: Final = (
    "CREATE TABLE ticks_3 (seq INTEGER PRIMARY KEY, instant INTEGER UNIQUE, previous TEXT NOT NULL, "
    "hash TEXT NOT NULL UNIQUE)",
    "INSERT INTO ticks_3 SELECT seq, NULL, previous, hash FROM ticks",
    "DROP TABLE ticks",
    "ALTER TABLE ticks_3 RENAME TO ticks",
)


def upgrade(file: Database) -> None:
    """Bring a store of format 2 to format 3; refused, and nothing changed, where its chains do not hold."""
    db = file.connection
    Ledger(db).prove()
    Journal(db, version=2).prove()
    old = Secrets(db, file.cipher, version=2)
    found = {name: old.get(name) for name in old.names()}
    if db.execute("SELECT 1 FROM meta WHERE key = 'plan'").fetchone() and "clock" not in found:
        raise StoreCorrupt(f"{file.path.name} has a plan but no source position: the store was altered")
    _scrub(file)
    db.execute("PRAGMA foreign_keys = OFF")  # the journal refers to a table that is replaced
    try:
        with file.transaction():
            for statement in _CHAIN:
                db.execute(statement)
            for statement in (SECRETS, *WAITING):
                db.execute(statement)
            _key_rows_by_unit(db)
            db.execute(f"DELETE FROM meta WHERE {WERE_META}")
            fresh = Secrets(db, file.cipher, version=3)
            for key, value in found.items():
                fresh.set(key, value)
            fresh.write()
            db.execute("PRAGMA user_version = 3")
            file.sign()
    finally:
        db.execute("PRAGMA foreign_keys = ON")
    file.version = 3


def _key_rows_by_unit(db: sqlite3.Connection) -> None:
    """Let a row be in two units where it goes from one to the other; each row stays as it lies."""
    columns = db.execute("SELECT name, type FROM pragma_table_info('entries')").fetchall()
    if "unit" not in dict(columns):
        return
    fields = ", ".join(f'"{name}" {kind}' for name, kind in columns)
    db.execute(f'CREATE TABLE entries_3 ({fields}, PRIMARY KEY ("entry", "unit")) WITHOUT ROWID')
    db.execute("INSERT INTO entries_3 SELECT * FROM entries")
    db.execute("DROP TABLE entries")
    db.execute("ALTER TABLE entries_3 RENAME TO entries")
    db.execute('CREATE INDEX entries_of_unit ON entries ("unit")')


def _scrub(file: Database) -> None:
    """Write the file again: format 2 did not overwrite what it erased.  Needs as much room again."""
    db = file.connection
    db.execute("PRAGMA temp_store = FILE")
    try:
        db.execute("VACUUM")
    finally:
        db.execute("PRAGMA temp_store = MEMORY")
    file.empty_log()
