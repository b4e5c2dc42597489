"""What one entry can do to a level less what is remembered of the level before, in L1, with one shared draw to hide behind."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidegauge.theory.paths.gram import row_paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidegauge.theory.paths.path import Domain, Limits

_SHORT = 12
"""Bins up to which paths through two groups are tried."""


class AutoregressiveRows(NamedTuple):
    """Rows s[t] - memory s[t-1], and a shared draw on a lattice.

    A shift of the draw by 1 costs `shift_cost` (None: there is no draw) and domain the first row by 1, every other by 1 - memory.
    The draw is a whole multiple of `step`, and so are its shifts.
    """

    memory: Fraction
    shift_cost: Fraction | None
    bins: int
    step: Fraction = Fraction(1)


def autoregressive_paths(rows: AutoregressiveRows, *, limits: Limits, domain: Domain) -> Fraction:
    """Most that the rows move in L1, all together, for the best shift of the shared draw that there is.  [T10]

    Path:     s is 0, and from the first change on `high` or -`low`.
    Shift:    one for all paths, so that the bound also holds for data that react to what was published; a whole
              multiple of the step, because the draw has no others.
    Groups:   however many there are; without a shared draw.
    Exact:    but, loaded, for two groups and many bins.
    Proof:    docs/theory/T10.md
    """
    changes, span = limits.within(rows.bins)
    later, left = limits.after_load(rows.bins) if domain.loaded else (0, 0)
    q, high, low = 1 - rows.memory, Fraction(domain.high), Fraction(domain.low)
    most, apart = max(high, low), high + low
    if domain.groups > 1:
        new = 1 + (changes - 1) * (1 + rows.memory) + (rows.bins - changes) * q
        bound = most * max(new, 2 * later + 2 * (rows.bins - later) * q if later else Fraction(0))
        if domain.groups == 2 and later and rows.bins <= _SHORT:  # there may be nowhere else to go
            matrix = float(q) * np.tri(rows.bins, k=-1) + np.eye(rows.bins)
            tried = row_paths(matrix, limits=limits, domain=domain)
            return bound if tried is None else min(bound, Fraction(tried[0]))
        return bound

    begun = _Paths(changes, span, (high, -low), anchored=False)
    kinds = [begun]
    if later:  # from one end of the range to the other and back, counted from where it was
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
    """Paths with so many changes in so many bins (anchored: the first), from 0 to one of the ends and then by turns."""

    changes: int
    span: int
    ends: tuple[Fraction, Fraction]
    anchored: bool


def _most(rows: AutoregressiveRows, shift: Fraction, paths: _Paths) -> Fraction:
    """For this shift.  What a path adds up to is linear in its turns, odd and even: only the fewest and the most are tried."""
    best = abs(shift) * (1 + (rows.bins - 1) * (1 - rows.memory))  # no change at all
    for turned in (paths, paths._replace(ends=paths.ends[::-1])):
        if turned.ends[0]:
            found = partial(_from, rows, shift, turned)
            best = max([best, *(one for start in _starts(rows.bins, paths) for one in found(start))])
    return best


def _starts(bins: int, paths: _Paths) -> set[int]:
    """Bins of first change that are enough: between two corners the sum is linear in that bin, for the odd and the even ones."""
    last = paths.span - 1 if paths.anchored else bins - 1
    corners = (0, last, last + 1 - paths.changes, bins - paths.span)
    near = {corner + more for corner in corners for more in range(-6, 7)}
    return {start for start in near if 0 <= start <= last}


def _from(rows: AutoregressiveRows, shift: Fraction, paths: _Paths, start: int) -> Iterator[Fraction]:
    """What paths add up to that go from nothing to the first of the ends in this bin, by their numbers of turns."""
    value, other = paths.ends
    b, q = rows.memory, 1 - rows.memory
    intervals = rows.bins - 1 - start
    room = min(paths.span - 1 - (start if paths.anchored else 0), intervals)
    most = min(paths.changes - 1, room)
    waited = abs(shift) * (1 + q * (start - 1)) + abs(value - q * shift) if start else abs(value - shift)
    here, there = q * abs(value - shift), q * abs(other - shift)
    to, fro = abs(other - b * value - q * shift), abs(value - b * other - q * shift)
    for turns in {0, 1, 2, 3, most - 1, most}:
        if 0 <= turns <= most:
            final, between = (there, here) if turns % 2 else (here, there)
            gained = max(between - final, Fraction(0)) * (room - turns) if turns else 0
            turned = (turns + 1) // 2 * to + turns // 2 * fro
            yield waited + turned + final * (intervals - turns) + gained
