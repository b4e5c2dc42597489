"""The bound for few changes of a convex measurement: chains of on-intervals, by classes of lengths and gaps.

For any shift of the offset and any price of a bin, the bound is the cost of the shift, the price of all
bins, and the most of a chain of on-intervals: their energies, less what the shift and the price subtract,
and the cross terms of neighbours (others are left out: they are never positive).

A unit at high or -low from its first change on is an on/off unit less `sunk` = low / (high + low) from that
change on: one more shift, of the bins that follow.
"""

from __future__ import annotations

from functools import cached_property, partial
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidegauge.theory.paths.rounding import above_product, above_sum
from tidegauge.theory.paths.stationary import Stationary, blocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_CHAINED = 12
"""On-intervals after which each further on-interval is assumed to add as much as the last one."""


def least(value: Callable[[Floats], float], simplex: list[list[float]], tries: int = 80) -> float:
    """The least value found of a convex function; any of its values is a bound.

    Proof:    docs/theory/T10-on-intervals.md (any argument will do)
    """
    return value(search(value, simplex, tries))


def search(value: Callable[[Floats], float], simplex: list[list[float]], tries: int) -> Floats:
    """Where the function is least, as found from this simplex.

    Proof:    docs/theory/T10-on-intervals.md (any argument will do)
    """
    from scipy.optimize import minimize  # noqa: PLC0415  (slow to load)

    options = {"initial_simplex": simplex, "maxfev": tries, "fatol": 1e-5, "xatol": 1e-6}
    found: Floats = minimize(value, simplex[0], method="Nelder-Mead", options=options).x
    return found


class _FirstChanges(NamedTuple):
    """A block of first changes up to bin `last`, and lower bounds of the level from that block on."""

    last: int
    seen: Stationary
    floor: float
    near_start: Floats
    near_end: Floats
    shifted: bool
    """Whether a shift of the offset is tried: not where the end cuts off the span (T10-below, 3)."""


class OnIntervals:
    """Bounds for at most `changes` changes, the first and the last less than `span` bins apart."""

    def __init__(self, found: Stationary, offset: float, changes: int, span: int, *, coarse: bool) -> None:
        self.tries, self.searched, self.ratio = (24, 1, 4.0) if coarse else (80, 6, 1.5)
        self.found, self.changes = found, changes
        self.bins, self.span, self.limited = found.bins, span, span < found.bins
        self.room = span - 1 if self.limited else self.bins
        self.offset = offset
        self.grid = found.grid
        self.stiffness = above_sum(1 / offset, float(found.open[-1])) if offset else inf
        self.lengths = np.arange(self.bins + 1)
        self.classes = _classes(self.bins, 1.35 if coarse else 1.15)
        self.longest = np.append(self.classes[1:] - 1, self.bins)
        self.crosses = self._crosses()
        self.gaps = np.concatenate([[0], self.classes])
        self.floor = found.level.min()
        self.near_start = self._extra(found.level_before, self.floor)
        self.near_end = self._extra(found.level_after[::-1], self.floor)

    def _crosses(self) -> Floats:
        """The largest cross term, by the classes of first interval, gap and second interval."""
        classes, gaps = self.classes, np.arange(1, self.bins + 1)[:, None]
        most = np.full([len(classes)] * 3, -inf)
        for i, first in enumerate(
            classes
        ):  # the cross term of two on-intervals does not depend on their order
            terms = self.found.cross(first, gaps, classes[None, : i + 1])
            most[i, :, : i + 1] = np.maximum.reduceat(terms, classes - 1, axis=0)
            most[: i + 1, :, i] = most[i, :, : i + 1].T
        return np.where(classes[:, None, None] + classes[None, :, None] <= self.room, most, -inf)

    def _extra(self, level: Floats, floor: float) -> Floats:
        """The level of an on-interval of each class beyond the least, by its distance from an end."""
        bins = len(level)
        sums = np.concatenate([[0.0], np.cumsum(level - floor)])
        gaps = np.minimum(np.concatenate([[0], self.longest]), bins)
        ends = np.minimum(np.add.outer(gaps, self.classes), bins)
        extra: Floats = sums[ends] - sums[gaps][:, None]
        return extra

    def bound(self) -> float:
        """The larger bound of paths that end on and paths that end off, each with its best shift."""
        price = 0.5 / self.bins
        if not self.offset:
            return max(least(partial(self._priced, on), [[0.0], [price]], self.tries) for on in (False, True))
        simplex = [[0.48, price], [0.4, price], [0.48, 0.0]]
        return max(least(partial(self._shifted, on), simplex, self.tries) for on in (False, True))

    def _priced(self, ends_on: bool, at: Floats) -> float:
        return self._value(0.0, abs(at[0]), ends_on=ends_on)

    def _shifted(self, ends_on: bool, at: Floats) -> float:
        return self._value(abs(at[0]), abs(at[1]), ends_on=ends_on)

    def _outside(self, shift: float, price: float) -> bool:
        """Whether sums would be too large to be exact; such a shift or price is of no use."""
        return not (shift <= 2 and price * self.bins <= self.grid.most / 8)

    def _value(self, shift: float, price: float, *, ends_on: bool) -> float:
        price, grid = self.grid.near(price), self.grid
        if self._outside(shift, price):
            return inf
        earned = self.found.closed - (self._felt(shift, self.floor) + price) * self.lengths
        middle = self._closed(earned)
        first = last = middle
        if not self.limited:
            paid = price * self.gaps[:, None]
            first = middle - (grid.down(2 * shift * self.near_start) + paid).min(axis=0)
            last = middle - (grid.down(2 * shift * self.near_end) + paid).min(axis=0)
        if ends_on:
            last = self._by_class(
                self.found.open
                - grid.down(2 * shift * self.found.level_of_last)
                - (0 if self.limited else price) * self.lengths
            )
        fixed = above_product(shift, shift, self.stiffness) if shift else 0.0
        alone = last.max() if ends_on else first.max()
        intervals = (self.changes + ends_on) // 2
        most = max(0.0, alone, self._chain((first, middle, last), self._joined(price), intervals))
        return above_sum(float(most + price * self.room), fixed)

    def _felt(self, shift: float, floor: float) -> float:
        """The least effect of a shift on one bin."""
        return float(self.grid.down(np.array(2 * shift * floor)))

    def _joined(self, price: float) -> Floats:
        """The most of the cross term of two neighbours and the gap between them, by their classes."""
        joined: Floats = (self.crosses - price * self.classes[None, :, None]).max(axis=1)
        return joined

    def _chain(self, earned: tuple[Floats, Floats, Floats], joined: Floats, intervals: int) -> float:
        """The most of a chain of two to `intervals` on-intervals: the first, those between, and the last."""
        first, middle, last = earned
        best, so_far = -inf, first
        for more in range(1, intervals):
            reached = (so_far[:, None] + joined).max(axis=0)
            ended, so_far, before = (reached + last).max(), reached + middle, so_far
            if more == _CHAINED:  # one interval more never adds more than the one before
                possible = np.isfinite(so_far)
                rise = (so_far[possible] - before[possible]).max(initial=0.0)
                return float(max(best, ended + rise * (intervals - 1 - more)))
            best = max(best, ended)
        return float(best)

    def _by_class(self, values: Floats) -> Floats:
        return np.maximum.reduceat(values, self.classes)

    def _closed(self, earned: Floats) -> Floats:
        earned[self.room + 1 :] = -inf
        return self._by_class(earned)

    # --- above and below nothing

    def bound_below(self, sunk: float, *, ends_on: bool) -> float:
        """The bound for paths that are on or off less `sunk` from the first change on.

        The best shift and price are searched for where the bound is largest; other first changes use the
        same.
        """
        price, shift = 0.5 / self.bins, max(0.48 - sunk, 0.02)
        values = [partial(self._below, begun, sunk, ends_on) for begun in self.begun]
        starts = [[price, shift] if begun.shifted else [price] for begun in self.begun]
        bounds = [value(np.array(start)) for value, start in zip(values, starts, strict=True)]
        searched: set[int] = set()
        while (worst := int(np.argmax(bounds))) not in searched and len(searched) < self.searched:
            searched.add(worst)
            corners = [[price, shift], [price, 0.8 * shift], [0.0, shift]]
            at = search(values[worst], corners if self.begun[worst].shifted else [[0.0], [price]], self.tries)
            for one, (value, start) in enumerate(zip(values, starts, strict=True)):
                bounds[one] = min(bounds[one], value(at[: len(start)]))
        return max(bounds)

    @cached_property
    def begun(self) -> list[_FirstChanges]:
        """Blocks of first changes; without an offset the first bin is the worst."""
        whole = self.bins - self.span
        ends = [(0, 0, bool(self.offset))]
        if self.offset and not self.limited:
            ends.append((1, self.bins - 1, True))
        elif self.offset:
            ends = [(*block, True) for block in blocks(whole, self.ratio)] + [(whole, self.bins - 1, False)]
        return [self._begun(*end) for end in ends]

    def _begun(self, first: int, last: int, shifted: bool) -> _FirstChanges:
        seen = self.found.later(first)
        near = seen.level[: self.span]
        floor = float(near.min())
        starts = self._extra(np.minimum.accumulate(near), floor)
        return _FirstChanges(last, seen, floor, starts, self._extra(seen.level_after[::-1], floor), shifted)

    def _below(self, begun: _FirstChanges, sunk: float, ends_on: bool, at: Floats) -> float:
        found, seen = self.found, begun.seen
        price, shift = self.grid.near(abs(at[0])), float(abs(at[1])) if len(at) > 1 else 0.0
        grid = self.grid
        if self._outside(shift, price):
            return inf
        taken = self._felt(sunk, begun.floor) + self._felt(shift, self.floor) + price
        middle = self._closed(found.closed - taken * self.lengths)
        extra = grid.down(2 * sunk * begun.near_start)
        if begun.last == 0 and not self.limited:
            extra = extra + grid.down(2 * shift * self.near_start)
        paid = price * self.gaps[:, None]
        room = self.room if self.limited else seen.bins
        fixed = [above_product(sunk, sunk, float(found.open[seen.bins]))]
        if shift:
            level = max(float(found.most_level_of_last[seen.bins]), 0.0)
            fixed += [above_product(shift, shift, self.stiffness), above_product(2 * shift, sunk, level)]
        at_once, later = middle - extra[0], middle - (extra + paid).min(axis=0)
        last, few = middle, later
        if ends_on:
            last = few = self._lasting(begun, sunk, shift, price)
        elif not self.limited:
            near_end = grid.down(2 * sunk * begun.near_end) + grid.down(2 * shift * self.near_end)
            last = middle - (near_end + paid).min(axis=0)
        best = max(0.0 if not ends_on else -inf, few.max() if self.changes + ends_on > 2 else -inf)
        joined = self._joined(price)
        best = max(best, self._chain((later, middle, last), joined, (self.changes - 1 + ends_on) // 2))
        if (self.changes + ends_on) % 2 == 0:  # on with the first change
            intervals = (self.changes + ends_on) // 2
            best = max(best, at_once.max() if not ends_on else -inf)
            best = max(best, self._chain((at_once, middle, last), joined, intervals))
        return above_sum(float(best + price * room), *fixed)

    def _lasting(self, begun: _FirstChanges, sunk: float, shift: float, price: float) -> Floats:
        """The most of the last on-interval if it does not end."""
        found, bins = self.found, begun.seen.bins
        earned = np.full(self.bins + 1, -inf)
        earned[: bins + 1] = (
            found.open[: bins + 1]
            - self.grid.down(2 * sunk * begun.seen.level_of_last)
            - self.grid.down(2 * shift * found.level_of_last[: bins + 1])
        )
        if self.limited:
            earned[: max(self.bins - begun.last - self.span + 1, 1)] = -inf
        else:
            earned -= price * self.lengths
        return self._by_class(earned)


def _classes(longest: int, ratio: float) -> NDArray[np.int64]:
    """The shortest length of each class, from 1 on."""
    starts = [1]
    while starts[-1] < longest:
        starts.append(min(max(starts[-1] + 1, int(starts[-1] * ratio)), longest))
    return np.array(starts)
