"""What one entry can do to any linear measurement of changes, from the inner products of its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidegauge.theory.paths.bounds import gram_bounds, one_or_two
from tidegauge.theory.paths.enumeration import affordable, every_path, every_sum
from tidegauge.theory.paths.path import ON_OFF

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.theory.paths.path import Domain, Limits

    Floats = NDArray[np.float64]

_SHORT = 12
"""Bins up to which sums are tried path by path."""


def gram_paths(gram: Floats, *, limits: Limits, domain: Domain = ON_OFF) -> float:
    """Most squared length of any measurement of one entry's changes, from its columns' inner products.  [T10]

    Exact:    for few enough paths to try them all (at most two changes of an entry that is on or off, always); else
              certified from above: by the energies of its intervals, by pairs of changes, or, where inner products
              are falling and not negative, change by change.
    Proof:    docs/theory/T10.md
    """
    bins = len(gram)
    changes, span = limits.within(bins)
    if changes <= 2 and domain == ON_OFF:
        return one_or_two(gram, changes, span)
    if affordable(starts=bins, changes=changes, span=span, domain=domain):
        return every_path(_band(gram, span), limits=limits, domain=domain)
    return min(gram_bounds(gram, limits=limits, domain=domain))


def row_paths(rows: Floats, *, limits: Limits, domain: Domain) -> tuple[float, float] | None:
    """Most of the sum and of the squared length of what given rows move by; None if there are too many paths to try.  [T10]

    Proof:    docs/theory/T10.md
    """
    bins = rows.shape[1]
    changes, span = limits.within(bins)
    if bins > _SHORT or not affordable(starts=bins, changes=changes, span=span, domain=domain, coarse=True):
        return None
    return (
        every_sum(rows, limits=limits, domain=domain),
        every_path(_band(rows.T @ rows, span), limits=limits, domain=domain),
    )


def _band(gram: Floats, span: int) -> Floats:
    band = np.zeros((len(gram), span))
    for lag in range(span):
        band[: len(gram) - lag, lag] = np.diagonal(gram, lag)
    return band
