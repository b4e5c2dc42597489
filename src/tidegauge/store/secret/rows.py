"""A digest of the rows of a store, so that rows of an older copy are found.

Every sealed row is bound to its place, but a person who can write the file can put an older version of the
row back there.  So the store keeps, for every secret table, the sum modulo 2^256 of a keyed hash of each row.
A tick subtracts the hashes of the rows that it replaces and adds those of the new rows.  The sums are sealed
with the other secrets and signed.  Without the key, a person can neither compute a sum nor find another set
of rows with the same sum: this is an additive multiset hash (Clarke, Devadas, van Dijk, Gassend and Suh,
2003), and no sum is visible.

A store is checked when it is opened for writing, and by `verify`.  The state itself is not among these rows:
its blocks are named in the directory (tidegauge.store.secret.tables), which is one of the secrets.

In a store without a key the hash has no key either, and finds damage alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidegauge.errors import StoreCorrupt
from tidegauge.store.secret.old_rows import TABLES as OLD
from tidegauge.store.signature import digest

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

    from tidegauge.store.cipher import Cipher
    from tidegauge.store.secret.secrets import Secrets

_KEY: Final = "row_digests"
_WATCHED: Final = ("keys",)
"""Tables whose rows change one by one.  Triggers of this connection call the digest."""
_NOTED: Final = ("totals", "pending")
_NOTED_SEALED: Final = (*_NOTED, "counts")
"""Tables that a tick clears and writes again.  A trigger would make SQLite clear them row by row; instead,
the code that writes them calls `changed` and `reset`."""
_MODULUS: Final = 2**256


class RowDigests:
    """The digests of the secret tables of one store."""

    def __init__(
        self, db: sqlite3.Connection, cipher: Cipher | None, secrets: Secrets, *, version: int
    ) -> None:
        self._db, self._cipher, self._secrets = db, cipher, secrets
        self._old = version < 4
        """Whether the rows of the state are rows of SQLite."""
        self._sums: dict[str, int] = {}
        self._moved = False
        """Whether a row changed since the digests were saved."""

    def begin(self, store: str) -> None:
        """Follow the changes of this connection from now on.  Raises StoreCorrupt as `require` does.

        A store of an earlier version has no digests yet; they begin with the rows that it has.
        """
        self._db.create_function("row_changed", -1, self._row_changed)
        self.require(store)
        self.watch()

    def watch(self) -> None:
        """Make the triggers."""
        for table in _WATCHED:
            columns = [name for _, name, *_ in self._db.execute(f"PRAGMA table_info({table})")]
            old, new = (", ".join(f'{row}."{name}"' for name in columns) for row in ("OLD", "NEW"))
            for event, calls in (
                ("INSERT", [f"row_changed(1, '{table}', {new})"]),
                ("UPDATE", [f"row_changed(-1, '{table}', {old})", f"row_changed(1, '{table}', {new})"]),
                ("DELETE", [f"row_changed(-1, '{table}', {old})"]),
            ):
                if columns:
                    self._db.execute(
                        f"CREATE TEMP TRIGGER IF NOT EXISTS {table}_{event.lower()} "
                        f"AFTER {event} ON main.{table} BEGIN SELECT {', '.join(calls)}; END"
                    )

    def changed(self, table: str, *, old: Iterable[Any] | None, new: Iterable[Any]) -> None:
        """A row was inserted, or took the place of another."""
        if old is not None:
            self._row_changed(-1, table, *old)
        self._row_changed(1, table, *new)

    def reset(self, table: str, rows: Iterable[Iterable[Any]] = ()) -> None:
        """The table was cleared and has only these rows."""
        self._sums[table] = 0
        self._moved = True
        for row in rows:
            self._row_changed(1, table, *row)

    def restart(self) -> None:
        """The tables that are followed have changed: begin with the rows that are there."""
        self._sums, self._moved = self._found(), True

    def save(self) -> None:
        """Keep the digests with the secrets; inside the transaction."""
        if self._moved:
            self._secrets.set(_KEY, {table: f"{total:064x}" for table, total in sorted(self._sums.items())})
            self._moved = False

    def forget(self) -> None:
        """The transaction was rolled back: the digests are those of the last one."""
        self._moved = False
        self._sums = self._kept() or {}
        if not self._sums:
            self._sums, self._moved = self._found(), True

    def require(self, store: str) -> None:
        """Raise StoreCorrupt where the rows are not those that the last tick left."""
        if self._cipher is None and self._old:
            return
        kept, found = self._kept(), self._found()
        if kept is not None and kept != found:
            raise StoreCorrupt(
                f"{store} is not as its gauge left it: rows of its secret state were altered, removed or put "
                "back from an older copy. Nothing was read or spent. Bring back the newest copy that "
                "tidegauge verify accepts.",
                advice=None,
            )
        self._sums, self._moved = found, kept is None

    def _kept(self) -> dict[str, int] | None:
        stored = self._secrets.get(_KEY)
        return None if stored is None else {table: int(total, 16) for table, total in stored.items()}

    def _found(self) -> dict[str, int]:
        """The digests of the rows that are there."""
        sums = {}
        noted = _NOTED if self._cipher is None else _NOTED_SEALED
        for table in (*(OLD if self._old else ()), *_WATCHED, *noted):
            total = 0
            for row in self._rows(table):
                total += self._hash(table, *row)
            sums[table] = total % _MODULUS
        return sums

    def _rows(self, table: str) -> Iterator[tuple[Any, ...]]:
        if not self._db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchall():
            return iter(())
        return iter(self._db.execute(f"SELECT * FROM {table}"))

    def _row_changed(self, sign: int, table: str, *row: Any) -> None:
        self._sums[table] = (self._sums.get(table, 0) + sign * self._hash(table, *row)) % _MODULUS
        self._moved = True

    def _hash(self, table: str, *row: Any) -> int:
        if self._cipher is None:
            return int.from_bytes(digest((table, *row), 32), "big")
        return self._cipher.row_hash(table, row)
