"""Bounds for any measurement of changes, also where there are too many paths to try them all."""

from __future__ import annotations

from math import inf, nextafter, sqrt
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.theory.paths.rounding import U, above_sum, dot_error
from tidegauge.theory.paths.stays import by_stays, countable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.theory.paths.path import Limits, Moves

    Floats = NDArray[np.float64]


def gram_bounds(gram: Floats, *, limits: Limits, moves: Moves) -> list[float]:
    """From the inner products of the columns."""
    bins = len(gram)
    jumps, reach = limits.within(bins)
    later = limits.after_load(bins)[0] if moves.loaded else 0
    one, two = (nextafter(sqrt(one_or_two(gram, count, reach)), inf) for count in (1, 2))
    rises = np.triu(np.diff(gram, axis=1, append=0.0), 1).clip(min=0.0).sum(axis=1)
    off = dot_error(4 * bins, 2 * float(np.abs(gram).max()))  # of all that a row of inner products rises
    squares = np.sort(np.diag(gram) + 2 * rises + 4 * off)[::-1][:jumps]
    falls = not rises.any()
    bounds = plain_bounds(jumps, moves, later=later, one=one, two=two, squares=squares, falls=falls)
    if countable(bins, limits):
        bounds.append(by_stays(gram, limits=limits, moves=moves))
    return bounds


def plain_bounds(
    jumps: int,
    moves: Moves,
    *,
    later: int,
    one: float = inf,
    two: float = inf,
    squares: Floats | None = None,
    falls: bool = True,
) -> list[float]:
    """Whatever the measurement: from the length of one change, of a change and its reversal, and change by change.

    `later`: changes of an entry that was loaded.  `squares`: as many as changes, the largest of the squared columns and twice
    what their inner products with later ones rise in all; `falls`: they never do.
    """
    most, apart = max(moves.high, moves.low), moves.high + moves.low
    total, least = (inf, 0.0) if squares is None else (float(squares.sum()), float(squares[-1]))
    if moves.groups > 1:
        side = most * apart
        bounds = [side * max((jumps - 1) * two + one, (later - 1) * two + 2 * one if later else 0.0) ** 2]
        counted = side * max(2 * total - least, 2 * total if later == jumps else 0.0)
    else:
        path = most * _pairs(jumps, one, two) + (apart - most) * _pairs(jumps - 1, one, two)
        bounds = [max(path, apart * _pairs(later, one, two)) ** 2]
        first = apart**2 if later == jumps else most**2 if falls else most * apart
        counted = apart**2 * total - (apart**2 - first) * least
    if squares is not None:
        counted = above_sum(counted, dot_error(jumps + 64, 4 * apart**2 * total))
    return [bounds[0] * (1 + 256 * U), counted]


def _pairs(jumps: int, one: float, two: float) -> float:
    return jumps // 2 * two + jumps % 2 * one


def one_or_two(gram: Floats, jumps: int, reach: int) -> float:
    """The most of one change, or also of a change and its reversal: exact, and raised by more than its roundings."""
    squares = np.diag(gram)
    best = float(squares.max())
    if jumps > 1:
        pairs = squares[:, None] + squares[None, :] - 2 * gram
        near = np.abs(np.subtract.outer(np.arange(len(gram)), np.arange(len(gram)))) < reach
        best = max(best, float(pairs[near].max()))
    return best * (1 + 32 * U)
