"""A falling, convex Toeplitz measurement of changes, as every stretch of bins sees it.

Let the row t be sum over j <= t of a[t-j] x[j], and d the differences of a.  On levels s (the running sums of x) the same
rows are D s, D Toeplitz in d; T = D'D has no positive entry off its diagonal (a falls and is convex), and every entry of
its part for n rows is at most that of the endless, stationary one.  An entry that is on during stretches of bins adds up
to the energies of the stretches and to cross terms between them, none of which is positive.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Stationary:
    """Energies of stretches, by their length."""

    coefficients: Floats

    @property
    def bins(self) -> int:
        """As many as there are coefficients."""
        return len(self.coefficients)

    @cached_property
    def _differences(self) -> Floats:
        return np.diff(self.coefficients, prepend=0.0)

    @cached_property
    def _spectrum(self) -> NDArray[np.complex128]:
        return np.fft.rfft(self._differences, self._padded)

    @property
    def _padded(self) -> int:
        return 1 << (2 * self.bins - 1).bit_length()

    @cached_property
    def lagged(self) -> Floats:
        """T between two bins, by their distance."""
        return np.fft.irfft(np.abs(self._spectrum) ** 2, self._padded)[: self.bins]

    @cached_property
    def _double(self) -> Floats:
        """Twice summed T without its diagonal; beyond the last distance T counts as 0, which is more."""
        once = np.concatenate([[0.0], np.cumsum(self.lagged[1:])])
        twice = np.concatenate([[0.0], np.cumsum(once)])
        return np.concatenate([twice, twice[-1] + once[-1] * np.arange(1, 2 * self.bins + 2)])

    @cached_property
    def closed(self) -> Floats:
        """Energy of being on for so many bins, and off again."""
        lengths = np.arange(self.bins + 1)
        energies: Floats = lengths * self.lagged[0] + 2 * self._double[: self.bins + 1]
        return energies

    @cached_property
    def open(self) -> Floats:
        """Energy of being on for the last so many bins."""
        return np.concatenate([[0.0], np.cumsum(self.coefficients**2)])

    def cross(self, first: NDArray[np.int64], gap: NDArray[np.int64], second: NDArray[np.int64]) -> Floats:
        """Twice the cross term of two stretches so far apart: never positive."""
        twice = self._double
        terms: Floats = twice[first + gap + second] - twice[first + gap] - twice[gap + second] + twice[gap]
        return 2 * terms

    def beyond(self, distance: NDArray[np.int64], length: int) -> Floats:
        """The sum of T from a bin to `length` bins, the first of them at this distance."""
        sums = np.concatenate([[0.0], np.cumsum(self.lagged)])
        far: Floats = sums[np.minimum(distance + length, self.bins)] - sums[np.minimum(distance, self.bins)]
        return far

    @cached_property
    def level(self) -> Floats:
        """T times the constant 1, over n rows: how each bin feels a shift of the whole level."""
        constant = np.fft.rfft(self.coefficients, self._padded)
        return np.fft.irfft(np.conj(self._spectrum) * constant, self._padded)[: self.bins]

    @cached_property
    def level_before(self) -> Floats:
        """A lower bound of `level` that never rises with time."""
        return np.minimum.accumulate(self.level)

    @cached_property
    def level_after(self) -> Floats:
        """A lower bound of `level` that never falls with time."""
        return np.minimum.accumulate(self.level[::-1])[::-1]

    @cached_property
    def level_of_last(self) -> Floats:
        """The sum of `level` over the last so many bins."""
        return np.concatenate([[0.0], np.cumsum(self.level[::-1])])

    def later(self, bins: int) -> Stationary:
        """The same, as an entry sees it that comes so many bins later."""
        return Stationary(self.coefficients[: self.bins - bins]) if bins else self


def blocks(last: int, ratio: float) -> Iterator[tuple[int, int]]:
    """Cover 0..last by blocks that grow away from both ends."""
    edges = {0, last + 1}
    at = 0
    while at < (last + 1) // 2:
        at = max(at + 1, int(at * ratio))
        edges |= {min(at, last + 1), max(last + 1 - at, 0)}
    for start, end in pairwise(sorted(edges)):
        yield start, end - 1
