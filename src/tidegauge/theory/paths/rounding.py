"""Arithmetic in doubles whose errors are always on the safe side (docs/theory/rounding.md).

Sums, differences and maxima of whole multiples of one power of two are exact in doubles, as long as nothing
grows beyond 2^53 of that unit. Tables are put on such a grid once, upward or downward; sums of them are then
not rounded.
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
    """Multiples of a power of two, so fine that numbers up to `most` are exact with two spare bits."""

    def __init__(self, most: float) -> None:
        self.unit = 2.0 ** (ceil(log2(max(most, 2.0**-900))) - 50)
        self.most = most

    def up(self, values: Floats) -> Floats:
        """At least the exact result of one operation that was rounded to these values."""
        found: Floats = (np.ceil(values / self.unit) + 1) * self.unit
        return found

    def down(self, values: Floats) -> Floats:
        """At most that exact result."""
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
    """The nearest multiples of FINE.

    Proof:    docs/theory/rounding-matrices.md
    """
    found: Floats = np.rint(values / FINE) * FINE
    return found


def above_sum(value: float, *errors: float) -> float:
    """At least the sum of these; all but the first are bounds of errors.

    Proof:    docs/theory/rounding-grids.md
    """
    for error in errors:
        value = nextafter(value + nextafter(error, inf), inf)
    return value


def above_product(*factors: float) -> float:
    """At least the product of these, none of them negative.

    Proof:    docs/theory/rounding-grids.md
    """
    value = 1.0
    for factor in factors:
        value = nextafter(value * factor, inf)
    return value


def dot_error(terms: int, size: float) -> float:
    """Largest error of a sum of this many products, in any order, whose sizes sum to at most `size`.

    Proof:    docs/theory/rounding-products.md
    """
    return 1.01 * (terms + 4) * U * size


def perturbed(off: float, changes: int, domain: Domain) -> float:
    """Most that a path's squared length changes if no inner product of columns changes by more than `off`.

    Proof:    docs/theory/rounding-matrices.md
    """
    changed = (1 if domain.groups == 1 else 2) * (domain.high + domain.low) * (changes + domain.loaded)
    return above_product(off, changed, changed)


def transform_error(length: int) -> float:
    """Largest error of an entry of a transform, in units of sqrt(length) times the norm of its input.

    Proof:    docs/theory/rounding-transforms.md
    """
    return 32 * (log2(length) + 2) * U


def correlated(first: Floats, second: Floats, *, quick: bool = False) -> tuple[Floats, float]:
    """The sums of first[u] second[u + lag] by lag, and their largest error.

    Computed directly; for many of them (or `quick`) by transforms.
    Proof:    docs/theory/rounding-transforms.md
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
    """A lower bound of the least eigenvalue of a symmetric matrix, proved by a Cholesky factor (Rump 2006).

    Proof:    docs/theory/rounding-eigenvalues.md
    """
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
    """Whether the matrix less `shift` times the identity has a Cholesky factor in doubles.

    Proof:    docs/theory/rounding-eigenvalues.md
    """
    moved = matrix.copy()
    moved[np.diag_indices(len(matrix))] -= shift
    try:
        np.linalg.cholesky(moved)
    except np.linalg.LinAlgError:
        return False
    return True
