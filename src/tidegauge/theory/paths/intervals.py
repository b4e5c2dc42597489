"""A bound for any measurement from the energies of a unit's intervals.

An interval is the time between two changes, in one group and on one side of 0.  The energy of a path is the
sum of the energies of its intervals and of cross terms between those that share a group and a side.  Where
cross terms can be positive, each interval is charged with the most that they can be.  The worst sequence of
intervals is then a longest path, found bin by bin.
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

    from tidegauge.theory.paths.path import BinCase, Domain

    Floats = NDArray[np.float64]

_STEPS = 4 * 10**8
_MOST_BINS = 2048


def countable(bins: int, case: BinCase) -> bool:
    """Whether `interval_bound` takes less than a second.

    Proof:    docs/theory/T10-intervals.md (either answer is safe)
    """
    changes, span = case.within(bins)
    steps = changes * bins**2 if span == bins else changes * bins * (span**2 + 1000)
    return bins <= _MOST_BINS and steps <= _STEPS


def interval_bound(gram: Floats, *, case: BinCase, domain: Domain) -> float:
    """Upper bound of the squared length of a measurement, from the inner products of its columns.  [T10]

    Rounding: the inner products are put on a grid, on which all but the products with `high` and `low` is
              exact; the error of both is added.
    Proof:    docs/theory/T10-intervals.md, docs/theory/T10-returns.md
    """
    high, low, groups, loaded = domain
    scale = float(gram.diagonal().max())
    if scale <= 0:
        return 0.0
    gram = on_grid(gram / scale)
    bins, apart, both = len(gram), above(Fraction(high) + Fraction(low)), high * low
    sides = (apart * max(high, low),) if groups > 1 else (apart * high, apart * low)
    energies, shared, pull = _energies(gram)
    # both sides together: a unit that came from nothing contributes from its first change on
    intervals = [_later(side * (energies + shared) + both * shared) for side in sides]
    best = _longest(intervals, [-both * gram.diagonal()] * len(sides), *case.within(bins))
    if loaded:  # what was there before is missing from then on
        intervals = [_later(side * (energies + shared + pull)) for side in sides]
        missing = [side * gram.diagonal() for side in sides[::-1]]
        best = max(best, _longest(intervals, missing, *case.after_load(bins), anchored=True))
    if shared.max() >= LARGEST:
        return inf
    changes = case.within(bins)[0]
    size = 4 * apart**2 * (4 + 2 * float(shared.max()) + float(pull.max()))
    return above_product(
        scale,
        above_sum(best, dot_error(4 * changes + 64, changes * size), perturbed(2 * FINE, changes, domain)),
    )


def _energies(gram: Floats) -> tuple[Floats, Floats, Floats]:
    """Three tables over intervals, by first bin and by the bin before which they end (the last: never).

    Own energy; most of the cross terms with other intervals; most of those with an earlier level to which it
    returns.
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
    """The most of a chain of intervals on alternating sides.  `begun`: what comes before a first interval.

    All changes lie in `span` consecutive bins; anchored: in the first ones.
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
        best = max(best, *(float(one[-1]) for one in ended))  # the last interval does not end: never less
        so_far = [one[:-1] for one in ended[::-1]]
    return best
