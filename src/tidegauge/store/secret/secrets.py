"""Secrets that are kept once: source position and watermark, shared noise, stream state.  Sealed where the
store has a key.

They are few and most of them change every tick, so the whole table is cleared and written again.  Clearing a
table gives its pages back, and SQLite overwrites those with zeros.  Replacing rows one by one does not
suffice: when SQLite moves rows from a page to its neighbour, it leaves a copy in the unused part of the
first.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import sqlite3

    from tidegauge.store.cipher import Cipher

SECRETS: Final = "CREATE TABLE secrets (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
"""The table, as a statement."""
STATE: Final = "state"
"""The name of the directory of the blocks of the state (tidegauge.store.secret.tables)."""
_OLD: Final = {"veils": "shared_noise", "carried": "stream_state"}
"""How names began in format 2, and how they begin now."""
WERE_META: Final = " OR ".join(["key = 'clock'", *(f"key GLOB '{name}:*'" for name in _OLD)])
"""The condition for rows of `meta` that were secret in format 2."""


class Secrets:
    """Values by name, written together before a transaction ends."""

    def __init__(self, connection: sqlite3.Connection, cipher: Cipher | None, *, version: int) -> None:
        self._db = connection
        self._cipher = cipher
        self._table, self._where = ("meta", f"WHERE {WERE_META}") if version == 2 else ("secrets", "")
        self._fresh: dict[str, Any] = {}

    def names(self) -> set[str]:
        """The names of all that are there."""
        rows = self._db.execute(f"SELECT key FROM {self._table} {self._where}")
        return {self._renamed(key) for (key,) in rows} | set(self._fresh)

    def get(self, key: str) -> Any:
        """The value, or None."""
        if key in self._fresh:
            return self._fresh[key]
        name = self._written(key)
        row = self._db.execute(f"SELECT value FROM {self._table} WHERE key = ?", (name,)).fetchone()
        if row is None:
            return None
        return json.loads(row[0]) if self._cipher is None else self._cipher.open(self._place(name), row[0])

    def stored(self, key: str) -> object:
        """The value as it is in the table, for comparing; None where there is none, or it was set since."""
        if key in self._fresh:
            return None
        row = self._db.execute(f"SELECT value FROM {self._table} WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def set(self, key: str, value: Any) -> None:
        """Keep a value, or with None drop it; `write` puts it into the table."""
        self._fresh[key] = value

    def write(self) -> None:
        """Write down what was set; inside the transaction."""
        if not self._fresh:
            return
        rows = dict(self._db.execute("SELECT key, value FROM secrets").fetchall())
        for key, value in self._fresh.items():
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = (
                    json.dumps(value) if self._cipher is None else self._cipher.seal(self._place(key), value)
                )
        self._db.execute("DELETE FROM secrets")
        self._db.executemany("INSERT INTO secrets VALUES (?, ?)", sorted(rows.items()))
        self._fresh.clear()

    def forget(self) -> None:
        """What was set was rolled back."""
        self._fresh.clear()

    def _renamed(self, name: str) -> str:
        """The key of a row, whichever format wrote it."""
        kind, colon, rest = name.partition(":")
        return f"{_OLD.get(kind, kind)}{colon}{rest}"

    def _written(self, key: str) -> str:
        """The name under which a value lies in the table."""
        if self._table == "secrets":
            return key
        kind, colon, rest = key.partition(":")
        old = {new: old for old, new in _OLD.items()}
        return f"{old.get(kind, kind)}{colon}{rest}"

    def _place(self, key: str) -> bytes:
        """What a value is bound to; not as in format 2, so that no store can pass for an old one."""
        return f"{self._table}\0{key}".encode()
