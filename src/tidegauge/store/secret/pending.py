"""Changes that have not taken effect, and the keys that rows were renamed from and to: all secret."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from tidegauge.model.program import Record
    from tidegauge.store.cipher import Cipher
    from tidegauge.store.secret.rows import RowDigests

WAITING: Final = (
    "CREATE TABLE pending (number INTEGER PRIMARY KEY, changes BLOB NOT NULL)",
    "CREATE TABLE keys (name BLOB PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID",
)
"""The tables, as statements."""
_ROWS: Final = 50_000
"""So many changes lie in one piece."""
_PART: Final = 10_000
"""So many keys are looked for at a time."""


class Pending:
    """Changes in the order of the log, in pieces of Arrow's stream format, as they are or sealed."""

    def __init__(self, connection: sqlite3.Connection, cipher: Cipher | None, digests: RowDigests) -> None:
        self._db, self._cipher, self._digests = connection, cipher, digests

    def append(self, changes: pa.Table) -> None:
        """Let these wait as well; inside the tick's transaction."""
        import pyarrow as pa  # noqa: PLC0415  (slow to load)

        (number,) = self._db.execute("SELECT coalesce(max(number), 0) FROM pending").fetchone()
        for first in range(0, changes.num_rows, _ROWS):
            number += 1
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, changes.schema) as writer:
                writer.write_table(changes.slice(first, _ROWS))
            piece = sink.getvalue().to_pybytes()
            if self._cipher is not None:
                piece = self._cipher.seal_bytes(_piece(number), piece)
            self._db.execute("INSERT INTO pending VALUES (?, ?)", (number, piece))
            self._digests.changed("pending", old=None, new=(number, piece))

    def replace(self, changes: pa.Table) -> None:
        """Let these wait, and no others; inside the tick's transaction."""
        self._db.execute("DELETE FROM pending")
        self._digests.reset("pending")
        self.append(changes)

    def pieces(self) -> Iterator[pa.Table]:
        """The changes that wait."""
        import pyarrow as pa  # noqa: PLC0415  (slow to load)

        for number, piece in self._db.execute("SELECT number, changes FROM pending ORDER BY number"):
            opened = piece if self._cipher is None else self._cipher.open_bytes(_piece(number), piece)
            with pa.ipc.open_stream(opened) as reader:
                yield reader.read_all()


class Keys:
    """A record for every key that a row was renamed from or to, where there is something to remember."""

    def __init__(self, connection: sqlite3.Connection, cipher: Cipher | None) -> None:
        self._db, self._cipher = connection, cipher

    def any(self) -> bool:
        """Whether there is a record."""
        return self._db.execute("SELECT 1 FROM keys LIMIT 1").fetchone() is not None

    def find(self, names: Sequence[str] | None) -> dict[str, Record]:
        """The records of those keys (None: of all) that have one."""
        if names is None:
            return self._opened(self._db.execute("SELECT name, record FROM keys").fetchall())
        wanted = [self._name(name) for name in names]
        found: dict[str, Record] = {}
        for first in range(0, len(wanted), _PART):
            part = wanted[first : first + _PART]
            marks = ", ".join("?" * len(part))
            rows = self._db.execute(f"SELECT name, record FROM keys WHERE name IN ({marks})", part)
            found |= self._opened(rows.fetchall())
        return found

    def put(self, records: Mapping[str, Record | None]) -> None:
        """Remember these, or forget where there is None; inside the tick's transaction."""
        for key, record in records.items():
            name = self._name(key)
            if record is None:
                self._db.execute("DELETE FROM keys WHERE name = ?", (name,))
                continue
            both = [key, record]
            value = json.dumps(both) if self._cipher is None else self._cipher.seal(_record(name), both)
            self._db.execute(
                "INSERT INTO keys VALUES (?, ?) ON CONFLICT DO UPDATE SET record = excluded.record",
                (name, value),
            )

    def _name(self, key: str) -> Any:
        return key if self._cipher is None else self._cipher.token("keys", key)

    def _opened(self, rows: Iterable[tuple[Any, Any]]) -> dict[str, Record]:
        return dict(
            json.loads(value) if self._cipher is None else self._cipher.open(_record(name), value)
            for name, value in rows
        )


def _piece(number: int) -> bytes:
    return f"pending\0{number}".encode()


def _record(name: bytes) -> bytes:
    return b"keys\0" + name
