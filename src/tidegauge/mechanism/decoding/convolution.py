"""A convolution of rows with a known kernel, row after row, in O(n log(n)^2) for n rows.

Rows are combined in blocks of 64, 128, 256, ... rows: once a block is complete, its effect on the block of
the same length that follows is computed by one Fourier transform.  Rounding errors of a row therefore never
reach an earlier result, and results do not depend on how many rows come at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tidegauge.mechanism.decoding.sums import Growing

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_BLOCK: Final = 64
"""Rows that are combined directly."""


class Convolution:
    """result[t] = sum over i <= t of kernel[t - i] row[i]."""

    def __init__(self, kernel: Callable[[int], Floats], cells: int) -> None:
        """`kernel`: gives the first coefficients, at most as many as asked; the others are 0."""
        self._kernel = kernel
        self._near = _first(kernel, _BLOCK)[::-1].copy()
        self._rows, self._early = Growing(cells), Growing(cells)
        self._transformed: dict[int, NDArray[np.complex128]] = {}

    def add(self, rows: Floats) -> Floats:
        """The results for these rows, which come after those that were added before."""
        found = np.empty_like(rows)
        for at, row in enumerate(rows):
            count = len(self._rows)
            if count == len(self._early):
                self._early.add(np.zeros((max(count, _BLOCK), rows.shape[1])))
            inside = count % _BLOCK
            self._rows.add(row[None, :])
            recent = self._rows.values[count - inside :]
            found[at] = self._early.values[count] + self._near[_BLOCK - 1 - inside :] @ recent
            if inside == _BLOCK - 1:
                self._pass_on(count + 1)
        return found

    def _pass_on(self, count: int) -> None:
        """Add the effect of the last complete block to the results of the block that follows."""
        size = count & -count
        if size not in self._transformed:
            self._transformed[size] = np.fft.rfft(_first(self._kernel, 2 * size))
        if count == len(self._early):
            self._early.add(np.zeros((count, self._early.values.shape[1])))
        block = np.fft.rfft(self._rows.values[count - size :], 2 * size, axis=0)
        effect = np.fft.irfft(block * self._transformed[size][:, None], 2 * size, axis=0)
        self._early.values[count : count + size] += effect[size:]


def _first(kernel: Callable[[int], Floats], count: int) -> Floats:
    found, known = np.zeros(count), kernel(count)
    found[: len(known)] = known
    return found
