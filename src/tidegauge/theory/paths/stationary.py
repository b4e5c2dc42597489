"""A falling, convex Toeplitz measurement of changes, as every stretch of bins sees it.

Let the row t be sum over j <= t of a[t-j] x[j], and d the differences of a.  On levels s (the running sums of x) the same
rows are D s, D Toeplitz in d; T = D'D has no positive entry off its diagonal (a falls and is convex), and every entry of
its part for n rows is at most that of the endless, stationary one.  An entry that is on during stretches of bins adds up
to the energies of the stretches and to cross terms between them, none of which is positive.
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
    """Energies of stretches, by their length: never below the true ones, on a grid on which sums are exact.

    `changes`: how many energies are added up at most.  `quick`: for a search; nothing is reserved by what it finds.
    """

    coefficients: Floats
    changes: int = 1
    quick: bool = False
    on: Grid | None = None

    @property
    def bins(self) -> int:
        """As many as there are coefficients."""
        return len(self.coefficients)

    @cached_property
    def grid(self) -> Grid:
        """Fine enough for all sums of energies, cross terms and prices."""
        return self.on or Grid(32 * (self.changes + 4) * float(self._squares[-1]))

    @cached_property
    def _squares(self) -> Floats:
        return np.concatenate([[0.0], np.cumsum(self.coefficients**2)])

    @cached_property
    def _products(self) -> tuple[Floats, float]:
        """Sums of products of coefficients by their distance."""
        return correlated(self.coefficients, self.coefficients, quick=self.quick)

    @cached_property
    def error(self) -> float:
        """More than any of the energies below is off before it is put on the grid."""
        return 8 * (self._products[1] + dot_error(self.bins + 8, float(self._squares[-1])))

    @cached_property
    def lagged(self) -> Floats:
        """T between two bins, by their distance, to the nearest (`lagged_error`)."""
        differences = np.diff(self.coefficients, prepend=0.0)
        return correlated(differences, differences, quick=self.quick)[0]

    @cached_property
    def lagged_error(self) -> float:
        """More than all entries of a row of T are off together."""
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
        """Of being on for so many bins and off again, also for more bins than there are; off by less than `error`."""
        a, squares, count = self.coefficients, self._squares, self.bins
        gone = np.concatenate([[0.0], np.cumsum(((a - a[-1]) ** 2)[::-1])])
        products = np.append(self._products[0], 0.0)
        found = squares[-1] + squares[::-1] - 2 * products + gone
        found[0] = 0.0
        return np.concatenate([found, found[-1] + a[-1] ** 2 * np.arange(1, 2 * count + 2)])

    @cached_property
    def closed(self) -> Floats:
        """Energy of being on for so many bins, and off again."""
        return self._above(self._energies[: self.bins + 1])

    @cached_property
    def open(self) -> Floats:
        """Energy of being on for the last so many bins."""
        return self._above(self._squares)

    def _above(self, energies: Floats) -> Floats:
        raised = self.grid.up(energies + self.error)
        raised[0] = 0.0
        return raised

    def cross(self, first: NDArray[np.int64], gap: NDArray[np.int64], second: NDArray[np.int64]) -> Floats:
        """Twice the cross term of two stretches so far apart: never positive."""
        one = self._energies
        terms: Floats = one[first + gap + second] - one[first + gap] - one[gap + second] + one[gap]
        return np.minimum(self.grid.up(terms + 5 * self.error), 0.0)

    def beyond(self, distance: NDArray[np.int64], length: int) -> Floats:
        """The sum of T from a bin to `length` bins, the first of them at this distance; off by less than `lagged_error`."""
        sums = np.concatenate([[0.0], np.cumsum(self.lagged)])
        far: Floats = sums[np.minimum(distance + length, self.bins)] - sums[np.minimum(distance, self.bins)]
        return far

    @cached_property
    def level(self) -> Floats:
        """T times the constant 1, over n rows: how each bin feels a shift of the whole level; never above the true one."""
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
        """The sum of `level` over the last so many bins, never above the true one."""
        lowered = self.grid.down(np.append(self._products[0], 0.0)[::-1] - self.error)
        lowered[0] = 0.0
        return lowered

    @cached_property
    def most_level_of_last(self) -> Floats:
        """The same, never below the true one."""
        return self.grid.up(np.append(self._products[0], 0.0)[::-1] + self.error)

    def later(self, bins: int) -> Stationary:
        """The same, as an entry sees it that comes so many bins later."""
        return (
            replace(self, coefficients=self.coefficients[: self.bins - bins], on=self.grid) if bins else self
        )


def blocks(last: int, ratio: float) -> Iterator[tuple[int, int]]:
    """Cover 0..last by blocks that grow away from both ends."""
    edges = {0, last + 1}
    at = 0
    while at < (last + 1) // 2:
        at = max(at + 1, int(at * ratio))
        edges |= {min(at, last + 1), max(last + 1 - at, 0)}
    for start, end in pairwise(sorted(edges)):
        yield start, end - 1
