"""How rows of the state lie in their tables: as they are, or sealed."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from tidegauge.store.cipher import Cipher

    Row = tuple[Any, ...]

_KEYS: Final = {"entries": ("entry", "unit"), "units": ("unit", "scope"), "used": ("unit", "release")}
_SQLITE: Final = {"VARCHAR": "TEXT", "BIGINT": "INTEGER"}
_FOUND: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "entries": {"entry": ("entry",), "unit": ("unit",)},
    "units": {"unit": ("unit",), "scope": ("unit", "scope")},
    "used": {"unit": ("unit",), "release": ("unit", "release")},
}
"""Of a sealed table: the columns by which a row is found, and what each is the token of."""


def key_of(table: str, declared: Collection[str]) -> tuple[str, ...]:
    """The columns that no two rows of a table share; a row that changes its unit can be in both."""
    return tuple(column for column in _KEYS[table] if column in declared)


def _found(table: str, declared: Collection[str]) -> dict[str, tuple[str, ...]]:
    return {column: parts for column, parts in _FOUND[table].items() if column in declared}


class Form(Protocol):
    """What the state asks of the way its rows lie."""

    def columns(self, table: str, declared: Mapping[str, str]) -> dict[str, str]:
        """The columns that the table has in SQLite, and their types."""
        ...

    def keys(self, table: str, column: str, values: Iterable[str]) -> Iterable[Any]:
        """The contents of the column by which these values are found."""
        ...

    def places(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> Iterable[Row]:
        """The contents of several columns by which these values are found together."""
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

    def where_present(self, table: str, column: str) -> str:
        """SQL after FROM: the rows of a table that may have a value in this column."""
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

    def places(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> Iterable[Row]:
        """Themselves."""
        del table, columns
        return rows

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

    def where_present(self, table: str, column: str) -> str:
        """Those that have one."""
        return f"{table} WHERE {column} IS NOT NULL"

    def forget(self) -> None:
        """Nothing is remembered."""


class Leaving(NamedTuple):
    """When a unit must leave a scope; None: never."""

    unit: str
    scope: int
    expires: int | None

    @classmethod
    def of(cls, names: Sequence[str], row: Row) -> Self:
        """What a row of the units with these columns says."""
        unit, scope, expires = (row[names.index(name)] for name in cls._fields)
        return cls(unit, scope, expires)


class Sealed:
    """Every row in one piece, found by keyed hashes.

    When units must leave is as secret as the rest, and an index would tell how many came when: so the times
    are kept in memory, read once.
    """

    def __init__(self, cipher: Cipher) -> None:
        self._cipher = cipher
        self._leaving: dict[tuple[str, int], int] | None = None
        self._queue: list[tuple[int, str, int]] = []

    def columns(self, table: str, declared: Mapping[str, str]) -> dict[str, str]:
        """What it is found by, and the whole."""
        return {**dict.fromkeys(_found(table, declared), "BLOB"), "sealed": "BLOB"}

    def keys(self, table: str, column: str, values: Iterable[str]) -> Iterable[bytes]:
        """Their tokens, in the order in which they lie."""
        return sorted(self._cipher.token(f"{table}.{column}", value) for value in values)

    def places(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> list[Row]:
        """Their tokens, in the order in which they lie."""
        token, names = self._cipher.token, [f"{table}.{column}" for column in columns]
        return sorted(
            tuple(token(name, value) for name, value in zip(names, row, strict=True)) for row in rows
        )

    def pack(self, table: str, names: Sequence[str], rows: Iterable[Row]) -> list[Row]:
        """Sealed, bound to table and tokens."""
        spots = [
            (f"{table}.{column}", [list(names).index(part) for part in parts])
            for column, parts in _found(table, names).items()
        ]
        token, seal, packed = self._cipher.token, self._cipher.seal, []
        for row in rows:
            tokens = [token(name, *(row[spot] for spot in parts)) for name, parts in spots]
            if table == "units" and self._leaving is not None:
                self._note(self._leaving, Leaving.of(names, row))
            packed.append((*tokens, seal(_place(table, tokens), row)))
        return sorted(packed)  # side by side, as they lie: fewer pages are touched twice

    def unpack(self, table: str, rows: list[Row]) -> list[Row]:
        """Opened, each at its place."""
        return [tuple(self._cipher.open(_place(table, tokens), sealed)) for *tokens, sealed in rows]

    def expiring(self, db: sqlite3.Connection, names: Sequence[str], upto: int) -> list[str]:
        """From memory."""
        if self._leaving is None:
            self._leaving, self._queue = {}, []
            found = db.execute("SELECT unit, scope, sealed FROM units")
            while rows := found.fetchmany(10_000):
                for row in self.unpack("units", rows):  # one that was sealed earlier may have fewer columns
                    self._note(self._leaving, Leaving.of(names, row))
        due = []
        while self._queue and self._queue[0][0] <= upto:
            item = heapq.heappop(self._queue)
            if self._leaving.get((item[1], item[2])) == item[0]:
                due.append(item)
        for item in set(due):  # they leave when this is committed, not now
            heapq.heappush(self._queue, item)
        return sorted({unit for _, unit, _ in due})

    def where_present(self, table: str, column: str) -> str:
        """All: what a row has is sealed."""
        del column
        return table

    def forget(self) -> None:
        """Read them again."""
        self._leaving = None

    def _note(self, leaving: dict[tuple[str, int], int], one: Leaving) -> None:
        spot = one.unit, one.scope
        if one.expires is None:
            leaving.pop(spot, None)
        elif leaving.get(spot) != one.expires:
            leaving[spot] = one.expires
            heapq.heappush(self._queue, (one.expires, *spot))


def _place(table: str, tokens: Iterable[bytes]) -> bytes:
    return table.encode() + b"\0" + b"".join(tokens)
