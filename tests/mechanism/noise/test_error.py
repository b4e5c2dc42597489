"""Half-widths against the exact distribution, by plain convolution."""

from __future__ import annotations

from fractions import Fraction
from math import inf, sqrt
from time import process_time

import numpy as np
import pytest
from scipy import signal, stats

from tidegauge.errors import SpecError
from tidegauge.mechanism.noise.error import ErrorDistribution, ratio, ratio_interval
from tidegauge.mechanism.noise.samplers import DiscreteGaussian, DiscreteLaplace, Noise

LEVELS = [0.5, 0.9, 0.95, 0.99, 0.999]


def exact_coverage(weights: list[int], noise: Noise, half_width: float) -> float:
    """Of a sum with integer weights: convolve the stretched distributions."""
    reach = int(40 * sqrt(noise.variance)) + 20
    one, total = noise.masses(reach), np.ones(1)
    for weight in weights:
        stretched = np.zeros(2 * reach * weight + 1)
        stretched[::weight] = one
        total = signal.fftconvolve(total, stretched)
    x = np.arange(len(total)) - len(total) // 2
    return float(total[np.abs(x) <= half_width + 1e-9].sum())


def gamma_coverage(terms: int, half_width: float) -> float:
    """Of a sum of real Laplace draws of scale 1: a normal whose variance is twice a gamma draw."""
    shares = (np.arange(20_000) + 0.5) / 20_000
    spread = np.sqrt(2 * stats.gamma(terms).ppf(shares))
    return float(np.mean(2 * stats.norm.cdf(half_width / spread) - 1))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("terms", [1, 2, 5, 30])
@pytest.mark.parametrize(
    "noise",
    [
        DiscreteLaplace(Fraction(1, 2)),
        DiscreteLaplace(Fraction(3)),
        DiscreteGaussian(Fraction(1, 4)),
        DiscreteGaussian(Fraction(9)),
    ],
)
def test_equal_terms_get_the_least_half_width_of_their_lattice(
    noise: Noise, terms: int, level: float
) -> None:
    half = ErrorDistribution.of([2.5] * terms, noise).half_width(level) / 2.5
    assert half == int(half)
    assert exact_coverage([1] * terms, noise, half) >= level - 1e-12
    assert half == 0 or exact_coverage([1] * terms, noise, half - 1) < level


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("terms", [1, 2, 3, 8, 25, 60, 400, 4000])
def test_many_equal_laplace_terms_are_exact_to_a_ten_thousandth(terms: int, level: float) -> None:
    scale = 10**6
    half = ErrorDistribution.of([1.0] * terms, DiscreteLaplace(Fraction(scale))).half_width(level)
    assert gamma_coverage(terms, half / scale) == pytest.approx(level, abs=1e-5)


@pytest.mark.parametrize("variance", [Fraction(5000), Fraction(10**14)])
def test_gaussian_terms_are_normal(variance: Fraction) -> None:
    distribution = ErrorDistribution.of([1.0, -2.0, 0.5], DiscreteGaussian(variance))
    assert distribution.stderr == pytest.approx(sqrt(5.25 * variance), rel=1e-9)
    assert distribution.half_width(0.95) == pytest.approx(1.959964 * distribution.stderr, rel=1e-6)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("weights", [[1, 2], [1, 10], [5, 4, 3, 2, 1], [1, 1, 1, 1, 1, 7]])
@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(5), Fraction(40)])
def test_unequal_terms_are_covered(weights: list[int], scale: Fraction, level: float) -> None:
    for noise in (DiscreteLaplace(scale), DiscreteGaussian(scale**2)):
        distribution = ErrorDistribution.of([float(w) for w in weights], noise)
        half = distribution.half_width(level)
        assert exact_coverage(weights, noise, half) >= level - 1e-4
        if half > 1:
            assert (
                exact_coverage(weights, noise, half - 1 - 0.04 * max(distribution.stderr, *weights)) < level
            )


def test_coarse_terms_turn_continuous_without_a_jump() -> None:
    weights = np.linspace(0.5, 1, 400)
    widths = [
        ErrorDistribution.of(weights, DiscreteLaplace(Fraction(s))).half_width() / s for s in (3, 5, 6, 9)
    ]
    assert max(widths) < 1.03 * min(widths)


@pytest.mark.parametrize("scale", [2, 10**5])
def test_a_few_large_terms_among_thousands_of_small_ones(scale: int) -> None:
    rng, n = np.random.default_rng(3), 200_000
    noise = DiscreteLaplace(Fraction(scale))
    weights = np.concatenate([[1.0, 0.9], 0.004 * rng.random(3000)])
    half = ErrorDistribution.of(weights, noise).half_width(0.95)
    error = rng.normal(scale=sqrt(noise.variance * float(weights[2:] @ weights[2:])), size=n)
    for weight in weights[:2]:
        error += weight * np.array(noise.simulate(n, rng))
    covered = float(np.mean(np.abs(error) <= half))
    assert -6 * sqrt(0.0475 / n) < covered - 0.95 < 0.005


def test_laws_of_different_noise_add_up() -> None:
    first, second = DiscreteLaplace(Fraction(200)), DiscreteGaussian(Fraction(90_000))
    distribution = ErrorDistribution.of([1.0], first) + ErrorDistribution.of([1.0], second)
    both = np.convolve(first.masses(9000), second.masses(4000))
    x = np.arange(len(both)) - len(both) // 2
    assert distribution.stderr == pytest.approx(sqrt(first.variance + second.variance))
    assert both[np.abs(x) <= distribution.half_width(0.95)].sum() == pytest.approx(0.95, abs=2e-4)


def test_without_noise_there_is_no_error() -> None:
    for distribution in (
        ErrorDistribution(),
        ErrorDistribution.of([], DiscreteLaplace(Fraction(1))),
        ErrorDistribution.of([0.0], DiscreteLaplace(Fraction(1))),
    ):
        assert (distribution.stderr, distribution.half_width()) == (0, 0)
    assert ErrorDistribution.of(np.ones(4000), DiscreteLaplace(Fraction(1, 10**9))).half_width(0.999999) == 0
    nearly = ErrorDistribution.of([1.0, 2.0], DiscreteLaplace(Fraction(1, 6)))
    assert nearly.stderr > 0
    assert nearly.half_width(0.95) == 0


def test_a_repeated_profile_costs_well_under_a_millisecond() -> None:
    noise = DiscreteLaplace(Fraction(1000))
    ErrorDistribution.of(np.ones(12), noise).half_width()
    begin = process_time()
    for scale in range(1, 401):
        ErrorDistribution.of(scale * np.ones(12), noise).half_width()
    assert process_time() - begin < 0.4


def test_near_certainty_is_wide_and_finite() -> None:
    distribution = ErrorDistribution.of([1.0, 2.0], DiscreteLaplace(Fraction(1000)))
    assert 20 * distribution.stderr < distribution.half_width(1 - 1e-15) <= 41 * distribution.stderr


@pytest.mark.parametrize("level", [0, 1, -0.5, 2])
def test_a_level_is_a_probability(level: float) -> None:
    with pytest.raises(SpecError, match="level"):
        ErrorDistribution().half_width(level)


def test_ratio_is_the_delta_method() -> None:
    mean = ratio(sum_value=500, sum_stderr=30, count_value=100, count_stderr=4)
    assert mean == pytest.approx((5, sqrt(30**2 + (5 * 4) ** 2) / 100))
    assert ratio(sum_value=500, sum_stderr=30, count_value=9, count_stderr=4) is None
    assert ratio(sum_value=0, sum_stderr=0, count_value=0, count_stderr=0) is None
    assert ratio(sum_value=3, sum_stderr=0, count_value=2, count_stderr=0) == pytest.approx((1.5, 0))


def test_ratio_interval_solves_its_equation() -> None:
    low, high = ratio_interval(sum_value=500, sum_half_width=60, count_value=100, count_half_width=8)
    for edge in (low, high):
        assert (500 - 100 * edge) ** 2 == pytest.approx(60**2 + (8 * edge) ** 2)
    assert low < 5 < high
    assert ratio_interval(sum_value=3, sum_half_width=0, count_value=2, count_half_width=0) == (1.5, 1.5)
    assert ratio_interval(sum_value=3, sum_half_width=1, count_value=2, count_half_width=2) == (-inf, inf)
