"""The bound for units that may change any number of times within a span, for measurements by any matrix.

A path may be on or off in every bin of a window.  Its state in the last bin is its state for the rest of
time.  The energy of the path is s'Qs for bits s, the last of which is for all time after the window.  With
s = (1 + sigma) / 2, and one more sign for the constant, the energy is sigma' R sigma.  For every d for which
Diag(d) - R has no negative eigenvalue,

    sigma' R sigma  <=  sum of d.

If the least eigenvalue is -e, the sum of d plus e times the number of signs is a bound.
"""

from __future__ import annotations

from math import fsum, inf, nextafter
from typing import TYPE_CHECKING, Final

import numpy as np

from tidegauge.theory.paths.rounding import U, above_sum, least_eigenvalue, positive

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

WIDEST: Final = 256
"""Widest span for which the bound is found in time."""
_TIGHT: Final = 3e-4
"""Relative gap at which the search for a diagonal ends."""
_REFINED: Final = 48
"""Most windows for which a diagonal is searched."""


def any_changes(gram: Floats, span: int) -> float:
    """Upper bound of the squared length for on/off units whose changes lie in `span` bins.  [T14]

    Proof:    docs/theory/T14-windows.md
    """
    windows = [_signs(gram, start, span) for start in range(len(gram) - span + 1)]
    first = len(windows) // 2
    diagonal, _ = _diagonal(windows[first], None)
    bounds = np.array([_bound(window, diagonal) for window in windows])
    refined = np.zeros(len(windows), dtype=bool)
    # where the bound is largest, the diagonal is optimised for that window and tried on the others
    for _ in range(_REFINED):
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
    """The quadratic form in signs, the first for the constant, of the paths in one window."""
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
    """The bound by this diagonal; the least eigenvalue corrects a diagonal made for another window."""
    left = np.diag(diagonal) - form
    least = least_eigenvalue(left) - 2 * U * float(np.abs(left.diagonal()).max())
    return above_sum(nextafter(fsum(diagonal), inf), nextafter(-len(form) * least, inf))


def _diagonal(form: Floats, near: Floats | None) -> tuple[Floats, float]:
    """The diagonal with the least sum, by Newton steps along its central path, and its bound."""
    count = len(form)
    largest = float(np.linalg.eigvalsh(form)[-1])
    if largest <= 0:  # no change in this window is measured
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
            while not positive(np.diag(found + size * step) - form, 0.0):
                size /= 2
            found = found + size * step
        if count / stiffness < _TIGHT * found.sum():
            return found, _bound(form, found)
        stiffness *= 8
