"""What one entry can do to a level less what is remembered of the level before, in L1, with one shared draw to hide behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from tidegauge.theory.gram_paths import row_paths

if TYPE_CHECKING:
    from tidegauge.theory.paths import Limits, Moves

_SHORT = 12
"""Bins up to which paths through two groups are tried."""


class Remembered(NamedTuple):
    """Rows s[t] - memory s[t-1]; a shift of the shared draw by 1 costs `veil` (None: there is none) and moves a row by 1 - memory."""

    memory: float
    veil: float | None
    bins: int


def remembered_paths(rows: Remembered, *, limits: Limits, moves: Moves) -> float:
    """Most that the rows move in L1, all together, for the best shift of the shared draw.  [T10]

    Path:     s is 0, and from the first change on `high` or -`low`.
    Shift:    one for all paths, so that the bound also holds for data that react to what was published.
    Groups:   however many there are; without a shared draw.
    Exact:    but for rounding and, loaded, for two groups and many bins.
    Proof:    docs/theory/T10.md
    """
    jumps, reach = limits.within(rows.bins)
    later, left = limits.after_load(rows.bins) if moves.loaded else (0, 0)
    q, most, apart = 1 - rows.memory, max(moves.high, moves.low), moves.high + moves.low
    if moves.groups > 1:
        new = 1 + (jumps - 1) * (1 + rows.memory) + (rows.bins - jumps) * q
        bound = most * max(new, 2 * later + 2 * (rows.bins - later) * q if later else 0.0)
        if moves.groups == 2 and later and rows.bins <= _SHORT:  # there may be nowhere else to go
            matrix = q * np.tri(rows.bins, k=-1) + np.eye(rows.bins)
            tried = row_paths(matrix, limits=limits, moves=moves)
            return bound if tried is None else min(bound, tried[0])
        return bound

    begun = _Begun(jumps, reach, (moves.high, -moves.low), anchored=False)
    kinds = [begun]
    if later:  # from one end of the range to the other and back, counted from where it was
        kinds += [_Begun(later, left, (end, 0.0), anchored=True) for end in (apart, -apart)]

    def value(shift: float) -> float:
        return max(_most(rows, shift, one) for one in kinds) + abs(shift) * (rows.veil or 0.0)

    if rows.veil is None:
        return value(0.0)
    low, high = (-apart, apart) if moves.loaded else (-moves.low, moves.high)
    best = minimize_scalar(value, bounds=(low, high), method="bounded", options={"xatol": 1e-6})
    return min(float(best.fun), value(0.0), value((low + high) / 2))


class _Begun(NamedTuple):
    """Paths with so many changes in so many bins (anchored: the first), from 0 to one of the ends and then by turns."""

    jumps: int
    reach: int
    ends: tuple[float, float]
    anchored: bool


def _most(rows: Remembered, shift: float, paths: _Begun) -> float:
    """For this shift.  What a path adds up to is linear in its turns, odd and even: only the fewest and the most are tried."""
    b, q = rows.memory, 1 - rows.memory
    starts = np.arange(paths.reach if paths.anchored else rows.bins)
    stays = rows.bins - 1 - starts
    room = np.minimum(paths.reach - 1 - (starts if paths.anchored else 0), stays)
    most = np.minimum(paths.jumps - 1, room)
    best = abs(shift) * (1 + (rows.bins - 1) * q)  # no change at all
    for value, other in (paths.ends, paths.ends[::-1]):
        if not value:
            continue
        waited = abs(shift) * (1 + q * (starts - 1)) + abs(value - q * shift)
        waited[0] = abs(value - shift)
        here, there = q * abs(value - shift), q * abs(other - shift)
        to, fro = abs(other - b * value - q * shift), abs(value - b * other - q * shift)
        for turns in (*(np.full_like(most, few) for few in range(4)), most - 1, most):
            odd = turns % 2 == 1
            final, between = np.where(odd, there, here), np.where(odd, here, there)
            gained = np.where(turns > 0, np.maximum(between - final, 0.0) * (room - turns), 0.0)
            turned = (turns + 1) // 2 * to + turns // 2 * fro
            found = waited + turned + final * (stays - turns) + gained
            best = max(best, float(found[(turns >= 0) & (turns <= most)].max(initial=0.0)))
    return best
