"""The best tree for noise that is drawn ahead: branching, height, and the scale of each layer's noise."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING, Final

import numpy as np

from tidegauge.mechanism.search.tune import Target, most_of_hierarchy, nelder_mead
from tidegauge.mechanism.strategies.ahead import Ahead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from tidegauge.mechanism.search.task import Task

    Floats = NDArray[np.float64]

_BRANCHINGS: Final = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 24, 32)
_TUNED: Final = 4
"""Trees whose scales are tuned."""
_ROUNDS: Final = 60


def ahead(task: Task) -> Ahead:
    """The tree with the least error of the task's readings that was found."""
    target = Target.of(task.schedule, worst=task.worst)

    def value(found: Ahead) -> float:
        level = target.judged(found.variances(target.bins, target.span))
        return sqrt(level) * max(float(most_of_hierarchy(found.padded, case, 1)) for case in task.cases)

    best = sorted(_trees(task), key=value)[:_TUNED]
    return min((_with_scales(one, value) for one in best), key=value)


def _trees(task: Task) -> Iterator[Ahead]:
    """Trees whose top layer has one node, or a few."""
    bins, first = task.schedule.bins, task.schedule.base
    assert bins is not None
    for branching in _BRANCHINGS:
        height, top = 1, 1
        while top < bins - first:
            height, top = height + 1, top * branching
        yield from (Ahead(branching, one, bins, first) for one in range(max(1, height - 2), height + 1))


def _with_scales(found: Ahead, value: Callable[[Ahead], float]) -> Ahead:
    """Tune the noise of each layer against that of the leaves."""
    free = found.height - 1
    if not free:
        return found

    def scaled(at: Floats) -> Ahead:
        factors = np.exp(np.clip(at, -2, 2))
        return replace(found, relative=(Fraction(1), *(Fraction(max(round(64 * f), 1), 64) for f in factors)))

    tuned = scaled(nelder_mead(lambda at: value(scaled(at)), [0.0] * free, [0.2] * free, _ROUNDS))
    return min(found, tuned, key=value)
