"""Draws against the exact discrete laws: mean, variance and the whole distribution.

Every test is at level ALPHA with N draws; its twin is fed what is 10 % off and must be rejected.
"""

from __future__ import annotations

from fractions import Fraction
from math import exp, floor, sqrt, tanh

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from tidegauge.mechanism.noise.samplers import (
    DiscreteGaussian,
    DiscreteLaplace,
    SecureSampler,
    SimulationSampler,
)

ALPHA = 1e-9
N = 40_000
Z = float(stats.norm.isf(ALPHA / 2))
SKEW = 1.15
"""The square of a Laplace draw is skewed: at this N, the deviation of its mean is larger by this factor."""

Law = DiscreteLaplace | DiscreteGaussian

LAWS: list[Law] = [
    DiscreteLaplace(Fraction(1, 2)),
    DiscreteLaplace(Fraction(37, 10)),
    DiscreteLaplace(Fraction(10**9, 3)),
    DiscreteGaussian(Fraction(1, 3)),
    DiscreteGaussian(Fraction(137, 10)),
    DiscreteGaussian(Fraction(10**18, 3)),
]
SAMPLERS = [SecureSampler(), SimulationSampler(20260101)]


@pytest.fixture(scope="module", params=LAWS, ids=str)
def law(request: pytest.FixtureRequest) -> Law:
    found: Law = request.param
    return found


@pytest.fixture(scope="module", params=SAMPLERS, ids=["secure", "simulated"])
def sampler(request: pytest.FixtureRequest) -> SecureSampler | SimulationSampler:
    found: SecureSampler | SimulationSampler = request.param
    return found


@pytest.fixture(scope="module")
def draws(law: Law, sampler: SecureSampler | SimulationSampler) -> NDArray[np.float64]:
    return np.array(sampler.draw(law, N), dtype=np.float64)


@pytest.fixture(scope="module")
def faint(law: Law, sampler: SecureSampler | SimulationSampler) -> NDArray[np.float64]:
    """Noise that is 10 % too small."""
    ninety = Fraction(9, 10)
    less = (
        DiscreteLaplace(law.scale * ninety)
        if isinstance(law, DiscreteLaplace)
        else DiscreteGaussian(law.sigma_squared * ninety**2)
    )
    return np.array(sampler.draw(less, N), dtype=np.float64)


def below(law: Law, x: int) -> float:
    """P(draw <= x), from the definition."""
    if isinstance(law, DiscreteLaplace):
        p = exp(-1 / float(law.scale))
        return 1 - p ** (x + 1) / (1 + p) if x >= 0 else p**-x / (1 + p)
    square = float(law.sigma_squared)
    if square > 1e6:
        return float(stats.norm.cdf((x + 0.5) / sqrt(square)))
    weights = [exp(-(i**2) / (2 * square)) for i in range(-80, 81)]
    return sum(weights[: x + 81]) / sum(weights)


def moment(law: Law, power: int) -> float:
    """An even moment, by definition; of the continuous distribution where the grid is too fine to matter."""
    if isinstance(law, DiscreteLaplace):
        if law.scale > 1e6:
            return {2: 2.0, 4: 24.0}[power] * float(law.scale**power)
        rate = 1 / float(law.scale)
        return 2 * tanh(rate / 2) * float(sum(x**power * exp(-rate * x) for x in range(1, 400)))
    square = float(law.sigma_squared)
    if square > 1e6:
        return {2: 1.0, 4: 3.0}[power] * float(law.sigma_squared ** (power // 2))
    weights = [exp(-(x**2) / (2 * square)) for x in range(80)]
    return 2 * float(sum(x**power * w for x, w in enumerate(weights))) / (2 * sum(weights) - 1)


def mean_is_right(law: Law, draws: NDArray[np.float64]) -> bool:
    return abs(float(draws.mean())) <= Z * sqrt(moment(law, 2) / N)


def variance_is_right(law: Law, draws: NDArray[np.float64]) -> bool:
    expected = moment(law, 2)
    deviation = sqrt((moment(law, 4) - expected**2) / N)
    return abs(float(np.mean(draws**2)) - expected) <= SKEW * Z * deviation


def distribution_is_right(law: Law, draws: NDArray[np.float64]) -> bool:
    """Pearson's chi-square over cells of the integers, each expected at least N/100 times."""
    deviation = sqrt(moment(law, 2))
    edges, chances, before = [], [], 0.0
    for step in range(-120, 121):
        edge = floor(step * deviation / 20)
        chance = below(law, edge) - before
        if chance >= 0.01 and 1 - below(law, edge) >= 0.01:
            edges.append(edge)
            chances.append(chance)
            before = below(law, edge)
    chances.append(1 - before)
    seen = np.bincount(np.searchsorted(edges, draws), minlength=len(chances))
    expected = N * np.array(chances)
    statistic = ((seen - expected) ** 2 / expected).sum()
    return bool(statistic <= stats.chi2.isf(ALPHA, len(chances) - 1))


def test_mean(law: Law, draws: NDArray[np.float64]) -> None:
    assert mean_is_right(law, draws)


def test_mean_off_by_a_tenth_of_a_deviation_is_rejected(law: Law, draws: NDArray[np.float64]) -> None:
    assert not mean_is_right(law, draws + 0.1 * sqrt(moment(law, 2)))


def test_variance(law: Law, draws: NDArray[np.float64]) -> None:
    assert variance_is_right(law, draws)
    assert law.variance == pytest.approx(moment(law, 2), rel=1e-9)


def test_variance_of_faint_noise_is_rejected(law: Law, faint: NDArray[np.float64]) -> None:
    assert not variance_is_right(law, faint)


def test_distribution(law: Law, draws: NDArray[np.float64]) -> None:
    assert distribution_is_right(law, draws)


def test_distribution_of_faint_noise_is_rejected(law: Law, faint: NDArray[np.float64]) -> None:
    assert not distribution_is_right(law, faint)


def test_draws_of_one_call_are_independent(law: Law, draws: NDArray[np.float64]) -> None:
    """The product of neighbours has mean 0 and deviation sigma^2; a twin repeats a tenth of its draws."""
    threshold = SKEW * Z * moment(law, 2) / sqrt(N - 1)
    assert abs(float(np.mean(draws[1:] * draws[:-1]))) <= threshold
    repeated = np.where(np.arange(N) % 10 == 1, np.roll(draws, 1), draws)
    assert abs(float(np.mean(repeated[1:] * repeated[:-1]))) > threshold
