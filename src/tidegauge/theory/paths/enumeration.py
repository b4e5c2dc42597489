"""Bounds by trying every path of a unit, where there are few enough.

In the interval between two changes the unit is in one group with one value.  For fixed bins of change all
measurements are linear in the values, so these lie at the ends of the range. A pattern gives each interval a
group and an end. For one pattern the squared length is a fixed combination of inner products of changed
columns.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations, islice
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.theory.paths.rounding import above_sum, dot_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tidegauge.theory.paths.path import BinCase, Domain

    Floats = NDArray[np.float64]

_AFFORDABLE = 3 * 10**7
_BATCH = 4096
_PATTERNS = 4096
"""Most products that are tried (a fraction of a second), paths tried at a time, and most patterns."""


def affordable(*, starts: int, changes: int, span: int, domain: Domain, coarse: bool = False) -> bool:
    """Whether all paths can be tried in a fraction of a second (coarse: of a hundredth).

    Proof:    docs/theory/T10-enumeration.md (either answer is safe)
    """
    patterns = _count(changes + domain.loaded, domain)
    if patterns > _PATTERNS:
        return False
    each = max(changes, 2) ** 2 * (1 if patterns == 1 else 1 + patterns // 8)
    left = (_AFFORDABLE // 16 if coarse else _AFFORDABLE) // (starts * each)
    for more in range(changes):
        left -= comb(span - 1, more)
        if left < 0:
            return False
    return True


def every_path(band: Floats, *, case: BinCase, domain: Domain, starts: int | None = None) -> float:
    """Largest squared length of a measurement over all paths: exact, plus its rounding error.  [T10]

    Band:     band[i, l] is the inner product of columns i and i + l.
    Starts:   a path that begins from nothing does so in one of the first `starts` bins (None: in any).
    Proof:    docs/theory/T10-enumeration.md
    """
    changes, span = case.within(len(band))
    first = np.arange(len(band) if starts is None else starts)
    best = 0.0
    for made in range(1, changes + 1):
        best = max(best, _most(band, first, span, made, _shapes(made, domain), domain=domain))
    if domain.loaded:
        changes, span = case.after_load(len(band))
        for made in range(1, changes + 1):
            shapes = _shapes(made, domain, loaded=True)
            for begin in range(span - made + 1):
                best = max(best, _most(band, np.array([begin]), span - begin, made, shapes, domain=domain))
    return best


def every_sum(rows: Floats, *, case: BinCase, domain: Domain) -> float:
    """Largest sum of the sizes of all rows over all paths, given the rows themselves.  [T10]

    Proof:    docs/theory/T10-sums.md
    """
    bins, best = rows.shape[1], 0.0
    kinds = [(False, *case.within(bins))]
    if domain.loaded:
        kinds.append((True, *case.after_load(bins)))
    for loaded, changes, span in kinds:
        for made in range(1, changes + 1):
            intervals = _between(made, loaded=loaded)
            patterns = list(_patterns(len(intervals), domain))
            levels = np.zeros((len(patterns), min(domain.groups, len(intervals)), len(intervals)))
            for at, pattern in enumerate(patterns):
                for interval, (group, value) in enumerate(pattern):
                    levels[at, group, interval] = value
            moved = levels @ intervals
            for changed in combinations(range(span if loaded else bins), made):
                if changed[-1] - changed[0] < span:
                    sums = np.abs(moved @ rows[:, changed].T).sum(axis=(1, 2))
                    best = max(best, float(sums.max()))
    size = 2 * max(domain.high, domain.low) * case.within(bins)[0] * float(np.abs(rows).max(axis=1).sum())
    return above_sum(best, dot_error(4 * bins + rows.size + 64, 2 * size))


def _most(
    band: Floats, first: NDArray[np.int64], span: int, changes: int, shapes: Floats, *, domain: Domain
) -> float:
    """Largest squared length over paths with this many changes that begin in these bins, rounded up."""
    bins, best = len(band), 0.0
    pairs = [(p, q) for p in range(changes) for q in range(p, changes)]
    later = combinations(range(1, span), changes - 1)
    while batch := list(islice(later, max(1, _BATCH // len(first)))):
        offsets = np.array([(0, *rest) for rest in batch])
        inside = first[:, None] + offsets[None, :, -1] < bins
        products = np.empty((int(inside.sum()), len(pairs)))
        for at, (p, q) in enumerate(pairs):
            rows = np.minimum(first[:, None] + offsets[None, :, p], bins - 1)
            products[:, at] = band[rows, (offsets[:, q] - offsets[:, p])[None, :]][inside]
        best = max(best, float((products @ shapes).max(initial=0.0)))
    weights = float(np.abs(shapes).sum(axis=0).max()) + len(pairs) * max(domain.high, domain.low) ** 2
    return above_sum(best, dot_error(4 * len(pairs) + 64, weights * float(np.abs(band).max())))


@lru_cache(maxsize=256)
def _shapes(changes: int, domain: Domain, *, loaded: bool = False) -> Floats:
    """A column for each pattern: the factor of the inner product of every two changed columns."""
    intervals = _between(changes, loaded=loaded)
    doubled = np.triu(np.full((changes, changes), 2.0), 1) + np.eye(changes)
    columns = []
    for pattern in _patterns(len(intervals), domain):
        levels = np.array([value for _, value in pattern])
        together = np.equal.outer(*[[group for group, _ in pattern]] * 2) * np.outer(levels, levels)
        columns.append((intervals.T @ together @ intervals * doubled)[np.triu_indices(changes)])
    return np.array(columns).T


def _between(changes: int, *, loaded: bool) -> Floats:
    """For each interval, the change with which it begins and the one with which it ends."""
    intervals: Floats = np.eye(changes) - np.eye(changes, k=1)
    if loaded:  # the earlier contribution is removed at the first change
        intervals = np.vstack([-np.eye(1, changes), intervals])
    return intervals


def _patterns(intervals: int, domain: Domain) -> Iterator[tuple[tuple[int, float], ...]]:
    """Every way to give each interval a group and a value; groups are named by first use."""
    values = (domain.high, -domain.low)

    def longer(so_far: tuple[tuple[int, float], ...], used: int) -> Iterator[tuple[tuple[int, float], ...]]:
        if len(so_far) == intervals:
            yield so_far
            return
        for value in values:
            known = 0 if value == 0 else min(used + 1, domain.groups)
            for group in range(known) if known else (-1,):
                if not so_far or so_far[-1] != (group, value):
                    yield from longer((*so_far, (group, value)), max(used, group + 1))

    yield from longer((), 0)


def _count(intervals: int, domain: Domain) -> int:
    """At least the number of patterns."""
    count = 1 if domain.groups == 1 and not domain.low else 2
    return (
        count if domain.groups == 1 else 2**intervals * min(domain.groups, intervals) ** max(intervals - 1, 0)
    )
