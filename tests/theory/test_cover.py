"""T5 and T6: covers against the shortest path through all nodes, and the rule against plain variances."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

import pytest

from tidegauge.errors import SpecError
from tidegauge.model.constraint import AtMost, Within
from tidegauge.theory import cover, cover_bound, hierarchy_beats_sliding, sliding_from_hierarchy

if TYPE_CHECKING:
    from collections.abc import Callable

LAST = 40
SHAPES = [(branching, height) for branching in (2, 3, 4, 5) for height in (1, 2, 3, 4, 6)]


def fewest(left: int, branching: int, height: int) -> dict[int, int]:
    """Fewest nodes end to end from `left` to every later point, over every node there is."""
    sizes = [branching**layer for layer in range(height)]
    steps = {left: 0}
    for end in range(left + 1, LAST + 1):
        before = [end - size for size in sizes if end % size == 0 and end - size >= left]
        steps[end] = 1 + min(steps[start] for start in before)
    return steps


@pytest.mark.parametrize(("branching", "height"), SHAPES)
def test_cover_is_a_smallest_disjoint_union(branching: int, height: int) -> None:
    for left in range(LAST):
        for right, nodes in fewest(left, branching, height).items():
            found = cover(left, right, branching=branching, height=height)
            assert all(0 <= layer < height for layer, _ in found)
            points = [
                point
                for layer, index in found
                for point in range(index * branching**layer + 1, (index + 1) * branching**layer + 1)
            ]
            assert points == list(range(left + 1, right + 1))
            assert len(found) == nodes


@pytest.mark.parametrize(("branching", "height"), SHAPES)
def test_the_bound_is_the_longest_cover(branching: int, height: int) -> None:
    covers = {left: fewest(left, branching, height) for left in range(LAST)}
    for windows in range(1, LAST // 3):
        longest = max(covers[left][left + windows] for left in range(LAST - windows + 1))
        bound = cover_bound(windows, branching=branching, height=height)
        assert longest <= bound
        if branching ** (height - 1) <= LAST // 3:  # a boundary of the top layer lies far enough inside
            assert longest == bound
        needed = next(h for h in range(1, 9) if branching**h >= windows)
        if height >= needed:
            assert bound <= 2 * (branching - 1) * needed


def test_cover_examples() -> None:
    assert cover(0, 99, branching=10, height=2) == [(1, i) for i in range(9)] + [
        (0, i) for i in range(90, 99)
    ]
    assert cover(3, 4, branching=2, height=5) == [(0, 3)]  # a single window needs one node
    assert cover(5, 5, branching=2, height=5) == []
    assert cover(0, 2**60, branching=2, height=61) == [(60, 0)]
    assert cover_bound(0, branching=2, height=3) == 0
    assert cover_bound(1, branching=2, height=3) == 1


@pytest.mark.parametrize(
    ("window", "period", "branching", "expected"),
    [
        (14, 1, 2, (1, 4)),
        (14, 4, 2, (2, 3)),
        (1, 1, 2, (1, 1)),
        (2, 3, 2, (1, 1)),
        (9, 3, 3, (3, 1)),
        (0.75, 0.5, 2, (Fraction(1, 4), 2)),
        ("14 days", "12 hours", 3, (timedelta(hours=12), 4)),
    ],
)
def test_sliding_from_hierarchy(
    window: str | float, period: str | float, branching: int, expected: tuple[object, int]
) -> None:
    assert sliding_from_hierarchy(window=window, period=period, branching=branching) == expected


@pytest.mark.parametrize("branching", [2, 3, 8])
def test_every_sliding_window_is_a_short_sum_of_nodes(branching: int) -> None:
    for window in range(1, 13):
        for period in range(1, 7):
            width, height = sliding_from_hierarchy(window=window, period=period, branching=branching)
            assert isinstance(width, Fraction)
            bins, stride = Fraction(window) / width, Fraction(period) / width
            assert bins.denominator == stride.denominator == 1
            for reading in range(20):
                left = int(reading * stride)
                nodes = cover(left, left + int(bins), branching=branching, height=height)
                assert len(nodes) <= 2 * (branching - 1) * height


def variance(loss: Fraction, folds: int, nodes: int) -> Fraction:
    """Of a sum of `nodes` Laplace measurements, when `folds` of them share the loss."""
    return nodes * 2 * (folds / loss) ** 2


@pytest.mark.parametrize("branching", [2, 4, 16])
def test_the_rule_compares_worst_variances_at_equal_loss(branching: int) -> None:
    loss, answers = Fraction(1), set()
    for window in (1, 2, 5, 12, 64, 365, 3650):
        for period in (1, 2, 7):
            width, height = sliding_from_hierarchy(window=window, period=period, branching=branching)
            assert isinstance(width, Fraction)
            nodes = 2 * (branching - 1) * height
            shape = {"window": window, "period": period, "branching": branching}
            for k in (1, 3):
                beats = variance(loss, height * k, nodes) < variance(loss, k * ceil(window / period), 1)
                assert hierarchy_beats_sliding(AtMost(k), **shape) == beats
                assert beats == (2 * (branching - 1) * height**3 < ceil(window / period) ** 2)
                answers.add(beats)
            for bound in (0, 1, 10):
                layers = sum(ceil(bound / (width * branching**layer)) + 1 for layer in range(height))
                beats = variance(loss, layers, nodes) < variance(loss, ceil((window + bound) / period), 1)
                assert hierarchy_beats_sliding(Within(bound), **shape) == beats
                answers.add(beats)
    assert answers == {True, False}


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (lambda: cover(-1, 2, branching=2, height=1), "left: must be a whole number, 0 or more"),
        (lambda: cover(3, 2, branching=2, height=1), "right: must not lie before left"),
        (lambda: cover(1, 2, branching=1, height=1), "branching: must be a whole number, 2 or more"),
        (lambda: cover_bound(-1, branching=2, height=1), "windows: must be a whole number, 0 or more"),
        (lambda: sliding_from_hierarchy(window=1, period="1 day", branching=2), "cannot be compared"),
        (lambda: sliding_from_hierarchy(window=0, period=1, branching=2), "window: must be greater than 0"),
    ],
)
def test_refusals(refused: Callable[[], object], why: str) -> None:
    with pytest.raises(SpecError, match=why):
        refused()
