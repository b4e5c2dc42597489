"""Lower bounds of the privacy loss from samples of two worlds."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Bounds:
    """Lower bounds of the loss, from the samples of two worlds."""

    shift: float
    exact: float
    epsilon: float


@dataclass(frozen=True)
class Samples:
    """One number for each sample, first of the world without canaries, then of the world with them."""

    filtered: Floats
    score: Floats
    mu: float
    thresholds: tuple[float, float]
    cells: int


def bounds(samples: Samples, *, level: float, delta: float) -> Bounds:
    """Lower bounds of mu and epsilon at this confidence, each from all samples."""
    cells = samples.cells
    zero, one = samples.filtered[:cells], samples.filtered[cells:]
    spread = sqrt((float(np.var(zero, ddof=1)) + float(np.var(one, ddof=1))) / 2)
    shift = float(np.mean(one) - np.mean(zero)) / spread if spread > 0 else 0.0
    shift -= float(stats.norm.isf(1 - level)) * sqrt(2 / cells + shift**2 / (4 * cells))
    right, wrong = _rates(samples, samples.thresholds[0], (1 - level) / 2)[0]
    exact = float(stats.norm.ppf(right) - stats.norm.ppf(wrong)) if right > 0 and wrong < 1 else 0.0
    pairs = [pair for at in samples.thresholds for pair in _rates(samples, at, (1 - level) / 4)]
    epsilon = max(log((right - delta) / wrong) if right > delta else 0.0 for right, wrong in pairs)
    return Bounds(max(0.0, shift), max(0.0, exact), max(0.0, epsilon))


class _Rates(NamedTuple):
    """How often a world is recognised, at least, and how often the other is mistaken for it, at most."""

    right: float
    wrong: float


def _rates(samples: Samples, threshold: float, tail: float) -> list[_Rates]:
    """(least, most): exact bounds of how often each world is recognised, and mistaken for the other."""
    count = samples.cells
    false, hits = (int((part > threshold).sum()) for part in (samples.score[:count], samples.score[count:]))

    def least(seen: int) -> float:
        return float(stats.beta.ppf(tail, seen, count - seen + 1)) if seen else 0.0

    def most(seen: int) -> float:
        return float(stats.beta.isf(tail, seen + 1, count - seen)) if seen < count else 1.0

    return [_Rates(least(hits), most(false)), _Rates(least(count - false), most(count - hits))]
