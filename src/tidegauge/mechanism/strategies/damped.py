"""The default for running values with Gaussian noise: a damped square root, white noise and an offset.

The noise of the running values has covariance B B' + offset 1 1'.  B is the Toeplitz root of the spectrum
1 / |1 - beta z| + white.  The offset is one draw shared by all readings; it hides the value of a row.  A
lower-triangular matrix of the changes, with independent noise on its rows, gives this covariance.  No secret
draw has to be kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from tidegauge.errors import SpecError
from tidegauge.mechanism.decoding.kernel import lag_difference
from tidegauge.mechanism.exposure import most_changes, over_cases, root_above, spread, square_of, stock_square
from tidegauge.mechanism.strategies import shapes
from tidegauge.mechanism.strategies.triangular import MOST_BINS, Triangular
from tidegauge.mechanism.strategy import StrategyKind, says
from tidegauge.theory.paths.toeplitz import toeplitz_paths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tidegauge.mechanism.exposure import Flow
    from tidegauge.mechanism.search.task import Search
    from tidegauge.mechanism.strategy import Exposure
    from tidegauge.theory.paths.path import BinCase, Domain
    from tidegauge.theory.sensitivity import Sensitivity

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int32]


_DIGITS: Final = 40
"""The Toeplitz part is in units of 2^-40."""
_MOST_OFFSET: Final = 1e12
"""With a larger offset the first row would be rounded to 0 and, close to the largest double, others to what
has nothing to do with the exact matrix."""


@dataclass(frozen=True)
class Damped(Triangular):
    """Noise of running values: a damped root (beta), white noise and a shared offset.

    `white` and `offset` are variances relative to the root's innovations.
    """

    name: ClassVar[str] = "damped"

    bins: int
    beta: float
    white: float
    offset: float
    first: int = 0

    def __post_init__(self) -> None:
        if not (
            0 < self.bins - self.first <= MOST_BINS
            and 0 <= self.beta <= 1
            and 0 <= self.white <= shapes.MOST_WHITE
            and 0 <= self.offset <= _MOST_OFFSET
        ):  # false also for NaN
            raise SpecError(
                f"bins must be at most {MOST_BINS}, beta must lie between 0 and 1, white between 0 and "
                f"{shapes.MOST_WHITE:g}, and offset between 0 and {_MOST_OFFSET:g}"
            )

    @property
    def parameters(self) -> dict[str, int | float | str]:
        """Bins, and the parameters of the noise."""
        return {
            "bins": self.bins,
            "beta": self.beta,
            "white": self.white,
            "offset": self.offset,
            "first": self.first,
        }

    @cached_property
    def _shape(self) -> Floats:
        """The Toeplitz part on changes.  These exact numbers fall and are convex, as the bound requires."""
        root = shapes.damped_root(self.bins - self.first, self.beta, self.white)
        found: Floats = shapes.rounded_convex(root, _DIGITS) / 2**_DIGITS
        return found

    @cached_property
    def matrix(self) -> Integers:
        """Each row is a running value minus the offset as estimated from the rows before it."""
        a = self._shape
        found = np.zeros((len(a), len(a)), dtype=np.int32)
        learned, before = np.zeros(len(a)), 1.0
        for row, weight in enumerate(a):
            after = before + self.offset * weight**2
            reverse = a[row::-1]
            new = (reverse - self.offset * weight / before * learned[: row + 1]) * sqrt(before / after)
            found[row, : row + 1] = np.rint(new * self.denominator)
            learned[: row + 1] += weight * reverse
            before = after
        return found

    def variances(self, bins: NDArray[np.int64], span: int | None) -> Floats:
        """In closed form for all bins; the rounding of the matrix changes them by less than 1 in 10,000."""
        ages = bins - self.first
        noise = shapes.inverse(np.diff(self._shape, prepend=0.0))
        parts = np.cumsum(lag_difference(noise, span) ** 2)[ages]
        levels = self.offset if span is None else np.where(ages < span, self.offset, 0.0)
        return (parts + levels) / self.denominator**2

    def sensitivity(self, exposure: Exposure) -> Sensitivity:
        """An upper bound: the sensitivity of the exact matrix, plus the effect of rounding the matrix."""
        S, M = spread(exposure)
        count = len(self._shape)

        def rounded_up(square: Fraction, largest: Fraction, changes: int) -> Fraction:
            """In each row, rounding adds at most half a unit per change, plus the error of doubles."""
            error = (Fraction(1, 2) + Fraction(1, 2**10)) / self.denominator
            return (root_above(square) + largest * changes * root_above(count) * error) ** 2

        def stock(case: BinCase) -> tuple[Fraction, Fraction]:
            changes = most_changes(case, count) * (2 if exposure.grouped else 1)
            exact = stock_square(exposure, case, first=self.first, most=self._most)
            return self._both(rounded_up(exact, S, changes), changes if exposure.grouped else 1)

        def flow(counts: Flow) -> tuple[Fraction, Fraction]:
            most = M * counts.total
            units = (self._shape * 2**_DIGITS).astype(np.int64).tolist()
            square = rounded_up(most**2 * Fraction(square_of(units), 4**_DIGITS), most, 1)
            return self._both(square, counts.total if exposure.grouped else 1)

        return over_cases(exposure, stock=stock, flow=flow)

    def _both(self, square: Fraction, groups: int) -> tuple[Fraction, Fraction]:
        """L1, bounded by L2 and the number of rows and groups, and squared L2."""
        size = root_above(square * len(self._shape) * groups)
        return size * self.denominator, square * self.denominator**2

    def _most(self, case: BinCase, domain: Domain) -> float:
        return toeplitz_paths(self._shape, offset=self.offset, case=case, domain=domain)


def _candidates(search: Search) -> Iterator[Damped]:
    from tidegauge.mechanism.search import tune  # noqa: PLC0415  (it builds strategies of this folder)

    bins, first = search.schedule.bins, search.schedule.base
    if not search.pure and bins is not None and bins - first <= MOST_BINS:
        yield Damped(bins, *tune.running_noise_for(search.task), first)


KIND: Final = StrategyKind(
    Damped,
    says("measures fading sums of the past, with a shared offset, tuned to how often a unit may change"),
    _candidates,
    fixed={"bins": "bins", "first": "base"},
)
