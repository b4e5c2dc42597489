"""What the store remembers of rows and units, so that a source need only deliver new values.  All of it is secret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tidegauge.store.form import KEYS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence

    from tidegauge.model.program import Folded
    from tidegauge.store.form import Form

_ARROW: Final = {"VARCHAR": pa.string(), "BIGINT": pa.int64()}


def quote(name: str) -> str:
    """An SQL identifier, whatever it contains."""
    return '"' + name.replace('"', '""') + '"'


class StoredState:
    """Rows, counters and clips in SQLite, with the columns that the engine declared, in the form of the store."""

    def __init__(
        self, connection: sqlite3.Connection, layout: Mapping[str, Mapping[str, str]], form: Form
    ) -> None:
        self._db = connection
        self._layout = layout
        self._form = form

    def create(self) -> None:
        """Make the tables, once, when the plan is committed."""
        for table, declared in self._layout.items():
            columns = self._form.columns(table, declared)
            fields = ", ".join(f"{quote(name)} {kind}" for name, kind in columns.items())
            key = ", ".join(map(quote, KEYS[table]))
            self._db.execute(f"CREATE TABLE {table} ({fields}, PRIMARY KEY ({key})) WITHOUT ROWID")
        self._db.execute('CREATE INDEX entries_of_unit ON entries ("unit")')
        if "expires" in self._form.columns("units", self._layout["units"]):
            self._db.execute('CREATE INDEX units_expiring ON units ("expires") WHERE "expires" IS NOT NULL')

    def entries(self, keys: Sequence[str]) -> pa.Table:
        """The living rows with these keys."""
        return self._matching("entries", "entry", keys)

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
        return self._form.expiring(self._db, list(self._layout["units"]), upto)

    def apply(self, folded: Folded) -> None:
        """Take over what a batch led to; inside the caller's transaction."""
        gone = self._form.keys("entries", "entry", folded.gone)
        self._db.executemany("DELETE FROM entries WHERE entry = ?", ((entry,) for entry in gone))
        for table, rows in (("entries", folded.entries), ("units", folded.units), ("used", folded.used)):
            names = list(self._layout[table])
            columns = self._form.columns(table, self._layout[table])
            marks = ", ".join("?" * len(columns))
            self._db.executemany(
                f"INSERT OR REPLACE INTO {table} ({', '.join(map(quote, columns))}) VALUES ({marks})",
                self._form.pack(table, names, _tuples(rows, names)),
            )

    def _matching(self, table: str, column: str, keys: Sequence[str]) -> pa.Table:
        self._db.execute("CREATE TEMP TABLE IF NOT EXISTS wanted (key TEXT PRIMARY KEY) WITHOUT ROWID")
        self._db.execute("DELETE FROM wanted")
        wanted = self._form.keys(table, column, keys)
        self._db.executemany("INSERT OR IGNORE INTO wanted VALUES (?)", ((key,) for key in wanted))
        return self._select(table, f"wanted JOIN {table} ON {table}.{quote(column)} = key")

    def _select(self, table: str, origin: str) -> pa.Table:
        """The rows of a table that an SQL expression picks, with the columns that the engine declared."""
        declared = self._layout[table]
        names = ", ".join(f"{table}.{quote(name)}" for name in self._form.columns(table, declared))
        rows = self._form.unpack(table, self._db.execute(f"SELECT {names} FROM {origin}").fetchall())
        fields = zip(*rows, strict=True) if rows else [[] for _ in declared]
        arrays = [
            pa.array(values, _ARROW[kind]) for values, kind in zip(fields, declared.values(), strict=True)
        ]
        return pa.Table.from_arrays(arrays, names=list(declared))


def _tuples(rows: pa.Table, names: list[str]) -> Iterable[tuple[Any, ...]]:
    return zip(*(rows[name].to_pylist() for name in names), strict=True)
