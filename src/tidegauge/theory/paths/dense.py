"""Sensitivity under a full matrix whose on-intervals act on one another through one shared level.

Let G be the inner products of the columns, on changes, and Y the same on levels.  A path that is on in s has
the energy s'Ys.  For any v, T = Y + vv' and any shift d,

    s'Ys  =  s'Ts - (v's)^2  <=  d^2 + s'Ts - 2 d v's.

The only cross terms of two on-intervals are those of T.  Negative cross terms are left out, or counted for
parts of two neighbors.  Positive cross terms are charged to every bin that is on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tidegauge.theory.paths.dense_windows import WIDEST, any_changes
from tidegauge.theory.paths.path import ON_OFF, Domain
from tidegauge.theory.paths.rounding import (
    FINE,
    LARGEST,
    above_product,
    above_sum,
    least_eigenvalue,
    on_grid,
    perturbed,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tidegauge.theory.paths.path import BinCase

    Floats = NDArray[np.float64]

_SHIFTS: Final = 2.0**-20
"""Shared levels and their shifts are multiples of this, so that products of two are exact on the grid ..."""
_FURTHEST: Final = 32.0
"""... up to this sum of a shared level."""
_FITTED: Final = 200
"""Steps in which a shared level is fitted."""
_CHAINED: Final = 32
"""Most changes for which chains are computed."""
_ROUGH: Final = 4e-7
"""A few times the rounding error of a zero, in units of the largest squared column."""
_ANCHORED: Final = 3 * 10**8
"""Most operations for which every window of first changes is tried."""
_GOLDEN: Final = (5**0.5 - 1) / 2


def dense_paths(gram: Floats, *, case: BinCase) -> float:
    """Largest squared length of any measurement of an on/off unit, from its columns' inner products.  [T14]

    Certified: from above for every matrix; tightly where, on levels, columns far apart are negatively
               correlated by one shared level.
    Proof:     docs/theory/T14.md
    """
    changes, span = case.within(len(gram))
    scale = float(gram.diagonal().max())
    if scale <= 0:
        return 0.0
    unit = on_grid(gram / scale)
    bound = np.inf
    if span <= WIDEST and 2 * changes >= span:
        bound = any_changes(unit, span)
    if changes <= _CHAINED:
        bound = min(bound, _chained(unit, changes, span))
    return above_product(scale, above_sum(bound, perturbed(FINE, changes, ON_OFF)))


def dense_groups(gram: Floats, *, case: BinCase, loaded: bool = False) -> float:
    """The same for units that may change their group; each group is measured separately.  [T14]

    Requires: a unit contributes at most 1 to the group that it is in, and nothing below 0.
    Loaded:   the unit may be in a group before the first bin, by the first of its changes.
    Proof:    docs/theory/T14-groups.md, docs/theory/T14-loaded.md
    """
    changes, span = case.within(len(gram))
    scale = float(gram.diagonal().max())
    if scale <= 0:
        return 0.0
    unit = on_grid(gram / scale)
    intervals = _GroupIntervals(unit, again=changes > 2)
    bound = intervals.most(changes, span)
    later, left = case.after_load(len(gram)) if loaded else (0, 0)
    for returns in range(later // 2 + 1 if later else 0):  # to the group of before the first bin
        missing = _chained(unit, min(2 * returns + 1, later), left) if returns else 1.0
        bound = max(bound, missing + intervals.most(later - returns, left, apart=returns > 0))
    return above_product(scale, above_sum(bound, perturbed(FINE, changes, Domain(groups=2, loaded=loaded))))


def _chained(gram: Floats, changes: int, span: int) -> float:
    """The bound with the shared level of bins far apart, and the best shift and price found."""
    bins = len(gram)
    v = shared_level(levels(gram), max(2, bins // 4))
    v = np.rint(v * min(1.0, _FURTHEST / max(v.sum(), 1e-300)) / _SHIFTS) * _SHIFTS  # every v gives a bound
    chain = _Chain(gram, v, gaps=max(8, bins // 16))
    furthest = float(chain.v[-1])

    def priced(price: float, tries: int = 18) -> float:
        return _least(lambda shift: chain.most(shift, price, changes, span), furthest, tries)

    if span == chain.bins:
        return priced(0.0)
    return _least(lambda price: priced(price, 12), 2 * changes / span, 9)


def _least(value: Callable[[float], float], furthest: float, tries: int) -> float:
    """The least value found of a convex function on [0, furthest], by golden section; any is a bound."""
    low, high = 0.0, furthest
    first, second = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_first, at_second = value(first), value(second)
    best = min(value(0.0), at_first, at_second)
    for _ in range(tries - 3):
        if at_first < at_second:
            high, second, at_second = second, first, at_first
            first = high - _GOLDEN * (high - low)
            at_first = value(first)
        else:
            low, first, at_first = first, second, at_second
            second = low + _GOLDEN * (high - low)
            at_second = value(second)
        best = min(best, at_first, at_second)
    return best


def levels(gram: Floats) -> Floats:
    """Inner products on levels from those on changes.  [T14]

    Proof:     docs/theory/T14-levels.md
    """
    padded = np.zeros((len(gram) + 1, len(gram) + 1))
    padded[:-1, :-1] = gram
    return -np.diff(-np.diff(padded, axis=0), axis=1)


def on_changes(found: Floats) -> Floats:
    """Inner products on changes from those on levels.  [T14]

    Proof:     docs/theory/T14-levels.md
    """
    sums: Floats = found[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1]
    return sums


def shared_level(found: Floats, near: int) -> Floats:
    """The v >= 0 whose products are nearest to -Y for bins at least `near` apart, in fixed steps.  [T14]

    Proof:     docs/theory/T14.md (any v will do)
    """
    bins = len(found)
    if near >= bins:
        return np.zeros(bins)
    apart = np.abs(np.subtract.outer(np.arange(bins), np.arange(bins)))
    far = (apart >= near).astype(np.float64)
    wanted = -found * far
    v = np.full(bins, np.sqrt(max(wanted.sum() / far.sum(), 0.0)))
    for _ in range(_FITTED):
        fit = (wanted @ v) / np.maximum(far @ (v * v), 1e-300)
        v = (v + np.maximum(fit, 0.0)) / 2
    return v


class _Chain:
    """Chains of on-intervals for one T and v, in units of the largest G(i, i)."""

    def __init__(self, gram: Floats, v: Floats, *, gaps: int) -> None:
        bins = len(gram)
        padded = np.zeros((bins + 1, bins + 1))
        padded[:-1, :-1] = gram
        squares = padded.diagonal()
        self.bins, self.edges = bins, np.arange(bins + 1)
        self.v = np.concatenate([[0.0], np.cumsum(v)])
        between = levels(gram) + np.outer(v, v)
        np.fill_diagonal(between, 0.0)
        alone = np.add.outer(squares, squares) - 2 * padded + np.subtract.outer(self.v, self.v) ** 2
        every, rough = np.maximum(between, 0.0).sum(axis=1), np.where(np.abs(between) < _ROUGH, between, 0.0)
        most = float(np.ceil(max(-least_eigenvalue(-rough), 0.0) / FINE) * FINE)
        others = np.maximum(between - rough, 0.0).sum(axis=1) + most
        if others.sum() < every.sum():  # rounding errors are counted by one eigenvalue
            sums = _sums(rough)
            own = sums.diagonal()
            alone -= np.add.outer(own, own) - 2 * sums
            every, between = others, between - rough
        extra = np.concatenate([[0.0], np.cumsum(every)])
        alone += extra[None, :] - extra[:, None]
        self.inexact = not max(float(extra[-1]), float(np.abs(between).sum())) < LARGEST
        self.alone = np.where(np.less.outer(self.edges, self.edges), alone, -np.inf)[:bins]
        self.lengths = 3 ** np.arange(len(np.base_repr(bins, 3)))
        length = np.maximum(np.subtract.outer(self.edges, self.edges[:-1]).T, 1)
        self.class_of = np.searchsorted(self.lengths, length, side="right") - 1
        self.gaps = min(gaps, bins)
        self.crosses = self._crosses(np.minimum(between, 0.0))

    def _crosses(self, between: Floats) -> Floats:
        """Cross terms of one on-interval's end and the next one's start: [length, start, length, gap]."""
        sums = _sums(between)
        start = self.edges[:-1, None, None]
        left = np.maximum(start - np.arange(1, self.gaps + 1), 0)
        begun = np.maximum(left - self.lengths[:, None], 0)
        crosses = np.empty((len(self.lengths), self.bins, len(self.lengths), self.gaps))
        for at, length in enumerate(self.lengths):
            end = np.minimum(start + length, self.bins)
            crosses[at] = 2 * (sums[left, end] - sums[begun, end] - sums[left, start] + sums[begun, start])
        return crosses

    def most(self, shift: float, price: float, changes: int, span: int) -> float:
        """Upper bound for this shift of the shared level and this price of a bin: exact sums."""
        shift, price = round(shift / _SHIFTS) * _SHIFTS, round(price / FINE) * FINE
        if self.inexact or price * span > LARGEST:
            return np.inf
        earned = self.alone - 2 * shift * (self.v[None, :] - self.v[:-1, None])
        if span < self.bins:
            length = np.subtract.outer(self.edges, self.edges[:-1]).T[:, :-1]
            earned[:, :-1] = np.where(length < span, earned[:, :-1] - price * length, -np.inf)
        so_far, best = earned, 0.0
        for intervals in range(1, (changes + 1) // 2 + 1):
            if intervals > 1:
                so_far = earned + self._before(so_far, price)[self.edges[:-1, None], self.class_of]
            best = max(best, float(so_far[:, self.bins].max()))
            if 2 * intervals <= changes:
                best = max(best, float(so_far[:, :-1].max()))
        return best + shift**2 + price * (span - 1)

    def _before(self, so_far: Floats, price: float) -> Floats:
        """The most of all on-intervals before one, by where it starts and by its class of lengths."""
        bins, gaps = self.bins, self.gaps
        longest = np.maximum.accumulate(so_far, axis=0)
        ended = np.full((len(self.lengths), gaps + bins), -np.inf)  # by class of lengths, and by end
        for at, length in enumerate(self.lengths):
            ends = np.arange(length, bins)
            ended[at, gaps + ends] = longest[ends - length, ends]
        near = np.lib.stride_tricks.sliding_window_view(ended, gaps, axis=1)[:, :bins, ::-1]
        near = near.transpose(1, 0, 2) - price * np.arange(1, gaps + 1)
        before: Floats = (self.crosses + near).max(axis=(2, 3)).T
        ends = np.arange(-gaps, bins)
        further = np.maximum.accumulate(ended[0] + price * ends)[: bins - 1] - price * np.arange(1, bins)
        before[1:] = np.maximum(before[1:], further[:, None])
        return before


def _sums(values: Floats) -> Floats:
    """Sums over all bins before one and all bins before another."""
    sums = np.zeros((len(values) + 1, len(values) + 1))
    sums[1:, 1:] = values.cumsum(axis=0).cumsum(axis=1)
    return sums


class _GroupIntervals:
    """Intervals in groups that follow one another, each in a group of its own."""

    def __init__(self, gram: Floats, *, again: bool) -> None:
        """`again`: there are changes enough to return to a group."""
        squares = gram.diagonal()
        between = levels(gram) if again else np.zeros_like(gram)
        np.fill_diagonal(between, 0.0)
        extra = np.concatenate([[0.0], np.cumsum(np.maximum(between, 0.0).sum(axis=1))])
        self.inexact = not extra[-1] < LARGEST / 4
        bins = np.arange(len(gram))
        self.lengths = np.subtract.outer(bins, bins).T
        closed = np.add.outer(squares, squares) - 2 * gram + np.subtract.outer(extra[:-1], extra[:-1]).T
        self.closed = np.where(self.lengths > 0, closed, -np.inf)
        self.lasting = squares + extra[-1] - extra[:-1]

    def most(self, changes: int, span: int, *, apart: bool = False) -> float:
        """The most of `changes` intervals that begin within `span` bins (`apart`: with gaps between them)."""
        bins = len(self.lasting)
        if changes <= 0:
            return 0.0
        if self.inexact:
            return np.inf
        if span == bins:
            return _most_intervals(
                self.closed[None], self.lasting[None], np.zeros((1, bins)), changes, apart=apart
            )
        if bins * span**2 * changes > _ANCHORED:
            return _least(
                lambda price: self._priced(price, changes, span, apart=apart), 2 * changes / span, 16
            )
        places = np.arange(bins)[:, None] + np.arange(span)
        inside, places = places < bins, np.minimum(places, bins - 1)
        closed = np.where(inside[:, None, :], self.closed[places[:, :, None], places[:, None, :]], -np.inf)
        first = np.full((bins, span), -np.inf)
        first[:, 0] = 0.0
        lasting = np.where(inside, self.lasting[places], -np.inf)
        return _most_intervals(closed, lasting, first, changes, apart=apart)

    def _priced(self, price: float, changes: int, span: int, *, apart: bool) -> float:
        """The same for any window, with a price for every bin from the first change to the last."""
        price = round(price / FINE) * FINE
        closed = np.where(self.lengths < span, self.closed, -np.inf) - price * self.lengths
        first = np.zeros((1, len(self.lasting)))
        most = _most_intervals(closed[None], self.lasting[None], first, changes, apart=apart)
        return most + price * (span - 1)


def _most_intervals(closed: Floats, lasting: Floats, first: Floats, changes: int, *, apart: bool) -> float:
    """By windows, over chains of intervals from `first` on; the last does not end (`apart`: or ends)."""
    so_far, best = first, 0.0
    for change in range(changes):
        best = max(best, float((so_far + lasting).max()))
        if apart or change < changes - 1:
            so_far = (so_far[:, :, None] + closed).max(axis=1)
        if apart:
            best = max(best, float(so_far.max()))
            so_far = np.maximum.accumulate(so_far, axis=1)
    return best
