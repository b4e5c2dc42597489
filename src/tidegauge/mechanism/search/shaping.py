"""Bring the result of a search into a form that has a tight bound, and remove the noise of the search.

Written for running values instead of changes, the best inner products are Y = T - vv'.  T is zero away from
its diagonal and not positive beside it; v is one vector.  The inverse of Y changes slowly along its
diagonals, from both ends of time, and with the distance from the main diagonal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tidegauge.theory.paths.dense import levels, on_changes, shared_level
from tidegauge.theory.paths.rounding import positive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_ALONG: Final = 0.4
"""Width of the smoothing in the logarithm of the distance from either end ..."""
_ACROSS: Final = 0.15
"""... and from the main diagonal."""
_NOTHING: Final = 1e-100
"""Smaller sums count as 0."""


def shaped(gram: Floats, *, symmetric: bool) -> Iterator[Floats]:
    """Forms of the inner products, for changes; all running values then have equal errors.

    `symmetric`: make the form symmetric in time.
    """
    bins, plain = len(gram), levels(gram)
    yield from _evened(_form(plain, np.zeros(bins), bins))
    covariance: Floats = np.linalg.inv(plain).astype(np.float64)
    smooth = _smooth((covariance + covariance[::-1, ::-1]) / 2 if symmetric else covariance)
    if not positive(smooth, 0.0):
        return
    found: Floats = np.linalg.inv(smooth).astype(np.float64)
    yield from _evened(found)
    for near in sorted({max(2, bins // 16), max(2, bins * 3 // 32), max(2, bins // 8)}):
        for v in (_row_level(found, near), _means(shared_level(found, near), *_ends(np.arange(bins), bins))):
            yield from _evened(_form(found, v, near))


def _form(found: Floats, v: Floats, near: int) -> Floats:
    """The nearest T - vv'."""
    apart = np.abs(np.subtract.outer(np.arange(len(v)), np.arange(len(v))))
    own = found.diagonal() + v * v
    between = np.where(apart < near, np.minimum(found + np.outer(v, v), 0.0), 0.0)
    between[np.diag_indices(len(v))] = own
    form: Floats = between - np.outer(v, v)
    return form


def _evened(form: Floats) -> Iterator[Floats]:
    """The form for changes, scaled so that all errors are equal; nothing if it cannot be decoded."""
    if positive(form, 0.0):
        deviations = np.sqrt(np.linalg.inv(form).diagonal())
        yield on_changes(form * np.outer(deviations, deviations))


def _row_level(found: Floats, near: int) -> Floats:
    """The v >= 0 for which vv' has the row sums of -Y, over bins that are not near each other."""
    at = np.arange(len(found))
    far = (np.abs(np.subtract.outer(at, at)) >= near).astype(np.float64)
    sums = np.maximum(_means(-(found * far).sum(axis=1), *_ends(at, len(at))), 0.0)
    v: Floats = np.full(len(at), np.sqrt(sums.sum() / far.sum()))
    for _ in range(200):
        shared = far @ v
        v = np.sqrt(np.divide(v * sums, shared, out=np.zeros(len(v)), where=shared > _NOTHING))
    return v


def _smooth(covariance: Floats) -> Floats:
    """Smooth every diagonal, then every line across the diagonals."""
    bins, smooth = len(covariance), covariance.copy()
    for lag in range(bins):
        at = np.arange(bins - lag)
        smooth[at, at + lag] = smooth[at + lag, at] = _twice(
            np.diagonal(covariance, lag), *_ends(at, bins - lag)
        )
    across = smooth.copy()
    for total in range(1, 2 * bins - 2):
        first = np.arange(max(0, total - bins + 1), (total + 1) // 2)
        last = total - first
        ends = _ends(first, bins)[0], _ends(last, bins)[1]
        across[first, last] = across[last, first] = _twice(
            smooth[first, last], np.log(last - first + 1) / _ACROSS, *ends
        )
    return across


def _ends(at: NDArray[np.int64], count: int) -> tuple[Floats, Floats]:
    """The positions of bins between two ends, in units of the smoothing width."""
    return np.log(at + 1) / _ALONG, np.log(count - at) / _ALONG


def _twice(values: Floats, *places: Floats) -> Floats:
    """Smooth, then add the smoothed residuals, so that slopes and bends are kept."""
    means = _means(values, *places)
    return means + _means(values - means, *places)


def _means(values: Floats, *places: Floats) -> Floats:
    """Weighted means of the values at near positions."""
    apart = sum(np.subtract.outer(place, place) ** 2 for place in places)
    nearness = np.exp(-np.asarray(apart) / 2)
    means: Floats = (nearness @ values) / nearness.sum(axis=1)
    return means
