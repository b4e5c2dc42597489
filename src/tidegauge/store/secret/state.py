"""What the store knows of rows and units, so that a source need only deliver new values: all secret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidegauge.store.secret.form import key_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from tidegauge.model.program import Folded, Record
    from tidegauge.store.secret.form import Form
    from tidegauge.store.secret.pending import Keys, Pending

_ARROW: Final = {"VARCHAR": "string", "BIGINT": "int64"}
_PART: Final = 10_000
"""So many keys are looked up, and so many rows converted, at a time.  SQLite takes at most 32,766 in one
statement."""


def quote(name: str) -> str:
    """An SQL identifier, whatever it contains."""
    return '"' + name.replace('"', '""') + '"'


class StoredState:
    """Rows, counters and clips in SQLite, with the columns that the engine declared."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        layout: Mapping[str, Mapping[str, str]],
        form: Form,
        pending: Pending,
        keys: Keys,
    ) -> None:
        self._db = connection
        self._layout = layout
        self._form = form
        self._pending = pending
        self._keys = keys

    def create(self) -> None:
        """Make the tables, once, when the plan is committed."""
        for table, declared in self._layout.items():
            columns = self._form.columns(table, declared)
            fields = ", ".join(f"{quote(name)} {kind}" for name, kind in columns.items())
            key = ", ".join(map(quote, key_of(table, declared)))
            self._db.execute(f"CREATE TABLE {table} ({fields}, PRIMARY KEY ({key})) WITHOUT ROWID")
        if "unit" in self._form.columns("entries", self._layout["entries"]):
            self._db.execute('CREATE INDEX entries_of_unit ON entries ("unit")')
        if "expires" in self._form.columns("units", self._layout["units"]):
            self._db.execute('CREATE INDEX units_expiring ON units ("expires") WHERE "expires" IS NOT NULL')

    def add_columns(self, more: Mapping[str, Mapping[str, str]]) -> None:
        """Add columns to the tables; a sealed row has them in its one piece."""
        for table, declared in more.items():
            there = {name for (name,) in self._db.execute(f"SELECT name FROM pragma_table_info('{table}')")}
            for name, kind in self._form.columns(table, declared).items():
                if name not in there:
                    self._db.execute(f"ALTER TABLE {table} ADD COLUMN {quote(name)} {kind}")

    def excess(self) -> Iterator[str]:
        """Of every unit whose true contribution is not the accepted one, the difference, as the engine has
        it.
        """
        if "excess" not in self._layout["units"]:
            return iter(())
        found = self._select("units", self._form.where_present("units", "excess"))["excess"].to_pylist()
        return (one for one in found if one is not None)

    def entries(self, names: Sequence[str]) -> pa.Table:
        """The living rows with these names."""
        return self._matching("entries", "entry", names)

    def all_entries(self) -> pa.Table:
        """Every living row."""
        return self._select("entries", "entries")

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

    def waiting(self) -> Iterator[pa.Table]:
        """The changes that have arrived and have not taken effect."""
        return self._pending.pieces()

    def keys(self, names: Sequence[str] | None) -> dict[str, Record]:
        """The records of those keys (None: of all) that have one."""
        return self._keys.find(names)

    def any_keys(self) -> bool:
        """Whether any key has a record."""
        return self._keys.any()

    def apply(self, folded: Folded) -> None:
        """Take over what changes led to; inside the caller's transaction."""
        named = key_of("entries", self._layout["entries"])
        where = " AND ".join(f"{quote(name)} = ?" for name in named)
        self._db.executemany(
            f"DELETE FROM entries WHERE {where}",
            self._form.places("entries", named, _tuples(folded.gone, named)),
        )
        for table, rows in (("entries", folded.entries), ("units", folded.units), ("used", folded.used)):
            names = list(self._layout[table])
            columns = {name: quote(name) for name in self._form.columns(table, self._layout[table])}
            key = key_of(table, names)
            updates = ", ".join(
                f"{column} = excluded.{column}" for name, column in columns.items() if name not in key
            )
            self._db.executemany(
                f"INSERT INTO {table} ({', '.join(columns.values())}) VALUES "
                f"({', '.join('?' * len(columns))}) "
                f"ON CONFLICT DO UPDATE SET {updates}",
                self._form.pack(table, names, _tuples(rows, names)),
            )

    def _matching(self, table: str, column: str, keys: Sequence[str]) -> pa.Table:
        import pyarrow as pa  # noqa: PLC0415  (slow to load)

        wanted = list(self._form.keys(table, column, keys))
        return pa.concat_tables(
            self._select(table, f"{table} WHERE {quote(column)} IN ({', '.join('?' * len(part))})", part)
            for part in (wanted[n : n + _PART] for n in range(0, max(1, len(wanted)), _PART))
        )

    def _select(self, table: str, origin: str, values: Sequence[Any] = ()) -> pa.Table:
        """The rows of a table that an SQL expression picks, with the columns that the engine declared."""
        import pyarrow as pa  # noqa: PLC0415  (slow to load)

        declared = self._layout[table]
        names = ", ".join(f"{table}.{quote(name)}" for name in self._form.columns(table, declared))
        rows = self._form.unpack(table, self._db.execute(f"SELECT {names} FROM {origin}", values).fetchall())
        if any(len(row) < len(declared) for row in rows):  # sealed before a column was added
            rows = [(*row, *[None] * (len(declared) - len(row))) for row in rows]
        fields = zip(*rows, strict=True) if rows else [[] for _ in declared]
        arrays = [
            pa.array(values, _ARROW[kind]) for values, kind in zip(fields, declared.values(), strict=True)
        ]
        return pa.Table.from_arrays(arrays, names=list(declared))


def _tuples(rows: pa.Table, names: Sequence[str]) -> Iterable[tuple[Any, ...]]:
    """The rows of a table, some at a time: a million rows are a gigabyte as Python's values."""
    for first in range(0, rows.num_rows, _PART):
        part = rows.slice(first, _PART)
        yield from zip(*(part[name].to_pylist() for name in names), strict=True)
