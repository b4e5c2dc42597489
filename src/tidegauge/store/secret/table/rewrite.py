"""Rewrite and erase in their place the rows of a tick, in all blocks of a table that have them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
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
    from tidegauge.store.secret.table.record import Flags, Layout, Places
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
        left = ~self.rows.gone
        for layout, spots in _by_layout(self._spots(table)).items():
            self._rewrite(table, file, layout, spots, left)
        return self.rows.take(np.flatnonzero(left)), int(self.rows.gone.sum())

    def _rewrite(
        self, table: SortedTable, file: BlockFile, layout: Layout, spots: Sequence[_Spot], left: Flags
    ) -> None:
        """Overwrite what blocks of one layout have.  `left`: the rows that are still to be written."""
        starts = np.cumsum([0, *(len(spot.places) for spot in spots)])
        places, lasting, old = (np.concatenate(some) for some in zip(
            *((spot.places, spot.lasting, spot.block.records(spot.places)) for spot in spots),
            strict=True))  # fmt: skip
        which = found(self._keys(spots), self.rows.table, self.shape.key)
        same, which = which >= 0, np.maximum(which, 0)
        deleted = same & self.rows.gone[which]
        stale = same & ~deleted & ~layout.flag(old, ERASED)
        fits = stale & left[which] & lasting & self._fits(layout, spots, which, starts)
        _, first = np.unique(which[fits], return_index=True)
        new = np.sort(np.flatnonzero(fits)[first])
        left[which[new]], stale[new] = False, False
        records = layout.encode({name: self.values[name].take(which[new]) for name in layout.kinds}, len(new))
        if not layout.texts:
            changed = (old[new] != records).any(axis=1)
            new, records = new[changed], records[changed]
        some = new, np.flatnonzero(stale), np.flatnonzero(deleted)
        cuts = [pairwise(np.searchsorted(one, starts).tolist()) for one in some]
        for spot, (cut, *rest) in zip(spots, zip(*cuts, strict=True), strict=True):
            mine = new[slice(*cut)]
            change = Patch(
                places[mine],
                records[slice(*cut)],
                {name: self.values[name].take(which[mine]).texts for name in layout.texts},
                *(places[one[slice(*own)]] for one, own in zip(some[1:], rest, strict=True)),
            )
            if len(change.rewritten) or len(change.replaced) or len(change.deleted):
                _rename(table, spot, file.patch(_name(table, spot), change))

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

    def _fits(self, layout: Layout, spots: Sequence[_Spot], which: Places, starts: Places) -> Flags:
        """Which of the rows can be written at their places.  `which`: the row of each place."""
        fits = layout.fits(self.values, len(self.rows))[which]
        if layout.texts:
            for spot, (begin, end) in zip(spots, pairwise(starts.tolist()), strict=True):
                texts = {name: self.values[name].take(which[begin:end]) for name in layout.texts}
                fits[begin:end] &= spot.block.fits(spot.places, texts)
        return fits


def _by_layout(spots: Iterator[_Spot]) -> dict[Layout, list[_Spot]]:
    found: dict[Layout, list[_Spot]] = {}
    for spot in spots:
        found.setdefault(spot.block.layout, []).append(spot)
    return found


def _name(table: SortedTable, spot: _Spot) -> Name:
    here = table.directory
    return here.base[spot.number].name if spot.based else here.overlay[spot.number].name


def _rename(table: SortedTable, spot: _Spot, name: Name) -> None:
    here = table.directory
    if spot.based:
        here.base[spot.number] = Based(here.base[spot.number].low, name)
    else:
        here.overlay[spot.number] = here.overlay[spot.number]._replace(name=name)
