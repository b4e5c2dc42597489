"""The whole numbers that a buffered strategy keeps of a cell, and how each bin moves them.

A buffer is a sum of the cell's changes that forgets: s <- (1 - forgets) s + change, in fixed point, rounded
to the nearest.  A row weighs the buffers, takes the best estimate of the shared offset off, and is rounded
once.  There is no float: poles and weights are decimals, gains are whole numbers over powers of 2, found by
whole-number arithmetic alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isqrt
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidegauge.mechanism.strategy import Stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.mechanism.strategy import Whole

FINE: Final = 64
"""Buffers are kept in units of 2^-64."""
SHAPE: Final = 48
"""What a change by 1 does to later rows is known in units of 2^-48."""
GAIN: Final = 64
"""Gains are whole multiples of 2^-64."""
BITS: Final = 24
"""Rows are measured in units of 2^-24."""
MILLION, BILLION = 10**6, 10**9


class Gain(NamedTuple):
    """Of one row: its factor, the part of the estimated offset that it removes, its part in the estimate."""

    scale: int
    taken: int
    weight: int


@dataclass(frozen=True)
class Buffers(Stream):
    """Buffers with their weights, and the row-by-row whitening of a shared offset.  [T13]"""

    weights: tuple[int, ...]
    """In millionths; they add up to a million."""
    forgets: tuple[int, ...]
    """What a bin takes away from each buffer, in billionths."""
    offset: Fraction
    """Variance of the shared draw, over that of a row; its denominator is a power of 2."""
    bins: int
    first: int

    @cached_property
    def _slow(self) -> list[tuple[int, int]]:
        """(weight, kept) of the buffers that remember anything."""
        parts = zip(self.weights, self.forgets, strict=True)
        return [(weight, BILLION - forgets) for weight, forgets in parts if forgets < BILLION]

    @property
    def width(self) -> int:
        """A number for each buffer, and one for what is known of the offset."""
        return len(self._slow) + bool(self.offset)

    @cached_property
    def shape(self) -> NDArray[np.int64]:
        """The effect of a change by 1 on each row before the offset is removed, computed with the buffers."""
        unit = MILLION << (FINE - SHAPE)
        parts, buffers = self._slow, [1 << FINE] * len(self._slow)
        found = [1 << SHAPE]
        for _ in range(1, self.bins - self.first):
            buffers = [
                (buffer * kept + BILLION // 2) // BILLION
                for buffer, (_, kept) in zip(buffers, parts, strict=True)
            ]
            answer = sum(weight * buffer for buffer, (weight, _) in zip(buffers, parts, strict=True))
            found.append((answer + unit // 2) // unit)
        return np.array(found, dtype=np.int64)

    @cached_property
    def gains(self) -> list[Gain]:
        """By the age of the row; the same on every machine."""
        top, bottom = self.offset.numerator, self.offset.denominator
        before, found = bottom << 2 * SHAPE, []
        for weight in self.shape.tolist():
            after = before + top * weight**2
            scale = isqrt((before << 2 * GAIN) // after)
            found.append(Gain(scale, (top * weight << (SHAPE + GAIN)) // before, weight))
            before = after
        return found

    @property
    def slack(self) -> Fraction:
        """Bound on the rounding error of the sum of the buffers; buffers forget rounding errors, too."""
        parts = zip(self.weights, self.forgets, strict=True)
        return sum(
            (
                Fraction(weight, MILLION) / Fraction(2 * forgets, BILLION)
                for weight, forgets in parts
                if 0 < forgets < BILLION
            ),
            Fraction(0),
        ) / (1 << FINE)

    def advance(self, bin_: int, state: Whole, changes: Whole) -> tuple[Whole, Whole]:
        """One bin further: every buffer forgets and takes the changes in; then the row."""
        age = bin_ - self.first
        if age < 0:
            return state, np.zeros((0, len(changes)), dtype=object)
        count, gain = len(self._slow), self.gains[age]
        kept = np.array([[kept] for _, kept in self._slow], dtype=object).reshape(count, 1)
        weights = np.array([[weight] for weight, _ in self._slow], dtype=object).reshape(count, 1)
        fresh = changes * (1 << FINE)
        buffers = (state[:count] * kept + BILLION // 2) // BILLION + fresh
        at_once = MILLION - sum(weight for weight, _ in self._slow)
        row = at_once * fresh + (weights * buffers).sum(axis=0)
        learned = state[count:]
        known = learned[0] if self.offset else 0 * row
        new = gain.scale * (row * (1 << (SHAPE + GAIN)) - gain.taken * known)
        unit = MILLION << (FINE + SHAPE + 2 * GAIN - BITS)
        return np.concatenate([buffers, learned + gain.weight * row]), ((new + unit // 2) // unit)[None, :]
