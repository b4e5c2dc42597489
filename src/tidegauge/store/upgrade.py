"""From formats 2, 3 and 4 to format 5, in one transaction.

Format 3 seals the journal once an instant instead of once a tick, lets changes wait until they take effect,
keeps secrets in a table of their own and, in an encrypted store, signs everything that is kept once.  What
format 2 sealed stays as it is: the beginning of the chain.  Format 4 keeps the state in blocks of many rows
(tidegauge.store.secret.tables) instead of one row of SQLite for each row.  Format 5 can erase a row of a
block in its place; a table of format 4 is written again by the first tick that changes it.

A process that is killed in between leaves the store as it was.  Digests of rows
(tidegauge.engine.duckdb.digest) need no upgrade: old and new ones differ in form, and a row gets a new one
with its next change.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from tidegauge.errors import StoreCorrupt
from tidegauge.store.public.journal import Journal
from tidegauge.store.public.ledger import Ledger
from tidegauge.store.secret.old_rows import TABLES, old_rows
from tidegauge.store.secret.part import BLOCKS
from tidegauge.store.secret.pending import WAITING
from tidegauge.store.secret.rows import RowDigests
from tidegauge.store.secret.secrets import SECRETS, STATE, WERE_META, Secrets

if TYPE_CHECKING:
    from tidegauge.model.json import JsonObject
    from tidegauge.store.database import Database

_CHAIN: Final = (
    "CREATE TABLE ticks_3 (seq INTEGER PRIMARY KEY, instant INTEGER UNIQUE, previous TEXT NOT NULL, "
    "hash TEXT NOT NULL UNIQUE)",
    "INSERT INTO ticks_3 SELECT seq, NULL, previous, hash FROM ticks",
    "DROP TABLE ticks",
    "ALTER TABLE ticks_3 RENAME TO ticks",
)


def upgrade(file: Database) -> None:
    """Bring a store to the newest format; refused, and nothing changed, where it is not as it was left."""
    db, old = file.connection, Secrets(file.connection, file.cipher, version=file.version)
    found: JsonObject = {}
    if file.version == 4:
        with file.transaction():
            db.execute("PRAGMA user_version = 5")
        file.version = 5
        return
    if file.version == 2:
        found = _of_format_2(file, old)
        _scrub(file)
    else:
        RowDigests(db, file.cipher, old, version=3).require(file.path.name)
        if STATE in old.names():
            raise StoreCorrupt(f"{file.path.name} has a state of another format: the store was altered")
    db.execute("PRAGMA foreign_keys = OFF")  # the journal refers to a table that is replaced
    try:
        with file.transaction():
            if file.version == 2:
                for statement in (*_CHAIN, SECRETS, *WAITING):
                    db.execute(statement)
                db.execute(f"DELETE FROM meta WHERE {WERE_META}")
            fresh = Secrets(db, file.cipher, version=4)
            for key, value in found.items():
                fresh.set(key, value)
            db.execute(BLOCKS)
            _move_state(file, fresh)
            digests = RowDigests(db, file.cipher, fresh, version=4)
            digests.restart()
            digests.save()
            fresh.write()
            db.execute("PRAGMA user_version = 5")
            file.sign()
    finally:
        db.execute("PRAGMA foreign_keys = ON")
    file.version = 5


def _of_format_2(file: Database, old: Secrets) -> JsonObject:
    """The secrets of a store of format 2, whose chains hold."""
    Ledger(file.connection).prove()
    Journal(file.connection, version=2).prove()
    found = {name: old.get(name) for name in old.names()}
    if file.get("plan") is not None and "clock" not in found:
        raise StoreCorrupt(f"{file.path.name} has a plan but no source position: the store was altered")
    return found


def _move_state(file: Database, secrets: Secrets) -> None:
    """Write the rows of the state as blocks, and drop the tables that they were in."""
    from tidegauge.store.secret.tables import StateTables  # noqa: PLC0415  (slow to load)

    declared = file.get("layout")
    if declared is None:
        return
    layout = json.loads(declared)
    secrets.set(STATE, {})
    tables = StateTables(file.connection, file.cipher, secrets)
    for name in TABLES:
        tables.use(layout)
        for rows in old_rows(file.connection, file.cipher, name, layout[name]):
            tables.apply(name, [rows])
        file.connection.execute(f"DROP TABLE {name}")


def _scrub(file: Database) -> None:
    """Write the file again: format 2 did not overwrite what it erased.  Needs as much room again."""
    db = file.connection
    db.execute("PRAGMA temp_store = FILE")
    try:
        db.execute("VACUUM")
    finally:
        db.execute("PRAGMA temp_store = MEMORY")
    file.empty_log()
