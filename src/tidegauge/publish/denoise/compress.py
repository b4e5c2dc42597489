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

_SMALL: Final = 3e-5
"""Singular values below this part of the first element are left out; rounding a matrix causes such values."""


def compressed(row: Callable[[int], Floats], steps: int) -> list[Step]:
    """The system of a matrix.  `row`: the first t + 1 elements of row t, for noise of variance 1.

    The state: the running value, the row itself, the first change (which contains the whole initial load, and
    so has its exact effect), then what later rows need of the other changes.
    """
    ahead, smallest = np.zeros((0, steps)), _SMALL * abs(float(row(0)[0]))
    parts = [(np.zeros((0, 0)), np.zeros(0), np.zeros(0), row(0))]
    for at in range(steps - 1, 0, -1):
        new = row(at)
        now = np.vstack([new[:at], ahead[:, :at]])
        now[:, 0] = 0.0
        values, vectors = np.linalg.eigh(now @ now.T)
        kept = vectors[:, values > smallest**2]
        parts.append((kept[1:], ahead[:, at], kept[0], new))
        ahead = kept.T @ now
    width = 3 + max(len(gain) for _, gain, _, _ in parts)
    seen = (Seen(np.eye(width)[1], 1.0),)
    found = []
    for at, (turned, gain, weights, exact) in enumerate([parts[0], *reversed(parts[1:])]):
        transition, gains = np.zeros((width, width)), np.zeros(width)
        transition[0, 0] = gains[0] = transition[2, 2] = 1.0
        transition[1, 2], gains[1], gains[2] = exact[0] if at else 0.0, exact[at], float(not at)
        transition[1, 3 : 3 + len(weights)] = weights
        transition[3 : 3 + turned.shape[0], 3 : 3 + turned.shape[1]] = turned
        gains[3 : 3 + len(gain)] = gain
        found.append(Step(transition, gains, seen))
    return found
