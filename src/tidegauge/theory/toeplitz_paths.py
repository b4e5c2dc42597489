"""What one entry can do to a Toeplitz measurement of changes, with or without a shared offset: certified from above."""

from __future__ import annotations

from functools import partial
from math import inf, sqrt
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize

from tidegauge.errors import SpecError
from tidegauge.theory._enumeration import affordable, every_path
from tidegauge.theory._stationary import Stationary
from tidegauge.theory._windows import any_changes_within

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tidegauge.theory.paths import Limits

    Floats = NDArray[np.float64]

_CHAINED = 12
"""Stretches after which each further one is taken to add as much as the last."""
_ROUNDING = 1e-6
"""Far above what rounding in double precision can add up to in 2^13 bins; it grows with their square."""


def falling_paths(coefficients: Floats, *, jumps: int) -> float:
    """Most squared length of a falling Toeplitz measurement of alternating changes by 1, in any number of bins.  [T10]

    Requires: coefficients never rise and are never negative.
    Tight:    one change; many, far apart.
    Proof:    docs/theory/T10.md
    """
    a = np.asarray(coefficients, dtype=np.float64)
    if not _falls(a):
        raise SpecError("the coefficients of this measurement must not rise or be negative")
    return _raised(jumps * float(a @ a), len(a))


def toeplitz_paths(
    coefficients: Floats, *, limits: Limits, offset: float = 0.0, coarse: bool = False
) -> float:
    """Most squared length, in units of the noise, of a measurement of alternating changes by 1.  [T10]

    Noise:    white on the rows of a Toeplitz measurement of as many bins as coefficients, and, where these fall and
              are convex, one draw of variance `offset` added to the level throughout (whitened into the rows).
    Limits:   changes in at most limits.jumps bins, among limits.bins that follow one another.
    Exact:    for at most two changes, or few enough paths to try them all; else certified from above, tightly where
              the coefficients are convex; a `coarse` bound is a little larger and found faster.
    Proof:    docs/theory/T10.md
    """
    found, convex = _checked(coefficients, offset)
    jumps, reach = limits.within(found.bins)
    if jumps == 1 or (jumps == 2 and not (coarse and convex)):
        return _raised(_one_or_two(found, offset, jumps, reach), found.bins)
    starts = found.bins if offset else 1  # without an offset, more rows see what comes earlier
    if affordable(starts=starts, jumps=jumps, reach=reach, coarse=coarse):
        return _raised(every_path(_band(found, offset, reach), jumps=jumps, starts=starts), found.bins)
    if not convex:
        one, two = (sqrt(_one_or_two(found, 0.0, count, reach)) for count in (1, 2))
        bounds = [(jumps // 2 * two + jumps % 2 * one) ** 2]
        if _falls(found.coefficients):
            bounds.append(jumps * found.open[-1])
        return _raised(min(bounds), found.bins)
    bounds = [jumps * found.open[-1]]
    if reach < 4 * jumps:
        bounds.append(any_changes_within(found, offset, reach, coarse=coarse))
    if jumps < reach:
        bounds.append(_Stretches(found, offset, jumps, reach, coarse=coarse).bound())
    return _raised(min(bounds), found.bins)


def toeplitz_groups(
    coefficients: Floats, *, limits: Limits, offset: float = 0.0, loaded: bool = False
) -> float:
    """The same where every change may move the entry to another group, each group measured by itself.  [T10]

    Requires: a row contributes at most 1 to the group that it is in, and nothing below 0.
    Loaded:   the entry may be in a group before the first bin, by the first of its changes; levels count from there.
    Certified: from above, however many groups there are.
    Proof:    docs/theory/T10.md
    """
    found, convex = _checked(coefficients, offset)
    jumps, reach = limits.within(found.bins)
    if not convex:
        one, two = (sqrt(_one_or_two(found, 0.0, count, reach)) for count in (1, 2))
        bounds = [(jumps * two) ** 2 if loaded else ((jumps - 1) * two + one) ** 2]
        if _falls(found.coefficients):
            bounds.append((2 * jumps - 1) * found.open[-1])
        return _raised(min(bounds), found.bins)
    lengths, limited = np.arange(found.bins + 1), reach < found.bins
    stay, last = _stays(found, offset, reach)

    def value(at: Floats) -> float:
        price = abs(at[0])
        each = (stay - price * lengths[:reach]).max()
        final = (last if limited else last - price * lengths).max()
        return float((jumps - 1) * each + final + price * (reach - 1 if limited else found.bins))

    bound = min(_least(value, [[0.0], [4.0 / found.bins]]), value(np.zeros(1)))
    return _raised(max(bound, jumps * found.closed.max() if loaded and jumps > 1 else 0.0), found.bins)


def toeplitz_signs(
    coefficients: Floats, *, limits: Limits, high: float, low: float, offset: float = 0.0
) -> float:
    """The same, not in groups, for an entry that counts `high` or -`low`, both above 0, from its first change on.  [T10]

    Certified: from above; nearly exact for a measurement that forgets.
    Proof:    docs/theory/T10.md
    """
    found, convex = _checked(coefficients, offset)
    jumps, reach = limits.within(found.bins)
    if not convex:
        both = (high + low) * max(high, low)
        return both * toeplitz_groups(coefficients, limits=limits, offset=offset)
    limited = reach < found.bins
    lengths = np.arange(found.bins + 1)
    stay, last = _stays(found, offset, reach)
    shared = high * low * np.minimum.accumulate(last[::-1])[::-1]

    def value(at: Floats) -> float:
        """The larger for a last stay on either side; of the others, every second one lies on the same side."""
        price, found_each, found_last = abs(at[0]), [], []
        for side in (high, low):
            weight = (high + low) * side
            found_each.append((weight * stay - price * lengths[:reach]).max())
            found_last.append((weight * last - (shared if limited else price * lengths)).max())
        room = price * (reach - 1) if limited else (price * lengths - shared).max()
        return float(
            room
            + max(
                found_last[one] + (jumps - 1) // 2 * found_each[one] + jumps // 2 * found_each[1 - one]
                for one in (0, 1)
            )
        )

    scale = (high + low) * max(high, low)
    simplex = [[0.0], [4.0 * scale / found.bins]]
    return _raised(min(_least(value, simplex), value(np.zeros(1))), found.bins)


def _stays(found: Stationary, offset: float, reach: int) -> tuple[Floats, Floats]:
    """Most energy of one stay by itself, by its length: one that ends, and one that lasts."""
    hidden = offset / (1 + offset * found.open[-1])
    least = max(found.level.min(), 0.0) * np.arange(found.bins + 1)
    return (found.closed - hidden * least**2)[:reach], found.open - hidden * found.level_of_last**2


def _raised(bound: float, bins: int) -> float:
    return float(bound) * (1 + _ROUNDING * max(1.0, (bins / 2**13) ** 2))


def _falls(a: Floats) -> bool:
    return bool((np.diff(a) <= 0).all() and a[-1] >= 0)


def _checked(coefficients: Floats, offset: float) -> tuple[Stationary, bool]:
    a = np.asarray(coefficients, dtype=np.float64)
    convex = _falls(a) and bool((np.diff(a, 2) >= 0).all())
    if offset and not convex:
        raise SpecError(
            "a shared offset needs coefficients that fall, ever more slowly, and are not negative"
        )
    return Stationary(a), convex


def _whitened(found: Stationary, offset: float, lag: int) -> Floats:
    """Inner products of the whitened columns with those `lag` later."""
    a, n = found.coefficients, found.bins
    hidden = np.sqrt(offset / (1 + offset * found.open[-1])) * found.level_of_last[:0:-1]
    products: Floats = np.cumsum(a[: n - lag] * a[lag:])[::-1] - hidden[: n - lag] * hidden[lag:]
    return products


def _band(found: Stationary, offset: float, width: int) -> Floats:
    """All of them, by the first column and the lag."""
    band = np.zeros((found.bins, width))
    for lag in range(width):
        band[: found.bins - lag, lag] = _whitened(found, offset, lag)
    return band


def _one_or_two(found: Stationary, offset: float, jumps: int, reach: int) -> float:
    """Exact: one change at every bin, or a change and its reversal at every pair of bins."""
    alone = _whitened(found, offset, 0)
    best = alone.max()
    for lag in range(1, reach if jumps > 1 else 1):
        best = max(best, (alone[:-lag] + alone[lag:] - 2 * _whitened(found, offset, lag)).max())
    return float(best)


def _least(value: Callable[[Floats], float], simplex: list[list[float]], tries: int = 80) -> float:
    """The least found of a convex function; any of its values is a bound."""
    options = {"initial_simplex": simplex, "maxfev": tries, "fatol": 1e-5, "xatol": 1e-6}
    return float(minimize(value, simplex[0], method="Nelder-Mead", options=options).fun)


class _Stretches:
    """On-stretches side by side, by classes of their lengths and of the gaps between them.

    For any shift of the offset and any price of a bin, the bound is the shift's own cost, the price of all bins, and the most
    that a chain of stretches earns: its energies, less what the shift and the price take, and the cross terms of
    neighbours (those of others are dropped: they are not positive).
    """

    def __init__(self, found: Stationary, offset: float, jumps: int, reach: int, *, coarse: bool) -> None:
        self.tries = 24 if coarse else 80
        self.found, self.jumps = found, jumps
        self.bins, self.limited = found.bins, reach < found.bins
        self.room = reach - 1 if self.limited else self.bins
        self.stiffness = 1 / offset + found.open[-1] if offset else inf
        self.lengths = np.arange(self.bins + 1)
        self.classes = _classes(self.bins, 1.35 if coarse else 1.15)
        longest = np.append(self.classes[1:] - 1, self.bins)
        shape = np.ix_(self.classes, self.classes, self.classes)
        apart = np.broadcast_to(longest[None, :, None], [len(self.classes)] * 3)
        fits = shape[0] + shape[1] <= self.room
        self.crosses = np.where(fits, found.cross(shape[0], apart, shape[2]), -inf)
        self.floor = found.level.min()
        self.gaps = np.concatenate([[0], self.classes])
        gap_ends = np.concatenate([[0], longest])
        self.near_start = self._extra(found.level_before, gap_ends)
        self.near_end = self._extra(found.level_after[::-1], gap_ends)

    def _extra(self, level: Floats, gaps: NDArray[np.int64]) -> Floats:
        """What a stretch of each class feels of a shift beyond the least, so many bins from one end of time."""
        sums = np.concatenate([[0.0], np.cumsum(level - self.floor)])
        ends = np.minimum(np.add.outer(gaps, self.classes), self.bins)
        extra: Floats = sums[ends] - sums[gaps][:, None]
        return extra

    def bound(self) -> float:
        """The larger of what paths that end on and paths that end off can do, each with its best shift and price."""
        price = 0.5 / self.bins
        if self.stiffness == inf:
            return max(
                _least(partial(self._priced, on), [[0.0], [price]], self.tries) for on in (False, True)
            )
        simplex = [[0.48, price], [0.4, price], [0.48, 0.0]]
        return max(_least(partial(self._shifted, on), simplex, self.tries) for on in (False, True))

    def _priced(self, ends_on: bool, at: Floats) -> float:
        return self._value(0.0, abs(at[0]), ends_on=ends_on)

    def _shifted(self, ends_on: bool, at: Floats) -> float:
        return self._value(abs(at[0]), abs(at[1]), ends_on=ends_on)

    def _value(self, shift: float, price: float, *, ends_on: bool) -> float:
        earned = self.found.closed - (2 * shift * self.floor + price) * self.lengths
        earned[self.room + 1 :] = -inf
        middle = self._by_class(earned)
        first = last = middle
        if not self.limited:
            paid = price * self.gaps[:, None]
            first = middle - (2 * shift * self.near_start + paid).min(axis=0)
            last = middle - (2 * shift * self.near_end + paid).min(axis=0)
        if ends_on:
            last = self._by_class(
                self.found.open
                - 2 * shift * self.found.level_of_last
                - (0 if self.limited else price) * self.lengths
            )
        chain = (self.crosses - price * self.classes[None, :, None]).max(axis=1)
        fixed = (shift**2 * self.stiffness if shift else 0.0) + price * self.room
        best, so_far = max(0.0, last.max() if ends_on else first.max()), first
        stretches = (self.jumps + ends_on) // 2
        for more in range(1, stretches):
            reached = (so_far[:, None] + chain).max(axis=0)
            ended, so_far, before = (reached + last).max(), reached + middle, so_far
            if more == _CHAINED:  # one stretch more never adds more than the one before it
                possible = np.isfinite(so_far)
                rise = (so_far[possible] - before[possible]).max(initial=0.0)
                return float(max(best, ended + rise * (stretches - 1 - more)) + fixed)
            best = max(best, ended)
        return float(best + fixed)

    def _by_class(self, values: Floats) -> Floats:
        return np.maximum.reduceat(values, self.classes)


def _classes(longest: int, ratio: float) -> NDArray[np.int64]:
    """The shortest length of each class, from 1 on."""
    starts = [1]
    while starts[-1] < longest:
        starts.append(min(max(starts[-1] + 1, int(starts[-1] * ratio)), longest))
    return np.array(starts)
