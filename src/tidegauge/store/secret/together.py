"""Rows that are their own units: a row and its counters in the first scope are one row of one table.

Most ticks change both, and so touch one page for each row instead of two.  The table `rows` has the columns
of `entries`, and those of `units` with a prefix.  Counters in other scopes are in the table `units`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.store.secret.table.hashes import hashed
from tidegauge.store.secret.table.rows import Part, one_array

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from tidegauge.model.program import Folded
    from tidegauge.store.secret.table.sorted_table import SortedTable

    Places = NDArray[np.intp]

ROWS: Final = "rows"
_HAS: Final = "\x00has"
"""1: the row exists; 2: there are counters; 3: both."""
_PREFIX: Final = "units."
_NAMES: Final = frozenset({"entry", "unit", "scope"})


def columns(layout: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """The columns of the table `rows` and their types, by those that the engine declared."""
    counters = {f"{_PREFIX}{name}": kind for name, kind in layout["units"].items() if name not in _NAMES}
    return {"entry": "VARCHAR", _HAS: "BIGINT", **layout["entries"], **counters}


def prefixed(column: str) -> str:
    """The name that a column of `units` has in `rows`."""
    return f"{_PREFIX}{column}"


def entries(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows that exist.  `schema`: the columns of `entries`."""
    return _having(rows, 1).select(schema.names)


def counters(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The counters in the first scope.  `schema`: the columns of `units`."""
    some = _having(rows, 2)
    known = {"unit": some["entry"], "scope": pa.chunked_array([pa.array(np.zeros(some.num_rows, np.int64))])}
    return pa.table(
        [known[name] if name in known else some[f"{_PREFIX}{name}"] for name in schema.names], schema=schema
    )


def _having(rows: pa.Table, part: int) -> pa.Table:
    has = rows[_HAS].to_numpy() & part > 0
    return rows if has.all() else rows.filter(pa.array(has))


def first_scope(units: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Counters in the first scope, and those in others."""
    first = units["scope"].to_numpy() == 0
    if first.all():
        return units, units[:0]
    return units.filter(pa.array(first)), units.filter(pa.array(~first))


class Joined:
    """A run over what a fold says of rows and of counters, with what the table has of the other part."""

    def __init__(self, fresh: Folded, units: pa.Table, known: pa.Table) -> None:
        """`units`: the counters of the fold in the first scope.  `known`: the table's rows of these names."""
        rows, units, known = (one.combine_chunks() for one in (fresh.entries, units, known))
        own, counted, gone, old = (
            one_array(column)
            for column in (rows["entry"], units["unit"], fresh.gone["entry"], known["entry"])
        )
        self._places: dict[int, Places | None] = {1: None, 2: None}
        """For each name, where the row and the counters are; None: in the same order as the names."""
        self._names = own
        if len(old) or not own.equals(counted):
            self._names = self._placed(own, counted, gone, known)
        found = hashed(self._names)
        self._order = np.argsort(found, kind="stable")
        self.hashes = found[self._order]
        self._sources = {
            1: _both(rows, known, rows.column_names, ""),
            2: _both(units, known, [name for name in units.column_names if name not in _NAMES], _PREFIX),
        }

    def _placed(self, own: pa.Array, counted: pa.Array, gone: pa.Array, known: pa.Table) -> pa.Array:
        """Find rows and counters by their names; the names, each once."""
        if not known.num_rows:  # the beginning of a state: most rows have counters
            places = _found(own, counted)
            if (places >= 0).all():
                self._places[1] = mine = np.full(len(counted), -1, np.intp)
                mine[places] = np.arange(len(own))
                return counted
        names = pc.unique(pa.concat_arrays([own, counted, gone]))
        before = _found(names, one_array(known["entry"]))
        has = np.append(known[_HAS].to_numpy(), 0)
        for part, some in ((1, own), (2, counted)):
            places = _found(names, some)
            stays = (places < 0) & (has[before] & part > 0)
            if part == 1:
                stays &= ~pc.is_in(names, value_set=gone).to_numpy(zero_copy_only=False)
            places[stays] = len(some) + before[stays]
            self._places[part] = places
        return names

    def part(self, places: slice | Places) -> Part:
        """The rows at these places of the order; those of which nothing is left are gone."""
        at = self._order[places]
        taken: dict[str, pa.Array] = {"entry": self._names.take(pa.array(at))}
        has = np.zeros(len(at), np.int64)
        for part, all_ in self._places.items():
            own = at if all_ is None else all_[at]
            has += part * (own >= 0)
            index = pa.array(own, mask=own < 0)
            source = self._sources[part]
            taken |= {
                name: one_array(source[name].take(index)) for name in source.column_names if name != "entry"
            }
        taken[_HAS] = pa.array(has)
        return Part(self.hashes[places], pa.RecordBatch.from_pydict(taken), has == 0)


def _both(fresh: pa.Table, known: pa.Table, names: Iterable[str], prefix: str) -> pa.Table:
    """New values, then those that the table has."""
    named = [name for name in names if name != "entry"]
    renamed = fresh.select(named).rename_columns([f"{prefix}{name}" for name in named])
    if not known.num_rows:
        return renamed
    return pa.concat_tables(
        [renamed, known.select(renamed.column_names).cast(renamed.schema)]
    ).combine_chunks()


def _found(names: pa.Array, some: pa.Array) -> Places:
    """Where each name is among some; -1 where it is not."""
    places: Places = pc.fill_null(pc.index_in(names, value_set=some), -1).to_numpy().astype(np.intp)
    return places


def joined(parts: Sequence[Folded], first: Sequence[pa.Table], table: SortedTable) -> list[Joined]:
    """Runs of what these folds say of the rows of the table.  `first`: their counters in the first scope."""
    known = table.shape.columns.empty_table()
    if not table.empty:
        names = [
            hashed(column)
            for part, units in zip(parts, first, strict=True)
            for column in (part.entries["entry"], part.gone["entry"], units["unit"])
        ]
        known = table.find(np.concatenate([np.empty(0, np.uint64), *names])).table
    return [Joined(part, units, known) for part, units in zip(parts, first, strict=True)]
