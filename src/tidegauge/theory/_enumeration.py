"""Every path an entry can take, where there are few enough to try them all."""

from __future__ import annotations

from itertools import combinations, islice
from math import comb
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_AFFORDABLE = 3 * 10**7
_BATCH = 4096


def affordable(*, starts: int, jumps: int, reach: int, coarse: bool = False) -> bool:
    """Whether so many paths can be tried one by one in a fraction of a second (coarse: of a hundredth)."""
    left = (_AFFORDABLE // 16 if coarse else _AFFORDABLE) // (starts * max(jumps, 2) ** 2)
    for more in range(jumps):
        left -= comb(reach - 1, more)
        if left < 0:
            return False
    return True


def every_path(band: Floats, *, jumps: int, starts: int | None = None) -> float:
    """Most squared length of a measurement of alternating changes by 1, trying every path: exact but for rounding.

    band[i, l] is the inner product of columns i and i + l; changes lie in as many bins as it is wide, the first of
    them in one of the first `starts` bins (None: anywhere).
    """
    bins, reach = band.shape
    begin = np.arange(bins if starts is None else starts)[:, None]
    best = 0.0
    for more in range(min(jumps, reach)):
        signs = (-1.0) ** np.arange(more + 1)
        later = combinations(range(1, reach), more)
        while batch := list(islice(later, max(1, _BATCH // len(begin)))):
            offsets = np.array([(0, *rest) for rest in batch])
            total = np.zeros((len(begin), len(batch)))
            inside = begin + offsets[None, :, -1] < bins
            for p in range(more + 1):
                for q in range(p, more + 1):
                    row = np.minimum(begin + offsets[None, :, p], bins - 1)
                    factor = signs[p] * signs[q] * (1 if p == q else 2)
                    total += factor * band[row, (offsets[:, q] - offsets[:, p])[None, :]]
            best = max(best, float(total[inside].max(initial=0.0)))
    return best
