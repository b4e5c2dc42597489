"""Noise that is drawn ahead, in a replay: which draws a release used, and what a difference costs.  [T20]

The noise of a row is a combination of draws for many nodes.  A replay knows the draws, so it can take the
noise off again; what is left must be an exact value, and no draw may serve two releases.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidegauge.audit.findings import Discrepancy
from tidegauge.mechanism.noise.samplers import DiscreteLaplace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidegauge.mechanism.encode import ComponentPlan
    from tidegauge.mechanism.noise.samplers import Noise


class Found(NamedTuple):
    """The exact values of the rows by (number, cell), and the draws that their noise was made of."""

    exact: dict[tuple[int, int], int]
    draws: frozenset[int]


def without_noise(
    component_plan: ComponentPlan,
    values: Mapping[tuple[int, int], int],
    *,
    laws: Mapping[int, Noise],
    starts: Sequence[int],
    unit: int = 1 << 128,
) -> Found:
    """Take the noise off the measurements of a component, by (number, cell).

    `laws`: the draws in their order, in units of `unit`, each with the distribution that was asked for.
    `starts`: where each call of the sampler begins.  Raises Discrepancy if no draws explain all of them.
    """
    ahead = component_plan.strategy.ahead
    assert ahead is not None
    if not values:
        return Found({}, frozenset())
    draws, cells = list(laws), 1 + max(cell for _, cell in values)
    wanted = [component_plan.noise_of(node.layer) for node in ahead.nodes for _ in range(cells)]
    for start in starts:
        some = draws[start : start + len(wanted)]
        if [laws[one] for one in some] != wanted:
            continue
        nodes = np.array([one * unit for one in some], dtype=object).reshape(-1, cells)
        noise = ahead.combined(nodes)
        exact = {spot: value - int(noise[spot]) for spot, value in values.items()}
        if max(map(abs, exact.values())) < unit // 2:
            return Found(exact, frozenset(some))
    raise Discrepancy("measurements do not have the noise that was drawn ahead for them, once")


def cost(component_plan: ComponentPlan, differences: Mapping[int, int]) -> Fraction:
    """What a difference of the rows of a cell, by their numbers, costs: the draws of all nodes move by it."""
    ahead = component_plan.strategy.ahead
    assert ahead is not None
    first_bin = min(node.ranges[0][0] for node in ahead.nodes)
    moved = np.zeros(1 + first_bin + max(differences), dtype=object)
    for number, difference in differences.items():  # one row per bin
        moved[first_bin + number] = difference
    total = Fraction(0)
    for node in ahead.nodes:
        ((first, end, _),) = node.ranges
        noise = component_plan.noise_of(node.layer)
        assert isinstance(noise, DiscreteLaplace)
        total += abs(int(sum(moved[first : end + 1]))) / noise.scale
    return total
