"""Intervals cover as often as they say, at level ALPHA with N trials; intervals 10 % too narrow do not."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from tidegauge.mechanism.noise.error import ErrorDistribution, ratio_interval
from tidegauge.mechanism.noise.samplers import (
    DiscreteGaussian,
    DiscreteLaplace,
    Noise,
    SecureSampler,
    SimulationSampler,
)

ALPHA = 1e-9
N = 20_000
LEVEL = 0.95


def covers(inside: NDArray[np.bool_]) -> bool:
    """Whether the share inside is LEVEL, by the exact binomial distribution."""
    hits = int(inside.sum())
    return bool(min(stats.binom.cdf(hits, N, LEVEL), stats.binom.sf(hits - 1, N, LEVEL)) > ALPHA / 2)


CASES = {
    "one laplace": ([1.0], DiscreteLaplace(Fraction(1000))),
    "five laplace": ([1.0] * 5, DiscreteLaplace(Fraction(300))),
    "unequal laplace": ([1.0, 0.5, 0.25, 0.25, 2.0], DiscreteLaplace(Fraction(500))),
    "fading laplace": ((0.8 ** np.arange(20)).tolist(), DiscreteLaplace(Fraction(500))),
    "gaussian": ([1.0, -0.3, 0.7], DiscreteGaussian(Fraction(10**6))),
}


@pytest.mark.parametrize(("weights", "noise"), CASES.values(), ids=CASES)
def test_intervals_cover(weights: list[float], noise: Noise) -> None:
    sampler = SimulationSampler(11)
    error = np.abs(sum(weight * np.array(sampler.draw(noise, N)) for weight in weights))
    distribution = ErrorDistribution.of(weights, noise)
    assert covers(error <= distribution.half_width(LEVEL))
    assert not covers(error <= 0.9 * distribution.half_width(LEVEL))
    assert np.mean(error**2) == pytest.approx(distribution.stderr**2, rel=8 * sqrt(5 / N))


def test_intervals_cover_real_draws() -> None:
    noise = DiscreteLaplace(Fraction(1000))
    sampler = SecureSampler()
    error = np.abs(np.array(sampler.draw(noise, N)) - np.array(sampler.draw(noise, N)))
    half = ErrorDistribution.of([1.0, -1.0], noise).half_width(LEVEL)
    assert covers(error <= half)
    assert not covers(error <= 0.9 * half)


@pytest.mark.parametrize("deviations", [6, 30])
def test_intervals_of_a_mean_cover(deviations: int) -> None:
    """A count of so many of its standard errors, and a sum with a mean of 40."""
    noise = DiscreteGaussian(Fraction(10**6))
    distribution = ErrorDistribution.of([1.0], noise)
    half = distribution.half_width(LEVEL)
    sampler = SimulationSampler(5)
    count = deviations * distribution.stderr
    counts = count + np.array(sampler.draw(noise, N))
    sums = 40 * count + 10 * np.array(sampler.draw(noise, N))

    def inside(shrink: float) -> NDArray[np.bool_]:
        edges = [
            ratio_interval(
                sum_value=s, sum_half_width=shrink * 10 * half, count_value=c, count_half_width=shrink * half
            )
            for s, c in zip(sums.tolist(), counts.tolist(), strict=True)
        ]
        low, high = np.array(edges).T
        return np.asarray((low <= 40) & (high >= 40))

    assert covers(inside(1.0))
    assert not covers(inside(0.9))
