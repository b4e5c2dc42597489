"""What a private choice draws where no candidate leaves any bias: public, and what its noise is fitted to."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np

from tidegauge.mechanism.noise.selection import likelihoods

if TYPE_CHECKING:
    from collections.abc import Sequence

FAR: Final = 1.5
"""A candidate is far from the best if its error is more than so many times as large."""
_OFTEN: Final = 0.1
"""The largest share of draws that may be far from the best, where no candidate leaves any bias."""
_MOST: Final = 0.5
"""The most noise of a draw, over the least noise of a release."""
_HALVINGS: Final = 40


def far(noise: Sequence[float], scale: float, *, weight: float, pure: bool) -> float:
    """The share of draws that take far more than the least noise, if no candidate leaves any bias.

    `noise`: of each candidate; `scale`: of the noise of the draw, over the least of these; `weight`: what
    noise counts in a score.
    """
    over = np.asarray(noise) / min(noise)
    return float(likelihoods(weight * over / scale, pure=pure)[over > FAR].sum())


def coarsest(noise: Sequence[float], *, weight: float, pure: bool) -> Fraction:
    """The largest noise of a draw, over the least noise of a release, with which few draws are far off."""
    low, high = 0.0, _MOST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if far(noise, middle, weight=weight, pure=pure) > _OFTEN:
            high = middle
        else:
            low = middle
    return Fraction(low)
