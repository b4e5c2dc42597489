"""T1 against every change that one unit can make in one window, value by value and group by group."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import inf, nextafter
from typing import TYPE_CHECKING

import pytest

from tidegauge.errors import SpecError
from tidegauge.theory import Sensitivity, sensitivity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

RANGES = [(0, 1), (50, 100), (-100, -50), (-3, 5), (-5, 3), (-2, 2), (0, 0), (1, 1), (-7, 1), (0, 4)]
GROUPS = 3
Vector = tuple[int, ...]
NOTHING: Vector = (0,) * GROUPS


def values(lower: int, upper: int) -> set[int]:
    """The ends of the range, something between, and 0 for what is NULL or filtered out."""
    return {lower, (lower + upper) // 2, upper, 0}


def states(lower: int, upper: int, *, grouped: bool) -> list[Vector]:
    """What one row can contribute: nothing, or a value in one group."""
    groups = range(GROUPS if grouped else 1)
    return sorted(
        {NOTHING}
        | {
            tuple(value if group == mine else 0 for group in range(GROUPS))
            for mine in groups
            for value in values(lower, upper)
        }
    )


def plus(*vectors: Vector) -> Vector:
    return tuple(map(sum, zip(*vectors, strict=True)))


def minus(after: Vector, before: Vector) -> Vector:
    return tuple(new - old for new, old in zip(after, before, strict=True))


def norms(changes: Iterable[Vector]) -> Sensitivity:
    """The largest of each norm."""
    vectors = set(changes)
    return Sensitivity(
        l1=Fraction(max(sum(map(abs, vector)) for vector in vectors)),
        l2_squared=Fraction(max(sum(entry**2 for entry in vector) for vector in vectors)),
    )


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize(("lower", "upper"), RANGES)
def test_stock(lower: int, upper: int, rows: int, grouped: bool) -> None:
    one_row = states(lower, upper, grouped=grouped)
    unit = {plus(*chosen) for chosen in combinations_with_replacement(one_row, rows)}
    truth = norms(minus(after, before) for before in unit for after in unit)
    assert sensitivity(lower=lower, upper=upper, grouped=grouped, rows=rows) == truth


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("mutations", [1, 2, 3])
@pytest.mark.parametrize(("lower", "upper"), [(0, 1), (50, 100), (-3, 5), (-2, 2)])
def test_flow(lower: int, upper: int, mutations: int, rows: int, grouped: bool) -> None:
    one = states(lower, upper, grouped=grouped)
    for clip in (None, 1, 2, 5):
        counted = mutations if clip is None else min(mutations, clip)
        per_row = {plus(*chosen) for chosen in combinations_with_replacement(one, counted)}
        unit = {plus(*chosen) for chosen in combinations_with_replacement(sorted(per_row), rows)}
        assert sensitivity(
            kind="flow", lower=lower, upper=upper, grouped=grouped, rows=rows, mutations=mutations, clip=clip
        ) == norms(unit)


def test_a_clip_alone_bounds_a_flow() -> None:
    assert sensitivity(kind="flow", lower=0, upper=2, clip=3) == Sensitivity(Fraction(6), Fraction(36))


def test_the_range_of_the_paper_understates() -> None:
    """f in [50, 100]: an insertion moves the sum by 100, not by 100 - 50."""
    assert sensitivity(lower=50, upper=100).l1 == 100


def test_bounds_are_what_was_written() -> None:
    assert sensitivity(lower=-0.1, upper="0.2").l1 == Fraction(3, 10)


@pytest.mark.parametrize(
    "square",
    [Fraction(*pair) for pair in product((0, 1, 2, 3, 10**40 + 1), (1, 7, 10**60, 3**200))],
)
def test_the_root_is_the_next_float_above(square: Fraction) -> None:
    root = Sensitivity(l1=Fraction(0), l2_squared=square).l2
    assert Fraction(root) ** 2 >= square
    assert root == 0 or Fraction(nextafter(root, -inf)) ** 2 < square


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (lambda: sensitivity(lower=2, upper=1), "lower: must not be above upper"),
        (lambda: sensitivity(lower=0, upper=float("inf")), "not a finite number"),
        (lambda: sensitivity(lower=0, upper=1, rows=0), "rows: must be a whole number, 1 or more"),
        (lambda: sensitivity(kind="flow", lower=0, upper=1), "nothing bounds what one unit adds"),
        (lambda: sensitivity(kind="flow", lower=0, upper=1, clip=0), "clip: must be a whole number"),
        (
            lambda: sensitivity(kind="flow", lower=0, upper=1, mutations=0),
            "mutations: must be a whole number",
        ),
        (
            lambda: sensitivity(kind="level", lower=0, upper=1),  # type: ignore[arg-type]
            "kind: must be 'stock' or 'flow'",
        ),
    ],
)
def test_refusals(refused: Callable[[], object], why: str) -> None:
    with pytest.raises(SpecError, match=why):
        refused()
