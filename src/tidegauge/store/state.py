"""What the store remembers of rows and units, so that a source need only deliver new values.  All of it is secret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence

    from tidegauge.model.program import Folded

_ARROW: Final = {"VARCHAR": pa.string(), "BIGINT": pa.int64()}
_SQLITE: Final = {"VARCHAR": "TEXT", "BIGINT": "INTEGER"}


def quote(name: str) -> str:
    """An SQL identifier, whatever it contains."""
    return '"' + name.replace('"', '""') + '"'


class StoredState:
    """Rows, counters and clips in SQLite, with the columns that the engine declared."""

    def __init__(self, connection: sqlite3.Connection, layout: Mapping[str, Mapping[str, str]]) -> None:
        self._db = connection
        self._layout = layout

    def create(self) -> None:
        """Make the tables, once, when the plan is committed."""
        keys = {"entries": ("entry",), "units": ("unit", "scope"), "used": ("unit", "release")}
        for table, columns in self._layout.items():
            fields = ", ".join(f"{quote(name)} {_SQLITE[kind]}" for name, kind in columns.items())
            key = ", ".join(map(quote, keys[table]))
            self._db.execute(f"CREATE TABLE {table} ({fields}, PRIMARY KEY ({key})) WITHOUT ROWID")
        self._db.execute('CREATE INDEX entries_of_unit ON entries ("unit")')
        self._db.execute('CREATE INDEX units_expiring ON units ("expires") WHERE "expires" IS NOT NULL')

    def entries(self, keys: Sequence[str]) -> pa.Table:
        """The living rows with these keys."""
        return self._matching("entries", "entry", keys)

    def all_entries(self) -> pa.Table:
        """Every living row."""
        names = ", ".join(map(quote, self._layout["entries"]))
        return self._arrow("entries", self._db.execute(f"SELECT {names} FROM entries").fetchall())

    def entries_of(self, units: Sequence[str]) -> pa.Table:
        """All living rows of these units."""
        return self._matching("entries", "unit", units)

    def units(self, units: Sequence[str]) -> pa.Table:
        """The counters of these units."""
        return self._matching("units", "unit", units)

    def used(self, units: Sequence[str]) -> pa.Table:
        """The clips of these units."""
        return self._matching("used", "unit", units)

    def expiring(self, upto: int) -> list[str]:
        """Units that must leave by this instant."""
        return [
            unit
            for (unit,) in self._db.execute("SELECT DISTINCT unit FROM units WHERE expires <= ?", (upto,))
        ]

    def apply(self, folded: Folded) -> None:
        """Take over what a batch led to; inside the caller's transaction."""
        self._db.executemany("DELETE FROM entries WHERE entry = ?", ((entry,) for entry in folded.gone))
        for table in ("units", "used") if folded.void else ():
            self._db.executemany(f"DELETE FROM {table} WHERE unit = ?", ((unit,) for unit in folded.void))
        for table, rows in (("entries", folded.entries), ("units", folded.units), ("used", folded.used)):
            names = list(self._layout[table])
            marks = ", ".join("?" * len(names))
            columns = ", ".join(map(quote, names))
            self._db.executemany(
                f"INSERT OR REPLACE INTO {table} ({columns}) VALUES ({marks})", _tuples(rows, names)
            )

    def _matching(self, table: str, column: str, keys: Sequence[str]) -> pa.Table:
        columns = self._layout[table]
        self._db.execute("CREATE TEMP TABLE IF NOT EXISTS wanted (key TEXT PRIMARY KEY) WITHOUT ROWID")
        self._db.execute("DELETE FROM wanted")
        self._db.executemany("INSERT OR IGNORE INTO wanted VALUES (?)", ((key,) for key in keys))
        names = ", ".join(f"{table}.{quote(name)}" for name in columns)
        rows = self._db.execute(
            f"SELECT {names} FROM wanted JOIN {table} ON {table}.{quote(column)} = key"
        ).fetchall()
        return self._arrow(table, rows)

    def _arrow(self, table: str, rows: list[tuple[Any, ...]]) -> pa.Table:
        columns = self._layout[table]
        fields = zip(*rows, strict=True) if rows else [[] for _ in columns]
        arrays = [
            pa.array(values, _ARROW[kind]) for values, kind in zip(fields, columns.values(), strict=True)
        ]
        return pa.Table.from_arrays(arrays, names=list(columns))


def _tuples(rows: pa.Table, names: list[str]) -> Iterable[tuple[Any, ...]]:
    return zip(*(rows[name].to_pylist() for name in names), strict=True)
