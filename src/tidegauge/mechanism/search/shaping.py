"""Give what a search found the form that can be certified tightly, and take out the noise of the search.

On levels, the best inner products Y are those of neighbours, less the product of one shared level v: Y = T
- vv' with T zero away from the diagonal and not positive beside it.  The covariance that belongs to them
changes slowly along its diagonals, from both ends of time, and with the distance from its main diagonal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tidegauge.theory.paths.dense import levels, on_changes, shared_level

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_ALONG: Final = 0.4
"""How far means reach in the logarithm of the distance from either end ..."""
_ACROSS: Final = 0.15
"""... and from the main diagonal."""
_NOTHING: Final = 1e-100
"""What is shared with so little is shared with none."""


def shaped(gram: Floats, *, symmetric: bool) -> Iterator[Floats]:
    """Forms of it, on changes, all of them with equal errors of all running sums; `symmetric`: in time."""
    bins, plain = len(gram), levels(gram)
    yield from _evened(_form(plain, np.zeros(bins), bins))
    covariance: Floats = np.linalg.inv(plain).astype(np.float64)
    smooth = _smooth((covariance + covariance[::-1, ::-1]) / 2 if symmetric else covariance)
    if not _decodable(smooth):
        return
    found: Floats = np.linalg.inv(smooth).astype(np.float64)
    yield from _evened(found)
    for near in sorted({max(2, bins // 16), max(2, bins * 3 // 32), max(2, bins // 8)}):
        for v in (_row_level(found, near), _means(shared_level(found, near), *_ends(np.arange(bins), bins))):
            yield from _evened(_form(found, v, near))


def _form(found: Floats, v: Floats, near: int) -> Floats:
    """T - vv' that is nearest to it."""
    apart = np.abs(np.subtract.outer(np.arange(len(v)), np.arange(len(v))))
    own = found.diagonal() + v * v
    between = np.where(apart < near, np.minimum(found + np.outer(v, v), 0.0), 0.0)
    between[np.diag_indices(len(v))] = own
    form: Floats = between - np.outer(v, v)
    return form


def _evened(form: Floats) -> Iterator[Floats]:
    """On changes, and scaled so that all errors are equal; nothing where it cannot be decoded."""
    if _decodable(form):
        deviations = np.sqrt(np.linalg.inv(form).diagonal())
        yield on_changes(form * np.outer(deviations, deviations))


def _decodable(matrix: Floats) -> bool:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def _row_level(found: Floats, near: int) -> Floats:
    """The v >= 0 whose products have the row sums of -Y, over bins that are not near each other."""
    at = np.arange(len(found))
    far = (np.abs(np.subtract.outer(at, at)) >= near).astype(np.float64)
    sums = np.maximum(_means(-(found * far).sum(axis=1), *_ends(at, len(at))), 0.0)
    v: Floats = np.full(len(at), np.sqrt(sums.sum() / far.sum()))
    for _ in range(200):
        shared = far @ v
        v = np.sqrt(np.divide(v * sums, shared, out=np.zeros(len(v)), where=shared > _NOTHING))
    return v


def _smooth(covariance: Floats) -> Floats:
    """Every diagonal by itself, and then every line across them."""
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
    """Where bins lie between two ends, in units of the width of a mean."""
    return np.log(at + 1) / _ALONG, np.log(count - at) / _ALONG


def _twice(values: Floats, *places: Floats) -> Floats:
    """Means, and those of what they left out: a slope or a bend stays as it is."""
    means = _means(values, *places)
    return means + _means(values - means, *places)


def _means(values: Floats, *places: Floats) -> Floats:
    """Of the values that lie nearest."""
    apart = sum(np.subtract.outer(place, place) ** 2 for place in places)
    nearness = np.exp(-np.asarray(apart) / 2)
    means: Floats = (nearness @ values) / nearness.sum(axis=1)
    return means
