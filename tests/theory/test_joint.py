"""T9 against every path that one unit can take, summed over all measurements of a release."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import pytest

from tidegauge.errors import SpecError
from tidegauge.model.constraint import AtMost, Constraint, Within
from tidegauge.theory import Sensitivity, dcr_folds, hdcr_folds, hdcr_joint, joint, swcr_folds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

RANGES = [(0, 1), (50, 100), (-100, -50), (-3, 5), (-5, 3), (-2, 2), (0, 0)]
State = tuple[int, ...]  # what a row contributes to each group
Node = tuple[int, int]  # (a, b]: the windows numbered a + 1 to b


def states(lower: int, upper: int, *, grouped: bool) -> list[State]:
    ends = {lower, upper} - {0}
    return [(0, 0), *((end, 0) for end in ends), *((0, end) for end in ends if grouped)]


def lengths(changes: Sequence[State]) -> tuple[int, int]:
    entries = [entry for change in changes for entry in change]
    return sum(map(abs, entries)), sum(entry**2 for entry in entries)


def paths(
    options: Sequence[State], windows: int, *, mutations: int | None, reach: int | None
) -> Iterator[tuple[State, ...]]:
    """States at the ends of all windows, from nothing; few changes, at most `reach` apart."""
    for path in product(options, repeat=windows):
        changes = [i for i, (old, new) in enumerate(pairwise(((0, 0), *path))) if old != new]
        few = mutations is None or len(changes) <= mutations
        if few and (reach is None or not changes or changes[-1] - changes[0] <= reach):
            yield path


def truth(nodes: Sequence[Node], walks: Iterator[tuple[State, ...]]) -> Sensitivity:
    """The largest of both norms of what one row does to all nodes."""
    best = [0, 0]
    for walk in walks:
        at = ((0, 0), *walk)
        changes = [
            tuple(new - old for new, old in zip(at[end], at[start], strict=True)) for start, end in nodes
        ]
        best = list(map(max, best, lengths(changes)))
    return Sensitivity(Fraction(best[0]), Fraction(best[1]))


def covers(bound: Sensitivity, true: Sensitivity) -> bool:
    return bound.l1 >= true.l1 and bound.l2_squared >= true.l2_squared


# A disjoint release


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("mutations", [1, 2, 3, 9])
@pytest.mark.parametrize(("lower", "upper"), RANGES)
def test_stock_in_disjoint_windows(lower: int, upper: int, mutations: int, grouped: bool) -> None:
    options, windows = states(lower, upper, grouped=grouped), 4
    walks = paths(options, windows, mutations=mutations, reach=None)
    true = truth(list(pairwise(range(windows + 1))), walks)
    folds = dcr_folds(AtMost(mutations), count=windows)
    assert joint(folds=folds, lower=lower, upper=upper, grouped=grouped) == true
    assert joint(folds=folds, lower=lower, upper=upper, grouped=grouped, rows=3) == Sensitivity(
        3 * true.l1, 9 * true.l2_squared
    )


def splits(mutations: int | None, windows: int, clip: int | None) -> list[tuple[int, ...]]:
    """Mutations counted per window, in every way."""
    most = min(limit for limit in (mutations, clip) if limit is not None)
    counts = product(range(most + 1), repeat=windows)
    return [split for split in counts if mutations is None or sum(split) <= mutations]


@pytest.mark.parametrize("windows", [0, 1, 2, 3])
@pytest.mark.parametrize("clip", [None, 1, 2, 3, 6])
@pytest.mark.parametrize("mutations", [None, 1, 2, 5])
def test_flow_in_disjoint_windows(mutations: int | None, clip: int | None, windows: int) -> None:
    if mutations is None and clip is None:
        with pytest.raises(SpecError, match="nothing bounds"):
            joint(folds=windows, kind="flow", lower=0, upper=1)
        return
    ways = splits(mutations, windows, clip)
    assert joint(
        folds=windows, kind="flow", lower=-2, upper=1, mutations=mutations, clip=clip, rows=2
    ) == Sensitivity(
        l1=Fraction(max(2 * sum(2 * count for count in way) for way in ways)),
        l2_squared=Fraction(max(4 * sum((2 * count) ** 2 for count in way) for way in ways)),
    )


# Sliding windows


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(("window", "period"), [(1, 1), (2, 1), (3, 1), (3, 2), (1, 2), (2, 3)])
@pytest.mark.parametrize(
    ("mutations", "reach"), [(1, None), (2, None), (3, None), (None, 1), (2, 2), (None, 5)]
)
def test_stock_in_sliding_windows(
    window: int, period: int, mutations: int | None, reach: int | None, grouped: bool
) -> None:
    """The windows begin at step 0 or 1, so some units enter before or between them."""
    options, steps = states(-2, 3, grouped=grouped), 5 if grouped else 7
    constraint = shaped(mutations, reach)
    for start in (0, 1):
        nodes = [(at, at + window) for at in range(start, steps - window + 1, period)]
        true = truth(nodes, paths(options, steps, mutations=mutations, reach=reach))
        folds = swcr_folds(constraint, window=window, period=period, count=len(nodes))
        assert covers(joint(folds=folds, firsts=0, lower=-2, upper=3, grouped=grouped), true)


def shaped(mutations: int | None, reach: int | None) -> Constraint:
    """Changes at the ends of steps no more than `reach` steps apart."""
    few = None if mutations is None else AtMost(mutations)
    near = None if reach is None else Within(reach)
    both = few & near if few and near else few or near
    assert both is not None
    return both


@pytest.mark.parametrize(("window", "start", "steps"), [(1, 1, 2), (2, 1, 3)])
def test_a_sliding_window_need_not_start_from_nothing(window: int, start: int, steps: int) -> None:
    """A row inserted before the first window, or in a gap, then changes groups: one window, two groups."""
    options = states(0, 1, grouped=True)
    true = truth([(start, start + window)], paths(options, steps, mutations=2, reach=1))
    folds = swcr_folds(AtMost(2) & Within(1), window=window, period=2, count=1)
    assert true.l2_squared == joint(folds=folds, firsts=0, lower=0, upper=1, grouped=True).l2_squared == 2
    assert joint(folds=folds, firsts=1, lower=0, upper=1, grouped=True).l2_squared == 1  # too little


@pytest.mark.parametrize("clip", [None, 1, 2])
@pytest.mark.parametrize("mutations", [1, 2, 3])
@pytest.mark.parametrize(("window", "period"), [(2, 1), (3, 1), (3, 2), (1, 2)])
def test_flow_in_sliding_windows(window: int, period: int, mutations: int, clip: int | None) -> None:
    """Several mutations may fall into one step; a step is seen by ceil(window / period) windows."""
    steps = 6
    nodes = [(at, at + window) for at in range(0, steps - window + 1, period)]
    l1 = l2_squared = 0
    for split in splits(mutations, steps, None):
        seen = [sum(split[start:end]) for start, end in nodes]
        counted = [count if clip is None else min(count, clip) for count in seen]
        l1, l2_squared = max(l1, sum(counted)), max(l2_squared, sum(count**2 for count in counted))
    folds = swcr_folds(AtMost(mutations), window=window, period=period, count=len(nodes))
    bound = joint(
        folds=folds,
        kind="flow",
        lower=0,
        upper=1,
        mutations=mutations,
        clip=clip,
        seen=-(-window // period),
    )
    assert covers(bound, Sensitivity(Fraction(l1), Fraction(l2_squared)))
    if clip is None:
        assert bound.l2_squared == l2_squared


# A hierarchy


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("initial", [True, False])
@pytest.mark.parametrize(("branching", "height"), [(2, 1), (2, 2), (2, 3), (3, 2)])
@pytest.mark.parametrize("limits", [(1, None), (2, None), (3, None), (None, 1), (2, 2), (None, 9)])
def test_stock_in_a_hierarchy(
    branching: int, height: int, limits: tuple[int | None, int | None], initial: bool, grouped: bool
) -> None:
    """Step 1 is the initial load, the bottom windows follow; incomplete nodes end with the last window."""
    options, (mutations, reach) = states(-2, 3, grouped=grouped), limits
    for count in (1, 2, 4):
        sizes = [branching**layer for layer in range(height)]
        nodes = [
            (1 + i * size, 1 + min((i + 1) * size, count)) for size in sizes for i in range(-(-count // size))
        ]
        load = [(0, 1)] if initial else []
        true = truth(load + nodes, paths(options, count + 1, mutations=mutations, reach=reach))
        bound = hdcr_joint(
            shaped(mutations, reach),
            width=1,
            branching=branching,
            height=height,
            count=count,
            initial=initial,
            lower=-2,
            upper=3,
            grouped=grouped,
        )
        assert covers(bound, true)
        if mutations == 1:
            assert bound == true


def test_a_loaded_entry_starts_from_nothing_once_not_once_a_layer() -> None:
    """Loaded into one group, moved to another in the only window: 1 + 2 + 2, though both layers changed."""
    options = states(0, 1, grouped=True)
    true = truth([(0, 1), (1, 2), (1, 2)], paths(options, 2, mutations=2, reach=None))
    shape: dict[str, Any] = {"width": 1, "branching": 2, "height": 2, "count": 1}
    assert true.l2_squared == 5
    assert hdcr_joint(AtMost(2), **shape, lower=0, upper=1, grouped=True) == true
    folds = hdcr_folds(AtMost(2), **shape)
    assert joint(folds=folds, firsts=2, lower=0, upper=1, grouped=True).l2_squared == 4  # too little


def test_without_end_every_layer_starts_from_nothing() -> None:
    shape: dict[str, Any] = {"width": 1, "branching": 2, "height": 3}
    folds = hdcr_folds(AtMost(4), **shape)
    assert hdcr_joint(AtMost(4), **shape, lower=0, upper=1, grouped=True) == joint(
        folds=folds, firsts=3, lower=0, upper=1, grouped=True
    )


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (lambda: joint(folds=-1, lower=0, upper=1), "folds: must be a whole number, 0 or more"),
        (lambda: joint(folds=1, lower=0, upper=1, firsts=-1), "firsts: must be a whole number, 0 or more"),
        (lambda: joint(folds=1, kind="flow", mutations=1, lower=0, upper=1, seen=0), "seen: must be"),
        (
            lambda: joint(folds=1, kind="level", lower=0, upper=1),  # type: ignore[arg-type]
            "kind: must be 'stock' or 'flow'",
        ),
        (
            lambda: hdcr_joint(None, width=1, branching=2, height=2, lower=0, upper=1),
            "nothing bounds the loss",
        ),
    ],
)
def test_refusals(refused: Callable[[], object], why: str) -> None:
    with pytest.raises(SpecError, match=why):
        refused()
