"""A strategy as a plain matrix, and its best linear unbiased decoding: slow, for any strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.mechanism.strategy import Row, Strategy

    Floats = NDArray[np.float64]


def hidden(strategy: Strategy, through: int) -> list[Row]:
    """The sums that independent draws hide: the rows, or the nodes of noise that is drawn ahead."""
    return list(strategy.measured(through)) if strategy.ahead is None else list(strategy.ahead.nodes)


def measurement_matrix(strategy: Strategy, through: int, rows: list[Row] | None = None) -> Floats:
    """What the rows of bins 0..through (or these rows) measure of each of these bins, in grid units."""
    rows = list(strategy.measured(through)) if rows is None else rows
    matrix = np.zeros((len(rows), through + 1))
    for at, row in zip(matrix, rows, strict=True):
        for first, last, weight in row.ranges:
            at[first : last + 1] = weight / strategy.denominator
    return matrix


def least_squares(strategy: Strategy, bin_: int, span: int | None, *, through: int) -> Floats:
    """The best linear unbiased weights from all rows of bins 0..through, for any strategy."""
    scales = np.array([float(strategy.scales[row.layer]) for row in strategy.measured(through)])
    matrix = measurement_matrix(strategy, through) / scales[:, None]
    wanted = np.zeros(through + 1)
    wanted[0 if span is None else max(bin_ - span + 1, 0) : bin_ + 1] = 1.0
    weights: Floats = wanted @ np.linalg.pinv(matrix) / scales / strategy.denominator
    return weights
