"""Certified sensitivities against every life there is, enumerated in time from the definitions alone.

A life is a set of instants, half a day apart, that obeys the constraint as it is written; at each of them the
unit's rows may go anywhere.  Nothing here knows of cases, folds or alternating paths.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise, product
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.mechanism.oracle import measurement_matrix
from tidegauge.mechanism.strategies.autoregressive import Autoregressive
from tidegauge.mechanism.strategies.buffered import Buffered
from tidegauge.mechanism.strategies.damped import Damped
from tidegauge.mechanism.strategies.dense import Dense
from tidegauge.mechanism.strategies.disjoint import Disjoint
from tidegauge.mechanism.strategies.epochs import Epochs
from tidegauge.mechanism.strategies.hierarchy import Hierarchy
from tidegauge.mechanism.strategies.sliding import Sliding
from tidegauge.mechanism.strategies.toeplitz import Toeplitz
from tidegauge.mechanism.strategy import Exposure
from tidegauge.model.constraint import AtMost, Both, Constraint, Either, Unconstrained, Within
from tidegauge.model.quantity import DAY, Span
from tidegauge.model.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from tidegauge.mechanism.strategy import Strategy

    Floats = NDArray[np.float64]
    Rng = np.random.Generator

BINS = 6
HALF = DAY // 2


def obeys(times: Sequence[int], constraint: Constraint) -> bool:
    """Whether mutations at these times are allowed: the definition, word for word."""
    match constraint:
        case AtMost(most):
            return len(times) <= most
        case Within():
            return not times or times[-1] - times[0] <= int(constraint.bound)
        case Both(left, right):
            return obeys(times, left) and obeys(times, right)
        case Either(left, right):
            return obeys(times, left) or obeys(times, right)
    raise AssertionError


@dataclass(frozen=True)
class World:
    """A release and what a unit may do to it."""

    schedule: Schedule
    constraint: Constraint
    lower: int = 0
    grouped: bool = False
    rows: int = 1

    @property
    def exposure(self) -> Exposure:
        return Exposure(
            self.constraint,
            self.schedule,
            "stock",
            self.lower,
            1,
            grouped=self.grouped,
            rows=self.rows,
            cells=self.groups,
        )

    @property
    def groups(self) -> int:
        return (2 if self.lower else 3) if self.grouped else 1

    def touched(self) -> list[tuple[int, ...]]:
        """The sets of bins that an allowed life can change, none inside another."""
        ends = [self.schedule.bin_end(at) for at in range(BINS)]
        times = list(range(ends[0] - HALF, ends[-1] + 1, HALF))
        bins = np.searchsorted(ends, times)  # (previous end, end]
        found = set()
        for chosen in product((False, True), repeat=len(times)):
            life = [time for time, taken in zip(times, chosen, strict=True) if taken]
            if obeys(life, self.constraint):
                found.add(frozenset(int(at) for at, taken in zip(bins, chosen, strict=True) if taken))
        return [tuple(sorted(one)) for one in found if not any(one < other for other in found)]

    def places(self) -> Floats:
        """What the unit's rows together can contribute to the groups at one time."""
        groups = self.groups
        one = [np.zeros(groups)]
        for group in range(groups):
            one += [value * np.eye(groups)[group] for value in sorted({self.lower, 1}) if value]
        together = [np.sum(rows, axis=0) for rows in product(one, repeat=self.rows)]
        return np.unique(np.array(together), axis=0)

    def changes(self) -> Floats:
        """Every change that a life can make: lives by bins by groups."""
        places, found = self.places(), []
        for bins in self.touched():
            for walk in product(range(len(places)), repeat=len(bins)):
                levels = np.zeros((BINS + 1, places.shape[1]))
                for at, place in zip(bins, walk, strict=True):
                    levels[at + 1 :] = places[place]
                found.append(np.diff(levels, axis=0))
        return np.array(found)


def worst(strategy: Strategy, world: World) -> tuple[float, float]:
    """The most in L1 and in squared L2; a shared draw is shifted as suits each life best."""
    rows = list(strategy.measured(BINS - 1))
    scales = np.array([float(strategy.scales[row.layer]) for row in rows])
    matrix = measurement_matrix(strategy, BINS - 1) * strategy.denominator / scales[:, None]
    moved = np.einsum("rb,lbg->lrg", matrix, world.changes())
    if strategy.shared is None or world.grouped:
        return float(np.abs(moved).sum(axis=(1, 2)).max()), float((moved**2).sum(axis=(1, 2)).max())
    shared, drawn = np.array([row.shared for row in rows]) / scales, float(strategy.shared)
    moved = moved[:, :, 0]
    shifts = np.concatenate(
        [np.zeros((len(moved), 1)), moved[:, shared != 0] / shared[shared != 0]], axis=1
    )  # the least of a convex, piecewise linear function is at one of its corners
    costs = (
        np.abs(moved[:, :, None] - shared[:, None] * shifts[:, None, :]).sum(axis=1) + np.abs(shifts) / drawn
    )
    best = (moved @ shared) / (shared @ shared + drawn**-2)
    squares = ((moved - np.outer(best, shared)) ** 2).sum(axis=1) + (best / drawn) ** 2
    return float(costs.min(axis=1).max()), float(squares.max())


def span_of(rng: Rng) -> Within:
    """Whole and half days, and less than a bin."""
    return Within(f"{int(rng.integers(1, 5)) * 12} hours")


def some_constraint(rng: Rng) -> Constraint:
    kind = rng.integers(0, 5)
    few = AtMost(int(rng.integers(1, 4)))
    if kind == 0:
        return few
    if kind == 1:
        return span_of(rng)
    if kind == 2:
        return few & span_of(rng)
    if kind == 3:
        return few | span_of(rng)
    return (AtMost(2) & span_of(rng)) | (few & Within("12 hours"))


def some_world(rng: Rng, *, window: int | None) -> World:
    span = None if window is None else Span(micros=window * DAY)
    schedule = Schedule(0, Span(micros=DAY), BINS if window is None else BINS - window, span)
    grouped = bool(rng.random() < 0.5)
    return World(
        schedule,
        some_constraint(rng) if not grouped else AtMost(int(rng.integers(1, 4))) & span_of(rng),
        lower=int(rng.choice([0, -1, -2])),
        grouped=grouped,
        rows=int(rng.choice([1, 2])) if not grouped else 1,
    )


def a_hierarchy(rng: Rng, first: int) -> Strategy:
    height = int(rng.integers(1, 4))
    scales = tuple(Fraction(int(rng.integers(1, 9)), 4) for _ in range(height + 1))
    load = "none" if first else str(rng.choice(["apart", "leaf"]))
    return Hierarchy(int(rng.integers(2, 4)), height, BINS, load, scales)  # type: ignore[arg-type]


def a_dense(rng: Rng, first: int) -> Strategy:
    size = BINS - first
    return Dense.of(
        np.tril(rng.integers(-(2**19), 2**19, (size, size))) + 2**18 * np.eye(size, dtype=int), first
    )


def a_buffered(rng: Rng, first: int) -> Strategy:
    cuts = sorted({0, 10**6, *rng.integers(1, 10**6, 3).tolist()})
    weights = [(after - before) / 1e6 for before, after in pairwise(cuts)]
    forgets = [round(float(rng.uniform(0, 1)), 3) for _ in weights[1:]] + [float(rng.choice([0.0, 1.0]))]
    parts = [f"{weight:.6f}:{forgotten}" for weight, forgotten in zip(weights, forgets, strict=True)]
    return Buffered(BINS, " ".join(parts), round(float(rng.uniform(0, 2)), 2), first)


RUNNING: dict[str, Callable[[Rng, int], Strategy]] = {
    "disjoint": lambda _, first: Disjoint(first),
    "hierarchy": a_hierarchy,
    "root": lambda rng, first: Toeplitz(
        "root", BINS, first, beta=round(float(rng.uniform(0.3, 1)), 3), white=float(rng.choice([0.0, 1.5]))
    ),
    "banded": lambda rng, first: Toeplitz("banded", BINS, first, width=int(rng.integers(2, 5))),
    "window": lambda rng, first: Toeplitz("window", BINS, first, width=int(rng.integers(2, 5))),
    "damped": lambda rng, first: Damped(
        BINS,
        round(float(rng.uniform(0.3, 1)), 3),
        float(rng.choice([0.0, 1.5])),
        round(float(rng.uniform(0, 2)), 2),
        first,
    ),
    "buffered": a_buffered,
    "dense": a_dense,
    "autoregressive": lambda rng, first: Autoregressive(
        BINS, int(rng.integers(2**14, 2**16)), Fraction(int(rng.integers(0, 8)), 2), first
    ),
}


@pytest.mark.parametrize("window", [None, 2], ids=["running", "window"])
@pytest.mark.parametrize("kind", RUNNING)
def test_no_life_does_more_than_is_certified(kind: str, window: int | None) -> None:
    rng = np.random.default_rng(sum(map(ord, kind)))
    for _ in range(12):
        world = some_world(rng, window=window)
        strategy = RUNNING[kind](rng, 0 if window is None else 1)
        l1, square = worst(strategy, world)
        found = strategy.sensitivity(world.exposure)
        assert l1 <= float(found.l1) * (1 + 1e-9)
        assert square <= float(found.l2_squared) * (1 + 1e-9)


PURE = {"disjoint", "hierarchy", "autoregressive", "sliding"}
"""Those that are also for Laplace noise, so that L1 counts."""


def worst_for_one_shift(strategy: Strategy, world: World) -> float:
    """The most in L1 where the shared draw is shifted by the same for all lives:
    data may react to what was published."""
    if strategy.shared is None or world.grouped:
        return worst(strategy, world)[0]
    matrix = measurement_matrix(strategy, BINS - 1) * strategy.denominator
    moved = np.einsum("rb,lbg->lrg", matrix, world.changes())[:, :, 0]
    shared = np.array([row.shared for row in strategy.measured(BINS - 1)])
    unit = world.rows * strategy.denominator / shared[0]
    shifts = np.linspace(-3 * unit, 3 * unit, 1201)
    costs = [
        np.abs(moved - shift * shared).sum(axis=1).max() + abs(shift) / float(strategy.shared)
        for shift in shifts
    ]
    return float(min(costs))


@pytest.mark.parametrize(
    ("kind", "window"),
    [*product(RUNNING, (None, 2, 3)), ("sliding", 2), ("sliding", 3)],
)
def test_some_life_does_nearly_as_much(kind: str, window: int | None) -> None:
    """Within 3 %: in L2, and in L1 where the strategy is one for Laplace noise."""
    rng = np.random.default_rng(sum(map(ord, kind)) + 1)
    for _ in range(16):
        world = some_world(rng, window=window)
        strategy = (
            Sliding.of(world.schedule)
            if kind == "sliding"
            else RUNNING[kind](rng, 0 if window is None else 1)
        )
        found = strategy.sensitivity(world.exposure)
        if kind != "autoregressive":
            assert float(found.l2_squared) <= worst(strategy, world)[1] * 1.03**2
        if kind in PURE:
            assert float(found.l1) <= worst_for_one_shift(strategy, world) * 1.03
        if kind in {"disjoint", "hierarchy"}:
            l1, square = worst(strategy, world)
            assert float(found.l1) == pytest.approx(l1)
            assert float(found.l2_squared) == pytest.approx(square)


@pytest.mark.parametrize("kind", ["hierarchy", "disjoint"])
def test_in_groups_as_well(kind: str) -> None:
    rng = np.random.default_rng(sum(map(ord, kind)) + 2)
    for changes in (1, 2, 3):
        for _ in range(4):
            world = World(Schedule(0, Span(micros=DAY), BINS), AtMost(changes) & span_of(rng), grouped=True)
            strategy = RUNNING[kind](rng, 0)
            l1, square = worst(strategy, world)
            found = strategy.sensitivity(world.exposure)
            assert float(found.l1) == pytest.approx(l1)
            assert float(found.l2_squared) == pytest.approx(square)


ENDLESS: dict[str, Strategy] = {
    "epochs": Epochs(2),
    "epochs of trees": Epochs(2, branching=2),
    "epochs, pure": Epochs(2, branching=3, pure=True),
    "hierarchy": Hierarchy(2, 3, None),
    "disjoint": Disjoint(0),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_without_end(kind: str) -> None:
    """The first bins of a release that goes on for ever."""
    rng = np.random.default_rng(sum(map(ord, kind)) + 3)
    for _ in range(10):
        plan = some_world(rng, window=None)
        world = World(
            Schedule(0, Span(micros=DAY), None), plan.constraint, plan.lower, plan.grouped, plan.rows
        )
        l1, square = worst(ENDLESS[kind], world)
        found = ENDLESS[kind].sensitivity(world.exposure)
        assert l1 <= float(found.l1) * (1 + 1e-9)
        assert square <= float(found.l2_squared) * (1 + 1e-9)


@pytest.mark.parametrize("branching", [0, 2])
def test_epochs_of_a_release_that_ends_need_no_constraint(branching: int) -> None:
    world = World(Schedule(0, Span(micros=DAY), BINS), AtMost(BINS))
    l1, square = worst(Epochs(2, branching=branching), world)
    found = Epochs(2, branching=branching).sensitivity(replace(world.exposure, constraint=Unconstrained()))
    assert l1 <= float(found.l1) * (1 + 1e-9)
    assert square <= float(found.l2_squared) * (1 + 1e-9)


def test_sliding_windows_as_they_are() -> None:
    rng = np.random.default_rng(4)
    for _ in range(12):
        world = some_world(rng, window=int(rng.integers(2, 4)))
        strategy = Sliding.of(world.schedule)
        l1, square = worst(strategy, world)
        found = strategy.sensitivity(world.exposure)
        assert l1 <= float(found.l1) * (1 + 1e-9)
        assert square <= float(found.l2_squared) * (1 + 1e-9)


def test_the_enumeration_would_notice() -> None:
    """A bound for one change fewer, or half a day less, is found to be too small."""
    schedule = Schedule(0, Span(micros=DAY), BINS)
    strategy = Hierarchy(2, 3, BINS)
    for right, wrong in (
        (AtMost(3), AtMost(2)),
        (Within("36 hours"), Within("24 hours")),
        (AtMost(3) & Within("36 hours"), AtMost(2) & Within("36 hours")),
        (AtMost(1) | Within("36 hours"), AtMost(1) | Within("12 hours")),
    ):
        l1, square = worst(strategy, World(schedule, right))
        found = strategy.sensitivity(World(schedule, wrong).exposure)
        assert l1 > float(found.l1)
        assert square > float(found.l2_squared)
