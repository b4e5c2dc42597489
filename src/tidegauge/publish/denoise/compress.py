"""A lower-triangular matrix of measurements as a linear system of few coordinates.

The rows after a step depend on the changes up to the step through a block of the matrix.  Blocks of smooth
matrices have a low numerical rank.  From the last step backwards, each block is replaced by its leading
singular vectors, and the state is their product with the changes so far.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tidegauge.publish.denoise.system import Seen, Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_SMALL: Final = 1e-6
"""Singular values below this part of the largest element are left out."""
_START: Final = 1e4
"""How much more precise the effect of the first change is, which contains the whole initial load."""


def compressed(row: Callable[[int], Floats], steps: int) -> list[Step]:
    """The system of a matrix.  `row`: the first t + 1 elements of row t, for noise of variance 1.

    The state: the running value, the row itself, then what later rows need.
    """
    ahead, largest = np.zeros((0, steps)), float(abs(row(0)[0]))
    parts: list[tuple[Floats, Floats, Floats, float]] = []
    for at in range(steps - 1, 0, -1):
        new = row(at)
        now = np.vstack([new[:at], ahead[:, :at]])
        now[0, 0] *= _START
        values, vectors = np.linalg.eigh(now @ now.T)
        kept = vectors[:, values > (_SMALL * largest) ** 2]
        parts.append((kept[1:], ahead[:, at], kept[0], float(new[at])))
        ahead = kept.T @ now
    parts.append((np.zeros((len(ahead), 0)), ahead[:, 0] / _START, np.zeros(0), float(row(0)[0])))
    width = 2 + max(len(gain) for _, gain, _, _ in parts)
    seen = (Seen(np.eye(width)[1], 1.0),)
    found = []
    for turned, gain, weights, own in reversed(parts):
        transition, gains = np.zeros((width, width)), np.zeros(width)
        transition[0, 0] = gains[0] = 1.0
        transition[1, 2 : 2 + len(weights)], gains[1] = weights, own
        transition[2 : 2 + turned.shape[0], 2 : 2 + turned.shape[1]] = turned
        gains[2 : 2 + len(gain)] = gain
        found.append(Step(transition, gains, seen))
    return found
