"""Bounds for any measurement of changes, also where there are too many paths to try them all."""

from __future__ import annotations

from math import inf, nextafter, sqrt
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.theory.paths.intervals import countable, interval_bound
from tidegauge.theory.paths.rounding import U, above_sum, dot_error

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.theory.paths.path import BinCase, Domain

    Floats = NDArray[np.float64]


def gram_bounds(gram: Floats, *, case: BinCase, domain: Domain) -> list[float]:
    """Upper bounds of the squared length, from the inner products of the columns.  [T10]

    Proof:    docs/theory/T10-bounds.md
    """
    bins = len(gram)
    changes, span = case.within(bins)
    later = case.after_load(bins)[0] if domain.loaded else 0
    one, two = (nextafter(sqrt(one_or_two(gram, count, span)), inf) for count in (1, 2))
    rises = np.triu(np.diff(gram, axis=1, append=0.0), 1).clip(min=0.0).sum(axis=1)
    off = dot_error(4 * bins, 2 * float(np.abs(gram).max()))  # of all that a row of inner products rises
    squares = np.sort(np.diag(gram) + 2 * rises + 4 * off)[::-1][:changes]
    falls = not rises.any()
    total, least = float(squares.sum()), float(squares[-1])
    bounds = [
        by_pairs(changes, domain, later=later, one=one, two=two),
        by_changes(changes, domain, later=later, total=total, least=least, falls=falls),
    ]
    if countable(bins, case):
        bounds.append(interval_bound(gram, case=case, domain=domain))
    return bounds


def by_pairs(changes: int, domain: Domain, *, later: int, one: float, two: float) -> float:
    """Upper bound of the squared length, by pairs of changes.  [T10]

    One, two: the largest length of one column, and of a column or a difference of two.
    Later:    the changes left to a unit of the load.
    Proof:    docs/theory/T10-pairs.md
    """
    most, apart = max(domain.high, domain.low), domain.high + domain.low
    if domain.groups > 1:
        side = most * apart
        bound = side * max((changes - 1) * two + one, (later - 1) * two + 2 * one if later else 0.0) ** 2
    else:
        path = most * _pairs(changes, one, two) + (apart - most) * _pairs(changes - 1, one, two)
        bound = max(path, apart * _pairs(later, one, two)) ** 2
    return bound * (1 + 256 * U)


def by_changes(
    changes: int, domain: Domain, *, later: int, total: float, least: float, falls: bool = True
) -> float:
    """Upper bound of the squared length, change by change.  [T10]

    Later:    the changes left to a unit of the load.
    Total, least: of as many values as changes, the largest ones of a squared column plus twice the rises of
              its inner products with later columns; `falls`: there are no rises.
    Proof:    docs/theory/T10-changes.md
    """
    most, apart = max(domain.high, domain.low), domain.high + domain.low
    if domain.groups > 1:
        counted = most * apart * max(2 * total - least, 2 * total if later == changes else 0.0)
    else:
        first = apart**2 if later == changes else most**2 if falls else most * apart
        counted = apart**2 * total - (apart**2 - first) * least
    return above_sum(counted, dot_error(changes + 64, 4 * apart**2 * total))


def _pairs(changes: int, one: float, two: float) -> float:
    return changes // 2 * two + changes % 2 * one


def one_or_two(gram: Floats, changes: int, span: int) -> float:
    """Largest squared length of one change, or also of a change and its reversal: exact, rounded up.  [T10]

    Proof:    docs/theory/T10-one-or-two.md
    """
    squares = np.diag(gram)
    best = float(squares.max())
    if changes > 1:
        pairs = squares[:, None] + squares[None, :] - 2 * gram
        near = np.abs(np.subtract.outer(np.arange(len(gram)), np.arange(len(gram)))) < span
        best = max(best, float(pairs[near].max()))
    return best * (1 + 32 * U)
