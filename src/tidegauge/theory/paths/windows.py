"""The bound for units that may change any number of times, but only within a span of consecutive bins.

Before its first change the unit is off. In the free bins it may be on or off. Its state in the last bin of
its span is its state for the rest of time.  For on = (1 + sigma) / 2, sigma = +-1 on the free bins, the
energy is a constant, a linear term h sigma and sigma' T sigma / 4; and for every L above the largest
eigenvalue of T / 4

    sigma' T sigma / 4 + h sigma  <=  L m + h' (L - T / 4)^-1 h / 4.

A shift of the offset changes h along a line, so the bound is a parabola in it.
"""

from __future__ import annotations

from math import cos, pi, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidegauge.theory.paths.rounding import U, dot_error, transform_error
from tidegauge.theory.paths.stationary import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tidegauge.theory.paths.stationary import Stationary

    Floats = NDArray[np.float64]

_SOLVED = 1024
_FINER = 32


class _Settling(NamedTuple):
    """The time after the free bins: cross terms with them, their least level, its own energies and levels."""

    crosses: Floats
    least: Floats
    energies: Floats
    levels: Floats


def any_changes_within(
    found: Stationary, offset: float, span: int, *, below: tuple[float, bool] | None = None, coarse: bool
) -> float:
    """Upper bound of the squared length for units whose changes all lie in `span` bins.  [T10]

    Below:    (sunk, ends_on) for a unit that is on or off less `sunk` from its first change on; None: on/off.
    Proof:    docs/theory/T10-windows.md, docs/theory/T10-below-windows.md
    """
    free = span - 1
    if below is None:
        settlings = list(_settlings(found, free, 1.35 if coarse else 1.15))
    else:
        settlings = list(_sunk(found, free, 2.0 if coarse else 1.15, *below))
    stiffness = 1 / offset + found.open[-1] if offset else 0.0
    shifts = np.linspace(0, 0.9, 46) if offset else np.zeros(1)
    bound = np.full((len(settlings), len(shifts)), np.inf)
    for slack in (0.01,) if coarse else (0.002, 0.01, 0.05):
        bound = np.minimum(bound, _free_bins(found, settlings, shifts, slack))
    fixed = stiffness * shifts**2
    after = np.array(
        [(each.energies[:, None] - 2 * np.outer(each.levels, shifts)).max(axis=0) for each in settlings]
    )
    sizes = np.abs(bound) + fixed + max(float(np.abs(each.energies).max(initial=0.0)) for each in settlings)
    bound += (
        fixed + after + 64 * U * (sizes + 2 * max(float(np.abs(each.levels).max()) for each in settlings))
    )
    return float(
        max(bound.min(axis=1).max(), bound[-1, 0] if below else 0.0)
    )  # cut off by the end: as if earlier


def _settlings(found: Stationary, free: int, ratio: float) -> Iterator[_Settling]:
    """Off for the rest of time; or on, from every block of starts."""
    nothing = np.zeros(1)
    yield _Settling(np.zeros(free), np.full(free, found.level.min()), nothing, nothing)
    distances = np.arange(free, 0, -1)
    for start, end in blocks(found.bins - free - 1, ratio):
        longest, shortest = found.bins - free - start, found.bins - free - end
        tail = slice(shortest, longest + 1)
        crosses = 2 * found.beyond(distances, shortest)
        least = _least_level(found, free, start, end)
        yield _Settling(crosses, least, found.open[tail], found.level_of_last[tail])


def _sunk(found: Stationary, free: int, ratio: float, sunk: float, ends_on: bool) -> Iterator[_Settling]:
    """On or off for the rest of time, less `sunk` from the first change on; from every block of starts."""
    distances = np.arange(free, 0, -1)
    apart = np.cumsum(found.coefficients[: found.bins - free] * found.coefficients[free:]) - found.error
    for start, end in blocks(found.bins - free - 1, ratio):
        longest, shortest = found.bins - free - start, found.bins - free - end
        tail, whole = slice(shortest, longest + 1), slice(free + shortest, free + longest + 1)
        crosses = -2 * sunk * found.later(start).level[:free]
        energies, levels = sunk**2 * found.open[whole], -sunk * found.most_level_of_last[whole]
        if ends_on:
            crosses += 2 * found.beyond(distances, shortest)
            energies = energies + found.open[tail] - 2 * sunk * apart[shortest - 1 : longest]
            levels = levels + found.level_of_last[tail]
        yield _Settling(crosses, _least_level(found, free, start, end), energies, levels)


def _least_level(found: Stationary, free: int, start: int, end: int) -> Floats:
    """A lower bound of the level in each free bin, if the first of them lies in this block."""
    slots = np.arange(free)
    least: Floats = np.maximum(found.level_before[end + slots], found.level_after[start + slots])
    return least


def _free_bins(found: Stationary, settlings: list[_Settling], shifts: Floats, slack: float) -> Floats:
    """Upper bound of the free bins' energy and linear terms, less twice the shift times their level.

    Raised by the errors of T and the linear terms, and by more than all its roundings.
    """
    from scipy.linalg import cho_factor, cho_solve, toeplitz  # noqa: PLC0415  (slow to load)

    linear = np.array([settling.crosses for settling in settlings])
    least = np.array([settling.least for settling in settlings])
    free = linear.shape[1]
    lagged = found.lagged[:free]
    total = free * lagged[0] + 2 * (np.arange(free - 1, 0, -1) @ lagged[1:])
    sums = np.cumsum(lagged)
    h = (sums + sums[::-1] - lagged[0] + linear) / 2
    fixed = total / 4 + linear.sum(axis=1) / 2
    largest = _largest_eigenvalue(found)
    tilted = np.outer(least.sum(axis=1), shifts)
    sizes = (
        np.abs(h).sum(axis=1)
        + np.abs(linear).sum(axis=1)
        + free * (2 * float(np.abs(lagged).sum()) + largest)
    )
    off = 4 * (free + 1) * found.lagged_error + 8 * (free + 16) * U * (
        sizes[:, None] + np.outer(np.abs(least).sum(axis=1), shifts)
    )
    bound: Floats
    if free > _SOLVED:
        along = np.array([np.abs(h - shift * least).sum(axis=1) for shift in shifts]).T
        bound = fixed[:, None] - tilted + free * largest + along + off
        return bound
    top = largest * (1 + slack)
    kernel = -lagged / 4
    kernel[0] += top
    matrix = toeplitz(kernel)
    wanted = np.concatenate([h, least])
    solved = cho_solve(cho_factor(matrix, check_finite=False), wanted.T).T
    left = np.linalg.norm(wanted - solved @ matrix, axis=1) + dot_error(
        free, 1.0
    ) * (np.linalg.norm(wanted, axis=1) + 4 * top * np.linalg.norm(solved, axis=1))  # fmt: skip
    (solved_h, solved_least), (left_h, left_least) = np.split(solved, 2), np.split(left, 2)
    parabola = (h * solved_h).sum(axis=1), (h * solved_least).sum(axis=1), (least * solved_least).sum(axis=1)
    squares = parabola[0][:, None] - 2 * np.outer(parabola[1], shifts) + np.outer(parabola[2], shifts**2)
    # h'K^-1 h = h'x + x'r + r'K^-1 r for any x with r = h - Kx, and no eigenvalue of K is below top - largest
    missed = left_h[:, None] + np.outer(left_least, shifts)
    found_norm = np.linalg.norm(solved_h, axis=1)[:, None] + np.outer(
        np.linalg.norm(solved_least, axis=1), shifts
    )
    asked_norm = np.linalg.norm(h, axis=1)[:, None] + np.outer(np.linalg.norm(least, axis=1), shifts)
    squares += (
        missed * found_norm
        + missed**2 / (slack * largest / 2)
        + 8 * (free + 16) * U * asked_norm * found_norm
    )
    bound = fixed[:, None] - tilted + free * top + squares / 4 + off
    return bound


def _largest_eigenvalue(found: Stationary) -> float:
    """An upper bound of the largest eigenvalue of T / 4: the symbol's maximum, with all errors."""
    grid = _FINER << found.bins.bit_length()
    differences = np.diff(found.coefficients, prepend=0.0)
    missed = transform_error(grid) * sqrt(grid) * float(np.linalg.norm(differences)) * 1.01
    symbol = (float(np.abs(np.fft.rfft(differences, grid)).max()) + missed) ** 2
    return symbol / cos(pi * found.bins / grid) / 4 * (1 + 64 * U) + found.lagged_error
