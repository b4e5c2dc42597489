"""Sensitivity in L1 of a level less a multiple of the level before, with one shared draw."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidegauge.theory.paths.gram import row_paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidegauge.theory.paths.path import BinCase, Domain

_SHORT = 12
"""Bins up to which paths through two groups are tried."""


class AutoregressiveRows(NamedTuple):
    """Rows s[t] - memory s[t-1], and a shared draw on a lattice.

    A shift of the draw by 1 costs `shift_cost` (None: there is no draw) and moves the first row by 1, every
    other by 1 - memory.  The draw is a whole multiple of `step`, and so are its shifts.
    """

    memory: Fraction
    shift_cost: Fraction | None
    bins: int
    step: Fraction = Fraction(1)


def autoregressive_paths(rows: AutoregressiveRows, *, case: BinCase, domain: Domain) -> Fraction:
    """Most that all rows together move in L1, for the best possible shift of the shared draw.  [T10]

    Path:     s is 0, and from the first change on `high` or -`low`.
    Shift:    one for all paths, so that the bound also holds for data that react to what was published; a
              whole multiple of the step, because the draw has no others.
    Groups:   any number; without a shared draw.
    Exact:    except for loaded units in two groups and many bins.
    Proof:    docs/theory/T10-autoregressive.md, docs/theory/T10-autoregressive-groups.md
    """
    changes, span = case.within(rows.bins)
    later, left = case.after_load(rows.bins) if domain.loaded else (0, 0)
    q, high, low = 1 - rows.memory, Fraction(domain.high), Fraction(domain.low)
    most, apart = max(high, low), high + low
    if domain.groups > 1:
        new = 1 + (changes - 1) * (1 + rows.memory) + (rows.bins - changes) * q
        bound = most * max(new, 2 * later + 2 * (rows.bins - later) * q if later else Fraction(0))
        if domain.groups == 2 and later and rows.bins <= _SHORT:  # there is no third group
            matrix = float(q) * np.tri(rows.bins, k=-1) + np.eye(rows.bins)
            tried = row_paths(matrix, case=case, domain=domain)
            return bound if tried is None else min(bound, Fraction(tried[0]))
        return bound

    begun = _Paths(changes, span, (high, -low), anchored=False)
    kinds = [begun]
    if later:  # alternates between the ends, from where it was
        kinds += [_Paths(later, left, (end, Fraction(0)), anchored=True) for end in (apart, -apart)]

    def value(steps: int) -> Fraction:
        shift = steps * rows.step
        return max(_most(rows, shift, one) for one in kinds) + abs(shift) * (rows.shift_cost or 0)

    if rows.shift_cost is None:
        return value(0)
    return _least(value, *(round(end / rows.step) for end in (-apart, apart)))


def _least(value: Callable[[int], Fraction], low: int, high: int) -> Fraction:
    """The least value of a convex function of whole numbers; any of its values is a bound."""
    while low < high:
        middle = (low + high) // 2
        if value(middle) <= value(middle + 1):
            high = middle
        else:
            low = middle + 1
    return min(value(low), value(0))


class _Paths(NamedTuple):
    """Paths with at most `changes` in `span` bins (anchored: the first), alternating between two ends."""

    changes: int
    span: int
    ends: tuple[Fraction, Fraction]
    anchored: bool


def _most(rows: AutoregressiveRows, shift: Fraction, paths: _Paths) -> Fraction:
    """The most for this shift. It is linear in the number of changes (odd, even): extremes are tried."""
    best = abs(shift) * (1 + (rows.bins - 1) * (1 - rows.memory))  # no change at all
    for ordered in (paths, paths._replace(ends=paths.ends[::-1])):
        if ordered.ends[0]:
            found = partial(_from, rows, shift, ordered)
            best = max([best, *(one for start in _starts(rows.bins, paths) for one in found(start))])
    return best


def _starts(bins: int, paths: _Paths) -> set[int]:
    """Bins of first change that suffice: between two corners the sum is linear in that bin, odd and even."""
    last = paths.span - 1 if paths.anchored else bins - 1
    corners = (0, last, last + 1 - paths.changes, bins - paths.span)
    near = {corner + more for corner in corners for more in range(-6, 7)}
    return {start for start in near if 0 <= start <= last}


def _from(rows: AutoregressiveRows, shift: Fraction, paths: _Paths, start: int) -> Iterator[Fraction]:
    """Sums of paths that go from nothing to the first end in this bin, by their number of further changes."""
    value, other = paths.ends
    b, q = rows.memory, 1 - rows.memory
    rest = rows.bins - 1 - start
    room = min(paths.span - 1 - (start if paths.anchored else 0), rest)
    most = min(paths.changes - 1, room)
    waited = abs(shift) * (1 + q * (start - 1)) + abs(value - q * shift) if start else abs(value - shift)
    here, there = q * abs(value - shift), q * abs(other - shift)
    to, fro = abs(other - b * value - q * shift), abs(value - b * other - q * shift)
    for more in {0, 1, 2, 3, most - 1, most}:
        if 0 <= more <= most:
            final, between = (there, here) if more % 2 else (here, there)
            gained = max(between - final, Fraction(0)) * (room - more) if more else 0
            changed = (more + 1) // 2 * to + more // 2 * fro
            yield waited + changed + final * (rest - more) + gained
