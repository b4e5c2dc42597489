"""The bank: Gaussian models of a series.  Their averages by likelihood adapt to each group.

The change of the running value in a step is  pull * extra[t-1] + a + b,  with independent a and b of
variances `level` and `other`, and  extra[t] = keep * extra[t-1] + b.

    steady:     pull = keep = 0            changes are independent
    drifting:   pull = keep > 0            changes have a trend that fades, or lasts (keep = 1)
    returning:  pull = keep - 1 < 0        a part of each change is undone later

Variances are in units of the variance of a row's noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Models:
    """The parameters of several models, one element each."""

    pull: Floats
    keep: Floats
    level: Floats
    """Variance of lasting changes: one per model, or steps by models."""
    other: Floats
    start: Floats
    """Variance of the extra state before the first step."""
    prior: Floats
    """Logarithm of the prior weight."""

    def __len__(self) -> int:
        return len(self.keep)

    def only(self, which: NDArray[np.int64]) -> Models:
        """These models, in this order."""
        return Models(
            self.pull[which],
            self.keep[which],
            self.level[which],
            self.other[which],
            self.start[which],
            self.prior[which],
        )


class _Model(NamedTuple):
    """The parameters of one model; its prior is added later."""

    pull: float
    keep: float
    level: float
    other: float
    start: float


@lru_cache(maxsize=1)
def bank() -> Models:
    """All models.

    Within a kind of model the prior grows with the standard deviation of changes, so that a short series is
    estimated near its plain readings.
    """
    found: list[tuple[float, ...]] = []

    def add(kind: list[_Model]) -> None:
        found.extend((*model, 0.5 * np.log(model.level) - np.log(len(kind))) for model in kind)

    add([_Model(0.0, 0.0, q, 0.0, 0.0) for q in 10.0 ** np.arange(-7, 4.01, 0.5)])
    coarse = 10.0 ** np.arange(-5, 2.1)
    drifting = [
        _Model(keep, keep, q, q * part, q * part / (1 - keep**2))
        for keep in (0.9, 0.98)
        for q in coarse
        for part in (1e-3, 1e-2, 1e-1, 1.0)
    ]
    lasting = [
        _Model(1.0, 1.0, q, q * part, max(q / 20, 0.01)) for q in coarse for part in (1e-6, 1e-4, 1e-2)
    ]
    add([*drifting, *lasting])
    add(
        [
            _Model(keep - 1, keep, q, size * (1 - keep**2), size)
            for keep in (0.0, 0.7)
            for q in 10.0 ** np.arange(-7, 2.1)
            for size in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
        ]
    )
    return Models(*np.array(found).T)


def shares(scores: Floats) -> Floats:
    """Weights that add up to 1 over the first axis, from logarithms."""
    found: Floats = np.exp(scores - scores.max(axis=0))
    found /= found.sum(axis=0)
    return found


def mixed(weights: Floats, means: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of a mixture over the first axis."""
    mean = (weights * means).sum(axis=0)
    return mean, (weights * (variances + (means - mean) ** 2)).sum(axis=0)
