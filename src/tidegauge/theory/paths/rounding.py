"""Arithmetic in doubles that is never wrong on the wrong side (docs/theory/rounding.md).

Sums, differences and maxima of whole multiples of one power of two are exact in doubles, as long as nothing grows beyond 2^53
of that unit: tables are put on such a grid once, upward or downward, and what is then added up is not rounded at all.
"""

from __future__ import annotations

from math import ceil, inf, log2, nextafter
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.theory.paths.path import Domain

    Floats = NDArray[np.float64]

U: Final = 2.0**-53
"""The relative error of one rounding to the nearest."""


class Grid:
    """Whole multiples of a power of two, so fine that numbers up to `most` are exact with two bits to spare."""

    def __init__(self, most: float) -> None:
        self.unit = 2.0 ** (ceil(log2(max(most, 2.0**-900))) - 50)
        self.most = most

    def up(self, values: Floats) -> Floats:
        """Not below the product, quotient or sum of two doubles that was rounded to these values."""
        found: Floats = (np.ceil(values / self.unit) + 1) * self.unit
        return found

    def down(self, values: Floats) -> Floats:
        """Not above it."""
        found: Floats = (np.floor(values / self.unit) - 1) * self.unit
        return found

    def near(self, value: float) -> float:
        """The nearest multiple."""
        return float(np.rint(value / self.unit) * self.unit)


FINE: Final = 2.0**-40
"""The step of the grid for inner products of which the largest is 1 ..."""
LARGEST: Final = 2.0**12
"""... up to which their sums are exact."""


def on_grid(values: Floats) -> Floats:
    """The nearest multiples of FINE."""
    found: Floats = np.rint(values / FINE) * FINE
    return found


def above_sum(value: float, *errors: float) -> float:
    """Not below the sum of these, the last being bounds of errors."""
    for error in errors:
        value = nextafter(value + nextafter(error, inf), inf)
    return value


def above_product(*factors: float) -> float:
    """Not below the product of these, none of them negative."""
    value = 1.0
    for factor in factors:
        value = nextafter(value * factor, inf)
    return value


def dot_error(terms: int, size: float) -> float:
    """What a sum of so many products is wrong by at most, in any order, if that of their sizes is no more than `size`."""
    return 1.01 * (terms + 4) * U * size


def perturbed(off: float, changes: int, domain: Domain) -> float:
    """What any path's squared length changes by if no inner product of columns changes by more than `off`."""
    changed = (1 if domain.groups == 1 else 2) * (domain.high + domain.low) * (changes + domain.loaded)
    return above_product(off, changed, changed)


def transform_error(length: int) -> float:
    """What an entry of a transform of so many points is wrong by, in units of the root of its points times the norm of its input."""
    return 32 * (log2(length) + 2) * U


def correlated(first: Floats, second: Floats, *, quick: bool = False) -> tuple[Floats, float]:
    """The sums of first[u] second[u + lag] by lag, and how far they may be wrong.

    Directly; for many of them (or `quick`) by transforms.
    """
    count = len(first)
    size = float(np.sqrt((first @ first) * (second @ second))) * (1 + 2 * (count + 8) * U)
    if count <= DIRECT and not quick:
        return np.correlate(second, first, "full")[count - 1 :], dot_error(count, size)
    padded = 1 << (2 * count - 1).bit_length()
    spectrum = np.conj(np.fft.rfft(first, padded)) * np.fft.rfft(second, padded)
    return np.fft.irfft(spectrum, padded)[:count], 4 * transform_error(padded) * size


DIRECT: Final = 1 << 12
"""Sums up to which they are added up one by one."""


def least_eigenvalue(matrix: Floats) -> float:
    """Not above the least eigenvalue of a symmetric matrix: a Cholesky factor that exists proves it (Rump 2006)."""
    count = len(matrix)
    found = float(np.linalg.eigvalsh(matrix)[0])
    largest = float(np.abs(matrix.diagonal()).max())
    margin = (count + 4) ** 2 * U * (largest + abs(found) + 2.0**-900)
    while margin < inf:
        if positive(matrix, found - margin):
            return found - margin - 2 * (count + 4) ** 2 * U * (largest + abs(found) + margin)
        margin *= 4
    return -inf


def positive(matrix: Floats, shift: float) -> bool:
    """Whether the matrix less so much of the identity has a Cholesky factor in doubles."""
    moved = matrix.copy()
    moved[np.diag_indices(len(matrix))] -= shift
    try:
        np.linalg.cholesky(moved)
    except np.linalg.LinAlgError:
        return False
    return True
