"""The digests of the rows that exist at the end of a history.

If a row has only its key and columns that releases use, its digest follows from these.  Otherwise the history
is read again, only for the last versions of the rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from tidegauge.engine.duckdb.digest import of_hashes, row_hash
from tidegauge.engine.duckdb.past.threads import in_turn
from tidegauge.engine.duckdb.render import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from concurrent.futures import ThreadPoolExecutor

    import duckdb

    from tidegauge.engine.duckdb.past.enforce import Ints
    from tidegauge.engine.duckdb.past.parts import Part
    from tidegauge.model.history import History

_KEYS: Final = {
    "VARCHAR": pa.string(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INTEGER": pa.int32(),
    "BIGINT": pa.int64(), "UTINYINT": pa.uint8(), "USMALLINT": pa.uint16(), "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(),
}  # fmt: skip
"""The Arrow type of each SQL type of a key."""


class Digests:
    """Computes digests for one history; `columns`: the columns that the program uses."""

    def __init__(
        self,
        db: duckdb.DuckDBPyConnection,
        history: History,
        columns: Mapping[str, str],
        threads: int,
        *,
        owner: str | None = None,
    ) -> None:
        """`owner`: the column that names the unit, where it is not the row."""
        self._db, self._history, self._threads = db, history, threads
        self._used = {name: f"u{n}" for n, name in enumerate(columns)}
        shape = history.after
        fields = list(shape) if pa.types.is_struct(shape) else []
        others = {field.name: field.type for field in fields if field.name not in self._used}
        self._owner = None
        if owner in others and others[owner] == _KEYS.get(history.owner):
            self._owner = owner
            del others[owner]
        self._key = next(iter(others), None)
        self.follow = bool(fields) and all(kind == _KEYS.get(history.key) for kind in others.values())
        """Whether digests follow from keys, units and used columns, as far as is known so far."""
        if len(others) > 1:
            self.follow = False
        self._combinations: pa.Table | None = None

    def of_key(self) -> str:
        """SQL: whether the unused columns of a row equal its key and its unit; if not always, read again."""
        if not self.follow:
            return "true"
        same = {self._key: "key", self._owner: "owner"}
        found = [f"new.{quote(name)} IS NOT DISTINCT FROM {one}" for name, one in same.items() if name]
        return f"({' AND '.join(found) or 'true'})"

    def prepare(self, combinations: pa.Table, parts: list[Part], pool: ThreadPoolExecutor) -> list[Part]:
        """The parts, with all that `compute` needs.  `combinations`: of used values, numbered from 1."""
        self._combinations = combinations.combine_chunks()
        if self.follow and all(
            combinations.schema.field(self._used[field.name]).type == field.type
            for field in self._history.after
            if field.name in self._used
        ):
            return parts
        found = self._scanned(parts, pool)
        bounds = np.cumsum([len(part.row) for part in parts])[:-1]
        pieces = np.split(found, bounds) if parts else []
        return [replace(part, digests=piece) for part, piece in zip(parts, pieces, strict=True)]

    def compute(self, parts: Sequence[Part]) -> Ints:
        """The digests of the rows of these parts; several threads may call it at once."""
        known = [part.digests for part in parts if part.digests is not None]
        if len(known) == len(parts):
            return np.concatenate([np.zeros(0, np.int64), *known])
        assert self._combinations is not None
        number = pa.array(np.concatenate([part.picture for part in parts]) - 1)
        return self._digests(pa.table({
            field.name: self._value(field, parts, number) for field in self._history.after
        }))  # fmt: skip

    def _value(self, field: pa.Field, parts: Sequence[Part], number: pa.Array) -> pa.Array:
        """A column of rows; a used one by the numbers of their combinations, without a copy of the values."""
        assert self._combinations is not None
        name = field.name
        if name == self._owner:
            return pa.concat_arrays([part.columns["unit"] for part in parts]).cast(field.type)
        if name not in self._used:
            return pa.concat_arrays([_taken(part) for part in parts])
        values = self._combinations[self._used[name]]
        return pa.DictionaryArray.from_arrays(number, values.chunk(0))

    def _scanned(self, parts: Sequence[Part], pool: ThreadPoolExecutor) -> Ints:
        """Read the last versions of all rows that exist, part by part."""
        rows = np.concatenate([np.zeros(0, np.int64), *(part.row for part in parts)]).astype(np.int64)
        order = np.argsort(rows)
        rows = rows[order]

        def needed() -> Iterator[pa.Table]:
            first = 0
            for block in self._history.scan({"after": '"after"'}):
                low, high = np.searchsorted(rows, [first, first + block.num_rows])
                if high > low:
                    yield pa.Table.from_struct_array(block["after"].take(pa.array(rows[low:high] - first)))
                first += block.num_rows

        found = np.empty(len(rows), np.int64)
        pieces = in_turn(pool, self._threads, self._digests, needed())
        found[order] = np.concatenate([np.zeros(0, np.int64), *pieces])
        return found

    def _digests(self, rows: pa.Table) -> Ints:
        """The digests of rows that have the columns of the history's."""
        with self._db.cursor() as db:
            db.register("found", rows)
            hashes = db.sql(f"SELECT {row_hash('found', self._history.after)} AS hash FROM found")
            return np.concatenate([np.zeros(0, np.int64),
                                   *map(of_hashes, hashes.to_arrow_table()["hash"].chunks)])  # fmt: skip


def _taken(part: Part) -> pa.Array:
    """The keys of the rows of a part that exist."""
    keys = part.keys
    return pa.array(keys[part.place]) if isinstance(keys, np.ndarray) else keys.take(pa.array(part.place))
