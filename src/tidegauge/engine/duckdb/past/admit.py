"""Which rows of a unit count: a row waits until fewer than `max_rows` earlier ones remain.

Rows come in the order in which they entered the contribution.  The first `most` of those that are there
count.  So a row begins to count once at most `most` - 1 earlier ones are still there: when the one of them
that ends as number `most`, counted from the last, has ended.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegauge.engine.duckdb.sorting import begins, order_of
from tidegauge.engine.duckdb.views import NEVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.engine.duckdb.past.enforce import Flags, Ints

_BEGINNING = -(2**63)


@dataclass(frozen=True)
class RowChanges:
    """Changes of what rows contribute; those of one row are together, in the order of time."""

    unit: NDArray[np.int32]
    time: Ints
    bin: NDArray[np.int32]
    was: NDArray[np.int32]
    now: NDArray[np.int32]

    def at(self, places: NDArray[Any]) -> RowChanges:
        """Some of the changes."""
        return RowChanges(*(getattr(self, one.name)[places] for one in fields(self)))

    def and_then(self, other: RowChanges) -> RowChanges:
        """These changes, then others."""
        return RowChanges(
            *(np.concatenate([getattr(one, each.name) for one in (self, other)]) for each in fields(self))
        )


def crowded(changes: RowChanges, row: NDArray[np.int32], most: int) -> Flags:
    """For each unit: whether it ever owns more than `most` rows that contribute."""
    found: Flags = np.bincount(changes.unit[begins(row)], minlength=1) > most
    return found


def admitted(
    changes: RowChanges, row: NDArray[np.int32], place: NDArray[Any], most: int, ends: Ints
) -> RowChanges:
    """The changes of rows while they count.

    `row`: of each change its row; `place`: its place in the log; `ends`: of all bins.
    """
    full = crowded(changes, row, most)
    if not full.any():
        return changes
    mine = full[changes.unit]
    some = np.flatnonzero(mine)
    return changes.at(~mine).and_then(_waiting(changes.at(some), place[some], most, ends))


def _waiting(changes: RowChanges, place: NDArray[Any], most: int, ends: Ints) -> RowChanges:
    enters = changes.was == 0
    begin = np.flatnonzero(enters)
    presence = np.cumsum(enters) - 1
    entered, leaves = changes.time[begin], np.full(len(begin), NEVER)
    gone = changes.now == 0
    leaves[presence[gone]] = changes.time[gone]
    order = np.lexsort((place[begin], entered, changes.unit[begin]))
    unit = changes.unit[begin][order]
    starts = begins(unit)
    first = np.flatnonzero(starts)[np.cumsum(starts) - 1]
    counted = entered.copy()
    counted[order] = np.maximum(entered[order], largest_before(leaves[order], first, most))
    since = counted[presence]
    now = np.where(since <= changes.time, changes.now, 0)
    was = np.where(enters | (since >= changes.time), 0, changes.was)
    some = np.flatnonzero(now != was)
    found = RowChanges(changes.unit[some], changes.time[some], changes.bin[some], was[some], now[some])
    late = np.flatnonzero((counted > entered) & (counted < leaves))
    last = begin + np.bincount(presence[changes.time <= since], minlength=len(begin)) - 1
    late = late[changes.time[last[late]] < counted[late]]  # otherwise the change at this time begins to count
    at, time = last[late], counted[late]
    none = np.zeros(len(at), np.int32)
    return found.and_then(
        RowChanges(
            changes.unit[at], time, np.searchsorted(ends, time).astype(np.int32), none, changes.now[at]
        )
    )


def largest_before(values: Ints, first: Ints, most: int) -> Ints:
    """For each place i: of the values from first[i] to before i the one that is number `most` from the top.

    The smallest integer where there are fewer.  Values are compared bit by bit, from the highest one of
    their ranks, for all places at once: n log n steps for n values, whatever `most` is.
    """
    here = np.arange(len(values))
    some = np.flatnonzero(here - first >= most)
    found = np.full(len(values), _BEGINNING)
    distinct, rank = np.unique(values, return_inverse=True)
    left, right = first[some], here[some]
    above, result = np.full(len(some), most - 1), np.zeros(len(some), np.int64)
    for bit in reversed(range(max(1, len(distinct) - 1).bit_length())):
        high = (rank >> bit & 1).astype(bool)
        before = np.concatenate([[0], np.cumsum(high)])
        low, ones_left, ones_right = len(rank) - before[-1], before[left], before[right]
        ones = ones_right - ones_left
        up = above < ones
        result[up] |= 1 << bit
        above = np.where(up, above, above - ones)
        left = np.where(up, low + ones_left, left - ones_left)
        right = np.where(up, low + ones_right, right - ones_right)
        rank = np.concatenate([rank[~high], rank[high]])
    found[some] = distinct[result]
    return found


def together(unit: NDArray[np.int32], time: Ints) -> tuple[Ints, Flags]:
    """The order by unit and time, and which are the first of their unit and time in it."""
    order = order_of(time)
    order = order[order_of(unit[order])]
    return order, begins(unit[order], time[order])
