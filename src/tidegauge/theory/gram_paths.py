"""What one entry can do to any linear measurement of changes, from the inner products of its columns."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.theory._enumeration import affordable, every_path

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.theory.paths import Limits

    Floats = NDArray[np.float64]

_MARGIN = 1 + 1e-9


def gram_paths(gram: Floats, *, limits: Limits) -> float:
    """Most squared length of any measurement of alternating changes by 1, from its columns' inner products.  [T10]

    Exact:    for at most two changes, or few enough paths to try them all; else certified from above: pairs of
              changes by the triangle inequality, or, where inner products are falling and not negative, one by one.
    Proof:    docs/theory/T10.md
    """
    bins = len(gram)
    jumps, reach = limits.within(bins)
    if jumps <= 2 or affordable(starts=bins, jumps=jumps, reach=reach):
        return _exact(gram, jumps, reach)
    squares = np.sort(np.diag(gram))[::-1]
    one, two = sqrt(_exact(gram, 1, reach)), sqrt(_exact(gram, 2, reach))
    bound = (jumps // 2 * two + jumps % 2 * one) ** 2
    beyond = np.triu(np.ones((bins, bins - 1), dtype=bool))
    if (gram >= 0).all() and (np.diff(gram, axis=1)[beyond] <= 0).all():
        bound = min(bound, float(squares[:jumps].sum()))
    return bound * _MARGIN


def gram_groups(gram: Floats, *, limits: Limits, loaded: bool = False) -> float:
    """The same where every change may move the entry to another group, each group measured by itself.  [T10]

    Requires: a row contributes at most 1 to the group that it is in, and nothing below 0.
    Loaded:   the entry may be in a group before the first bin, by the first of its changes; levels count from there.
    Proof:    docs/theory/T10.md
    """
    jumps, reach = limits.within(len(gram))
    one, two = sqrt(_exact(gram, 1, reach)), sqrt(_exact(gram, 2, reach))
    return (jumps * two if loaded and jumps > 1 else (jumps - 1) * two + one) ** 2 * _MARGIN


def _exact(gram: Floats, jumps: int, reach: int) -> float:
    squares = np.diag(gram)
    if jumps == 1:
        return float(squares.max()) * _MARGIN
    if jumps == 2:
        pairs = squares[:, None] + squares[None, :] - 2 * gram
        near = np.abs(np.subtract.outer(np.arange(len(gram)), np.arange(len(gram)))) < reach
        return float(max(squares.max(), pairs[near].max())) * _MARGIN
    band = np.zeros((len(gram), reach))
    for lag in range(reach):
        band[: len(gram) - lag, lag] = np.diagonal(gram, lag)
    return every_path(band, jumps=jumps) * _MARGIN
