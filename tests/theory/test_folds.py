"""T2, T3, T4 and T7 against every history of one unit in small worlds, from the definitions alone.

A world is a list of measured windows (a, b] and the moments 0, 1, 2, ... at which a unit may change.  Every
set of moments is a history, which changes the windows that hold one of its moments.  Lengths are whole, so a
worst history lies on this lattice: shift each change to the next moment; no window's end lies between.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tidegauge import theory
from tidegauge.errors import SpecError
from tidegauge.model.constraint import AtMost, Both, Constraint, Either, Unconstrained, Within
from tidegauge.model.quantity import Span
from tidegauge.theory import (
    ConstraintCase,
    constraint_cases,
    dcr_folds,
    hdcr_folds,
    load_folds,
    most_span,
    swcr_folds,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tidegauge.model.quantity import Number

NEVER = -1_000_000  # earlier than every moment: the left end of (-inf, t1]
Window = tuple[int, int]

quick = settings(derandomize=True, deadline=None, max_examples=80)
small = st.integers(1, 5)
constraints: st.SearchStrategy[Constraint] = st.recursive(
    st.one_of(small.map(AtMost), st.integers(0, 9).map(Within), st.just(Unconstrained())),
    lambda part: st.one_of(st.builds(Both, part, part), st.builds(Either, part, part)),
    max_leaves=4,
)


def obeys(constraint: Constraint | None, mutations: int, span: int) -> bool:
    match constraint:
        case AtMost():
            return mutations <= constraint.mutations
        case Within():
            return span <= constraint.bound
        case Both():
            return obeys(constraint.left, mutations, span) and obeys(constraint.right, mutations, span)
        case Either():
            return obeys(constraint.left, mutations, span) or obeys(constraint.right, mutations, span)
    return True


def changed(windows: Sequence[Window], moment: int) -> int:
    """The windows that hold the moment, as a set of bits."""
    return sum(1 << index for index, (start, end) in enumerate(windows) if start < moment <= end)


class World:
    """Every history with changes at some of the `moments`, and the windows that it changes."""

    def __init__(self, windows: Sequence[Window], moments: range) -> None:
        at = [changed(windows, moment) for moment in moments]
        union = [0]
        self.histories: set[tuple[int, int, int]] = set()
        for chosen in range(1, 1 << len(moments)):
            first, last = (chosen & -chosen).bit_length() - 1, chosen.bit_length() - 1
            union.append(union[chosen & (chosen - 1)] | at[first])
            self.histories.add((chosen.bit_count(), moments[last] - moments[first], union[chosen]))

    def hits(self, constraint: Constraint | None) -> set[int]:
        return {hit for count, span, hit in self.histories if obeys(constraint, count, span)}

    def worst(self, constraint: Constraint | None) -> int:
        return max(hit.bit_count() for hit in self.hits(constraint))

    def worst_pair(self, constraint: Constraint | None) -> int:
        hits = self.hits(constraint)
        return max((one | other).bit_count() for one in hits for other in hits)


def disjoint(ends: Sequence[int]) -> list[Window]:
    return list(pairwise([NEVER, *ends]))


def sliding(window: int, period: int, count: int) -> list[Window]:
    return [(index * period, index * period + window) for index in range(count)]


def hierarchy(width: int, branching: int, height: int, count: int, *, initial: bool) -> list[Window]:
    sizes = [branching**layer for layer in range(height)]
    nodes = [(i * size * width, (i + 1) * size * width) for size in sizes for i in range(-(-count // size))]
    return [(NEVER, 0), *nodes] if initial else nodes


# T2: disjoint windows


@quick
@given(st.lists(st.integers(0, 10), max_size=6).map(sorted), constraints)
def test_dcr_at_any_times(times: list[int], constraint: Constraint) -> None:
    world = World(disjoint(times), range(11))
    assert dcr_folds(constraint, times=times) == world.worst(constraint)
    assert dcr_folds(constraint, times=times, local=True) >= world.worst_pair(constraint)


@quick
@given(small, st.integers(0, 6), constraints)
def test_dcr_at_regular_times(width: int, count: int, constraint: Constraint) -> None:
    assume((count - 1) * width <= 10)
    world = World(disjoint(range(0, count * width, width)), range(11))
    assert dcr_folds(constraint, width=width, count=count) == world.worst(constraint)
    assert dcr_folds(constraint, width=width, count=count, local=True) == world.worst_pair(constraint)


@pytest.mark.parametrize("bound", range(6))
@pytest.mark.parametrize("width", [1, 2, 3])
def test_dcr_without_end_is_a_release_that_ends_late(width: int, bound: int) -> None:
    late = World(disjoint(range(0, 12, width)), range(12))
    for constraint in (
        Within(bound),
        AtMost(3) & Within(bound),
        AtMost(2) | Within(bound) & AtMost(4),
    ):
        assert dcr_folds(constraint, width=width) == late.worst(constraint)


def test_dcr_at_most() -> None:
    assert dcr_folds(AtMost(3)) == 3
    assert dcr_folds(AtMost(3), count=2) == 2
    assert dcr_folds(AtMost(3), local=True) == 6
    assert dcr_folds(AtMost(3), count=5, local=True) == 5
    assert dcr_folds(AtMost(3), [1, 5]) == 2


def test_two_entries_at_irregular_times_are_never_understated() -> None:
    """Twice the densest interval is more than two units change where there is only one such interval."""
    times, bound = [0, 1, 2, 3, 20, 40, 60, 80], 3
    hits = [
        {changed(disjoint(times), moment) for moment in range(first, min(first + bound, 80) + 1)}
        for first in range(81)
    ]
    assert max(len(one | other) for one in hits for other in hits) == 6
    assert dcr_folds(Within(bound), times=times, local=True) == min(2 * max(map(len, hits)), len(times)) == 8


@pytest.mark.parametrize(
    ("times", "bound", "span"),
    [
        ([12], 13, 1),
        ([0, 6, 12, 13, 21], 23, 5),
        ([], 1, 0),
        ([1, 2, 3], 0, 1),
        ([0, 1, 2], 1, 2),
        ([4, 4], 9, 1),
    ],
)
def test_most_span(times: list[int], bound: int, span: int) -> None:
    assert most_span(times, bound) == span


def test_a_mutation_at_the_end_of_a_window_belongs_to_it() -> None:
    assert most_span([0, 1], 1) == 2  # at 0 and at 1
    assert most_span([0, 1, 2], 1) == 2  # not 3: 0, 1 and after 1 are further apart than 1


def test_the_mostspan_of_the_paper_understates() -> None:
    """Its code looks for a window that ends B after another, and finds none near the end of the list."""

    def paper(times: list[int], bound: int) -> int:
        spans = [0]
        for first in range(len(times) - 1):
            enough = [j for j in range(first + 1, len(times)) if times[j] - times[first] >= bound]
            spans += [enough[0] - first + 1] if enough else []
        return max(spans)

    def windows_of(times: list[int], history: Iterable[int]) -> int:
        return len({changed(disjoint(times), moment) for moment in history})

    for times, bound, history, understated in [
        ([12], 13, [12], 0),
        ([0, 6, 12, 13, 21], 23, [0, 6, 12, 13, 21], 0),
        ([0, 9, 10, 11, 12], 9, [9, 10, 11, 12], 2),
    ]:
        assert max(history) - min(history) <= bound  # the unit obeys Within(bound)
        assert paper(times, bound) == understated < windows_of(times, history)
        assert most_span(times, bound) == windows_of(times, history)


# T3: sliding windows


@quick
@given(small, small, st.integers(0, 5), constraints)
def test_swcr(window: int, period: int, count: int, constraint: Constraint) -> None:
    assume((count - 1) * period + window <= 11)
    world = World(sliding(window, period, count), range(12))
    shape: dict[str, Any] = {"window": window, "period": period, "count": count}
    assert swcr_folds(constraint, **shape) == world.worst(constraint)
    assert swcr_folds(constraint, **shape, local=True) == world.worst_pair(constraint)


@pytest.mark.parametrize(("window", "period"), [(1, 1), (2, 1), (3, 2), (1, 2), (1, 3), (2, 3)])
def test_swcr_without_end_is_a_release_that_ends_late(window: int, period: int) -> None:
    late = World(sliding(window, period, 10), range(13))
    for bound in range(4):
        for constraint in (Within(bound), Within(bound) & AtMost(2), AtMost(2) | Within(bound) & AtMost(3)):
            assert swcr_folds(constraint, window=window, period=period) == late.worst(constraint)


def test_swcr_examples() -> None:
    assert swcr_folds(AtMost(3), window=14, period=1) == 42
    assert swcr_folds(AtMost(3), window=14, period=1, count=20) == 20
    assert swcr_folds(Within(30), window=14, period=1) == 44
    assert swcr_folds(Within("30 days"), window="14 days", period="1 day") == 44
    assert swcr_folds(Within(0), window=Fraction(1, 10), period=1) == 1


# T4: a hierarchy of windows


@quick
@given(st.sampled_from([2, 2, 3, 4]), st.integers(1, 4), st.integers(0, 5), st.booleans(), constraints)
def test_hdcr(branching: int, height: int, count: int, initial: bool, constraint: Constraint) -> None:
    windows = hierarchy(2, branching, height, count, initial=initial)
    world = World(windows, range(11))
    shape: dict[str, Any] = {"width": 2, "branching": branching, "height": height, "count": count}
    assert hdcr_folds(constraint, **shape, initial=initial) == world.worst(constraint)
    assert hdcr_folds(constraint, **shape, initial=initial, local=True) >= world.worst_pair(constraint)


@quick
@given(st.sampled_from([2, 2, 3, 4]), st.integers(1, 4), st.integers(0, 10), st.booleans(), constraints)
def test_hdcr_with_incomplete_tops(
    branching: int, height: int, count: int, initial: bool, constraint: Constraint
) -> None:
    world = World(hierarchy(1, branching, height, count, initial=initial), range(11))
    shape: dict[str, Any] = {"width": 1, "branching": branching, "height": height, "count": count}
    assert hdcr_folds(constraint, **shape, initial=initial) == world.worst(constraint)


@pytest.mark.parametrize("branching", [2, 3])
@pytest.mark.parametrize("height", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 3, 8, 9, 13])
def test_hdcr_within_is_the_longest_span(branching: int, height: int, count: int) -> None:
    """A unit without a limit to its changes changes at every moment, so larger worlds can be enumerated."""
    for initial in (True, False):
        windows = hierarchy(3, branching, height, count, initial=initial)
        at = {moment: changed(windows, moment) for moment in range(4 * count)}
        for bound in range(0, 4 * count, 2):
            most = 0
            for first in at:
                hit = 0
                for moment in range(first, min(first + bound + 1, 4 * count)):
                    hit |= at[moment]
                most = max(most, hit.bit_count())
            shape: dict[str, Any] = {"width": 3, "branching": branching, "height": height, "count": count}
            assert hdcr_folds(Within(bound), **shape, initial=initial) == most


@pytest.mark.parametrize(("branching", "height"), [(2, 1), (2, 2), (2, 3), (3, 2)])
def test_hdcr_without_end_is_a_release_that_ends_late(branching: int, height: int) -> None:
    late = hierarchy(1, branching, height, 14, initial=True)
    at = [changed(late, moment) for moment in range(15)]
    few = [history for size in (1, 2, 3) for history in combinations(range(15), size)]
    for bound in (0, 1, 2, 4, 14):
        for most in (1, 2, 3):
            truth = max(
                sum(
                    {1 << bit: 1 for moment in history for bit in range(64) if at[moment] >> bit & 1}.values()
                )
                for history in few
                if len(history) <= most and history[-1] - history[0] <= bound
            )
            constraint = AtMost(most) & Within(bound)
            assert hdcr_folds(constraint, width=1, branching=branching, height=height) == truth


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize(("branching", "height"), [(2, 2), (2, 3), (3, 2), (4, 1)])
def test_two_entries_of_a_hierarchy(branching: int, height: int, count: int) -> None:
    shape: dict[str, Any] = {"width": 2, "branching": branching, "height": height, "count": count}
    for initial in (True, False):
        world = World(hierarchy(2, branching, height, count, initial=initial), range(11))
        for constraint in (*map(AtMost, range(1, 5)), *map(Within, range(8)), AtMost(2) & Within(3)):
            assert hdcr_folds(constraint, **shape, initial=initial, local=True) == world.worst_pair(
                constraint
            )


def test_hdcr_of_one_layer_is_a_disjoint_release_with_its_first_window() -> None:
    for count in range(4):
        for constraint in (
            None,
            AtMost(1),
            AtMost(3),
            Within(0),
            Within(2),
            Within(Fraction(5, 2)) & AtMost(2),
        ):
            assert hdcr_folds(constraint, width=1, branching=2, height=1, count=count) == dcr_folds(
                constraint, width=1, count=count + 1
            )


@quick
@given(st.sampled_from([2, 3]), st.integers(1, 3), st.integers(0, 5), constraints)
def test_an_entry_of_the_initial_load(
    branching: int, height: int, count: int, constraint: Constraint
) -> None:
    windows = hierarchy(2, branching, height, count, initial=True)
    at = [changed(windows, moment) for moment in range(11)]
    most = 0
    for later in range(1 << 10):
        history = [0, *(moment for moment in range(1, 11) if later >> (moment - 1) & 1)]
        if obeys(constraint, len(history), history[-1]):
            hit = 0
            for moment in history:
                hit |= at[moment]
            most = max(most, hit.bit_count())
    assert load_folds(constraint, width=2, branching=branching, height=height, count=count) == most


def test_the_hierarchy_of_the_paper_understates() -> None:
    """Its sum over layers of (1/c^i) ceil(B/W) + 1 is 4.75; this unit, Within(1), changes six nodes."""
    branching, height, bound = 2, 3, 1
    paper = sum(Fraction(bound, branching**layer) + 1 for layer in range(height))
    history = [4, 5]
    nodes = hierarchy(1, branching, height, 8, initial=False)
    hit = {node for node in nodes for moment in history if node[0] < moment <= node[1]}
    assert hit == {(3, 4), (4, 5), (2, 4), (4, 6), (0, 4), (4, 8)}
    assert paper == Fraction(19, 4) < len(hit)
    assert hdcr_folds(Within(bound), width=1, branching=branching, height=height) == len(hit)


def test_hdcr_examples() -> None:
    assert hdcr_folds(AtMost(3), width=1, branching=2, height=5) == 15
    assert hdcr_folds(AtMost(3), width=1, branching=2, height=3, count=4) == 3 + 2 + 1
    assert hdcr_folds(None, width=1, branching=2, height=3, count=4) == 1 + 4 + 2 + 1
    assert hdcr_folds(None, width=1, branching=2, height=3, count=4, initial=False) == 4 + 2 + 1
    assert hdcr_folds(None, width=1, branching=2, height=3, count=5, initial=False, local=True) == 5 + 3 + 2
    assert hdcr_folds(AtMost(1), width=1, branching=2, height=3, count=4, local=True) == 2 + 2 + 1
    assert hdcr_folds(Within("1 day"), width="1 hour", branching=24, height=2) == 25 + 2


# Constraints


@quick
@given(constraints, st.integers(1, 6), st.integers(0, 10))
def test_cases_are_what_the_constraint_allows(constraint: Constraint, mutations: int, span: int) -> None:
    def obeyed(case: ConstraintCase) -> bool:
        few = case.mutations is None or mutations <= case.mutations
        return few and (case.bound is None or span <= case.bound.value)

    assert any(obeyed(case) for case in constraint_cases(constraint)) == obeys(constraint, mutations, span)


def test_earlier_names_are_still_valid() -> None:
    assert theory.Life is ConstraintCase
    assert theory.lives is constraint_cases


folded: list[Callable[[Constraint | None], int]] = [
    lambda constraint: dcr_folds(constraint, width=1),
    lambda constraint: swcr_folds(constraint, window=1, period=1),
    lambda constraint: hdcr_folds(constraint, width=1, branching=2, height=2),
    lambda constraint: load_folds(constraint, width=1, branching=2, height=2),
]


@pytest.mark.parametrize("folds", folded)
@pytest.mark.parametrize("constraint", [None, Unconstrained(), AtMost(2) | Unconstrained()])
def test_what_nothing_bounds_is_refused(
    folds: Callable[[Constraint | None], int], constraint: Constraint | None
) -> None:
    with pytest.raises(SpecError, match="nothing bounds the loss"):
        folds(constraint)


@pytest.mark.parametrize("folds", folded)
@pytest.mark.parametrize("constraint", [Constraint(), 3])
def test_what_is_no_constraint_is_refused(
    folds: Callable[[Constraint | None], int], constraint: Constraint
) -> None:
    with pytest.raises(SpecError, match="is not a constraint"):
        folds(constraint)


@pytest.mark.parametrize("folds", folded)
def test_both_with_no_constraint_changes_nothing(folds: Callable[[Constraint | None], int]) -> None:
    assert folds(AtMost(2) & Unconstrained()) == folds(AtMost(2))


# Numbers


def test_numbers_are_what_was_written() -> None:
    tenths: list[tuple[Number, Number]] = [
        (0.3, 0.1),
        (Decimal("0.3"), Decimal("0.1")),
        (Fraction(3, 10), 0.1),
    ]
    for bound, width in tenths:
        assert dcr_folds(Within(bound), width=width) == 4
    assert most_span([0.1, 0.2, 0.3, 0.4], 0.2) == 3


def test_times_and_durations() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    days = [start + timedelta(days=day) for day in (0, 1, 2, 7, 8)]
    assert most_span(days, "2 days") == most_span([0, 1, 2, 7, 8], 2) == 3
    assert most_span(days, timedelta(hours=49)) == most_span([0, 24, 48, 168, 192], 49) == 4
    assert dcr_folds(Within("36 hours"), width=timedelta(days=1)) == dcr_folds(Within(36), width=24) == 3
    assert dcr_folds(Within("36 hours"), width=Span.parse("1 day"), count=2) == 2
    assert hdcr_folds(Within("1 day"), width="1 day", branching=2, height=3) == 6


@pytest.mark.parametrize(
    "mixed",
    [
        lambda: most_span([1, 2], "1 day"),
        lambda: most_span([1, timedelta(days=1)], 1),
        lambda: dcr_folds(Within(1), times=[datetime(2026, 1, 1, tzinfo=UTC)]),
        lambda: dcr_folds(Within("1 day"), width=1),
        lambda: dcr_folds(Within("1 day") & Within(1), width=1),
        lambda: swcr_folds(AtMost(1), window=1, period="1 day"),
        lambda: swcr_folds(Within(1), window="1 day", period="1 day"),
        lambda: hdcr_folds(Within(1) | AtMost(1), width="1 day", branching=2, height=2),
    ],
)
def test_plain_numbers_and_times_never_mix(mixed: Callable[[], int]) -> None:
    with pytest.raises(SpecError, match="cannot be compared"):
        mixed()


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (lambda: most_span([2, 1], 1), "times: must be in order"),
        (lambda: most_span([1], -1), "bound: must not be negative"),
        (
            lambda: most_span([1], datetime(2026, 1, 1, tzinfo=UTC)),  # type: ignore[arg-type]
            "bound: must be a length of time",
        ),
        (lambda: most_span([float("nan")], 1), "not a finite number"),
        (lambda: dcr_folds(AtMost(1), times=[1], width=1), "times: give either times, or width and count"),
        (lambda: dcr_folds(AtMost(1), times=[1], count=1), "times: give either times, or width and count"),
        (lambda: dcr_folds(Within(1)), "width: a bound in time needs"),
        (lambda: dcr_folds(AtMost(1), width=0), "width: must be greater than 0"),
        (lambda: dcr_folds(AtMost(1), width="1 month"), "no fixed length"),
        (lambda: dcr_folds(AtMost(1), count=-1), "count: must be a whole number, 0 or more"),
        (lambda: dcr_folds(AtMost(1), count=True), "count: must be a whole number"),
        (lambda: swcr_folds(AtMost(1), window=0, period=1), "window: must be greater than 0"),
        (lambda: swcr_folds(AtMost(1), window=1, period=-1), "period: must be greater than 0"),
        (
            lambda: hdcr_folds(AtMost(1), width=1, branching=1, height=1),
            "branching: must be a whole number, 2",
        ),
        (lambda: hdcr_folds(AtMost(1), width=1, branching=2, height=0), "height: must be a whole number, 1"),
    ],
)
def test_refusals(refused: Callable[[], int], why: str) -> None:
    with pytest.raises(SpecError, match=why):
        refused()
