"""Decoding in general: least squares for any strategy, and what may be asked of its results afterwards."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.mechanism.strategy import Strategy

    Floats = NDArray[np.float64]


def measurement_matrix(strategy: Strategy, through: int) -> Floats:
    """What the rows of bins 0..through measure of each of these bins, in grid units."""
    rows = list(strategy.measured(through))
    matrix = np.zeros((len(rows), through + 1))
    for at, row in zip(matrix, rows, strict=True):
        for first, last, weight in row.stretches:
            at[first : last + 1] = weight / strategy.denominator
    return matrix


def least_squares(strategy: Strategy, bin_: int, span: int | None, *, through: int) -> Floats:
    """The best linear unbiased weights from all rows of bins 0..through, for any strategy: slow, and the yardstick."""
    scales = np.array([float(strategy.scales[row.layer]) for row in strategy.measured(through)])
    matrix = measurement_matrix(strategy, through) / scales[:, None]
    wanted = np.zeros(through + 1)
    wanted[0 if span is None else max(bin_ - span + 1, 0) : bin_ + 1] = 1.0
    weights: Floats = wanted @ np.linalg.pinv(matrix) / scales / strategy.denominator
    return weights


class AddedUp(NamedTuple):
    """Parts and a whole that agree, and their variances; all as unbiased as they were."""

    parts: Floats
    whole: float
    part_variances: Floats
    whole_variance: float


def add_up(parts: Floats, whole: float, part_variances: Floats, whole_variance: float) -> AddedUp:
    """Make independent estimates of the parts add up to that of the whole, by least squares."""
    total = part_variances.sum() + whole_variance
    missing = whole - parts.sum()
    return AddedUp(
        parts + part_variances / total * missing,
        float(whole - whole_variance / total * missing),
        part_variances * (1 - part_variances / total),
        float(whole_variance * (1 - whole_variance / total)),
    )


class Clipped(NamedTuple):
    """A count that is not negative, and by how much that is too large on average if it is the truth."""

    value: float
    bias: float


def not_negative(value: float, stderr: float) -> Clipped:
    """Cut an estimate off at 0; the bias is that of an error which is nearly normal, at most 0.4 standard errors."""
    kept = max(value, 0.0)
    if not stderr:
        return Clipped(kept, 0.0)
    law = NormalDist()
    return Clipped(kept, stderr * law.pdf(kept / stderr) - kept * law.cdf(-kept / stderr))
