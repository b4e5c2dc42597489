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

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.store.secret.table.block import Block, gathered
from tidegauge.store.secret.table.directory import END, Based, Laid, Range
from tidegauge.store.secret.table.rewrite import Rewrite
from tidegauge.store.secret.table.rows import Rows, between, distinct, matching, newest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from tidegauge.store.secret.table.directory import Directory, Name
    from tidegauge.store.secret.table.file import BlockFile
    from tidegauge.store.secret.table.hashes import Hashes
    from tidegauge.store.secret.table.old_block import OldBlock
    from tidegauge.store.secret.table.record import Places
    from tidegauge.store.secret.table.rows import Part, Run, Shape

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


_FEW: Final = 2**17
"""Up to so many rows, what was found last is kept."""


class _Found(NamedTuple):
    shape: Shape
    wanted: Hashes
    """In order."""
    rows: Rows


class SortedTable:
    """Finds, scans and changes the rows of one table."""

    def __init__(self, file: BlockFile, shape: Shape, directory: Directory) -> None:
        self._file, self.shape, self.directory = file, shape, directory
        self._overlaid: tuple[Hashes, NDArray[np.int64]] | None = None
        """The hashes of the overlay in order, and for each the block's number and the row's place in it."""

        self._last: _Found | None = None
        """What was found last: a tick asks for its rows several times."""
        self._where: tuple[Hashes, list[tuple[int, Places]]] | None = None
        """The same for the places in the base."""

    # -- reading ---------------------------------------------------------------------------------------------

    @property
    def empty(self) -> bool:
        """Whether there is no row, nor was one since the last round of merges."""
        return not (self.directory.base or self.directory.overlay)

    def find(self, wanted: Hashes) -> Rows:
        """The rows with these hashes."""
        wanted = distinct(np.sort(wanted))
        if self._old:
            rows = self.between(0, END)
            return rows.take(matching(rows.hashes, wanted))
        known = self._last
        if known is None or known.shape != self.shape or not _within(wanted, known.wanted):
            parts = [*self._in_overlay(wanted), *gathered(self._in_base(wanted))]
            known = _Found(self.shape, wanted, newest(parts, self.shape).living())
            self._last = known if len(wanted) <= _FEW else None
        if len(wanted) == len(known.wanted):
            return known.rows
        return known.rows.take(matching(known.rows.hashes, wanted))

    def scan(self) -> Iterator[Rows]:
        """All rows, some at a time."""
        for low, high in self.ranges(_AT_ONCE):
            yield self.between(low, high)

    def ranges(self, blocks: int) -> Iterator[Range]:
        """Ranges of hashes, each of so many blocks of the base."""
        for first in range(0, max(1, len(self.directory.base)), blocks):
            yield Range(*self._range(first, first + blocks))

    def between(self, low: int, high: int) -> Rows:
        """The rows from one hash on and before another, from blocks of any format."""
        parts = self._overlay_between(low, high)
        lows = [one.low for one in self.directory.base]
        for one in self.directory.base[max(0, bisect_right(lows, low) - 1) : bisect_left(lows, high)]:
            block = self._file.read_any(one.name)
            parts += block.parts(_places(block.hashes, low, high))
        return newest(parts, self.shape).living()

    def upto(self, column: str, most: int) -> Rows:
        """The rows whose value in this column is at most this one."""
        rows = self._any_of(lambda block: block.upto(column, most))
        fits = pc.fill_null(pc.less_equal(rows.table[column], pa.scalar(most, pa.int64())), fill_value=False)
        return rows.take(np.flatnonzero(fits.to_numpy()))

    def present(self, column: str) -> Rows:
        """The rows that have a value in this column."""
        rows = self._any_of(lambda block: block.present(column))
        return rows.take(np.flatnonzero(pc.is_valid(rows.table[column]).to_numpy()))

    def _any_of(self, places: Callable[[Block], Places]) -> Rows:
        """The rows that blocks have at these places, and maybe others."""
        if self._old:
            return self.between(0, END)
        blocks = map(self._file.read, self.directory.names)
        return self.find(
            np.concatenate([np.empty(0, np.uint64), *(one.hashes[places(one)] for one in blocks)])
        )

    @property
    def _old(self) -> bool:
        """Whether the table is of format 4 or 5, and is only read: then all of it."""
        return any(not name.pages for name in self.directory.names)

    def _in_base(self, wanted: Hashes) -> Iterator[tuple[Block, Places]]:
        for _, block, places in self.base_places(wanted):
            yield block, places

    def base_places(self, wanted: Hashes) -> Iterator[tuple[int, Block, Places]]:
        """Which blocks of the base have rows with these hashes, which are sorted, and where."""
        base, known = self.directory.base, self._where
        if known is not None and np.array_equal(known[0], wanted):
            yield from ((number, self._file.read(base[number].name), places) for number, places in known[1])
            return
        lows = np.array([one.low for one in base[1:]], np.uint64)
        cuts, found = [0, *np.searchsorted(wanted, lows).tolist(), len(wanted)], []
        for number, (one, first, last) in enumerate(zip(base, cuts, cuts[1:], strict=False)):
            if first < last:
                block = self._file.read(one.name)
                places = block.matching(wanted[first:last])
                if len(places):
                    found.append((number, places))
                    yield number, block, places
        self._where = (wanted, found) if len(wanted) <= _FEW else None

    def _in_overlay(self, wanted: Hashes) -> list[Part]:
        hashes, _ = self._index()
        return self._overlay_at(matching(hashes, wanted))

    def _overlay_between(self, low: int, high: int) -> list[Part]:
        return self._overlay_at(_places(self._index()[0], low, high))

    def _overlay_at(self, found: Places) -> list[Part]:
        """The rows at these places of the index, the newest block first."""
        parts = [part for _, block, places in self.overlay_places(found) for part in block.parts(places)]
        return parts[::-1]

    def overlay_places(self, found: Places) -> Iterator[tuple[int, Block | OldBlock, Places]]:
        """Which blocks of the overlay the places of the index are of, the oldest first, and where in them."""
        if not len(found):
            return
        spots = np.sort(self._index()[1][found])
        numbers = spots >> 32
        known = {one.name.number: place for place, one in enumerate(self.directory.overlay)}
        starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(spots)]
        for first, last in pairwise(starts):
            place = known[int(numbers[first])]
            block = self._file.read_any(self.directory.overlay[place].name)
            yield place, block, (spots[first:last] & 0xFFFFFFFF).astype(np.intp)

    def in_overlay(self, wanted: Hashes) -> Places:
        """The places of the index of these hashes, which are sorted."""
        return matching(self._index()[0], wanted)

    def _index(self) -> tuple[Hashes, NDArray[np.int64]]:
        if self._overlaid is None:
            self._overlaid = np.empty(0, np.uint64), np.empty(0, np.int64)
            self._add_to_index(self.directory.overlay)
        return self._overlaid

    def _add_to_index(self, added: Iterable[Laid]) -> None:
        """Add the rows of these blocks that the base does not have."""
        known = [self._index()]
        for one in added:
            hashes = self._file.read_any(one.name).hashes
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
        try:
            return self._apply(runs)
        finally:
            self._last = self._where = None

    def _apply(self, runs: Sequence[Run]) -> bool:
        here, count = self.directory, sum(len(run.hashes) for run in runs)
        if not count and not here.overlay:
            return False
        known = sum(one.name.rows for one in here.base)
        if max(BLOCK, _RATE * count) >= known or _WHOLE * count >= known:
            self._merge(0, len(here.base), runs)
            self._drop_overlay(len(here.overlay))
            here.round, here.at = here.round + 1, 0
            self._overlaid = None
            return True
        left, deleted = Rewrite.of(runs, self.shape).run(self, self._file)
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
            parts += gathered((block, _places(block.hashes, begin, end)) for block in blocks)
            yield from self._written(begin, newest(parts, self.shape).living())

    def _written(self, low: int, rows: Rows) -> Iterator[Based]:
        """Blocks of about the same size; rows of one hash are in one block."""
        if not len(rows):
            return
        count = max(1, round(len(rows) / BLOCK))
        lows = {int(rows.hashes[len(rows) * n // count]) for n in range(1, count)} - {int(rows.hashes[0])}
        for begin, end in pairwise([low, *sorted(lows), END]):
            places = _places(rows.hashes, begin, end)
            yield Based(begin, self._write(rows.take(places) if count > 1 else rows))

    def _write(self, rows: Rows) -> Name:
        return self._file.write(rows, self.shape.key)

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


def _between(runs: Iterable[Run], low: int, high: int) -> list[Part]:
    """The rows of these runs from one hash on and before another."""
    cuts = [(run, between(run.hashes, low, high)) for run in runs]
    return [run.part(cut) for run, cut in cuts if cut.start < cut.stop]


def _within(some: Hashes, others: Hashes) -> bool:
    """Whether all of these hashes are among others; both are sorted, and have none twice."""
    if len(some) > len(others):
        return False
    places = np.searchsorted(others, some)
    return bool((places < len(others)).all()) and np.array_equal(others[places], some)


def _places(hashes: Hashes, low: int, high: int) -> Places:
    """The places of sorted hashes from one hash on and before another."""
    cut = between(hashes, low, high)
    return np.arange(cut.start, cut.stop)


def _rest(ranges: Sequence[Range]) -> list[Range]:
    """The ranges between these, up to the end of all hashes."""
    bounds = [0, *(bound for pair in sorted(ranges) for bound in pair), END]
    return [Range(low, high) for low, high in zip(bounds[::2], bounds[1::2], strict=True) if low < high]
