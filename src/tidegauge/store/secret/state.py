"""What the store knows of rows and units, so that a source need only deliver new values: all secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.store.secret import together
from tidegauge.store.secret.table.hashes import hashed
from tidegauge.store.secret.table.rows import Shape
from tidegauge.store.secret.tables import OWNERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tidegauge.model.program import Folded, Record, Texts
    from tidegauge.store.database import Database
    from tidegauge.store.secret.pending import Keys, Pending
    from tidegauge.store.secret.table.rows import Rows
    from tidegauge.store.secret.table.sorted_table import SortedTable
    from tidegauge.store.secret.tables import StateTables


class StoredState:
    """Rows, counters and clips, with the columns that the engine declared."""

    def __init__(
        self,
        file: Database,
        layout: Mapping[str, Mapping[str, str]],
        tables: StateTables,
        pending: Pending,
        keys: Keys,
        *,
        watermark: int,
    ) -> None:
        self._file = file
        self._layout = layout
        self._tables = tables
        self._pending = pending
        self._keys = keys
        self.watermark = watermark

    def excess(self) -> Iterator[tuple[str, str]]:
        """Every unit whose accepted contribution is not the true one of the rows that count, and the
        difference, as the engine has it.
        """
        if "excess" not in self._layout["units"]:
            return iter(())
        with self._file.snapshot():
            found = self._counters(lambda table, column: table.present(column), "excess")
            return zip(found["unit"].to_pylist(), found["excess"].to_pylist(), strict=True)

    def entries(self, names: Texts) -> pa.Table:
        """The living rows with these names."""
        if self._together:
            return together.entries(self._matching(together.ROWS, "entry", names), self._columns("entries"))
        if "unit" not in self._layout["entries"]:  # a store of an older format, which is only read
            return self._matching("entries", "entry", names)
        with self._file.snapshot():
            table = self._use("entries")
            if table.empty:
                return table.shape.columns.empty_table()
            wanted = _texts(names)
            owners = _only(self._use(OWNERS).find(hashed(wanted)).table, "entry", wanted)
            return _only(table.find(hashed(owners["unit"])).table, "entry", wanted)

    def all_entries(self) -> pa.Table:
        """Every living row."""
        return self.all_of("entries")

    def all_of(self, name: str) -> pa.Table:
        """Every row of a table of the state."""
        with self._file.snapshot():
            if not self._together or name == "used":
                return self._all(name)
            rows, schema = self._all(together.ROWS), self._columns(name)
            if name == "entries":
                return together.entries(rows, schema)
            return pa.concat_tables([together.counters(rows, schema), self._all(name)])

    def _all(self, name: str) -> pa.Table:
        return pa.concat_tables(rows.table for rows in self._use(name).scan())

    def entries_of(self, units: Texts) -> pa.Table:
        """All living rows of these units."""
        return self._matching("entries", "unit", units)

    def units(self, units: Texts) -> pa.Table:
        """The counters of these units."""
        others = self._matching("units", "unit", units)
        if not self._together:
            return others
        rows = self._matching(together.ROWS, "entry", units)
        return pa.concat_tables([together.counters(rows, self._columns("units")), others])

    def used(self, units: Texts) -> pa.Table:
        """The clips of these units."""
        return self._matching("used", "unit", units)

    def expiring(self, upto: int) -> pa.Array:
        """Units that must leave by this instant."""
        with self._file.snapshot():
            found = self._counters(lambda table, column: table.upto(column, upto), "expires")
            return pc.unique(found["unit"])

    def waiting(self) -> Iterator[pa.Table]:
        """The changes that have arrived and have not taken effect."""
        return self._pending.pieces()

    def keys(self, names: Sequence[str] | None) -> dict[str, Record]:
        """The records of those keys (None: of all) that have one."""
        return self._keys.find(names)

    def any_keys(self) -> bool:
        """Whether any key has a record."""
        return self._keys.any()

    def apply(self, parts: Sequence[Folded]) -> None:
        """Take over what changes led to, in parts that have no unit in common; inside the transaction."""
        self._tables.take(self._layout, parts)

    @property
    def _together(self) -> bool:
        return self._tables.together(self._layout)

    def _columns(self, name: str) -> pa.Schema:
        """The columns of a table, as the engine declared them."""
        return Shape.of(self._layout[name], ()).columns

    def _counters(self, find: Callable[[SortedTable, str], Rows], column: str) -> pa.Table:
        """The counters, in all scopes, that a search for this column finds."""
        found = find(self._use("units"), column).table
        if not self._together:
            return found
        rows = find(self._use(together.ROWS), together.prefixed(column)).table
        return pa.concat_tables([together.counters(rows, self._columns("units")), found])

    def _use(self, name: str) -> SortedTable:
        return self._tables.use(self._layout)[name]

    def _matching(self, name: str, column: str, keys: Texts) -> pa.Table:
        with self._file.snapshot():
            table = self._use(name)
            if table.empty or not len(keys):
                return table.shape.columns.empty_table()
            wanted = _texts(keys)
            return _only(table.find(hashed(wanted)).table, column, wanted)


def _texts(values: Texts) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], pa.string())
    return values.cast(pa.string()) if isinstance(values, pa.Array) else pa.array(values, pa.string())


def _only(rows: pa.Table, column: str, wanted: pa.Array) -> pa.Table:
    """The rows with one of these values: two values can have the same hash."""
    fits = pc.is_in(rows[column], value_set=wanted)
    return rows if pc.all(fits).as_py() else rows.filter(fits)
