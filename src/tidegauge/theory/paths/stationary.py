"""Energies of on-intervals under a falling, convex Toeplitz measurement of changes.

Row t is the sum over j <= t of a[t-j] x[j]; d are the differences of a.  On levels s (the running sums of x)
the same rows are D s, D Toeplitz in d. T = D'D has no positive element off its diagonal, and every element
for n rows is at most that for endless time.  The energy of a unit that is on during several intervals is
therefore the sum of their energies and of cross terms that are never positive (docs/theory/T10-convex.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.theory.paths.rounding import DIRECT, Grid, U, correlated, dot_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Stationary:
    """Energies of on-intervals by their length: never below the true ones, on a grid on which sums are exact.

    `changes`: the most energies that are added up.  `quick`: for searches only; no budget is reserved by the
    result.
    """

    coefficients: Floats
    changes: int = 1
    quick: bool = False
    on: Grid | None = None

    @property
    def bins(self) -> int:
        """The number of coefficients."""
        return len(self.coefficients)

    @cached_property
    def grid(self) -> Grid:
        """A grid fine enough for all sums of energies, cross terms and prices."""
        return self.on or Grid(32 * (self.changes + 4) * float(self._squares[-1]))

    @cached_property
    def _squares(self) -> Floats:
        return np.concatenate([[0.0], np.cumsum(self.coefficients**2)])

    @cached_property
    def _products(self) -> tuple[Floats, float]:
        """Sums of products of coefficients by their distance, and their error."""
        return correlated(self.coefficients, self.coefficients, quick=self.quick)

    @cached_property
    def error(self) -> float:
        """More than the error of any energy below before it is put on the grid."""
        return 8 * (self._products[1] + dot_error(self.bins + 8, float(self._squares[-1])))

    @cached_property
    def lagged(self) -> Floats:
        """T between two bins, by their distance, to the nearest (`lagged_error`)."""
        differences = np.diff(self.coefficients, prepend=0.0)
        return correlated(differences, differences, quick=self.quick)[0]

    @cached_property
    def lagged_error(self) -> float:
        """More than the errors of all entries of a row of T together."""
        differences = np.diff(self.coefficients, prepend=0.0)
        size = float(np.abs(differences).sum()) * (1 + 2 * (self.bins + 8) * U)
        return 4 * dot_error(self.bins + 8, size**2) if self._exact else (
            2 * self.bins * correlated(differences, differences)[1]
        )  # fmt: skip

    @property
    def _exact(self) -> bool:
        return self.bins <= DIRECT

    @cached_property
    def _energies(self) -> Floats:
        """Energy of an on-interval by its length, also beyond all bins; off by less than `error`."""
        a, squares, count = self.coefficients, self._squares, self.bins
        gone = np.concatenate([[0.0], np.cumsum(((a - a[-1]) ** 2)[::-1])])
        products = np.append(self._products[0], 0.0)
        found = squares[-1] + squares[::-1] - 2 * products + gone
        found[0] = 0.0
        return np.concatenate([found, found[-1] + a[-1] ** 2 * np.arange(1, 2 * count + 2)])

    @cached_property
    def closed(self) -> Floats:
        """Energy of an on-interval that ends, by its length."""
        return self._above(self._energies[: self.bins + 1])

    @cached_property
    def open(self) -> Floats:
        """Energy of an on-interval that lasts to the end, by its length."""
        return self._above(self._squares)

    def _above(self, energies: Floats) -> Floats:
        raised = self.grid.up(energies + self.error)
        raised[0] = 0.0
        return raised

    def cross(
        self, first: NDArray[np.int64] | np.int64, gap: NDArray[np.int64], second: NDArray[np.int64]
    ) -> Floats:
        """Twice the cross term of two on-intervals with this gap between them: never positive."""
        one = self._energies
        terms: Floats = one[first + gap + second] - one[first + gap] - one[gap + second] + one[gap]
        return np.minimum(self.grid.up(terms + 5 * self.error), 0.0)

    def beyond(self, distance: NDArray[np.int64], length: int) -> Floats:
        """Sum of T from a bin to `length` bins, the first at this distance, to within `lagged_error`."""
        sums = np.concatenate([[0.0], np.cumsum(self.lagged)])
        far: Floats = sums[np.minimum(distance + length, self.bins)] - sums[np.minimum(distance, self.bins)]
        return far

    @cached_property
    def level(self) -> Floats:
        """T times the constant 1 over n rows: how a shift of the level acts on each bin; rounded down."""
        felt = np.diff(np.append(self._products[0], 0.0)[::-1])[::-1]
        return self.grid.down(felt - self.error)

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
        """The sum of `level` over the last bins, by their number; rounded down."""
        lowered = self.grid.down(np.append(self._products[0], 0.0)[::-1] - self.error)
        lowered[0] = 0.0
        return lowered

    @cached_property
    def most_level_of_last(self) -> Floats:
        """The same, rounded up."""
        return self.grid.up(np.append(self._products[0], 0.0)[::-1] + self.error)

    def later(self, bins: int) -> Stationary:
        """The same measurement as a unit sees it that enters this many bins later."""
        return (
            replace(self, coefficients=self.coefficients[: self.bins - bins], on=self.grid) if bins else self
        )


def blocks(last: int, ratio: float) -> Iterator[tuple[int, int]]:
    """Cover 0..last by ranges that grow away from both ends.

    Proof:    docs/theory/T10-energies.md (any ranges will do)
    """
    edges = {0, last + 1}
    at = 0
    while at < (last + 1) // 2:
        at = max(at + 1, int(at * ratio))
        edges |= {min(at, last + 1), max(last + 1 - at, 0)}
    for start, end in pairwise(sorted(edges)):
        yield start, end - 1
