"""Values that other libraries state in their own tests, computed by our code.

Facts from tensorflow/privacy@03035d5 (tree_aggregation_accountant_test.py, tree_aggregation_test.py;
Apache-2.0), opendp/opendp@bc6e18b (b_ary_tree/test.rs; MIT) and google-deepmind/jax_privacy@8967688
(tests/matrix_factorization; Apache-2.0).
"""

from __future__ import annotations

import json
import os
from fractions import Fraction
from math import floor, log2
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from tidegauge.mechanism.strategies import shapes
from tidegauge.mechanism.strategies.hierarchy import Hierarchy
from tidegauge.mechanism.strategy import Exposure
from tidegauge.model.constraint import AtMost
from tidegauge.model.quantity import DAY, Span
from tidegauge.model.schedule import Schedule
from tidegauge.theory import cover
from tidegauge.theory.accounting.conversion import rho_to_epsilon

if TYPE_CHECKING:
    from collections.abc import Iterator

SENSITIVITY: Final = ((1, 7, 8, 4), (3, 3, 9, 11), (3, 2, 7, 9), (2, 0, 8, 14), (8, 2, 24, 88))
"""k leaves with at least so many others between, steps, largest squared norm of one binary tree."""
LONGER: Final = ((2, 0, 1024, 42), (4, 0, 1024, 156), (8, 0, 1024, 568), (16, 0, 1024, 2032), (4, 6, 365, 92))
"""The same for trees that are too large for all placements: the leaves stay as close together as they may."""
NODES: Final = {1: 1, 2: 1, 3: 2, 4: 1, 5: 2, 6: 2, 7: 3, 8: 1, 16: 1, 17: 2, 18: 2, 19: 3,
                1024: 1, 1025: 2, 1026: 2, 1027: 3}  # fmt: skip
HONAKER_VARIANCE: Final = {4: Fraction(4, 7), 7: Fraction(4, 7) + Fraction(2, 3) + 1, 8: Fraction(8, 15)}
HONAKER_OF_ONES: Final = {1: Fraction(1), 2: Fraction(4, 3), 3: Fraction(7, 3), 4: Fraction(12, 7),
                          8: Fraction(32, 15), 1024: 11 / (2 - Fraction(1, 1024))}  # fmt: skip
TREE_OF_TEN_ONES: Final = (10, 8, 2, 4, 4, 2, 0, 2, 2, 2, 2, 2, 0, 0, 0, *[1] * 10)
NOISING: Final = (Fraction(1), Fraction(-1, 2), Fraction(-1, 8), Fraction(-1, 16), Fraction(-5, 128))


def tree(steps: int) -> Hierarchy:
    """A binary tree whose leaves are all bins."""
    return Hierarchy(2, (steps - 1).bit_length() + 1, steps, "leaf")


def measurements(steps: int) -> np.ndarray:
    """One row for each node that is complete: 1 for the bins that it sums."""
    found = []
    for bin_ in range(steps):
        for row in tree(steps).rows(bin_):
            line = np.zeros(steps, dtype=np.int64)
            for first, last, weight in row.ranges:
                line[first : last + 1] += weight
            found.append(line)
    return np.array(found)


def squared(matrix: np.ndarray, leaves: tuple[int, ...]) -> int:
    return int((matrix[:, list(leaves)].sum(axis=1) ** 2).sum())


def placements(k: int, between: int, steps: int, first: int = 0) -> Iterator[tuple[int, ...]]:
    """At most k leaves, with at least so many others between two of them."""
    yield ()
    if k:
        for leaf in range(first, steps):
            for more in placements(k - 1, between, steps, leaf + between + 1):
                yield (leaf, *more)


@pytest.mark.parametrize(("k", "between", "steps", "expected"), SENSITIVITY)
def test_the_sensitivity_of_a_tree(k: int, between: int, steps: int, expected: int) -> None:
    """The largest over all placements, from the rows that we measure."""
    matrix = measurements(steps)
    gram = matrix.T @ matrix
    found = max(sum(gram[a, b] for a in leaves for b in leaves) for leaves in placements(k, between, steps))
    assert found == expected


@pytest.mark.parametrize(("k", "between", "steps", "expected"), LONGER)
def test_the_sensitivity_of_a_large_tree(k: int, between: int, steps: int, expected: int) -> None:
    """Leaves that are as close together as they may be, from any first one."""
    matrix = measurements(steps)
    step = between + 1
    starts = range(steps - step * (k - 1))
    found = max(squared(matrix, tuple(range(start, start + step * k, step))) for start in starts)
    assert found == expected


def test_a_tree_of_which_every_leaf_is_touched() -> None:
    steps = 8
    assert squared(measurements(steps), tuple(range(steps))) == 120
    for longer in (24, 365):
        matrix = measurements(longer)
        pair = max(squared(matrix, (at, at + 1)) for at in range(longer - 1))
        assert pair == 2 + 4 * floor(log2(longer))


def test_the_nodes_of_a_prefix() -> None:
    for end, expected in NODES.items():
        assert len(cover(0, end, branching=2, height=12)) == expected


def test_least_squares_over_the_past() -> None:
    for end, expected in HONAKER_VARIANCE.items():
        strategy = tree(8)
        assert strategy.variances(np.array([end - 1]), None)[0] == pytest.approx(float(expected), rel=1e-12)
    for end, expected in HONAKER_OF_ONES.items():
        strategy = tree(max(end, 2))
        assert strategy.weights(end - 1, None).sum() == pytest.approx(float(expected), rel=1e-12)


def test_the_twin_that_must_fail() -> None:
    """A tree that branches in three has other variances and sums."""
    other = Hierarchy(3, 3, 9, "leaf")
    assert other.variances(np.array([3]), None)[0] != pytest.approx(float(HONAKER_VARIANCE[4]))
    assert other.weights(7, None).sum() != pytest.approx(float(HONAKER_OF_ONES[8]))


def test_epsilon_of_a_tree() -> None:
    """The first two are upper bounds, and our conversion of the same rho is sharper; the last is exact."""
    for noise, expected in ((Fraction("1.13"), 19.74), (Fraction("8.83"), 2.04)):
        rho = Fraction(11) / (2 * noise**2)
        found = float(rho_to_epsilon(rho, delta=Fraction(1, 10**6)))
        assert 0.85 * expected < found <= expected
    assert round(float(rho_to_epsilon(Fraction("0.81"), delta=Fraction(1, 10**10))), 2) == 8.92


def test_the_nodes_of_a_tree_of_ones() -> None:
    """Nodes that are complete after ten of sixteen leaves, layer by layer from the root."""
    layers: dict[int, list[int]] = {}
    for bin_ in range(10):
        for row in Hierarchy(2, 5, 16, "leaf").rows(bin_):
            layers.setdefault(row.layer, []).append(sum(last - first + 1 for first, last, _ in row.ranges))
    place = 0
    for height in range(5):
        known = TREE_OF_TEN_ONES[place : place + 2**height]
        ours = layers.get(4 - height, [])
        assert list(known[: len(ours)]) == ours
        place += 2**height


def test_the_l1_sensitivity_of_a_tree() -> None:
    """One change of a flow touches one node of each of five layers."""
    strategy = Hierarchy(2, 5, 16, "leaf")
    exposure = Exposure(AtMost(1), Schedule(0, Span(micros=DAY), 16), "flow", 0, 1)
    assert strategy.sensitivity(exposure).l1 == 5


def test_the_square_root_of_prefix_sums() -> None:
    for size in (1, 2, 10, 100):
        column = shapes.power(size, -0.5)
        matrix = np.array([[column[i - j] if i >= j else 0.0 for j in range(size)] for i in range(size)])
        assert matrix @ matrix == pytest.approx(np.tri(size), abs=1e-12)
    assert shapes.power(5, 0.5) == pytest.approx([float(one) for one in NOISING], rel=1e-14)


@pytest.mark.skipif(
    "TIDEGAUGE_VECTORS" not in os.environ, reason="TIDEGAUGE_VECTORS names no file of vectors"
)
def test_the_facts_are_those_of_the_file() -> None:
    known: dict[str, Any] = json.loads(Path(os.environ["TIDEGAUGE_VECTORS"]).read_text("utf-8"))
    rows = {tuple(row[:4]) for row in known["tf_privacy_tree_sensitivity"]["rows"]}
    assert {*SENSITIVITY, *LONGER} - {LONGER[0]} <= rows
    terms = known["tf_privacy_tree_noise_terms"]
    prefixes = dict(enumerate(terms["vanilla_nodes_per_prefix_1_to_8"], start=1))
    assert prefixes | {int(end): count for end, count in terms["vanilla_last"].items()} == NODES
    assert tuple(known["opendp_b_ary_tree"]["tree"]) == TREE_OF_TEN_ONES
    assert tuple(map(Fraction, known["jax_privacy_matrix_factorization"]["sqrt_noising_coefs_5"])) == NOISING
