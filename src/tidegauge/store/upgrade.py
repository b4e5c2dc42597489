"""From formats 2 to 5 to format 6, in one transaction.

Format 3 seals the journal once an instant instead of once a tick, lets changes wait until they take effect,
keeps secrets in a table of their own and, in an encrypted store, signs everything that is kept once.  What
format 2 sealed stays as it is: the beginning of the chain.  Format 4 keeps the state in blocks of many rows
(tidegauge.store.secret.tables) instead of one row of SQLite for each row.  Format 5 can erase a row of a
block in its place.  Format 6 keeps the numbers of a row beside each other, and rows that are their own units
with their counters; the state of an older format is written again.

A process that is killed in between leaves the store as it was.  Digests of rows
(tidegauge.engine.duckdb.digest) need no upgrade: old and new ones differ in form, and a row gets a new one
with its next change.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, Final

from tidegauge.errors import StoreCorrupt
from tidegauge.store.database import FORMAT
from tidegauge.store.public.journal import Journal
from tidegauge.store.public.ledger import Ledger
from tidegauge.store.secret.old_rows import TABLES, old_rows
from tidegauge.store.secret.part import PAGES, SecretPart
from tidegauge.store.secret.pending import WAITING
from tidegauge.store.secret.rows import RowDigests
from tidegauge.store.secret.secrets import SECRETS, STATE, WERE_META, Secrets

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from tidegauge.model.json import JsonObject
    from tidegauge.model.program import Folded
    from tidegauge.store.database import Database
    from tidegauge.store.secret.part import Layout

_AT_ONCE: Final = 64
"""So many blocks of a state are moved at a time."""
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
    if file.version == 2:
        found = _of_format_2(file, old)
        _scrub(file)
    elif file.version == 3:
        RowDigests(db, file.cipher, old, version=3).require(file.path.name)
        if STATE in old.names():
            raise StoreCorrupt(f"{file.path.name} has a state of another format: the store was altered")
    else:
        SecretPart(file).require_rows()
    db.execute("PRAGMA foreign_keys = OFF")  # the journal refers to a table that is replaced
    try:
        with file.transaction():
            if file.version == 2:
                for statement in (*_CHAIN, SECRETS, *WAITING):
                    db.execute(statement)
                db.execute(f"DELETE FROM meta WHERE {WERE_META}")
            fresh = Secrets(db, file.cipher, version=FORMAT)
            for key, value in found.items():
                fresh.set(key, value)
            db.execute(PAGES)
            _move_state(file, fresh)
            if file.version < 4:
                digests = RowDigests(db, file.cipher, fresh, version=FORMAT)
                digests.restart()
                digests.save()
            fresh.write()
            db.execute(f"PRAGMA user_version = {FORMAT}")
            file.sign()
    finally:
        db.execute("PRAGMA foreign_keys = ON")
    file.version = FORMAT


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

    db, declared = file.connection, file.get("layout")
    layout = None if declared is None else json.loads(declared)
    if layout is not None:
        parts = _old_state(file, layout, Secrets(db, file.cipher, version=max(3, file.version)))
        first = next(parts, None)
        secrets.set(STATE, {})
        tables = StateTables(db, file.cipher, secrets, version=FORMAT)
        for part in [] if first is None else chain([first], parts):
            tables.take(layout, [part])
    for name in TABLES if file.version < 4 else ("blocks",):
        if layout is not None or name == "blocks":
            db.execute(f"DROP TABLE {name}")


def _old_state(file: Database, layout: Layout, secrets: Secrets) -> Iterator[Folded]:
    """The state of an older format, in parts."""
    from tidegauge.model.program import Folded  # noqa: PLC0415  (slow to load)
    from tidegauge.store.secret.table.rows import Shape  # noqa: PLC0415
    from tidegauge.store.secret.tables import StateTables  # noqa: PLC0415

    nothing = {name: Shape.of(columns, ()).columns.empty_table() for name, columns in layout.items()}
    named = [name for name in ("entry", "unit") if name in layout["entries"]]

    def part(**some: pa.Table) -> Folded:
        found = {**nothing, **some}
        gone = found["entries"].select(named)[:0]
        return Folded([], found["entries"], gone, found["units"], found["used"], {})

    if file.version < 4:
        for name in TABLES:
            for rows in old_rows(file.connection, file.cipher, name, layout[name]):
                yield part(**{name: rows})
        return
    tables = StateTables(file.connection, file.cipher, secrets, version=file.version)
    known = tables.use(layout)
    for low, high in known["entries"].ranges(_AT_ONCE):
        yield part(**{name: known[name].between(low, high).table for name in layout})


def _scrub(file: Database) -> None:
    """Write the file again: format 2 did not overwrite what it erased.  Needs as much room again."""
    db = file.connection
    db.execute("PRAGMA temp_store = FILE")
    try:
        db.execute("VACUUM")
    finally:
        db.execute("PRAGMA temp_store = MEMORY")
    file.empty_log()
