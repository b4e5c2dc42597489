"""The numbers of a row as one record of fixed width, so that a tick that rewrites a row touches one page.

A record has one bit for each column that says whether the row has a value there, two bits for rows that were
erased, and the numbers, each in as many bytes as the block's largest needs.  A record of zeros has no value.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.store.secret.table.rows import fill

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Places = NDArray[np.intp]
    Bytes = NDArray[np.uint8]
    Flags = NDArray[np.bool_]

ERASED: Final = 0
"""The bit of a row that was erased."""
DELETED: Final = 1
"""The bit of a row whose key was erased as well."""
_OWN: Final = 2
_KINDS: Final = ("<i1", "<i2", "<i4", "<i8")
TEXT: Final = ""
"""The kind of a column whose texts lie beside the records."""


@dataclass(frozen=True)
class Values:
    """Values of one column, for writing them a few at a time."""

    present: Flags
    """Which of them are not null."""
    numbers: NDArray[np.int64] | None
    texts: pa.Array | None
    """Filled up, and empty where there is none; None where the values are numbers."""

    @classmethod
    def of(cls, column: pa.Array) -> Values:
        """The values of a column of a table of the state."""
        if column.null_count == 0:
            present = np.ones(len(column), bool)
        else:
            present = pc.is_valid(column).to_numpy(zero_copy_only=False)
        if pa.types.is_string(column.type):
            return cls(present, None, pc.fill_null(fill(column), ""))
        numbers = column if column.null_count == 0 else pc.fill_null(column, 0)
        return cls(present, numbers.to_numpy(zero_copy_only=False), None)

    def take(self, places: Places) -> Values:
        """The values at these places."""
        texts = None if self.texts is None else self.texts.take(pa.array(places))
        return Values(self.present[places], None if self.numbers is None else self.numbers[places], texts)

    @cached_property
    def kind(self) -> str | None:
        """The smallest kind of number that holds all; `TEXT`; None where there is no value."""
        if not self.present.any():
            return None
        if self.numbers is None:
            return TEXT
        least, most = int(self.numbers.min()), int(self.numbers.max())
        fits = (kind for kind in _KINDS if _half(kind) + least >= 0 and most < _half(kind))
        return next(fits)


@dataclass(frozen=True)
class Layout:
    """The columns of a record and their kinds, in order.  Columns without any value are left out."""

    columns: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, values: Mapping[str, Values]) -> Layout:
        """The layout for these columns."""
        return cls(tuple((name, kind) for name, some in values.items() if (kind := some.kind) is not None))

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The kind of each column."""
        return dict(self.columns)

    @cached_property
    def texts(self) -> list[str]:
        """The columns of texts."""
        return [name for name, kind in self.columns if kind == TEXT]

    @cached_property
    def _bits(self) -> dict[str, int]:
        return {name: _OWN + place for place, (name, _) in enumerate(self.columns)}

    @cached_property
    def _marks(self) -> int:
        """Bytes of bits."""
        return -(-(_OWN + len(self.columns)) // 8)

    @cached_property
    def _starts(self) -> dict[str, int]:
        starts, at = {}, self._marks
        for name, kind in self.columns:
            if kind != TEXT:
                starts[name], at = at, at + int(kind[2:])
        return {**starts, "": at}

    @property
    def width(self) -> int:
        """Bytes of a record."""
        return self._starts[""]

    def flag(self, records: Bytes, bit: int) -> Flags:
        """A bit of each record."""
        flags: Flags = (records[..., bit >> 3] >> np.uint8(bit & 7) & 1).astype(bool)
        return flags

    def present(self, records: Bytes, name: str) -> Flags:
        """Whether each record has a value in a column of the layout."""
        return self.flag(records, self._bits[name])

    def numbers(self, records: Bytes, name: str) -> NDArray[np.int64]:
        """The numbers of a column; 0 where there is none."""
        kind, start = self.kinds[name], self._starts[name]
        some = np.ascontiguousarray(records[..., start : start + int(kind[2:])])
        found: NDArray[np.int64] = some.view(kind)[..., 0].astype(np.int64)
        return found

    def fits(self, values: Mapping[str, Values], count: int) -> Flags:
        """Which of so many rows can be written as records; texts aside."""
        fits = np.ones(count, bool)
        for name, some in values.items():
            kind = self.kinds.get(name)
            if kind is None:
                fits &= ~some.present
            elif some.numbers is not None:
                half = _half(kind)
                fits &= (some.numbers >= -half) & (some.numbers <= half - 1)
        return fits

    def encode(self, values: Mapping[str, Values], count: int) -> Bytes:
        """The records of so many rows, whose values fit."""
        records = np.zeros((count, self.width), np.uint8)
        for name, kind in self.columns:
            some, bit = values.get(name), self._bits[name]
            if some is None:
                continue
            records[:, bit >> 3] |= some.present.astype(np.uint8) << np.uint8(bit & 7)
            if some.numbers is not None:
                start, size = self._starts[name], int(kind[2:])
                records[:, start : start + size] = some.numbers.astype(kind).view(np.uint8).reshape(-1, size)
        return records

    def marked(self, *bits: int) -> Bytes:
        """A record without values, with these bits."""
        record = np.zeros(self.width, np.uint8)
        for bit in bits:
            record[bit >> 3] |= np.uint8(1 << (bit & 7))
        return record

    def column(self, records: Bytes, name: str) -> pa.Array:
        """A column of numbers, as Arrow has it."""
        present = self.present(records, name)
        return pa.array(self.numbers(records, name), mask=None if present.all() else ~present)


def _half(kind: str) -> int:
    return int(2 ** (8 * int(kind[2:]) - 1))
