"""Which gauges read the recorded changes of a table, and up to where.

All gauges of a table share one log.  A change is removed from the log once every gauge has committed it.  A
gauge that was not heard of for a month no longer holds changes back.  The log remembers its last removed
change, so a gauge that needed one of the removed changes notices, and reads the whole table again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.model.quantity import SECOND
from tidegauge.source.batch.names import quote
from tidegauge.source.sqlite import triggers

if TYPE_CHECKING:
    import sqlite3

_DAY: Final = 86_400 * SECOND
FORGOTTEN: Final = 30 * _DAY
"""Microseconds without an acknowledgement after which a gauge no longer holds changes back."""
_REMOVED: Final = ""
"""Not a gauge: the row of this name has the id of the last removed change."""
_AT_ONCE: Final = 10_000


def removed(connection: sqlite3.Connection, table: str) -> int:
    """The id of the last change that was removed from the log; 0 if none was."""
    if not _exists(connection, table):
        return 0
    name = quote(triggers.readers_name(table))
    row = connection.execute(f"SELECT id FROM {name} WHERE reader = ?", [_REMOVED]).fetchone()
    return 0 if row is None else int(row[0])


def leave(connection: sqlite3.Connection, table: str, reader: str | None) -> int:
    """Keep nothing for this gauge any longer.  Returns how many other gauges follow the table.

    reader: None if this gauge has read nothing yet.
    """
    if not _exists(connection, table):
        return 0
    name = quote(triggers.readers_name(table))
    if reader is not None:
        connection.execute(f"DELETE FROM {name} WHERE reader = ?", [reader])
    (others,) = connection.execute(
        f"SELECT count(*) FROM {name} WHERE reader <> ? AND at > {triggers.NOW} - ?", [_REMOVED, FORGOTTEN]
    ).fetchone()
    return int(others)


def acknowledge(connection: sqlite3.Connection, table: str, reader: str, upto: int) -> None:
    """Note that this gauge has committed the changes up to an id; remove what every gauge has committed.

    The newest change stays: after a statement that failed with OR FAIL, SQLite would use its id again.
    """
    name, log = quote(triggers.readers_name(table)), quote(triggers.log_name(table))
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {name} (reader TEXT PRIMARY KEY, id INTEGER NOT NULL, at INTEGER "
            "NOT NULL)"
        )
        _write(connection, name, reader, upto)
        connection.execute(
            f"DELETE FROM {name} WHERE reader <> ? AND at <= {triggers.NOW} - ?", [_REMOVED, FORGOTTEN]
        )
        (last,) = connection.execute(
            f"SELECT max(0, min((SELECT min(id) FROM {name} WHERE reader <> ?), "
            f"(SELECT coalesce(max(id), 1) - 1 FROM {log})))",
            [_REMOVED],
        ).fetchone()
        last = max(last, removed(connection, table))
        _write(connection, name, _REMOVED, last)
        # We hold the lock: no statement is at work that needs its notes.
        connection.execute(f"DELETE FROM {quote(triggers.rivals_name(table))} WHERE true")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    batch = f"SELECT id FROM {log} WHERE id <= ? LIMIT {_AT_ONCE}"
    while connection.execute(f"DELETE FROM {log} WHERE id IN ({batch})", [last]).rowcount:
        pass


def _write(connection: sqlite3.Connection, name: str, reader: str, upto: int) -> None:
    """Write a row, unless it is there and of this day: a tick without changes writes nothing to the file."""
    connection.execute(
        f"INSERT INTO {name} VALUES (?, ?, {triggers.NOW}) ON CONFLICT (reader) DO UPDATE "
        f"SET id = excluded.id, at = excluded.at WHERE id <> excluded.id OR at < excluded.at - {_DAY}",
        [reader, upto],
    )


def _exists(connection: sqlite3.Connection, table: str) -> bool:
    query = "SELECT 1 FROM sqlite_schema WHERE name = ?"
    return connection.execute(query, [triggers.readers_name(table)]).fetchone() is not None
