"""Measurements by a full lower-triangular matrix, decoded by its inverse."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from tidegauge.errors import SpecError
from tidegauge.mechanism.decoding.sums import Growing, Levels
from tidegauge.mechanism.decoding.weighted import equal_by_powers
from tidegauge.mechanism.decoding.windows import Decoding
from tidegauge.mechanism.strategies import shapes
from tidegauge.mechanism.strategy import Row, Strategy, refuse_sum_before, refuse_windows_before

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.mechanism.decoding.windows import Windows

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int32]

MOST_BINS = 4096
"""Most bins: beyond, the matrix and its inverse would take more than 200 megabytes."""


_AT_A_TIME: Final = 256
"""Readings whose weights are in memory together."""


class Triangular(Strategy):
    """One row per bin from bin `first` on; row t of the matrix combines the first t + 1 bins."""

    first: int

    @property
    @abstractmethod
    def matrix(self) -> Integers:
        """The lower-triangular matrix on changes, in units of 1/denominator."""

    @property
    def denominator(self) -> int:
        """2^20."""
        return 1 << shapes.BITS

    def rows(self, bin_: int) -> tuple[Row, ...]:
        """One row: the weighted changes up to this bin."""
        age = bin_ - self.first
        if age < 0:
            return ()
        weights = self.matrix[age, : age + 1].tolist()
        return (
            Row(
                0,
                age,
                tuple((self.first + i, self.first + i, weight) for i, weight in enumerate(weights) if weight),
            ),
        )

    def layers(self, through: int) -> NDArray[np.int64]:
        """Layer 0 for every row."""
        return np.zeros(max(through - self.first + 1, 0), dtype=np.int64)

    @cached_property
    def _decoder(self) -> Floats:
        """Row t: the weights of the rows in the sum of the first t + 1 bins."""
        from scipy.linalg.lapack import dtrtri  # noqa: PLC0415  (slow to load)

        found, problem = dtrtri(np.asfortranarray(self.matrix, dtype=np.float64), lower=1, overwrite_c=1)
        if problem:
            raise SpecError("this matrix cannot be decoded: its diagonal has a 0. Choose another strategy")
        return np.cumsum(found, axis=0, out=found)

    def weights(self, bin_: int, span: int | None) -> Floats:
        """By the inverse of the matrix."""
        age = bin_ - self.first
        found = self._decoder[age, : age + 1].copy()
        if span is not None and span <= age:
            found[: age - span + 1] -= self._decoder[age - span, : age - span + 1]
        else:
            refuse_sum_before(self.first, bin_, span)
        return found

    def decoding(self, cells: int) -> Decoding:
        """By the inverse of the matrix: a matrix takes the time of its elements."""
        return _Inverted(self, cells)

    def running(self, count: int) -> Floats:
        """The weights of the rows in the sum of the first `count` bins."""
        return self._decoder[count - 1, :count]

    def powers(self, windows: Windows, power: int) -> Floats:
        """From the inverse of the matrix, some rows at a time."""
        refuse_windows_before(self.first, windows)
        found, ages, before = np.empty(len(windows)), windows.last - self.first, windows.after - self.first
        for start in range(0, len(windows), _AT_A_TIME):
            some = slice(start, start + _AT_A_TIME)
            width = int(ages[some].max()) + 1
            weights = self._decoder[ages[some], :width]
            inside = np.flatnonzero(before[some] >= 0)
            weights[inside] -= self._decoder[before[some][inside], :width]
            found[some] = (np.abs(weights) ** power).sum(axis=1)
        return found[:, None]

    def equal(self, windows: Windows) -> NDArray[np.int64]:
        """Looked at one by one where the powers allow it."""
        return equal_by_powers(self, windows)


class _Inverted(Decoding):
    """Keeps all rows, and the running values that follow from them."""

    def __init__(self, strategy: Triangular, cells: int) -> None:
        self._strategy, self._rows, self._levels = strategy, Growing(cells), Levels(strategy.first, cells)

    def add(self, rows: Floats) -> None:
        """The next running values."""
        for row in rows:
            self._rows.add(row[None, :])
            known = self._rows.values
            self._levels.add((self._strategy.running(len(known)) @ known)[None, :])

    def sums(self, windows: Windows) -> Floats:
        """A running value, or the difference of two."""
        return self._levels.sums(windows)
