"""What one entry can do to any linear measurement of changes, from the inner products of its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidegauge.theory.paths.bounds import gram_bounds, one_or_two
from tidegauge.theory.paths.enumeration import affordable, every_path, every_sum
from tidegauge.theory.paths.path import ON_OFF

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.theory.paths.path import Limits, Moves

    Floats = NDArray[np.float64]

_SHORT = 12
"""Bins up to which sums are tried path by path."""


def gram_paths(gram: Floats, *, limits: Limits, moves: Moves = ON_OFF) -> float:
    """Most squared length of any measurement of one entry's changes, from its columns' inner products.  [T10]

    Exact:    for few enough paths to try them all (at most two changes of an entry that is on or off, always); else
              certified from above: by the energies of its stays, by pairs of changes, or, where inner products
              are falling and not negative, change by change.
    Proof:    docs/theory/T10.md
    """
    bins = len(gram)
    jumps, reach = limits.within(bins)
    if jumps <= 2 and moves == ON_OFF:
        return one_or_two(gram, jumps, reach)
    if affordable(starts=bins, jumps=jumps, reach=reach, moves=moves):
        return every_path(_band(gram, reach), limits=limits, moves=moves)
    return min(gram_bounds(gram, limits=limits, moves=moves))


def row_paths(rows: Floats, *, limits: Limits, moves: Moves) -> tuple[float, float] | None:
    """Most of the sum and of the squared length of what given rows move by; None if there are too many paths to try.  [T10]

    Proof:    docs/theory/T10.md
    """
    bins = rows.shape[1]
    jumps, reach = limits.within(bins)
    if bins > _SHORT or not affordable(starts=bins, jumps=jumps, reach=reach, moves=moves, coarse=True):
        return None
    return (
        every_sum(rows, limits=limits, moves=moves),
        every_path(_band(rows.T @ rows, reach), limits=limits, moves=moves),
    )


def _band(gram: Floats, reach: int) -> Floats:
    band = np.zeros((len(gram), reach))
    for lag in range(reach):
        band[: len(gram) - lag, lag] = np.diagonal(gram, lag)
    return band
