"""The bound for any measurement from the energies of an entry's intervals, one after another.

A interval is the time between two changes, in one group and on one side of nothing.  What intervals add up to is the sum of their own
energies and of cross terms between those that share a group and a side; where these can be positive, each interval is charged
with the most that they can be.  Which intervals there are is then a longest path, found bin by bin.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.theory.accounting.precise import above
from tidegauge.theory.paths.rounding import (
    FINE,
    LARGEST,
    above_product,
    above_sum,
    dot_error,
    on_grid,
    perturbed,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.theory.paths.path import Domain, Limits

    Floats = NDArray[np.float64]

_STEPS = 4 * 10**8
_MOST_BINS = 2048


def countable(bins: int, limits: Limits) -> bool:
    """Whether `interval_bound` takes less than a second."""
    changes, span = limits.within(bins)
    steps = changes * bins**2 if span == bins else changes * bins * (span**2 + 1000)
    return bins <= _MOST_BINS and steps <= _STEPS


def interval_bound(gram: Floats, *, limits: Limits, domain: Domain) -> float:
    """Most squared length of a measurement, from the inner products of its columns.

    These are put on a grid, on which all but the products with `high` and `low` is exact; what that domain them by is added.
    """
    high, low, groups, loaded = domain
    scale = float(gram.diagonal().max())
    if scale <= 0:
        return 0.0
    gram = on_grid(gram / scale)
    bins, apart, both = len(gram), above(Fraction(high) + Fraction(low)), high * low
    sides = (apart * max(high, low),) if groups > 1 else (apart * high, apart * low)
    energies, shared, pull = _energies(gram)
    # of both sides together, an entry that came from nothing is there from its first change on
    intervals = [_later(side * (energies + shared) + both * shared) for side in sides]
    best = _longest(intervals, [-both * gram.diagonal()] * len(sides), *limits.within(bins))
    if loaded:  # what was there before is missing ever after
        intervals = [_later(side * (energies + shared + pull)) for side in sides]
        missing = [side * gram.diagonal() for side in sides[::-1]]
        best = max(best, _longest(intervals, missing, *limits.after_load(bins), anchored=True))
    if shared.max() >= LARGEST:
        return inf
    changes = limits.within(bins)[0]
    size = 4 * apart**2 * (4 + 2 * float(shared.max()) + float(pull.max()))
    return above_product(
        scale,
        above_sum(best, dot_error(4 * changes + 64, changes * size), perturbed(2 * FINE, changes, domain)),
    )


def _energies(gram: Floats) -> tuple[Floats, Floats, Floats]:
    """Of every interval, by the bin it begins with and the one it ends before (the last: never).

    Its own; the most of its cross terms with other intervals; the most of that with an earlier level that it comes back to.
    """
    bins = len(gram)
    padded = np.zeros((bins + 1, bins + 1))
    padded[:bins, :bins] = gram
    squares = padded.diagonal()
    energies = squares[:, None] + squares[None, :] - 2 * padded
    attract = padded[:-1, :-1] - padded[:-1, 1:] - padded[1:, :-1] + padded[1:, 1:]
    np.fill_diagonal(attract, 0.0)
    sums = np.zeros_like(padded)
    sums[1:, 1:] = np.maximum(attract, 0.0).cumsum(axis=0).cumsum(axis=1)
    inside = sums.diagonal()[:, None] + sums.diagonal()[None, :] - 2 * sums
    shared = sums[None, :, -1] - sums[:, None, -1] - inside
    rises = np.where(np.tri(bins, dtype=bool).T, np.diff(padded, axis=1)[:-1], 0.0)
    pulls = 2 * np.concatenate([[0.0], np.cumsum(np.maximum(rises.max(axis=0), 0.0))])
    return energies, shared, pulls[None, :] - pulls[:, None]


def _later(intervals: Floats) -> Floats:
    intervals[np.tri(len(intervals), dtype=bool)] = -inf
    return intervals


def _longest(
    intervals: list[Floats], begun: list[Floats], changes: int, span: int, *, anchored: bool = False
) -> float:
    """The most of a chain of intervals; sides take turns.  `begun`: what comes before a first interval from each bin on.

    Changes lie in so many bins that follow one another; anchored: in the first of all.
    """
    bins = len(begun[0])
    if changes == 0:
        return 0.0
    if span == bins:
        return _chain(intervals, begun, changes)
    best = 0.0
    for first in range(1 if anchored else bins):
        last = min(first + span, bins)
        kept = np.append(np.arange(first, last), bins)
        entered = [one[first:last].copy() for one in begun]
        for one in entered if not anchored else ():
            one[1:] = -inf
        best = max(best, _chain([one[np.ix_(kept, kept)] for one in intervals], entered, changes))
    return best


def _chain(intervals: list[Floats], begun: list[Floats], changes: int) -> float:
    best, so_far = 0.0, begun
    for _ in range(changes):
        ended = [
            (before[:, None] + interval[:-1]).max(axis=0)
            for before, interval in zip(so_far, intervals, strict=True)
        ]
        best = max(best, *(float(one[-1]) for one in ended))  # the last interval lasts: that is never less
        so_far = [one[:-1] for one in ended[::-1]]
    return best
