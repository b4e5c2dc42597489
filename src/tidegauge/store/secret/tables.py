"""The tables of the state, and the directory of their blocks, which is kept with the other secrets.

A tick writes new blocks and a new directory in its transaction.  So the blocks of a state are those of the
last tick that was committed, wherever a process dies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidegauge.store.secret.secrets import STATE
from tidegauge.store.secret.table.directory import Directory
from tidegauge.store.secret.table.file import BlockFile
from tidegauge.store.secret.table.rows import Shape, Unsorted
from tidegauge.store.secret.table.sorted_table import SortedTable

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from tidegauge.store.cipher import Cipher
    from tidegauge.store.secret.secrets import Secrets
    from tidegauge.store.secret.table.directory import Name

_KEYS: Final = {"entries": ("unit", "entry"), "units": ("unit", "scope"), "used": ("unit", "release")}
OWNERS: Final = "owners"
"""The table that finds rows by their names where rows lie by their units."""
_OWNERS: Final = {"entry": "VARCHAR", "unit": "VARCHAR"}


class StateTables:
    """The tables of one store."""

    def __init__(self, db: sqlite3.Connection, cipher: Cipher | None, secrets: Secrets) -> None:
        self._file, self._secrets = BlockFile(db, cipher), secrets
        self._tables: dict[str, SortedTable] = {}
        self._seen: object = None
        """The directory as it is stored, which the tables are of; None: it was changed since."""

    def use(self, layout: Mapping[str, Mapping[str, str]]) -> Mapping[str, SortedTable]:
        """The tables as they were committed, or as this transaction has changed them.

        `layout`: table -> column -> type, as the engine declared them.
        """
        stored = self._secrets.stored(STATE)
        if stored != self._seen or not self._tables:
            self._read(self._secrets.get(STATE) or {}, layout)
            self._seen = stored
        for name, declared in layout.items():
            self._tables[name].shape = _shape(name, declared)
        return self._tables

    def _read(self, directory: Mapping[str, Any], layout: Mapping[str, Mapping[str, str]]) -> None:
        known = directory.get("tables", {})
        declared = {**layout, OWNERS: _OWNERS} if "unit" in layout["entries"] else layout
        self._file.forget()
        self._file.next = directory.get("next", 1)
        self._tables = {
            name: SortedTable(
                self._file,
                _shape(name, columns),
                Directory.from_json(known[name]) if name in known else Directory([], []),
            )
            for name, columns in declared.items()
        }

    def apply(self, name: str, rows: Sequence[pa.Table], gone: Sequence[pa.Table] = ()) -> None:
        """Write rows of a table and delete others; inside the transaction, after `use`.

        No two tables of `rows` have a key in common.  Also merges on where nothing changes.
        """
        changed = self._apply(name, rows, gone)
        if name == "entries" and OWNERS in self._tables:
            named = [[table.select(list(_OWNERS)) for table in tables] for tables in (rows, gone)]
            changed |= self._apply(OWNERS, *named)
        if changed:
            self._seen = None
            tables = {name: table.directory.as_json() for name, table in self._tables.items()}
            self._secrets.set(STATE, {"next": self._file.next, "tables": tables})

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
            self._file.read(name)


def _shape(name: str, declared: Mapping[str, str]) -> Shape:
    if name == OWNERS:
        return Shape.of(declared, ("entry", "unit"))
    return Shape.of(declared, [column for column in _KEYS[name] if column in declared])
