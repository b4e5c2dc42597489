"""The stream state of a buffered strategy, and its update with every bin.

A buffer is a leaky sum of the changes of a cell: s <- (1 - forgets) s + change, in fixed point, rounded to
the nearest.  A row is the weighted sum of the buffers minus the best estimate of the shared offset, rounded
once.  There are no floats: rates and weights are decimals, gains are integers over powers of 2, and all
arithmetic is on integers.
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
"""Buffers are in units of 2^-64."""
SHAPE: Final = 48
"""The effect of a change by 1 on later rows is in units of 2^-48."""
GAIN: Final = 64
"""Gains are multiples of 2^-64."""
BITS: Final = 24
"""Rows are measured in units of 2^-24."""
MILLION, BILLION = 10**6, 10**9


class _Slow(NamedTuple):
    """A buffer: its weight in millionths, and the part that it keeps in each bin, in billionths."""

    weight: int
    kept: int


class Gain(NamedTuple):
    """The gains of one row: its factor, the offset it removes, its weight in the estimate."""

    scale: int
    taken: int
    weight: int


@dataclass(frozen=True)
class Buffers(Stream):
    """Weighted buffers, and the removal of a shared offset row by row.  [T13]"""

    weights: tuple[int, ...]
    """In millionths; they add up to a million."""
    forgets: tuple[int, ...]
    """The part of each buffer that a bin removes, in billionths."""
    offset: Fraction
    """Variance of the shared offset over that of a row; the denominator is a power of 2."""
    bins: int
    first: int

    @cached_property
    def _slow(self) -> list[_Slow]:
        """The buffers that do not forget everything at once."""
        parts = zip(self.weights, self.forgets, strict=True)
        return [_Slow(weight, BILLION - forgets) for weight, forgets in parts if forgets < BILLION]

    @property
    def width(self) -> int:
        """One number per buffer, and one for the estimate of the offset."""
        return len(self._slow) + bool(self.offset)

    @cached_property
    def shape(self) -> NDArray[np.int64]:
        """The effect of a change by 1 on each row before the offset is removed, in fixed point."""
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
        """The gains by the age of the row; equal on every machine."""
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
        """Bound on the rounding error of the sum of the buffers.  Buffers also forget rounding errors."""
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
        """Update every buffer with the changes of the bin, then compute the row."""
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
