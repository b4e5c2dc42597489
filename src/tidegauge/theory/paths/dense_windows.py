"""The bound for entries that change as often as they like within a span, for measurements by any matrix.

A path is on or off at will in all bins of a window but the last, in which it settles for the rest of time: s'Qs for bits s,
one of them for all the time after the window.  With s = (1 + sigma) / 2 and one more sign for the constant it is
sigma' R sigma, and for every diagonal d for which Diag(d) - R has no negative eigenvalue

    sigma' R sigma  <=  sum of d;

where its least eigenvalue is -e, sum of d + e times their number will do.
"""

from __future__ import annotations

from math import fsum, inf, nextafter
from typing import TYPE_CHECKING, Final

import numpy as np

from tidegauge.theory.paths.rounding import U, above_sum, least_eigenvalue

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

WIDEST: Final = 256
"""Bins of a span up to which it is found in time."""
_TIGHT: Final = 3e-4
_REFINED: Final = 48


def any_changes(gram: Floats, span: int) -> float:
    """The most over all windows.  [T14]

    Proof:    docs/theory/T14.md
    """
    windows = [_signs(gram, start, span) for start in range(len(gram) - span + 1)]
    first = len(windows) // 2
    diagonal, _ = _diagonal(windows[first], None)
    bounds = np.array([_bound(window, diagonal) for window in windows])
    refined = np.zeros(len(windows), dtype=bool)
    for _ in range(
        _REFINED
    ):  # where it is largest the diagonal is made for that window, and tried on those beside it
        worst = int(bounds.argmax())
        if refined[worst]:
            break
        refined[worst] = True
        diagonal, found = _diagonal(windows[worst], diagonal)
        bounds[worst] = min(bounds[worst], found)
        high = bounds > found
        for other in np.flatnonzero(high & ~refined):
            bounds[other] = min(bounds[other], _bound(windows[other], diagonal))
    return float(bounds.max())


def _signs(gram: Floats, start: int, span: int) -> Floats:
    """The form in signs, the first for the constant, of the paths in one window."""
    last = start + span
    bits = np.zeros((span, span))
    bits[np.arange(span), np.arange(span)] = 1.0
    bits[np.arange(1, span), np.arange(span - 1)] = -1.0
    inner = bits.T @ gram[start:last, start:last] @ bits
    form = np.empty((span + 1, span + 1))
    form[1:, 1:] = inner
    form[0, 1:] = form[1:, 0] = inner.sum(axis=0)
    form[0, 0] = inner.sum()
    return form / 4


def _bound(form: Floats, diagonal: Floats) -> float:
    """The least eigenvalue makes up for a diagonal that was made for another window."""
    left = np.diag(diagonal) - form
    least = least_eigenvalue(left) - 2 * U * float(np.abs(left.diagonal()).max())
    return above_sum(nextafter(fsum(diagonal), inf), nextafter(-len(form) * least, inf))


def _diagonal(form: Floats, near: Floats | None) -> tuple[Floats, float]:
    """The diagonal with the least sum, by Newton steps along its central path."""
    count = len(form)
    largest = float(np.linalg.eigvalsh(form)[-1])
    if largest <= 0:  # no change in this window is seen
        return np.zeros(count), _bound(form, np.zeros(count))
    found, stiffness = np.full(count, largest * 1.01), 1.0 / largest
    if near is not None:
        short = float(np.linalg.eigvalsh(np.diag(near) - form)[0])
        found = near + max(0.0, 1e-3 * largest - short)
        stiffness = count / (0.02 * found.sum())
    while True:
        for _ in range(30):
            inverse = np.linalg.inv(np.diag(found) - form)
            slope = stiffness - inverse.diagonal()
            step = -np.linalg.solve(inverse * inverse, slope)
            decrement = float(-slope @ step)
            if decrement < 1e-3:
                break
            size = 1.0 if decrement < 0.1 else 1 / (1 + decrement**0.5)
            while not _positive(np.diag(found + size * step) - form):
                size /= 2
            found = found + size * step
        if count / stiffness < _TIGHT * found.sum():
            return found, _bound(form, found)
        stiffness *= 8


def _positive(matrix: Floats) -> bool:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True
