"""Rewrite and erase in their place the rows of a tick, in all blocks of a table that have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from tidegauge.store.secret.table.block import Block
from tidegauge.store.secret.table.directory import Based
from tidegauge.store.secret.table.patch import Patch
from tidegauge.store.secret.table.record import ERASED, Values
from tidegauge.store.secret.table.rows import distinct, found, newest, one_array

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tidegauge.store.secret.table.directory import Name
    from tidegauge.store.secret.table.file import BlockFile
    from tidegauge.store.secret.table.record import Bytes, Flags, Layout, Places
    from tidegauge.store.secret.table.rows import Rows, Run, Shape
    from tidegauge.store.secret.table.sorted_table import SortedTable


class _Spot(NamedTuple):
    """A block, and the places in it where rows of the tick may be."""

    based: bool
    number: int
    """Its place in the base, or in the overlay."""
    block: Block
    places: Places
    lasting: Flags
    """Which places may get a new version; all in the base.  The others are copies of rows of the base, and
    the block is deleted without merging them."""


@dataclass(frozen=True)
class Rewrite:
    """The rows of a tick in the order of their hashes."""

    rows: Rows
    shape: Shape
    values: Mapping[str, Values]
    """By column, without the key."""

    @classmethod
    def of(cls, runs: Sequence[Run], shape: Shape) -> Rewrite:
        """The newest version of each row of these runs."""
        rows = newest([run.part(slice(None)) for run in runs], shape)
        names = [name for name in rows.table.column_names if name not in shape.key]
        return cls(rows, shape, {name: Values.of(one_array(rows.table[name])) for name in names})

    def run(self, table: SortedTable, file: BlockFile) -> tuple[Rows, int]:
        """Overwrite what the blocks have of these rows.

        Returns the rows that are still to be written, and how many were deleted.
        """
        spots, gone = list(self._spots(table)), self.rows.gone
        if not spots:
            return self.rows.take(np.flatnonzero(~gone)), int(gone.sum())
        lengths = [len(spot.places) for spot in spots]
        which = found(self._keys(spots), self.rows.table, self.shape.key)
        places = np.concatenate([spot.places for spot in spots])
        lasting = np.concatenate([spot.lasting for spot in spots])
        same, which = which >= 0, np.maximum(which, 0)
        deleted = same & gone[which]
        stale = same & ~deleted & self._alive(spots)
        fits = stale & lasting & self._fits(spots, which)
        _, first = np.unique(which[fits], return_index=True)
        rewritten = np.zeros(len(which), bool)
        rewritten[np.flatnonzero(fits)[first]] = True
        starts = np.cumsum([0, *lengths])
        records = self._records(spots, which, rewritten)
        for spot, begin, end in zip(spots, starts, starts[1:], strict=False):
            mine, layout = slice(begin, end), spot.block.layout
            if not (stale[mine].any() or deleted[mine].any()):
                continue
            new = np.flatnonzero(rewritten[mine]) + begin
            encoded, row = records[layout]
            change = Patch(
                places[new],
                encoded[row[new]],
                {name: self.values[name].take(which[new]).texts for name in layout.texts},
                places[mine][(stale & ~rewritten)[mine]],
                places[mine][deleted[mine]],
            )
            _rename(table, spot, file.patch(_name(table, spot), change))
        left = ~gone
        left[which[rewritten]] = False
        return self.rows.take(np.flatnonzero(left)), int(gone.sum())

    def _spots(self, table: SortedTable) -> Iterator[_Spot]:
        wanted = distinct(self.rows.hashes)
        for number, block, places in table.base_places(wanted):
            yield _Spot(True, number, block, places, np.ones(len(places), bool))
        for number, laid, places in table.overlay_places(table.in_overlay(wanted)):
            assert isinstance(laid, Block)
            merged = table.directory.was_merged(table.directory.overlay[number], laid.hashes[places])
            yield _Spot(False, number, laid, places, ~merged)

    def _keys(self, spots: Sequence[_Spot]) -> pa.Table:
        key = self.shape.key
        columns = zip(*(spot.block.texts(key, spot.places) for spot in spots), strict=True)
        return pa.table({
            name: pa.chunked_array([one.cast(self.shape.columns.field(name).type) for one in some])
            for name, some in zip(key, columns, strict=True)
        })  # fmt: skip

    def _records(
        self, spots: Sequence[_Spot], which: Places, rewritten: Flags
    ) -> dict[Layout, tuple[Bytes, Places]]:
        """By layout the new records, and for each place among all the spots' which of these it gets."""
        layouts = list(dict.fromkeys(spot.block.layout for spot in spots))
        numbers = {layout: number for number, layout in enumerate(layouts)}
        lengths = [len(spot.places) for spot in spots]
        own = np.repeat([numbers[spot.block.layout] for spot in spots], lengths)
        found, row = {}, np.zeros(len(which), np.intp)
        for layout, number in numbers.items():
            new = np.flatnonzero(rewritten & (own == number))
            row[new] = np.arange(len(new))
            values = {name: self.values[name].take(which[new]) for name in layout.kinds}
            found[layout] = layout.encode(values, len(new)), row
        return found

    @staticmethod
    def _alive(spots: Sequence[_Spot]) -> Flags:
        return np.concatenate([
            ~spot.block.layout.flag(spot.block.records(spot.places), ERASED) for spot in spots
        ])  # fmt: skip

    def _fits(self, spots: Sequence[_Spot], which: Places) -> Flags:
        """Which of the rows can be written at their places.  `which`: the row of each place."""
        of_layout: dict[Layout, Flags] = {}
        fits, begin = [], 0
        for spot in spots:
            layout, mine = spot.block.layout, which[begin : begin + len(spot.places)]
            begin += len(mine)
            if layout not in of_layout:
                of_layout[layout] = layout.fits(self.values, len(self.rows))
            texts = {name: self.values[name].take(mine) for name in layout.texts}
            fits.append(of_layout[layout][mine] & spot.block.fits(spot.places, texts))
        return np.concatenate(fits)


def _name(table: SortedTable, spot: _Spot) -> Name:
    here = table.directory
    return here.base[spot.number].name if spot.based else here.overlay[spot.number].name


def _rename(table: SortedTable, spot: _Spot, name: Name) -> None:
    here = table.directory
    if spot.based:
        here.base[spot.number] = Based(here.base[spot.number].low, name)
    else:
        here.overlay[spot.number] = here.overlay[spot.number]._replace(name=name)
