"""From a strategy and its measurements to a linear system and rows of noise scale 1."""

from __future__ import annotations

from functools import singledispatch
from math import sqrt
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidegauge.errors import SpecError
from tidegauge.mechanism.strategies.ahead import Ahead
from tidegauge.mechanism.strategies.buffered import Buffered
from tidegauge.mechanism.strategies.sliding import Sliding
from tidegauge.mechanism.strategies.toeplitz import Toeplitz
from tidegauge.mechanism.strategies.triangular import Triangular
from tidegauge.publish.denoise.compress import compressed
from tidegauge.publish.denoise.system import Seen, Step, System

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from tidegauge.mechanism.strategy import Row, Strategy

    Floats = NDArray[np.float64]

_MOST_LEVELS: Final = 24
"""Most past running values that a state contains; with more of them, the matrix is compressed."""
_INSTEAD: Final = "Read the published values, or --smoothed ones"
_LONGEST: Final = 1 << 14
"""Most bins for which a matrix is compressed: in about a minute."""
_LONGEST_COVARIANCE: Final = 1 << 12
"""Most bins for which the covariance of noise that was drawn ahead is inverted."""


class Measured(NamedTuple):
    """The measurements of one component as a system over bins."""

    system: System
    rows: Floats
    """Rows by cells, in units of the base noise."""
    first: int | None
    """The bin of step 0; None: a step is a reading of the release, and coordinate 0 its value."""


@singledispatch
def measured(strategy: Strategy, bins: int, rows: Floats) -> Measured:
    """The system of a strategy after this many bins.

    `rows`: its measurements by cells, over the standard deviation of the base noise and the denominator, so
    that the state is in units of that noise as well.  This form fits every strategy; others may be faster.
    """
    found = [strategy.rows(bin_) for bin_ in range(bins)]
    first = next((bin_ for bin_, some in enumerate(found) if some), bins)
    steps = _of_levels(strategy, found, first)
    if steps is None:
        steps = _of_matrix(strategy, found[first:], first)
    return Measured(System(steps, _offset(strategy, found, first)), rows, first)


def _offset(strategy: Strategy, found: Sequence[Sequence[Row]], first: int) -> float:
    """The variance that shared noise adds to every running value, in units of the base noise.

    Raises SpecError unless the shared noise is in all rows like one constant that every running value has.
    """
    if strategy.shared is None:
        return 0.0
    times = strategy.rows(first)[0].shared / strategy.rows(first)[0].ranges[0][2]
    for row in (row for some in found for row in some):
        loaded = sum(weight for begin, end, weight in row.ranges if begin <= first <= end)
        if abs(row.shared - times * loaded) > 1e-9 * abs(row.shared):
            raise SpecError(f"the shared noise of strategy '{strategy.name}' cannot be denoised. {_INSTEAD}")
    return (float(strategy.shared) * times * strategy.denominator) ** 2


class _Sum(NamedTuple):
    """A row as a sum of running values: its weights by bin, and its variance."""

    weights: dict[int, float]
    variance: float


def _of_levels(strategy: Strategy, found: Sequence[Sequence[Row]], first: int) -> list[Step] | None:
    """Steps whose state has the running values that later rows need; None if these are too many."""
    if any(len(row.ranges) > _MOST_LEVELS for some in found for row in some):
        return None
    sums = [[_sum(strategy, row, first) for row in some] for some in found]
    last = {level: bin_ for bin_, some in enumerate(sums) for one in some for level in one.weights}
    held: dict[int, int] = {}
    free: list[int] = []
    places, width = [], 1
    for bin_ in range(len(sums)):
        free.extend([held.pop(level) for level in list(held) if last[level] < bin_])
        if last.get(bin_ - 1, -1) >= bin_:
            if not free:
                free.append(width)
                width += 1
            held[bin_ - 1] = free.pop()
        places.append(dict(held))
    if width > _MOST_LEVELS:
        return None
    steps = []
    for bin_ in range(first, len(sums)):
        transition, place = np.zeros((width, width)), places[bin_]
        transition[0, 0] = 1.0
        for level, slot in place.items():
            transition[slot, 0 if level == bin_ - 1 else slot] = 1.0
        seen = []
        for one in sums[bin_]:
            weights = np.zeros(width)
            for level, weight in one.weights.items():
                weights[0 if level == bin_ else place[level]] += weight
            seen.append(Seen(weights, one.variance))
        steps.append(Step(transition, np.eye(width)[0], tuple(seen)))
    return steps


def _sum(strategy: Strategy, row: Row, first: int) -> _Sum:
    weights: dict[int, float] = {}
    for begin, end, weight in row.ranges:
        for level, sign in ((end, 1), (begin - 1, -1)):
            if level >= first:
                weights[level] = weights.get(level, 0.0) + sign * weight / strategy.denominator
    kept = {level: weight for level, weight in weights.items() if weight}
    return _Sum(kept, float(strategy.scales[row.layer]) ** 2)


def _of_matrix(strategy: Strategy, found: Sequence[Sequence[Row]], first: int) -> list[Step]:
    """Steps of a strategy that measures one row in each bin from the first on."""
    if any(len(some) != 1 for some in found):
        raise SpecError(
            f"strategy '{strategy.name}' cannot be denoised: a row combines too many bins. {_INSTEAD}"
        )
    scales = [float(strategy.scales[some[0].layer]) for some in found]

    def row(at: int) -> Floats:
        whole = np.zeros(first + at + 1)
        for begin, end, weight in found[at][0].ranges:
            whole[begin : end + 1] += weight
        return whole[first:] / strategy.denominator / scales[at]

    return [
        Step(
            step.transition,
            step.gain,
            tuple(Seen(seen.weights * scale, scale**2) for seen in step.seen),
        )
        for step, scale in zip(_compressed(row, len(found)), scales, strict=True)
    ]


def _compressed(row: Callable[[int], Floats], count: int) -> list[Step]:
    if count > _LONGEST:
        raise SpecError(
            f"a matrix for {count:,} bins cannot be denoised ({_LONGEST:,} is the most). {_INSTEAD}; another "
            "gauge can use the strategy 'buffered', which has no such limit"
        )
    return compressed(row, count)


@measured.register(Triangular)
def _triangular(strategy: Triangular, bins: int, rows: Floats) -> Measured:
    """By compression of its matrix."""
    matrix, first = strategy.matrix, strategy.first
    steps = _compressed(lambda at: matrix[at, : at + 1] / strategy.denominator, bins - first)
    return Measured(System(steps), rows, first)


@measured.register(Ahead)
def _ahead(strategy: Ahead, bins: int, rows: Floats) -> Measured:
    """By compression of the matrix that makes the noise of the rows independent."""
    count = bins - strategy.first
    if strategy.bins > _LONGEST_COVARIANCE:
        raise SpecError(
            f"noise that was drawn ahead for {strategy.bins:,} bins cannot be denoised "
            f"({_LONGEST_COVARIANCE:,} is the most). {_INSTEAD}"
        )
    white = np.linalg.inv(np.linalg.cholesky(strategy.tree.covariance[:count, :count]))
    return Measured(System(_compressed(lambda at: white[at, : at + 1], count)), white @ rows, strategy.first)


@measured.register(Toeplitz)
def _toeplitz(strategy: Toeplitz, bins: int, rows: Floats) -> Measured:
    """By compression of its matrix."""
    count = bins - strategy.first
    by_age = np.zeros(count)
    usable = strategy.coefficients[:count] / strategy.denominator
    by_age[: len(usable)] = usable
    return Measured(System(_compressed(lambda at: by_age[at::-1], count)), rows, strategy.first)


@measured.register(Sliding)
def _sliding(strategy: Sliding, bins: int, rows: Floats) -> Measured:
    """Every window by itself: the noise of windows is independent."""
    del strategy, bins
    step = Step(np.ones(1), np.ones(1), (Seen(np.ones(1), 1.0),))
    return Measured(System([step] * len(rows)), rows, None)


@measured.register(Buffered)
def _buffered(strategy: Buffered, bins: int, rows: Floats) -> Measured:
    """The buffers are the state.  The estimate of the offset is taken out of the rows again."""
    count, a = bins - strategy.first, strategy.shape
    freed, learned, before = np.empty_like(rows), np.zeros(rows.shape[1]), 1.0
    for age in range(count):
        after = before + strategy.offset * a[age] ** 2
        freed[age] = rows[age] * sqrt(after / before) + strategy.offset * a[age] / before * learned
        learned += a[age] * freed[age]
        before = after
    parts = [part.split(":") for part in strategy.buffers.split()]
    weights = np.array([float(weight) for weight, _ in parts])
    keeps = 1 - np.array([float(forgets) for _, forgets in parts])
    lasting = keeps == 1
    weights = np.append(weights[lasting].sum(), weights[~lasting])
    keeps = np.append(1.0, keeps[~lasting])
    step = Step(keeps, np.ones(len(keeps)), (Seen(weights, 1.0),))
    return Measured(System([step] * count, strategy.offset), freed, strategy.first)
