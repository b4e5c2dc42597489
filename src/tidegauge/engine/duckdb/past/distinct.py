"""The distinct rows of a history: every combination of used values once, numbered.

A release sees a row only through the columns that it uses, and many rows have the same values in these.  So
the expressions of all releases are computed once per combination, and each change has the number of its
combination.  Number 0 is the row that does not exist.
"""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_MOST: Final = 2**62
"""Combined numbers stay below this."""


class DistinctRows:
    """Gathers the combinations of all blocks.  A combination has a different number in each block."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []
        self._count = 1
        self._lock = threading.Lock()

    def number(self, columns: Sequence[pa.Array], rows: int) -> tuple[NDArray[Any], int, pa.Table]:
        """For a block of so many rows: a number for every row, what to add to it, and the numbered rows.

        Several threads may call it at once.
        """
        if columns:
            codes, values = _combined(columns)
            table = pa.table({f"u{n}": value for n, value in enumerate(values)})
        else:
            codes, table = np.zeros(rows, np.int32), pa.table({"u0": pa.nulls(min(1, rows), pa.int8())})
        with self._lock:
            first, self._count = self._count, self._count + table.num_rows
            self._tables.append(table.append_column("number", pa.array(np.arange(first, self._count))))
            return codes, first, self._tables[-1]

    def restore(self, tables: Sequence[pa.Table]) -> None:
        """Take in what `number` returned for the blocks of an earlier process, before any other block.

        A number that is missing, because its block was not kept, becomes another one of some row.
        """
        for piece in sorted((one for table in tables for one in _pieces(table)), key=_first):
            first = _first(piece)
            if first > self._count:
                again = pa.array(np.zeros(first - self._count, np.int64))
                numbers = pa.array(np.arange(self._count, first))
                self._tables.append(piece.take(again).set_column(piece.num_columns - 1, "number", numbers))
            self._tables.append(piece)
            self._count = first + piece.num_rows

    @property
    def count(self) -> int:
        """All numbers so far are below this.  Every interruption may leave out some."""
        return self._count

    def table(self) -> pa.Table | None:
        """Every combination: its number, and the values as u0, u1, ...; None: there was no block."""
        return pa.concat_tables(self._tables) if self._tables else None


def _pieces(table: pa.Table) -> list[pa.Table]:
    """Pieces of consecutive numbers."""
    numbers = table["number"].to_numpy()
    begins = [0, *(np.flatnonzero(np.diff(numbers) != 1) + 1).tolist()] if len(numbers) else []
    return [table.slice(begin, end - begin) for begin, end in pairwise([*begins, len(numbers)])]


def _first(piece: pa.Table) -> int:
    number: int = piece["number"][0].as_py()
    return number


def _combined(columns: Sequence[pa.Array]) -> tuple[NDArray[Any], list[pa.Array]]:
    """A number for each row, from 0 on and the same for equal rows; and the values of each number."""
    if len(columns) == 1:
        found = _encoded(columns[0])
        return found.indices.to_numpy(), [found.dictionary.view(columns[0].type)]
    code, size = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        indices, values = _indexed(column)
        if size * values > _MOST:
            code, size = _indexed(pa.array(code))
        code, size = (indices, values) if size == 1 else (code * values + indices, size * values)
    code, size = _indexed(pa.array(code))
    places = np.zeros(size, np.int64)
    places[code] = np.arange(len(code))
    return code, [column.take(pa.array(places)) for column in columns]


def _indexed(column: pa.Array) -> tuple[NDArray[np.int64], int]:
    """The place of every value (also NULL) among the distinct values, and the number of distinct values."""
    found = _encoded(column)
    return found.indices.to_numpy().astype(np.int64), len(found.dictionary)


def _encoded(column: pa.Array) -> pa.DictionaryArray:
    """The distinct values, and the place of each value among them."""
    if kinds.is_floating(column.type):  # by its bits: 0.0 and -0.0 are two values
        width = column.type.bit_width
        column = column.view({16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[width])
    return column.dictionary_encode(null_encoding="encode")


def can_encode(kind: str) -> bool:
    """Whether values of this SQL type can be numbered."""
    return kind.split("(", maxsplit=1)[0] in _KINDS


_KINDS: Final = frozenset(
    {"VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP", "TIME", "DOUBLE", "FLOAT", "DECIMAL",
     "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
)  # fmt: skip
