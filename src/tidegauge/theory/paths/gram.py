"""Sensitivity of any linear measurement of a unit's changes, from the inner products of its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidegauge.theory.paths.bounds import gram_bounds, one_or_two
from tidegauge.theory.paths.enumeration import affordable, every_path, every_sum
from tidegauge.theory.paths.path import ON_OFF

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.theory.paths.path import BinCase, Domain

    Floats = NDArray[np.float64]

_SHORT = 12
"""Bins up to which sums are tried path by path."""


def gram_paths(gram: Floats, *, case: BinCase, domain: Domain = ON_OFF) -> float:
    """Largest squared length of any measurement of a unit's changes, from inner products of columns.  [T10]

    Exact:    where all paths can be tried, and for at most two changes of an on/off unit; else certified
              from above, by intervals, by pairs of changes, or change by change.
    Proof:    docs/theory/T10-matrix.md
    """
    bins = len(gram)
    changes, span = case.within(bins)
    if changes <= 2 and domain == ON_OFF:
        return one_or_two(gram, changes, span)
    if affordable(starts=bins, changes=changes, span=span, domain=domain):
        return every_path(_band(gram, span), case=case, domain=domain)
    return min(gram_bounds(gram, case=case, domain=domain))


def row_paths(rows: Floats, *, case: BinCase, domain: Domain) -> tuple[float, float] | None:
    """Largest sum and largest squared length of given rows; None if there are too many paths to try.  [T10]

    Proof:    docs/theory/T10-enumeration.md, docs/theory/T10-sums.md
    """
    bins = rows.shape[1]
    changes, span = case.within(bins)
    if bins > _SHORT or not affordable(starts=bins, changes=changes, span=span, domain=domain, coarse=True):
        return None
    return (
        every_sum(rows, case=case, domain=domain),
        every_path(_band(rows.T @ rows, span), case=case, domain=domain),
    )


def _band(gram: Floats, span: int) -> Floats:
    band = np.zeros((len(gram), span))
    for lag in range(span):
        band[: len(gram) - lag, lag] = np.diagonal(gram, lag)
    return band
