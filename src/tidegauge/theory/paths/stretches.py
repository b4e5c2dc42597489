"""The bound for few changes of a convex measurement: on-stretches side by side, by classes of lengths and gaps.

For any shift of the offset and any price of a bin, the bound is the shift's own cost, the price of all bins, and the most
that a chain of stretches earns: its energies, less what the shift and the price take, and the cross terms of
neighbours (those of others are dropped: they are not positive).

An entry that counts high or -low from its first change on is one that is on or off, less `sunk` = low / (high + low) from that change on:
one more shift, of the bins that follow it.
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
"""Stretches after which each further one is taken to add as much as the last."""


def least(value: Callable[[Floats], float], simplex: list[list[float]], tries: int = 80) -> float:
    """The least found of a convex function; any of its values is a bound."""
    return value(search(value, simplex, tries))


def search(value: Callable[[Floats], float], simplex: list[list[float]], tries: int) -> Floats:
    """Where that is."""
    from scipy.optimize import minimize  # noqa: PLC0415  (slow to load)

    options = {"initial_simplex": simplex, "maxfev": tries, "fatol": 1e-5, "xatol": 1e-6}
    found: Floats = minimize(value, simplex[0], method="Nelder-Mead", options=options).x
    return found


class _Begun(NamedTuple):
    """First changes in bins up to `last`, and what the level feels from the first of them on: its least, and more near both ends."""

    last: int
    seen: Stationary
    floor: float
    near_start: Floats
    near_end: Floats
    shifted: bool
    """Whether a shift of the offset is tried: not for those whose reach the end cuts off, which are as if earlier."""


class Stretches:
    """At most so many changes, of which the first and the last are less than `reach` bins apart."""

    def __init__(self, found: Stationary, offset: float, jumps: int, reach: int, *, coarse: bool) -> None:
        self.tries, self.searched, self.ratio = (24, 1, 4.0) if coarse else (80, 6, 1.5)
        self.found, self.jumps = found, jumps
        self.bins, self.reach, self.limited = found.bins, reach, reach < found.bins
        self.room = reach - 1 if self.limited else self.bins
        self.offset = offset
        self.grid = found.grid
        self.stiffness = above_sum(1 / offset, float(found.open[-1])) if offset else inf
        self.lengths = np.arange(self.bins + 1)
        self.classes = _classes(self.bins, 1.35 if coarse else 1.15)
        self.longest = np.append(self.classes[1:] - 1, self.bins)
        shape = np.ix_(self.classes, self.classes, self.classes)
        apart = np.broadcast_to(self.longest[None, :, None], [len(self.classes)] * 3)
        fits = shape[0] + shape[1] <= self.room
        self.crosses = np.where(fits, found.cross(shape[0], apart, shape[2]), -inf)
        self.gaps = np.concatenate([[0], self.classes])
        self.floor = found.level.min()
        self.near_start = self._extra(found.level_before, self.floor)
        self.near_end = self._extra(found.level_after[::-1], self.floor)

    def _extra(self, level: Floats, floor: float) -> Floats:
        """What a stretch of each class feels of a shift beyond the least, so many bins from one end of time."""
        bins = len(level)
        sums = np.concatenate([[0.0], np.cumsum(level - floor)])
        gaps = np.minimum(np.concatenate([[0], self.longest]), bins)
        ends = np.minimum(np.add.outer(gaps, self.classes), bins)
        extra: Floats = sums[ends] - sums[gaps][:, None]
        return extra

    def bound(self) -> float:
        """The larger of what paths that end on and paths that end off can do, each with its best shift and price."""
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
        stretches = (self.jumps + ends_on) // 2
        most = max(0.0, alone, self._chain((first, middle, last), self._joined(price), stretches))
        return above_sum(float(most + price * self.room), fixed)

    def _felt(self, shift: float, floor: float) -> float:
        """What a bin feels of a shift at the least."""
        return float(self.grid.down(np.array(2 * shift * floor)))

    def _joined(self, price: float) -> Floats:
        """The most of two neighbours' cross term and of the gap between them, by their classes."""
        joined: Floats = (self.crosses - price * self.classes[None, :, None]).max(axis=1)
        return joined

    def _chain(self, earned: tuple[Floats, Floats, Floats], joined: Floats, stretches: int) -> float:
        """The most that two stretches earn, or more, up to so many: the first, those between, and the last."""
        first, middle, last = earned
        best, so_far = -inf, first
        for more in range(1, stretches):
            reached = (so_far[:, None] + joined).max(axis=0)
            ended, so_far, before = (reached + last).max(), reached + middle, so_far
            if more == _CHAINED:  # one stretch more never adds more than the one before it
                possible = np.isfinite(so_far)
                rise = (so_far[possible] - before[possible]).max(initial=0.0)
                return float(max(best, ended + rise * (stretches - 1 - more)))
            best = max(best, ended)
        return float(best)

    def _by_class(self, values: Floats) -> Floats:
        return np.maximum.reduceat(values, self.classes)

    def _closed(self, earned: Floats) -> Floats:
        earned[self.room + 1 :] = -inf
        return self._by_class(earned)

    # --- above and below nothing

    def bound_below(self, sunk: float, *, ends_on: bool) -> float:
        """For paths that are on or off less `sunk` from the first change on; 1 between the two.

        The best shift and price are searched for where the bound is worst; other first changes take theirs.
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
    def begun(self) -> list[_Begun]:
        """Blocks of bins for the first change; without an offset, more rows see what comes earlier."""
        whole = self.bins - self.reach
        ends = [(0, 0, bool(self.offset))]
        if self.offset and not self.limited:
            ends.append((1, self.bins - 1, True))
        elif self.offset:
            ends = [(*block, True) for block in blocks(whole, self.ratio)] + [(whole, self.bins - 1, False)]
        return [self._begun(*end) for end in ends]

    def _begun(self, first: int, last: int, shifted: bool) -> _Begun:
        seen = self.found.later(first)
        near = seen.level[: self.reach]
        floor = float(near.min())
        starts = self._extra(np.minimum.accumulate(near), floor)
        return _Begun(last, seen, floor, starts, self._extra(seen.level_after[::-1], floor), shifted)

    def _below(self, begun: _Begun, sunk: float, ends_on: bool, at: Floats) -> float:
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
        best = max(0.0 if not ends_on else -inf, few.max() if self.jumps + ends_on > 2 else -inf)
        joined = self._joined(price)
        best = max(best, self._chain((later, middle, last), joined, (self.jumps - 1 + ends_on) // 2))
        if (self.jumps + ends_on) % 2 == 0:  # on with the first change
            stretches = (self.jumps + ends_on) // 2
            best = max(best, at_once.max() if not ends_on else -inf)
            best = max(best, self._chain((at_once, middle, last), joined, stretches))
        return above_sum(float(best + price * room), *fixed)

    def _lasting(self, begun: _Begun, sunk: float, shift: float, price: float) -> Floats:
        """What the last stretch earns if it never ends."""
        found, bins = self.found, begun.seen.bins
        earned = np.full(self.bins + 1, -inf)
        earned[: bins + 1] = (
            found.open[: bins + 1]
            - self.grid.down(2 * sunk * begun.seen.level_of_last)
            - self.grid.down(2 * shift * found.level_of_last[: bins + 1])
        )
        if self.limited:
            earned[: max(self.bins - begun.last - self.reach + 1, 1)] = -inf
        else:
            earned -= price * self.lengths
        return self._by_class(earned)


def _classes(longest: int, ratio: float) -> NDArray[np.int64]:
    """The shortest length of each class, from 1 on."""
    starts = [1]
    while starts[-1] < longest:
        starts.append(min(max(starts[-1] + 1, int(starts[-1] * ratio)), longest))
    return np.array(starts)
