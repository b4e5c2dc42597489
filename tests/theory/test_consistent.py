"""T20: noise drawn ahead.  Integers are exact, estimates are least squares,
and reacting data gain nothing."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import exp, log
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.mechanism.strategies.ahead import Ahead
from tidegauge.mechanism.strategy import Exposure
from tidegauge.model.constraint import AtMost
from tidegauge.model.quantity import DAY, Span
from tidegauge.model.schedule import Schedule
from tidegauge.theory.consistent import ConsistentTree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Law = dict[tuple[int, ...], float]
    Taste = dict[tuple[int, ...], int]

TREES = [
    ConsistentTree(1, 2, (Fraction(1),)),
    ConsistentTree(5, 2, (Fraction(1), Fraction(2), Fraction(1, 2))),
    ConsistentTree(12, 3, (Fraction(1), Fraction(1), Fraction(1))),
    ConsistentTree(30, 3, (Fraction(1), Fraction(3, 2), Fraction(1), Fraction(2))),
    ConsistentTree(7, 10, (Fraction(1), Fraction(3, 4))),
    ConsistentTree(27, 3, (Fraction(1), Fraction(1))),
]


def nodes(tree: ConsistentTree) -> Floats:
    """What the nodes sum, from the definition: node i of layer j holds leaves i c^j to (i + 1) c^j - 1."""
    rows = []
    for layer in range(len(tree.scales)):
        size = tree.branching**layer
        for first in range(0, tree.leaves, size):
            row = np.zeros(tree.leaves)
            row[first : first + size] = 1
            rows.append(row)
    return np.array(rows)


def inverse(tree: ConsistentTree) -> tuple[Floats, Floats]:
    """The generalised least-squares inverse of the nodes, and the covariance of its estimates."""
    matrix = nodes(tree)
    precision = np.diag([1 / float(tree.scales[layer]) ** 2 for layer in tree.layers])
    covariance = np.linalg.inv(matrix.T @ precision @ matrix).astype(np.float64)
    return covariance @ matrix.T @ precision, covariance


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_nodes_and_estimates_are_those_of_the_definition(tree: ConsistentTree) -> None:
    assert (tree.sums(np.eye(tree.leaves)) == nodes(tree)).all()
    best, covariance = inverse(tree)
    assert np.abs(tree.reach(np.eye(tree.leaves)).T - best).max() < 2e-5
    assert tree.covariance == pytest.approx(covariance)
    first, last = np.triu_indices(tree.leaves)
    inside = (np.arange(tree.leaves) >= first[:, None]) & (np.arange(tree.leaves) <= last[:, None])
    exact = np.einsum("ai,ij,aj->a", inside, covariance, inside)
    assert tree.variances(first, last) == pytest.approx(exact)


@given(st.data())
def test_noise_moves_by_exactly_what_the_leaves_move(data: st.DataObject) -> None:
    """Also for integers of any size, and whatever the weights were rounded to."""
    tree = data.draw(st.sampled_from(TREES))
    size = data.draw(st.sampled_from([1, 10**3, 10**15, 10**60]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    draws = rng.integers(-(10**6), 10**6, (len(tree.layers), 2)).astype(object) * size + 1
    moved = rng.integers(-50, 50, (tree.leaves, 2)).astype(object)
    found = tree.leaf_noise(draws + tree.sums(moved)) - tree.leaf_noise(draws)
    assert (found == moved).all()
    assert tree.leaf_noise(draws) == pytest.approx(tree.reach(np.eye(tree.leaves)).T @ draws, rel=1e-3, abs=9)


# --- the privacy loss, from the probabilities of all that can be published

REACH = 14
EPSILON = Fraction(4)


def law(tree: ConsistentTree, scale: Fraction, combined: Callable[[object], object]) -> tuple[Law, float]:
    """The probability of every vector of leaf noise, and how much of it is left out."""
    axes = [np.arange(-REACH, REACH + 1)] * len(tree.layers)
    draws = np.array(np.meshgrid(*axes, indexing="ij")).reshape(len(tree.layers), -1)
    chance = np.ones(draws.shape[1])
    whole = 1.0
    for row, layer in zip(draws, tree.layers, strict=True):
        ratio = exp(-1 / float(scale * tree.scales[layer]))
        chance *= (1 - ratio) / (1 + ratio) * ratio ** np.abs(row)
        whole *= 1 - 2 * ratio ** (REACH + 1) / (1 + ratio)
    noise = np.asarray(combined(draws.astype(object)), dtype=np.int64)
    found: Law = {}
    values, at = np.unique(noise, axis=1, return_inverse=True)
    for vector, total in zip(values.T, np.bincount(at.ravel(), chance), strict=True):
        found[tuple(vector.tolist())] = float(total)
    return found, 1 - whole


def paths(bins: int, changes: int) -> list[tuple[int, ...]]:
    """The changes, bin by bin, of every unit that contributes 0 or 1 and changes at most so often."""
    found = []
    for states in product((0, 1), repeat=bins):
        steps = tuple(np.diff((0, *states)).tolist())
        if sum(map(abs, steps)) <= changes:
            found.append(steps)
    return found


def reactions(bins: int, changes: int, rng: np.random.Generator) -> Iterator[Callable[..., int]]:
    """Units that decide by the signs of what was published; each allowed whatever is published."""
    allowed = paths(bins, changes)
    for _ in range(60):
        taste = {signs: int(rng.integers(0, 2)) for signs in product((-1, 0, 1), repeat=bins)}

        def change(published: tuple[int, ...], before: tuple[int, ...], taste: Taste = taste) -> int:
            options = sorted({path[len(before)] for path in allowed if path[: len(before)] == before})
            signs = tuple(np.sign(published).tolist()) + (0,) * (bins - len(published))
            return options[taste[signs] % len(options)]

        yield change


def loss(found: Law, missing: float, unit: Callable[..., int], bins: int) -> float:
    """The largest loss over everything published with a reacting unit, against a world without the unit.

    The other units react too, by the sign of the last published number, in both worlds alike.
    """
    worst = 0.0
    grid = range(-4, 5)
    for published in product(grid, repeat=bins):
        others, mine = [0], [unit((), ())]
        for bin_ in range(1, bins):
            others.append(int(np.sign(published[bin_ - 1])))
            mine.append(unit(published[:bin_], tuple(mine)))
        absent = tuple(o - x for o, x in zip(published, others, strict=True))
        present = tuple(o - x for o, x in zip(absent, mine, strict=True))
        with_unit, without = found.get(present, 0.0), found.get(absent, 0.0)
        worst = max(worst, log((with_unit + 1e-300) / (without + missing)))
        worst = max(worst, log((without + 1e-300) / (with_unit + missing)))
    return worst


@pytest.mark.parametrize(
    ("bins", "branching", "scales", "changes"),
    [
        (2, 2, "1 1", 1),
        (2, 2, "1 1/2", 2),
        (3, 3, "1 1", 2),
        pytest.param(3, 3, "1 3/4", 3, marks=pytest.mark.slow),
    ],
)
def test_data_that_react_cost_no_more_than_epsilon(
    bins: int, branching: int, scales: str, changes: int
) -> None:
    """Every published vector of small worlds, with probabilities from the definition of the noise."""
    strategy = Ahead(branching, 2, bins, 0, tuple(map(Fraction, scales.split())))
    schedule = Schedule(0, Span(micros=DAY), bins)
    l1 = strategy.sensitivity(Exposure(AtMost(changes), schedule, "stock", 0, 1)).l1
    tree, scale = strategy.tree, l1 / EPSILON
    found, missing = law(tree, scale, tree.leaf_noise)  # type: ignore[arg-type]
    losses = [loss(found, missing, unit, bins) for unit in reactions(bins, changes, np.random.default_rng(1))]
    assert max(losses) <= float(EPSILON)
    assert max(losses) > 0.6 * float(EPSILON)


def test_noise_that_is_rounded_as_a_whole_is_found_to_cost_more() -> None:
    """The twin: a quarter of each estimate is thrown away, so that noise does not move with the data."""
    strategy = Ahead(2, 2, 2, 0)
    l1 = strategy.sensitivity(Exposure(AtMost(2), Schedule(0, Span(micros=DAY), 2), "stock", 0, 1)).l1
    tree = strategy.tree
    found, missing = law(tree, l1 / EPSILON, lambda draws: 3 * tree.leaf_noise(draws) // 4)  # type: ignore[arg-type]
    units = reactions(2, 2, np.random.default_rng(1))
    assert max(loss(found, missing, unit, 2) for unit in units) > float(EPSILON)
