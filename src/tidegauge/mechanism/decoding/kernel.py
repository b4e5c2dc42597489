"""Strategies whose weights depend on the age of a row alone: their weights by age are a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tidegauge.mechanism.decoding.convolution import Convolution
from tidegauge.mechanism.decoding.sums import Levels
from tidegauge.mechanism.decoding.windows import Decoding

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tidegauge.mechanism.decoding.windows import Windows

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

_DUST: Final = 5e-13
"""Weights below this part of the largest are left out."""


class Convolved(Decoding):
    """Running values by a convolution of the rows with the kernel; other sums as their differences."""

    def __init__(self, kernel: Callable[[int], Floats], first: int, cells: int) -> None:
        self._convolution, self._levels = Convolution(kernel, cells), Levels(first, cells)

    def add(self, rows: Floats) -> None:
        """The next running values."""
        self._levels.add(self._convolution.add(rows))

    def sums(self, windows: Windows) -> Floats:
        """A running value, or the difference of two."""
        return self._levels.sums(windows)


class Kernel:
    """The weights of a running value by the age of a row, and sums of their powers for any window."""

    def __init__(self, weights: Callable[[int], Floats], first: int) -> None:
        """`weights`: gives the first weights by age, as many as asked.  `first`: the bin of the first row."""
        self._weights, self._first = weights, first
        self._powers: dict[tuple[int | None, int], Floats] = {}
        self._equal: dict[int | None, Integers] = {}

    def over(self, span: int | None, count: int) -> Floats:
        """The weights of a sum of the last `span` bins (None: all) by age."""
        return lag_difference(self._weights(count), span)

    def powers(self, windows: Windows, power: int) -> Floats:
        """The sum of this power of the absolute weights of each window."""
        found = np.empty(len(windows))
        for span, places in windows.by_span():
            ages = windows.last[places] - self._first
            known = self._powers.get((span, power), np.empty(0))
            if len(known) <= ages.max():
                known = np.cumsum(np.abs(self.over(span, _enough(ages))) ** power)
                self._powers[span, power] = known
            found[places] = known[ages]
        return found

    def equal(self, windows: Windows) -> Integers:
        """How many weights each window has, if all have one size; else 0."""
        found = np.empty(len(windows), dtype=np.int64)
        for span, places in windows.by_span():
            ages = windows.last[places] - self._first
            known = self._equal.get(span, np.empty(0, dtype=np.int64))
            if len(known) <= ages.max():
                sizes = np.abs(self.over(span, _enough(ages)))
                largest = np.maximum.accumulate(sizes)
                there = sizes > _DUST * largest
                least = np.minimum.accumulate(np.where(there, sizes, np.inf))
                known = np.where(least >= (1 - _DUST) * largest, np.cumsum(there), 0)
                self._equal[span] = known
            found[places] = known[ages]
        return found


def lag_difference(series: Floats, lag: int | None) -> Floats:
    """Each element minus the element `lag` before it (None: the series itself)."""
    if lag is None or lag >= len(series):
        return series
    difference: Floats = series - np.concatenate([np.zeros(lag), series[:-lag]])
    return difference


def _enough(ages: Integers) -> int:
    """A number of weights that will do for these ages, and for some time."""
    return 1 << int(ages.max()).bit_length()
