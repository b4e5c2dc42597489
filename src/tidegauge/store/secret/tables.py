"""The tables of the state, and the directory of their blocks, which is kept with the other secrets.

A tick writes new blocks and a new directory in its transaction.  So the blocks of a state are those of the
last tick that was committed, wherever a process dies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.model.json import as_whole, tables
from tidegauge.store.secret import together
from tidegauge.store.secret.secrets import STATE
from tidegauge.store.secret.table.directory import Directory
from tidegauge.store.secret.table.file import BlockFile
from tidegauge.store.secret.table.rows import Shape, Unsorted
from tidegauge.store.secret.table.sorted_table import SortedTable

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from tidegauge.model.json import JsonObject
    from tidegauge.model.program import Folded
    from tidegauge.store.cipher import Cipher
    from tidegauge.store.secret.secrets import Secrets
    from tidegauge.store.secret.table.directory import Name

    Layout = Mapping[str, Mapping[str, str]]
    """Table -> column -> type, as the engine declared the state."""

_KEYS: Final = {
    "entries": ("unit", "entry"),
    "units": ("unit", "scope"),
    "used": ("unit", "release"),
    "owners": ("entry", "unit"),
    together.ROWS: ("entry",),
}
OWNERS: Final = "owners"
"""The table that finds rows by their names where rows lie by their units."""
_OWNERS: Final = {"entry": "VARCHAR", "unit": "VARCHAR"}


class StateTables:
    """The tables of one store.  `version`: the store's format."""

    def __init__(
        self, db: sqlite3.Connection, cipher: Cipher | None, secrets: Secrets, *, version: int
    ) -> None:
        self._file, self._secrets, self._version = BlockFile(db, cipher), secrets, version
        self._tables: dict[str, SortedTable] = {}
        self._seen: object = None
        """The directory as it is stored, which the tables are of; None: it was changed since."""

    def use(self, layout: Layout) -> Mapping[str, SortedTable]:
        """The tables as they were committed, or as this transaction has changed them.

        `layout`: table -> column -> type, as the engine declared them.
        """
        stored = self._secrets.stored(STATE)
        if stored != self._seen or not self._tables:
            self._read(self._secrets.get(STATE) or {}, layout)
            self._seen = stored
        for name, declared in self._declared(layout).items():
            self._tables[name].shape = _shape(name, declared)
        return self._tables

    def together(self, layout: Layout) -> bool:
        """Whether rows are their own units, and lie with their counters (tidegauge.store.secret.together)."""
        return self._version >= 6 and "unit" not in layout["entries"]

    def _declared(self, layout: Layout) -> Layout:
        """The columns of every table."""
        if "unit" in layout["entries"]:
            return {**layout, OWNERS: _OWNERS}
        if not self.together(layout):
            return layout
        rest = {name: columns for name, columns in layout.items() if name != "entries"}
        return {together.ROWS: together.columns(layout), **rest}

    def _read(self, directory: JsonObject, layout: Layout) -> None:
        known, declared = tables(directory.get("tables") or {}), self._declared(layout)
        self._file.forget()
        self._file.next = as_whole(directory.get("next", 1))
        self._tables = {
            name: SortedTable(
                self._file,
                _shape(name, columns),
                Directory.from_json(known[name]) if name in known else Directory([], []),
            )
            for name, columns in declared.items()
        }

    def take(self, layout: Layout, parts: Sequence[Folded]) -> None:
        """Take over what changes led to, in parts that have no unit in common; inside the transaction."""
        here, units = self.use(layout), [part.units for part in parts]
        if self.together(layout):
            scopes = [together.first_scope(table) for table in units]
            units = [others for _, others in scopes]
            rows = here[together.ROWS]
            self._written(rows.apply(together.joined(parts, [first for first, _ in scopes], rows)))
        else:
            self.apply("entries", [part.entries for part in parts], [part.gone for part in parts])
        self.apply("units", units)
        self.apply("used", [part.used for part in parts])

    def apply(self, name: str, rows: Sequence[pa.Table], gone: Sequence[pa.Table] = ()) -> None:
        """Write rows of a table and delete others; inside the transaction, after `use`.

        No two tables of `rows` have a key in common.  Also merges on where nothing changes.
        """
        changed = self._apply(name, rows, gone)
        if name == "entries" and OWNERS in self._tables:
            named = [[table.select(list(_OWNERS)) for table in several] for several in (rows, gone)]
            changed |= self._apply(OWNERS, *named)
        self._written(changed)

    def _written(self, changed: bool) -> None:
        if changed:
            self._seen = None
            known = {name: table.directory.as_json() for name, table in self._tables.items()}
            self._secrets.set(STATE, {"next": self._file.next, "tables": known})

    def _apply(self, name: str, rows: Sequence[pa.Table], gone: Sequence[pa.Table]) -> bool:
        table = self._tables[name]
        key = table.shape.key[0]
        runs = [run for one in rows for run in Unsorted.runs(one, key)]
        return table.apply([*runs, *(run for one in gone for run in Unsorted.runs(one, key, gone=True))])

    def saved(self) -> None:
        """The secrets were written, and with them the directory."""
        self._seen = self._secrets.stored(STATE)

    def forget(self) -> None:
        """The transaction was rolled back: read the directory again."""
        self._tables = {}

    def open_all(self, names: Iterable[Name]) -> None:
        """Open these blocks.  Raises StoreCorrupt where one is not as it was written."""
        for name in names:
            self._file.read_any(name)


def _shape(name: str, declared: Mapping[str, str]) -> Shape:
    return Shape.of(declared, [column for column in _KEYS[name] if column in declared])
