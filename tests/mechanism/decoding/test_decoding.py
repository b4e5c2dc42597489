"""Decoding many readings at once, however rows come in, against `weights @ rows` one by one."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tidegauge.mechanism.decoding.sums import RunningSums
from tidegauge.mechanism.decoding.weighted import Weighted, terms_of
from tidegauge.mechanism.decoding.windows import Windows
from tidegauge.mechanism.encode import ComponentPlan
from tidegauge.mechanism.noise.error import ErrorDistribution
from tidegauge.mechanism.noise.errors import Errors
from tidegauge.mechanism.noise.samplers import DiscreteGaussian, DiscreteLaplace, Noise
from tidegauge.mechanism.strategies.autoregressive import Autoregressive
from tidegauge.mechanism.strategies.buffered import Buffered
from tidegauge.mechanism.strategies.damped import Damped
from tidegauge.mechanism.strategies.dense import Dense
from tidegauge.mechanism.strategies.disjoint import Disjoint
from tidegauge.mechanism.strategies.epochs import Epochs
from tidegauge.mechanism.strategies.hierarchy import Hierarchy
from tidegauge.mechanism.strategies.levels import Levels
from tidegauge.mechanism.strategies.sliding import Sliding
from tidegauge.mechanism.strategies.toeplitz import Toeplitz
from tidegauge.mechanism.strategy import Strategy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

BINS, CELLS = 300, 3
"""Long enough for blocks of 64, 128 and 256 rows."""
SCALES = (Fraction(1), Fraction(1, 2), Fraction(3, 4), Fraction(2), Fraction(5, 4))


def dense(first: int) -> Dense:
    rng = np.random.default_rng(7)
    count = 60 - first
    below = np.tril(rng.integers(-(2**8), 2**8, (count, count)), -1)
    return Dense.of((below + 2**18 * np.eye(count)).astype(np.int32), first)


STRATEGIES: list[Strategy] = [
    Disjoint(0),
    Disjoint(1),
    Levels(),
    Hierarchy(2, 6, BINS),
    Hierarchy(3, 4, BINS, "leaf", SCALES),
    Hierarchy(4, 4, None, "none"),
    Hierarchy(2, 1, BINS, "leaf"),
    Toeplitz("root", BINS),
    Toeplitz("root", BINS, beta=0.99, white=2.0),
    Toeplitz("window", BINS, 1, width=14),
    Toeplitz("banded", None, 1, width=14),
    Damped(BINS, 0.999, 1.3, 0.1),
    Damped(BINS, 0.95, 0.0, 1.2, 1),
    Buffered(BINS, "0.3:1 0.4:0.5 0.2:0.07 0.1:0", 0.15),
    Buffered(BINS, "0.3:1 0.45:0.5 0.25:0.07", 0.0, 1),
    Autoregressive(BINS, 60000, Fraction(1, 2)),
    Autoregressive(BINS, 65536, Fraction(0), 1),
    Epochs(8),
    Epochs(4, branching=3, pure=True),
    Sliding(14, 1, None),
    Sliding(14, 3, None),
    dense(0),
    dense(1),
]
NAMED = [pytest.param(one, id=f"{one.name}-{i}") for i, one in enumerate(STRATEGIES)]


def bins_of(strategy: Strategy) -> int:
    return 60 if isinstance(strategy, Dense) else BINS


def some_windows(strategy: Strategy, seed: int, *, smoothed: bool) -> Windows:
    """Random windows that the strategy can estimate, long and short."""
    rng, bins = np.random.default_rng(seed), bins_of(strategy)
    if isinstance(strategy, Sliding):
        last = np.arange(14, bins, strategy.stride)
        return Windows(last - 14, last, np.full_like(last, bins - 1) if smoothed else last)
    first = getattr(
        strategy, "first", getattr(strategy, "base", int(getattr(strategy, "load", "") == "none"))
    )
    last = np.concatenate([[first], rng.integers(first, bins, 60)])
    after = rng.integers(first - 1, last)
    after[rng.random(len(after)) < 0.3] = first - 1
    through = rng.integers(last, bins) if smoothed else last
    return Windows(after, last, through)


@pytest.mark.parametrize("smoothed", [False, True])
@pytest.mark.parametrize("strategy", NAMED)
def test_sums_are_what_the_weights_give_however_rows_are_cut(strategy: Strategy, smoothed: bool) -> None:
    rng, bins = np.random.default_rng(3), bins_of(strategy)
    counts = [len(strategy.rows(bin_)) for bin_ in range(bins)]
    rows = np.rint(rng.normal(size=(sum(counts), CELLS)) * 1e6)
    windows = some_windows(strategy, 4, smoothed=smoothed)
    plain, at_once, cut = Weighted(strategy, CELLS), strategy.decoding(CELLS), strategy.decoding(CELLS)
    plain.add(rows)
    at_once.add(rows)
    ends, bin_, start = np.cumsum(counts), 0, 0
    while bin_ < bins:
        bin_ = min(bin_ + int(rng.integers(1, 40)), bins)
        stop = int(ends[bin_ - 1])
        cut.add(rows[start:stop])
        start = stop
    found, expected = at_once.sums(windows), plain.sums(windows)
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-10 * np.abs(expected).max())
    again = cut.sums(windows)
    if isinstance(strategy, Toeplitz) and strategy.bins is None:  # its series is computed again as it grows
        assert again == pytest.approx(found, rel=1e-13, abs=1e-13 * np.abs(expected).max())
    else:
        assert again.tolist() == found.tolist()  # to the last digit


@pytest.mark.parametrize("strategy", NAMED)
def test_estimates_at_a_time_do_not_use_later_rows(strategy: Strategy) -> None:
    """So that a tick publishes what a later check of all readings finds."""
    bins = bins_of(strategy)
    counts = [len(strategy.rows(bin_)) for bin_ in range(bins)]
    rows = np.random.default_rng(5).normal(size=(sum(counts), CELLS)) * 1e3
    rows[sum(counts[: bins // 2]) :] *= 1e12  # a jump that would drown earlier estimates in rounding errors
    windows = some_windows(strategy, 6, smoothed=False)
    early = windows.at(np.flatnonzero(windows.last < bins // 2))
    half, whole = strategy.decoding(CELLS), strategy.decoding(CELLS)
    half.add(rows[: sum(counts[: bins // 2])])
    whole.add(rows)
    assert half.sums(early).tolist() == whole.sums(early).tolist()


@pytest.mark.parametrize("smoothed", [False, True])
@pytest.mark.parametrize("strategy", NAMED)
def test_powers_and_equal_sizes_are_those_of_the_weights(strategy: Strategy, smoothed: bool) -> None:
    windows = some_windows(strategy, 8, smoothed=smoothed)
    counts = np.zeros(len(windows), dtype=np.int64)
    expected = {power: np.zeros((len(windows), len(strategy.scales))) for power in (2, 4, 6)}
    for at in range(len(windows)):
        through = int(windows.through[at])
        weights = strategy.smoothed(int(windows.last[at]), windows.span(at), through=through)
        terms = terms_of(weights, strategy.layers(through))
        for one in terms:
            for power, sums in expected.items():
                sums[at, one.layer] = one.counts @ one.sizes**power
        if len(terms) == 1 and len(terms[0].sizes) == 1:
            counts[at] = terms[0].counts[0]
        for one, other in zip(strategy.terms(windows, at), terms, strict=True):
            assert one.layer == other.layer
            assert one.counts.sum() == other.counts.sum()
            assert (one.sizes[0], one.sizes[-1]) == pytest.approx(
                (other.sizes[0], other.sizes[-1]), rel=1e-11
            )
            assert one.counts @ one.sizes**4 == pytest.approx(other.counts @ other.sizes**4, rel=1e-10)
    for power, sums in expected.items():
        assert strategy.powers(windows, power) == pytest.approx(sums, rel=1e-9, abs=1e-9 * sums.max())
    assert strategy.equal(windows).tolist() == counts.tolist()


def one_by_one(plan: ComponentPlan, windows: Windows, at: int) -> ErrorDistribution:
    """From the weights of all rows."""
    strategy, through = plan.strategy, int(windows.through[at])
    weights = strategy.smoothed(int(windows.last[at]), windows.span(at), through=through)
    layers, error = strategy.layers(through), ErrorDistribution()
    for layer in np.unique(layers):
        error += ErrorDistribution.of(weights[layers == layer], plan.noise_of(int(layer)))
    if plan.shared_noise is not None:
        shared = float(weights @ np.array([row.shared for row in strategy.measured(through)]))
        if abs(shared) > 1e-12:
            error += ErrorDistribution.of([shared], plan.shared_noise)
    return error


@pytest.mark.parametrize(
    "noise",
    [
        DiscreteGaussian(Fraction(90) ** 2),
        DiscreteLaplace(Fraction(70)),
        DiscreteLaplace(Fraction(3)),
        DiscreteLaplace(Fraction(1, 10)),
        DiscreteGaussian(Fraction(1, 10**6)),
    ],
    ids=["gaussian", "laplace", "coarse", "seldom", "none"],
)
@pytest.mark.parametrize("strategy", NAMED)
def test_errors_and_half_widths_are_those_of_one_reading_at_a_time(strategy: Strategy, noise: Noise) -> None:
    plan = ComponentPlan(strategy, 1, noise)
    coarse = 1 < noise.variance < 64
    windows = some_windows(strategy, 9, smoothed=False).at(slice(0, 3 if coarse else 7))
    errors = Errors(plan, windows, 1.0)
    for level in (0.95,) if coarse else (0.95, 0.5):
        halves = errors.half_widths(level)
        for at in range(len(windows)):
            expected = one_by_one(plan, windows, at)
            assert errors.stderrs[at] == pytest.approx(expected.stderr, rel=1e-10)
            assert halves[at] == pytest.approx(expected.half_width(level), rel=5e-10)
            assert errors.at(at).half_width(level) == halves[at]


def test_a_difference_of_running_sums_keeps_its_digits() -> None:
    sums, plain = RunningSums(1), np.cumsum([1e15, *([0.1] * 1000)])
    sums.add(np.array([[1e15], *([[0.1]] * 1000)]))
    found = sums.between(np.array([1]), np.array([1001]))[0, 0]
    assert found == pytest.approx(100.0, rel=1e-14)
    assert plain[1000] - plain[0] != pytest.approx(100.0, rel=1e-4)  # what one double would give
