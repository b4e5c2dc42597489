"""How rows of the state lie in their tables: as they are, or sealed."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from tidegauge.store.cipher import Cipher

    Row = tuple[Any, ...]

KEYS: Final = {"entries": ("entry",), "units": ("unit", "scope"), "used": ("unit", "release")}
_SQLITE: Final = {"VARCHAR": "TEXT", "BIGINT": "INTEGER"}
_FOUND: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "entries": {"entry": ("entry",), "unit": ("unit",)},
    "units": {"unit": ("unit",), "scope": ("unit", "scope")},
    "used": {"unit": ("unit",), "release": ("unit", "release")},
}
"""Of a sealed table: the columns by which a row is found, and what each is the token of."""


def _found(table: str, declared: Collection[str]) -> dict[str, tuple[str, ...]]:
    return {column: parts for column, parts in _FOUND[table].items() if column in declared}


class Form(Protocol):
    """What the state asks of the way its rows lie."""

    def columns(self, table: str, declared: Mapping[str, str]) -> dict[str, str]:
        """The columns that the table has in SQLite, and their types."""
        ...

    def keys(self, table: str, column: str, values: Iterable[str]) -> Iterable[Any]:
        """What stands in the column where these values are looked for."""
        ...

    def pack(self, table: str, names: Sequence[str], rows: Iterable[Row]) -> Iterable[Row]:
        """Rows as they are written."""
        ...

    def unpack(self, table: str, rows: list[Row]) -> list[Row]:
        """Rows as they were."""
        ...

    def expiring(self, db: sqlite3.Connection, names: Sequence[str], upto: int) -> list[str]:
        """Units that must leave by this instant."""
        ...

    def forget(self) -> None:
        """What was written was rolled back."""
        ...


class Plain:
    """Rows as they are."""

    def columns(self, table: str, declared: Mapping[str, str]) -> dict[str, str]:
        """One for one."""
        del table
        return {name: _SQLITE[kind] for name, kind in declared.items()}

    def keys(self, table: str, column: str, values: Iterable[str]) -> Iterable[str]:
        """Themselves."""
        del table, column
        return values

    def pack(self, table: str, names: Sequence[str], rows: Iterable[Row]) -> Iterable[Row]:
        """As they are."""
        del table, names
        return rows

    def unpack(self, table: str, rows: list[Row]) -> list[Row]:
        """As they are."""
        del table
        return rows

    def expiring(self, db: sqlite3.Connection, names: Sequence[str], upto: int) -> list[str]:
        """By the index."""
        del names
        found = db.execute("SELECT DISTINCT unit FROM units WHERE expires <= ?", (upto,))
        return [unit for (unit,) in found]

    def forget(self) -> None:
        """Nothing is remembered."""


class Sealed:
    """Every row in one piece, found by keyed hashes.

    When units must leave is as secret as the rest, and an index would tell how many came when: so the times are kept in
    memory, read once.
    """

    def __init__(self, cipher: Cipher) -> None:
        self._cipher = cipher
        self._leaving: dict[tuple[str, int], int] | None = None
        self._queue: list[tuple[int, str, int]] = []

    def columns(self, table: str, declared: Mapping[str, str]) -> dict[str, str]:
        """What it is found by, and the whole."""
        return {**dict.fromkeys(_found(table, declared), "BLOB"), "sealed": "BLOB"}

    def keys(self, table: str, column: str, values: Iterable[str]) -> Iterable[bytes]:
        """Their tokens."""
        return (self._cipher.token(f"{table}.{column}", value) for value in values)

    def pack(self, table: str, names: Sequence[str], rows: Iterable[Row]) -> Iterator[Row]:
        """Sealed, bound to table and tokens."""
        spots = [
            (f"{table}.{column}", [list(names).index(part) for part in parts])
            for column, parts in _found(table, names).items()
        ]
        token, seal = self._cipher.token, self._cipher.seal
        for row in rows:
            tokens = [token(name, *(row[spot] for spot in parts)) for name, parts in spots]
            if table == "units" and self._leaving is not None:
                self._note(self._leaving, dict(zip(names, row, strict=True)))
            yield (*tokens, seal(_place(table, tokens), row))

    def unpack(self, table: str, rows: list[Row]) -> list[Row]:
        """Opened, each at its place."""
        return [tuple(self._cipher.open(_place(table, tokens), sealed)) for *tokens, sealed in rows]

    def expiring(self, db: sqlite3.Connection, names: Sequence[str], upto: int) -> list[str]:
        """From memory."""
        if self._leaving is None:
            self._leaving, self._queue = {}, []
            found = db.execute("SELECT unit, scope, sealed FROM units")
            while rows := found.fetchmany(10_000):
                for row in self.unpack("units", rows):
                    self._note(self._leaving, dict(zip(names, row, strict=True)))
        due = []
        while self._queue and self._queue[0][0] <= upto:
            item = heapq.heappop(self._queue)
            if self._leaving.get((item[1], item[2])) == item[0]:
                due.append(item)
        for item in set(due):  # they leave when this is committed, not now
            heapq.heappush(self._queue, item)
        return sorted({unit for _, unit, _ in due})

    def forget(self) -> None:
        """Read them again."""
        self._leaving = None

    def _note(self, leaving: dict[tuple[str, int], int], row: Mapping[str, Any]) -> None:
        spot = row["unit"], row["scope"]
        if row["expires"] is None:
            leaving.pop(spot, None)
        elif leaving.get(spot) != row["expires"]:
            leaving[spot] = row["expires"]
            heapq.heappush(self._queue, (row["expires"], *spot))


def _place(table: str, tokens: Iterable[bytes]) -> bytes:
    return table.encode() + b"\0" + b"".join(tokens)
