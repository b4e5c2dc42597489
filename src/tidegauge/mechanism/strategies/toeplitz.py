"""Toeplitz measurements: the weight of a change in a row depends only on the age of the change."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np

from tidegauge.errors import SpecError
from tidegauge.mechanism.decoding.kernel import Convolved, Kernel, lag_difference
from tidegauge.mechanism.exposure import most_changes, over_cases, spread, square_of, stock_square
from tidegauge.mechanism.strategies import shapes
from tidegauge.mechanism.strategy import (
    Exposure,
    Row,
    Strategy,
    StrategyKind,
    refuse_sum_before,
    refuse_windows_before,
    says,
)
from tidegauge.theory.paths.toeplitz import falling_paths, toeplitz_paths

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from numpy.typing import NDArray

    from tidegauge.mechanism.decoding.windows import Windows
    from tidegauge.mechanism.exposure import Flow
    from tidegauge.mechanism.search.task import Search
    from tidegauge.theory.paths.path import BinCase, Domain
    from tidegauge.theory.sensitivity import Sensitivity

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

_LONGEST_ROWS: Final = 1 << 15
"""Most bins for which rows may contain every past bin."""


class _Run(NamedTuple):
    """Ages with one coefficient, both ends included."""

    newest: int
    oldest: int
    weight: int


@dataclass(frozen=True)
class Toeplitz(Strategy):
    """One row per bin from bin `first` on: the changes up to the bin, weighted by their age.

    shape "root":    the square root, damped by beta, with white noise beside it; for running values
    shape "window":  the square root of a sliding window of `width` bins; for sliding windows and few changes
    shape "banded":  the square root cut off after `width` bins; for sliding windows, with or without an end
    """

    name: ClassVar[str] = "toeplitz"

    shape: str
    bins: int | None
    first: int = 0
    beta: float = 1.0
    width: int = 0
    white: float = 0.0

    def __post_init__(self) -> None:
        if self.shape not in {"root", "window", "banded"} or (self.bins is None and self.shape != "banded"):
            raise SpecError("shape must be 'root', 'window' or 'banded'; only a banded one may have no end")
        if self.shape == "window" and not self.width:
            raise SpecError("the width of a window is 1 or more")
        noisy = 0 <= self.white <= shapes.MOST_WHITE
        if not (0 <= self.beta <= 1 and self.width >= 0 and noisy):  # false also for NaN
            raise SpecError(
                f"beta must lie between 0 and 1, white between 0 and {shapes.MOST_WHITE:g}, and width must "
                "not be negative"
            )

    @property
    def parameters(self) -> dict[str, int | float | str]:
        """The shape, the bins and the parameters of the shape."""
        return {
            "shape": self.shape,
            "bins": "ever" if self.bins is None else self.bins,
            "first": self.first,
            "beta": self.beta,
            "width": self.width,
            "white": self.white,
        }

    @property
    def _bits(self) -> int:
        return shapes.bits(self.width if self.bins is None else self.bins)

    @property
    def denominator(self) -> int:
        """2^20; larger for long releases."""
        return 1 << self._bits

    @cached_property
    def coefficients(self) -> Integers:
        """The coefficients by age, one per bin (without an end: those that are not 0)."""
        if self.bins is None:
            return shapes.rounded(shapes.banded_root(self.width), self._bits)
        count = self.bins - self.first
        if self.shape == "banded":
            band = shapes.rounded(shapes.banded_root(min(self.width, count)), self._bits)
            return np.concatenate([band, np.zeros(count - len(band), dtype=np.int64)])
        if self.shape == "window":
            return shapes.rounded(shapes.window_root(count, self.width), self._bits)
        return shapes.rounded_convex(shapes.damped_root(count, self.beta, self.white), self._bits)

    @cached_property
    def _runs(self) -> list[_Run]:
        """The runs of equal coefficients, the oldest first, without zeros."""
        a = self.coefficients
        starts = np.flatnonzero(np.diff(a, prepend=a[0] + 1))
        ends = np.append(starts[1:], len(a)) - 1
        runs = zip(starts.tolist(), ends.tolist(), a[starts].tolist(), strict=True)
        return [_Run(*run) for run in runs if run[2]][::-1]

    def rows(self, bin_: int) -> tuple[Row, ...]:
        """One row: the weighted changes up to this bin."""
        age = bin_ - self.first
        if age < 0:
            return ()
        ranges = tuple(
            (max(bin_ - run.oldest, self.first), bin_ - run.newest, run.weight)
            for run in self._runs
            if run.newest <= age
        )
        return (Row(0, age, ranges),)

    def needed_from(self, bin_: int) -> int:
        """The first bin of the next row."""
        return max(bin_ + 2 - self.width, self.first) if self.shape == "banded" else self.first

    def layers(self, through: int) -> Integers:
        """Layer 0 for every row."""
        return np.zeros(max(through - self.first + 1, 0), dtype=np.int64)

    def _decoder(self, count: int) -> Floats:
        """The weights of the rows in a running value, by their age; no more than there are bins."""
        if self.bins is not None:
            count = min(count, self.bins - self.first)
        known: Floats = self.__dict__.get("_known", np.empty(0))
        if len(known) < count:
            whole = count if self.bins is None else self.bins - self.first  # the same on every call
            series = np.zeros(1 << (whole - 1).bit_length())
            usable = self.coefficients[: len(series)]
            series[: len(usable)] = usable
            known = np.cumsum(shapes.inverse(series))
            self.__dict__["_known"] = known
        return known[:count]

    def weights(self, bin_: int, span: int | None) -> Floats:
        """By the inverse series; there are as many rows as bins."""
        refuse_sum_before(self.first, bin_, span)
        return lag_difference(self._decoder(bin_ - self.first + 1), span)[::-1]

    def decoding(self, cells: int) -> Convolved:
        """A convolution of the rows with the inverse series."""
        return Convolved(self._decoder, self.first, cells)

    @cached_property
    def _kernel(self) -> Kernel:
        return Kernel(self._decoder, self.first)

    def powers(self, windows: Windows, power: int) -> Floats:
        """Sums over the inverse series, for all windows at once."""
        refuse_windows_before(self.first, windows)
        return self._kernel.powers(windows, power)[:, None]

    def equal(self, windows: Windows) -> Integers:
        """As many as there are rows, if the series has one size."""
        return self._kernel.equal(windows)

    def sensitivity(self, exposure: Exposure) -> Sensitivity:
        """An upper bound for the rounded coefficients."""
        size, square = int(np.abs(self.coefficients).sum()), square_of(self.coefficients.tolist())
        S, M = spread(exposure)

        def stock(case: BinCase) -> tuple[Fraction, Fraction]:
            changes = most_changes(case, self.bins) * (2 if exposure.grouped else 1)
            return (
                S * changes * size,
                stock_square(exposure, case, first=self.first, most=self._most) * self.denominator**2,
            )

        def flow(counts: Flow) -> tuple[Fraction, Fraction]:
            most = M * counts.total
            return most * size, most**2 * square

        return over_cases(exposure, stock=stock, flow=flow)

    def _most(self, case: BinCase, domain: Domain) -> float:
        a = self.coefficients / self.denominator
        if self.bins is None and case.bins is None:
            return falling_paths(a, changes=most_changes(case, None), domain=domain)
        if self.bins is None:  # all bins of a path, and all rows that contain them
            a = np.concatenate([a, np.zeros(case.bins or 0)])
        return toeplitz_paths(a, case=case, domain=domain)


def _candidates(search: Search) -> Iterator[Toeplitz]:
    bins, first, span = search.schedule.bins, search.schedule.base, search.schedule.span
    if search.pure or (bins is not None and bins > _LONGEST_ROWS):
        return
    if span is not None and 1 < span <= _LONGEST_ROWS:
        yield Toeplitz("banded", bins, first, width=span)
        if bins is not None:
            yield Toeplitz("window", bins, first, width=span)
    if bins is not None and span is None:
        yield Toeplitz("root", bins, first)


KIND: Final = StrategyKind(
    Toeplitz,
    says("measures weighted sums of the past whose errors cancel when they are decoded"),
    _candidates,
    fixed={"bins": "bins", "first": "base"},
)
