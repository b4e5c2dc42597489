"""Buffered strategies: whole numbers that follow a linear map,
as near as was certified, and forget the bins."""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import combinations
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.mechanism.oracle import measurement_matrix
from tidegauge.errors import SpecError
from tidegauge.mechanism.encode import ComponentPlan, measure
from tidegauge.mechanism.noise.samplers import DiscreteGaussian, SimulationSampler
from tidegauge.mechanism.registry import build
from tidegauge.mechanism.search import tune
from tidegauge.mechanism.search.candidates import candidates
from tidegauge.mechanism.search.task import Search
from tidegauge.mechanism.strategies.buffered import Buffered
from tidegauge.mechanism.strategies.buffers import BITS, GAIN, SHAPE
from tidegauge.mechanism.strategies.damped import Damped
from tidegauge.mechanism.strategy import MANY, Exposure
from tidegauge.model.constraint import AtMost, Within
from tidegauge.model.quantity import DAY, Span
from tidegauge.model.schedule import Schedule
from tidegauge.theory.paths.path import ON_OFF, Domain, bin_cases
from tidegauge.theory.paths.toeplitz import toeplitz_paths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.mechanism.strategy import Strategy
    from tidegauge.model.constraint import Constraint

    Floats = NDArray[np.float64]

DAILY = Span(micros=DAY)
PARTS = "0.285:1 0.38:0.5 0.17:0.128 0.08:0.033 0.03:0.00217 0.055:0"
SOME = [
    Buffered(30, PARTS, 0.15),
    Buffered(30, "0.6:0.7 0.4:0.000001", 2.5),
    Buffered(30, "0.25:1 0.75:0", 0.0),
    Buffered(31, "1:0.3", 1e-9, 1),
    Buffered(31, "1:0", 1e9, 1),
]
WILD = [1, 10, 10**9, 10**30]
"""Sizes of changes."""


def streamed(strategy: Buffered, changes: list[int]) -> list[int]:
    """What is measured of one cell, without noise."""
    state, found = np.zeros((strategy.stream.width, 1), dtype=object), []
    for bin_, change in enumerate(changes):
        state, rows = strategy.stream.advance(bin_, state, np.array([change], dtype=object))
        found += rows[:, 0].tolist()
    return found


def summed(strategy: Buffered, changes: list[int]) -> list[Fraction]:
    """The weighed buffers, exactly, from their definition."""
    parts = [tuple(map(Fraction, part.split(":"))) for part in strategy.buffers.split()]
    buffers, found = [Fraction(0)] * len(parts), []
    for change in changes[strategy.first :]:
        buffers = [(1 - forgets) * old + change for old, (_, forgets) in zip(buffers, parts, strict=True)]
        found.append(sum((w * now for now, (w, _) in zip(buffers, parts, strict=True)), Fraction(0)))
    return found


def whitened(strategy: Buffered, sums: list[Fraction]) -> list[Decimal]:
    """Without the best estimate of the offset, to sixty digits."""
    offset, before, learned, found = Fraction(strategy.offset), Fraction(1), Fraction(0), []
    for one, weight in zip(sums, strategy.stream.shape.tolist(), strict=True):
        a = Fraction(weight, 1 << SHAPE)
        after = before + offset * a**2
        new, square = one - offset * a / before * learned, before / after
        with localcontext() as context:
            context.prec = 60
            parts = [Decimal(x.numerator) / Decimal(x.denominator) for x in (new, square)]
            found.append(parts[0] * parts[1].sqrt())
        learned, before = learned + a * one, after
    return found


@pytest.mark.parametrize("strategy", SOME, ids=lambda one: one.buffers)
@pytest.mark.parametrize("size", WILD)
def test_the_stream_follows_the_linear_map(strategy: Buffered, size: int) -> None:
    """Rounding of buffers and rows is as small for large changes; that of gains is relative, and tiny."""
    rng = np.random.default_rng(size % 97)
    for _ in range(5):
        changes = [int(x) * size + int(y) for x, y in rng.integers(-9, 10, (strategy.bins, 2))]
        exact = summed(strategy, changes)
        rows = len(exact)
        gains = (1 + (1 + strategy.offset) * rows) / 2**GAIN
        allowed = 2.0 ** -(BITS + 1) + sqrt(rows) * float(strategy.stream.slack)
        allowed += gains * float(max(map(abs, exact)))
        for found, wanted in zip(streamed(strategy, changes), whitened(strategy, exact), strict=True):
            with localcontext() as context:
                context.prec = 60
                assert abs(Decimal(found) / 2**BITS - wanted) <= allowed * (1 + 1e-9)


@pytest.mark.parametrize("strategy", SOME, ids=lambda one: one.buffers)
def test_the_certified_shape_is_that_of_the_buffers(strategy: Buffered) -> None:
    exact = summed(strategy, [0] * strategy.first + [1] + [0] * (strategy.bins - strategy.first - 1))
    assert [float(one) for one in exact] == pytest.approx(strategy.shape.tolist(), abs=1e-12)
    kept = [Fraction(one, 1 << SHAPE) for one in strategy.stream.shape.tolist()]
    unit = Fraction(1, 1 << SHAPE)
    assert max(abs(a - b) for a, b in zip(exact, kept, strict=True)) <= strategy.stream.slack + unit / 2
    assert (np.diff(strategy.shape) <= 0).all()
    assert (np.diff(strategy.shape, 2) >= 0).all()


@pytest.mark.parametrize(("offset", "first"), [(0.15, 0), (3.0, 2), (0.0, 0)])
def test_it_whitens_the_covariance(offset: float, first: int) -> None:
    """The rows are the inverse of the Cholesky factor of the noise that is meant, on levels."""
    strategy = Buffered(60, PARTS, offset, first)
    count = 60 - first
    ages = np.subtract.outer(np.arange(count), np.arange(count))
    toeplitz = np.where(ages >= 0, strategy.shape[np.abs(ages)], 0.0)
    levels = np.tril(np.ones((count, count)))
    noise = levels @ np.linalg.inv(toeplitz)
    wanted = np.linalg.inv(np.linalg.cholesky(noise @ noise.T + offset)) @ levels
    assert measurement_matrix(strategy, 59)[:, first:] == pytest.approx(
        wanted, abs=1.001 * 2.0 ** -(BITS + 1)
    )


def alternating(bins: int, changes: int) -> list[list[int]]:
    found = []
    for count in range(1, changes + 1):
        for chosen in combinations(range(bins), count):
            path = [0] * bins
            for number, at in enumerate(chosen):
                path[at] = (-1) ** number
            found.append(path)
    return found


@pytest.mark.parametrize(
    "strategy",
    [
        Buffered(9, PARTS, 0.15),
        Buffered(9, "0.5:0.9 0.3:0.2 0.2:0.01", 0.6),
        Buffered(9, "0.25:1 0.75:0", 0.0),
    ],
    ids=lambda one: one.buffers,
)
def test_no_life_moves_the_stream_further_than_is_certified(strategy: Buffered) -> None:
    """On top of other people's changes, small and huge; nearly as far for some."""
    rng = np.random.default_rng(3)
    schedule = Schedule(0, DAILY, 9)
    for most in (1, 2, 4):
        certified = strategy.sensitivity(Exposure(AtMost(most), schedule, "stock", 0, 1)).l2_squared
        worst = 0
        for size in (0, 5, 10**25):
            others = [int(x) * size for x in rng.integers(-9, 10, 9)]
            before = streamed(strategy, others)
            for path in alternating(9, most):
                after = streamed(strategy, [a + b for a, b in zip(others, path, strict=True)])
                worst = max(worst, sum((a - b) ** 2 for a, b in zip(after, before, strict=True)))
        assert worst <= certified <= worst * Fraction(103, 100) ** 2


def test_a_bound_that_forgot_the_rounding_would_be_seen() -> None:
    """For one change without an offset the certificate is exact but for the rounding,
    and the rounding does happen."""
    strategy = Buffered(9, "0.333333:0.777 0.666667:0.123", 0.0)
    rng = np.random.default_rng(4)
    exact = float(strategy.shape @ strategy.shape) * strategy.denominator**2
    worst = 0
    for _ in range(200):
        others = [int(x) for x in rng.integers(-(10**6), 10**6, 9)]
        before, after = streamed(strategy, others), streamed(strategy, [others[0] + 1, *others[1:]])
        worst = max(worst, sum((a - b) ** 2 for a, b in zip(after, before, strict=True)))
    certified = strategy.sensitivity(Exposure(AtMost(1), Schedule(0, DAILY, 9), "stock", 0, 1)).l2_squared
    assert exact < worst <= certified


@pytest.mark.parametrize(
    ("bins", "constraint"),
    [(365, AtMost(1)), (3650, AtMost(16)), (17_520, AtMost(4)), (1000, Within("30 days"))],
)
@pytest.mark.parametrize("grouped", [False, True])
def test_fixed_point_costs_next_to_nothing(bins: int, constraint: Constraint, grouped: bool) -> None:
    strategy = Buffered(bins, PARTS, 0.15)
    exposure = Exposure(constraint, Schedule(0, DAILY, bins), "stock", 0, 1, grouped=grouped)
    certified = float(strategy.sensitivity(exposure).l2_squared) / strategy.denominator**2
    (case,) = bin_cases(constraint, exposure.schedule)
    domain = ON_OFF._replace(groups=MANY if grouped else 1)
    exact = toeplitz_paths(strategy.shape, case=case, domain=domain, offset=strategy.offset)
    assert exact < certified < exact * (1 + 1e-4) ** 2


def test_the_same_numbers_on_every_machine() -> None:
    """A committed plan goes on with the state that it has: its arithmetic may never change."""
    strategy = Buffered(200, PARTS, 0.1553)
    measured = streamed(strategy, [7919 * n**3 % 2003 - 1001 for n in range(200)])
    digest = hashlib.sha256(json.dumps([measured, strategy.stream.gains]).encode()).hexdigest()
    assert digest[:16] == "2dc1a51b97f18947"


def test_a_state_that_was_written_down_goes_on_as_if_nothing_had_happened() -> None:
    strategy = Buffered(40, PARTS, 0.15)
    component_plan = ComponentPlan(strategy, 1, DiscreteGaussian(Fraction(1, 2**18)))
    rng = np.random.default_rng(2)
    totals = {(b, c): int(x) for (b, c), x in np.ndenumerate(rng.integers(-99, 99, (40, 3)))}
    draws, sampler = [0] * 3, SimulationSampler(1)
    whole = measure(component_plan, totals, bins=range(40), shared_noise=draws, sampler=sampler)
    found, state = [], np.zeros((strategy.stream.width, 3), dtype=object)
    for start, stop in ((0, 1), (1, 17), (17, 17), (17, 40)):
        some = {
            spot: x for spot, x in totals.items() if start <= spot[0] < stop
        }  # earlier bins are forgotten
        found += measure(
            component_plan,
            some,
            bins=range(start, stop),
            shared_noise=draws,
            sampler=sampler,
            stream_state=state,
        )
        state[...] = json.loads(json.dumps(state.tolist()))
    assert found == whole
    assert [value for _, cell, value in whole if cell == 1] == streamed(
        strategy, [totals[b, 1] for b in range(40)]
    )


def error(strategy: Strategy, count: int, constraint: Constraint, grouped: bool = False) -> float:
    schedule = Schedule(0, DAILY, count)
    exposure = Exposure(constraint, schedule, "stock", 0, 1, grouped=grouped)
    return tune.error(strategy, exposure, tune.Target.of(schedule), pure=False)


def offered(count: int, constraint: Constraint, **kinds: bool) -> dict[str, Strategy]:
    schedule = Schedule(0, DAILY, count)
    found = candidates(Search(schedule, Exposure(constraint, schedule, "stock", 0, 1, **kinds), pure=False))
    return {strategy.name: strategy for strategy in found}


@pytest.mark.parametrize(
    ("count", "constraint", "grouped"),
    [
        (20, AtMost(3), False),
        (365, AtMost(4), False),
        (1024, AtMost(16), False),
        (365, Within("30 days"), False),
        (365, AtMost(4), True),
        (3650, AtMost(4), False),
    ],
)
def test_it_is_as_good_as_a_full_matrix(count: int, constraint: Constraint, grouped: bool) -> None:
    found = offered(count, constraint, grouped=grouped)
    damped, buffered = found["damped"], found["buffered"]
    assert isinstance(buffered, Buffered)
    assert isinstance(damped, Damped)
    assert buffered.stream.width <= 9
    assert [buffered.needed_from(bin_) for bin_ in (-1, 0, 9)] == [0, 1, 10]
    assert damped.needed_from(count - 2) == 0
    ratio = error(buffered, count, constraint, grouped) / error(damped, count, constraint, grouped)
    assert ratio < 1.003


@pytest.mark.parametrize("offset", [0.0, 1e-12, 20.0])
def test_any_tuned_offset_makes_a_strategy(offset: float) -> None:
    schedule = Schedule(0, DAILY, 30)
    target, allowed = tune.Target.of(schedule), bin_cases(AtMost(2), schedule)
    found = tune.buffered(
        tune.RunningNoise(0.9, 0.0, offset), target, allowed, bins=30, domain=Domain(groups=MANY)
    )
    assert (found.offset > 0) is (offset == 20.0)


@pytest.mark.parametrize("bins", [4_200, pytest.param(17_520, marks=pytest.mark.slow)])
def test_more_bins_than_a_matrix_has(bins: int) -> None:
    """Hours of half a year, and of two years."""
    found = offered(bins, AtMost(16))
    assert "damped" not in found
    root = error(found["toeplitz"], bins, AtMost(16))
    assert error(found["buffered"], bins, AtMost(16)) < 0.85 * root
    assert build("buffered", found["buffered"].parameters) == found["buffered"]
    weights = found["buffered"].weights(bins - 1, None)
    variance = found["buffered"].variances(np.array([bins - 1]), None)[0]
    assert weights @ weights == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"buffers": "0.5:1 0.4:0"}, "add up to exactly 1"),
        ({"buffers": "1.5:1 -0.5:0"}, "above 0"),
        ({"buffers": ""}, "add up to exactly 1"),
        ({"buffers": "1:1.5"}, "between 0 and 1"),
        ({"buffers": "1:-0.1"}, "between 0 and 1"),
        ({"buffers": "1:0.0000000001"}, "second numbers at most 9"),
        ({"buffers": "1/3:0 2/3:1"}, "weights have at most 6"),
        ({"buffers": "1"}, "weight:forgets"),
        ({"buffers": "nan:1"}, "weight:forgets"),
        ({"buffers": 7}, "weight:forgets"),
        ({"offset": float("nan")}, "offset must be 0"),
        ({"offset": -1.0}, "offset must be 0"),
        ({"bins": 2**17 + 1}, "bins must be at most 131072"),
        ({"bins": 0}, "bins must be at most 131072"),
    ],
)
def test_what_is_no_buffered_strategy(parameters: dict[str, int | float | str], said: str) -> None:
    right: dict[str, int | float | str] = {"bins": 9, "buffers": PARTS, "offset": 0.1}
    with pytest.raises(SpecError, match=said):
        build("buffered", right | parameters)
