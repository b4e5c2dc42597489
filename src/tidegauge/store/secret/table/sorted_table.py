"""A table of the state: a base of sorted blocks, and an overlay of what recent ticks changed.

A tick rewrites the rows that it changes in their place, where the new values fit, and erases those that it
deletes.  It writes the others as one more block of the overlay, and merges a part of the base with everything
the overlay has for it.  Merges go round: each begins where the last one ended, and after the last block with
the first.  So the cost of a tick depends on its changes and not on the size of the table, and a block of the
overlay is deleted once the merges have gone round since it was written.

No older version of a row outlives the tick, and nothing of a deleted one but the length of its key: the
overlay keeps copies of rows that were merged, which are erased when the row changes.  So all copies of a row
that are not erased are of its newest version.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.store.secret.table.directory import END, Based, Laid, Range
from tidegauge.store.secret.table.patch import Patch, Values
from tidegauge.store.secret.table.rows import between, distinct, found, matching, newest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from tidegauge.store.secret.table.block import Block
    from tidegauge.store.secret.table.directory import Directory, Name
    from tidegauge.store.secret.table.file import BlockFile
    from tidegauge.store.secret.table.hashes import Hashes
    from tidegauge.store.secret.table.rows import Part, Rows, Run, Shape

BLOCK: Final = 32_768
"""Rows of a block of the base, on average."""
_RATE: Final = 2
"""So many rows of the base are merged for every row that changes; at least one block a tick."""
_WHOLE: Final = 4
"""The whole table is merged where at least one in so many rows changes."""
_AT_ONCE: Final = 4
"""So many blocks of the base are in memory at a time while they are merged."""
_MOST: Final = 2 * _AT_ONCE * BLOCK
"""At most about so many rows are merged at a time, and are in one block of the overlay."""


class SortedTable:
    """Finds, scans and changes the rows of one table."""

    def __init__(self, file: BlockFile, shape: Shape, directory: Directory) -> None:
        self._file, self.shape, self.directory = file, shape, directory
        self._overlaid: tuple[Hashes, NDArray[np.int64]] | None = None
        """The hashes of the overlay in order, and for each the block's number and the row's place in it."""

    # -- reading ---------------------------------------------------------------------------------------------

    @property
    def empty(self) -> bool:
        """Whether there is no row, nor was one since the last round of merges."""
        return not (self.directory.base or self.directory.overlay)

    def find(self, wanted: Hashes) -> Rows:
        """The rows with these hashes."""
        wanted = np.unique(wanted)
        return newest([*self._in_overlay(wanted), *self._in_base(wanted)], self.shape).living()

    def scan(self) -> Iterator[Rows]:
        """All rows, some at a time."""
        base = self.directory.base
        for first in range(0, max(1, len(base)), _AT_ONCE):
            low, high = self._range(first, first + _AT_ONCE)
            blocks = [self._file.read(one.name) for one in base[first : first + _AT_ONCE]]
            parts = [*self._overlay_between(low, high), *(block.part(slice(None)) for block in blocks)]
            yield newest(parts, self.shape).living()

    def upto(self, column: str, most: int) -> Rows:
        """The rows whose value in this column is at most this one."""
        rows = self._any_of(block.hashes[block.upto(column, most)] for block in self._blocks())
        fits = pc.fill_null(pc.less_equal(rows.table[column], pa.scalar(most, pa.int64())), fill_value=False)
        return rows.take(np.flatnonzero(fits.to_numpy()))

    def present(self, column: str) -> Rows:
        """The rows that have a value in this column."""
        rows = self._any_of(block.hashes[block.present(column)] for block in self._blocks())
        return rows.take(np.flatnonzero(pc.is_valid(rows.table[column]).to_numpy()))

    def _any_of(self, hashes: Iterable[Hashes]) -> Rows:
        """The rows with these hashes.  A block may have an older version of a row."""
        return self.find(np.concatenate([np.empty(0, np.uint64), *hashes]))

    def _blocks(self) -> Iterator[Block]:
        return map(self._file.read, self.directory.names)

    def _in_base(self, wanted: Hashes) -> Iterator[Part]:
        base = self.directory.base
        lows = np.array([one.low for one in base[1:]], np.uint64)
        cuts = [0, *np.searchsorted(wanted, lows), len(wanted)]
        for one, first, last in zip(base, cuts, cuts[1:], strict=False):
            if first < last:
                block = self._file.read(one.name)
                places = matching(block.hashes, wanted[first:last])
                if len(places):
                    yield block.part(places)

    def _in_overlay(self, wanted: Hashes) -> Iterator[Part]:
        hashes, _ = self._index()
        return self._overlay_at(matching(hashes, wanted))

    def _overlay_between(self, low: int, high: int) -> Iterator[Part]:
        hashes, _ = self._index()
        return self._overlay_at(np.arange(*between(hashes, low, high).indices(len(hashes))))

    def _overlay_at(self, found: NDArray[np.intp]) -> Iterator[Part]:
        """The rows at these places of the index, the newest block first."""
        if not len(found):
            return
        places = np.sort(self._index()[1][found])
        numbers = places >> 32
        names = {one.name.number: one.name for one in self.directory.overlay}
        starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1), len(places)]
        for first, last in reversed(list(pairwise(starts))):
            block = self._file.read(names[int(numbers[first])])
            yield block.part((places[first:last] & 0xFFFFFFFF).astype(np.intp))

    def _index(self) -> tuple[Hashes, NDArray[np.int64]]:
        if self._overlaid is None:
            self._overlaid = np.empty(0, np.uint64), np.empty(0, np.int64)
            self._add_to_index(self.directory.overlay)
        return self._overlaid

    def _add_to_index(self, added: Iterable[Laid]) -> None:
        """Add the rows of these blocks that the base does not have."""
        known = [self._index()]
        for one in added:
            hashes = self._file.read(one.name).hashes
            places = np.arange(len(hashes))
            if one.name.seal is None:  # format 4 left older versions of rows in the overlay
                places = places[~self.directory.was_merged(one, hashes)]
            known.append((hashes[places], (one.name.number << 32) + places))
        hashes, numbers = (np.concatenate(both) for both in zip(*known, strict=True))
        order = np.argsort(hashes, kind="stable")
        self._overlaid = hashes[order], numbers[order]

    # -- writing ---------------------------------------------------------------------------------------------

    def apply(self, runs: Sequence[Run]) -> bool:
        """Take over these rows, the newest first, and merge on; inside the transaction.

        Returns whether anything was written.
        """
        here, count = self.directory, sum(len(run.hashes) for run in runs)
        if not count and not here.overlay:
            return False
        known = sum(one.name.rows for one in here.base)
        old = any(name.seal is None for name in here.names)
        if max(BLOCK, _RATE * count) >= known or _WHOLE * count >= known or old:
            self._merge(0, len(here.base), runs)
            self._drop_overlay(len(here.overlay))
            here.round, here.at = here.round + 1, 0
            self._overlaid = None
            return True
        left, deleted = self._patch(_Fresh.of(runs, self.shape))
        if not (len(left) or deleted or here.overlay):
            return True
        before = here.round, here.at
        spans, merged = self._advance(max(BLOCK, _RATE * (len(left) + deleted)))
        for first, last in sorted(spans, reverse=True):  # the last ones first: places before them stay
            self._merge(first, last, [left])
        self._drop_overlay(sum(here.is_merged(one) for one in here.overlay))
        self._lay_over(left, merged, before)
        return True

    def _advance(self, quota: int) -> tuple[list[Range], list[Range]]:
        """Move on by so many rows of the base, which has more.

        Returns which blocks are passed, and which hashes.
        """
        here, spans, merged, rows = self.directory, [], [], 0
        lows = [one.low for one in here.base]
        while rows < quota:
            first = last = bisect_right(lows, here.at) - 1
            while last < len(lows) and rows < quota:
                rows += here.base[last].name.rows
                last += 1
            spans.append(Range(first, last))
            merged.append(Range(here.at, lows[last] if last < len(lows) else END))
            here.at = lows[last] if last < len(lows) else 0
            here.round += last == len(lows)
        return spans, merged

    def _range(self, first: int, last: int) -> tuple[int, int]:
        """The hashes that these blocks of the base are for."""
        base = self.directory.base
        return (base[first].low if 0 < first < len(base) else 0), (
            base[last].low if last < len(base) else END
        )

    def _merge(self, first: int, last: int, runs: Sequence[Run]) -> None:
        """Write these blocks of the base again, with what the overlay and the new rows have for them."""
        made: list[Based] = []
        for start in range(first, max(last, first + 1), _AT_ONCE):
            stop = min(last, start + _AT_ONCE)
            low, high = self._range(start, stop)
            old = self.directory.base[start:stop]
            blocks = [self._file.read(one.name) for one in old]
            self._file.delete(one.name for one in old)  # first: new blocks take the pages that are given back
            made += self._merged(low, high, blocks, runs)
        self.directory.base[first:last] = made
        if self.directory.base:
            self.directory.base[0] = self.directory.base[0]._replace(low=0)

    def _merged(self, low: int, high: int, blocks: Sequence[Block], runs: Sequence[Run]) -> Iterator[Based]:
        """New blocks for a range of hashes; written a part of the range at a time."""
        cuts = [between(run.hashes, low, high) for run in runs]
        count = sum(map(len, blocks)) + sum(cut.stop - cut.start for cut in cuts)
        pieces = -(-count // _MOST) or 1
        for piece in range(pieces):
            begin = low + (high - low) * piece // pieces
            end = low + (high - low) * (piece + 1) // pieces
            parts = _between(runs, begin, end)
            parts += self._overlay_between(begin, end)
            parts += _between(blocks, begin, end)
            yield from self._written(begin, newest(parts, self.shape).living())

    def _written(self, low: int, rows: Rows) -> Iterator[Based]:
        """Blocks of about the same size; rows of one hash are in one block."""
        if not len(rows):
            return
        count = max(1, round(len(rows) / BLOCK))
        lows = {int(rows.hashes[len(rows) * n // count]) for n in range(1, count)} - {int(rows.hashes[0])}
        for begin, end in pairwise([low, *sorted(lows), END]):
            places = np.arange(*between(rows.hashes, begin, end).indices(len(rows)))
            yield Based(begin, self._write(rows.take(places) if count > 1 else rows))

    def _write(self, rows: Rows) -> Name:
        return self._file.write(rows, self.shape.key)

    def _patch(self, fresh: _Fresh) -> tuple[Rows, int]:
        """Rewrite and erase in their place what the file has of these rows.

        Returns the rows that are still to be written, and how many were deleted.
        """
        here = self.directory
        for place, (low, name) in enumerate(here.base):
            _, high = self._range(place, place + 1)
            cut = np.arange(*between(fresh.hashes, low, high).indices(len(fresh.hashes)))
            if len(cut):
                slots = matching(self._file.read(name).hashes, distinct(fresh.hashes[cut]))
                here.base[place] = Based(low, self._patch_block(name, slots, fresh, cut))
        hashes, places = self._index()
        numbers = np.sort(places[matching(hashes, distinct(fresh.hashes))])
        for place, one in enumerate(here.overlay):
            first, last = np.searchsorted(numbers, [one.name.number << 32, (one.name.number + 1) << 32])
            if first < last:
                slots = (numbers[first:last] & 0xFFFFFFFF).astype(np.intp)
                hashes = self._file.read(one.name).hashes[slots]
                cut, lasting = matching(fresh.hashes, distinct(hashes)), ~here.was_merged(one, hashes)
                here.overlay[place] = one._replace(
                    name=self._patch_block(one.name, slots, fresh, cut, lasting)
                )
        left = np.flatnonzero(~fresh.written & ~fresh.gone)
        return fresh.rows.take(left), int(fresh.gone.sum())

    def _patch_block(
        self,
        name: Name,
        slots: NDArray[np.intp],
        fresh: _Fresh,
        cut: NDArray[np.intp],
        lasting: NDArray[np.bool_] | None = None,
    ) -> Name:
        """Patch these slots of a block with the fresh rows at the places `cut`, where the keys are the same.

        `lasting`: which slots may get a new version; all in the base.  The others are copies of rows of the
        base, and the block is deleted without merging them.
        """
        block, key, some = self._file.read(name), self.shape.key, fresh.keys.take(pa.array(cut))
        which = found(block.keys(slots, key), some, key)
        same = which >= 0
        lasts = np.ones(int(same.sum()), bool) if lasting is None else lasting[same]
        slots, which = slots[same], cut[which[same]]
        deleted = fresh.gone[which]
        living = block.alive(slots) & ~deleted
        stale, which, lasts = slots[living], which[living], lasts[living]
        values = {column: all_.take(which) for column, all_ in fresh.values.items()}
        fits = block.fits(stale, values) & ~fresh.written[which] & lasts
        fresh.written[which[fits]] = True
        if not fits.all():
            values = {column: some.take(np.flatnonzero(fits)) for column, some in values.items()}
        change = Patch(stale[fits], values, stale[~fits], slots[deleted], key)
        return self._file.patch(name, change) if living.any() or deleted.any() else name

    def _drop_overlay(self, count: int) -> None:
        """Delete the oldest blocks of the overlay, which the base has now."""
        here = self.directory
        self._file.delete(one.name for one in here.overlay[:count])
        del here.overlay[:count]

    def _lay_over(self, left: Rows, merged: Sequence[Range], before: tuple[int, int]) -> None:
        """Write the new rows that were not merged as blocks of the overlay."""
        overlay = self.directory.overlay
        hashes, places = self._index()
        live = places >= (overlay[0].name.number if overlay else self._file.next) << 32
        self._overlaid = hashes[live], places[live]
        fresh, parts = [], [part for low, high in _rest(merged) for part in _between([left], low, high)]
        rows = newest(parts, self.shape)
        for start in range(0, len(rows), _MOST):
            some = rows.take(np.arange(start, min(len(rows), start + _MOST)))
            fresh.append(Laid(*before, self._write(some)))
        overlay += fresh
        self._add_to_index(fresh)


@dataclass(frozen=True)
class _Fresh:
    """The rows of a tick in the order of their hashes."""

    rows: Rows
    keys: pa.Table
    values: Mapping[str, Values]
    """By column, without the key."""
    written: NDArray[np.bool_]
    """Which rows a block has."""

    @classmethod
    def of(cls, runs: Sequence[Run], shape: Shape) -> _Fresh:
        rows = newest([run.part(slice(None)) for run in runs], shape)
        table = rows.table.combine_chunks()
        values = {
            name: Values.of(_whole(table[name])) for name in table.column_names if name not in shape.key
        }
        return cls(rows, table.select(shape.key), values, np.zeros(len(rows), bool))

    @property
    def hashes(self) -> Hashes:
        return self.rows.hashes

    @property
    def gone(self) -> NDArray[np.bool_]:
        return self.rows.gone


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
    )


def _between(runs: Iterable[Run], low: int, high: int) -> list[Part]:
    """The rows of these runs from one hash on and before another."""
    cuts = [(run, between(run.hashes, low, high)) for run in runs]
    return [run.part(cut) for run, cut in cuts if cut.start < cut.stop]


def _rest(ranges: Sequence[Range]) -> list[Range]:
    """The ranges between these, up to the end of all hashes."""
    bounds = [0, *(bound for pair in sorted(ranges) for bound in pair), END]
    return [Range(low, high) for low, high in zip(bounds[::2], bounds[1::2], strict=True) if low < high]
