"""Calibrated noise keeps its promise, checked against the exact law of what was composed."""

from __future__ import annotations

from fractions import Fraction
from math import erfc, exp, sqrt
from typing import Literal

import numpy as np
import pytest

from tidegauge.errors import SpecError
from tidegauge.mechanism.calibration import calibrate
from tidegauge.mechanism.noise.samplers import DiscreteGaussian, DiscreteLaplace
from tidegauge.theory.accounting.conversion import epsilon_to_rho


def composed_delta(
    noise: DiscreteLaplace | DiscreteGaussian, shift: int, folds: int, epsilon: float
) -> float:
    """Delta at epsilon, by convolving the losses of single runs one with the other (both lie on a lattice)."""
    reach = int(45 * sqrt(noise.variance)) + shift
    x = np.arange(-reach, reach + 1)
    if isinstance(noise, DiscreteLaplace):
        steps, unit = np.abs(x - shift) - np.abs(x), float(1 / noise.scale)
    else:
        steps, unit = shift * (shift - 2 * x), float(1 / (2 * noise.sigma_squared))
    lowest = int(steps.min())
    one = np.bincount(steps - lowest, weights=noise.masses(reach))
    law = one
    for _ in range(folds - 1):
        law = np.convolve(law, one)
    loss = (np.arange(len(law)) + folds * lowest) * unit
    return float(law @ np.maximum(0, -np.expm1(np.minimum(0, epsilon - loss))))


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    ("sensitivity", "folds", "epsilon", "delta"),
    [(1, 1, "1", "1e-6"), (2, 6, "1.5", "1e-5"), (1, 30, "2", "1e-4"), (1, 3, "8", "1e-6")],
)
def test_the_promise_is_kept_and_hardly_more(
    family: Literal["laplace", "gaussian"], sensitivity: int, folds: int, epsilon: str, delta: str
) -> None:
    found = calibrate(family, sensitivity=sensitivity, folds=folds, epsilon=epsilon, delta=delta)
    assert composed_delta(found.noise, sensitivity, folds, float(epsilon)) <= float(delta)
    less: DiscreteLaplace | DiscreteGaussian
    if isinstance(found.noise, DiscreteLaplace):
        less = DiscreteLaplace(found.noise.scale * Fraction(99, 100))
    else:
        less = DiscreteGaussian(found.noise.sigma_squared * Fraction(98, 100))
    assert composed_delta(less, sensitivity, folds, float(epsilon)) > float(delta)


def test_numeric_accounting_needs_less_gaussian_noise_than_zcdp_but_is_not_adaptive() -> None:
    numeric = calibrate("gaussian", sensitivity=3, folds=12, epsilon=1, delta="1e-6")
    adaptive = calibrate("gaussian", sensitivity=3, folds=12, epsilon=1, delta="1e-6", adaptive=True)
    assert (numeric.method, numeric.adaptive) == ("numeric", False)
    assert (adaptive.method, adaptive.adaptive) == ("renyi", True)
    assert adaptive.noise == DiscreteGaussian(12 * 9 / (2 * epsilon_to_rho(1, delta="1e-6")))
    assert 0.90 < sqrt(numeric.noise.variance / adaptive.noise.variance) < 0.95


def test_large_sensitivities_agree_with_the_analytic_gaussian() -> None:
    found = calibrate("gaussian", sensitivity=11_000, folds=8, epsilon=2, delta="1e-6")
    mu = 11_000 * sqrt(8 / found.noise.variance)

    def delta(mu: float) -> float:
        return (erfc((2 / mu - mu / 2) / sqrt(2)) - exp(2) * erfc((2 / mu + mu / 2) / sqrt(2))) / 2

    assert delta(mu) <= 1e-6 < delta(mu * 1.002)


def test_many_laplace_folds_gain_and_few_do_not() -> None:
    few = calibrate("laplace", sensitivity=1, folds=3, epsilon=1, delta="1e-6")
    assert (few.noise, few.method, few.adaptive) == (DiscreteLaplace(Fraction(3)), "basic", True)
    many = calibrate("laplace", sensitivity=5, folds=60, epsilon=1, delta="1e-6")
    assert (many.method, many.adaptive) == ("numeric", False)
    careful = calibrate("laplace", sensitivity=5, folds=60, epsilon=1, delta="1e-6", adaptive=True)
    assert (careful.method, careful.adaptive) == ("renyi", True)
    assert many.noise.variance < careful.noise.variance < 2 * 300**2


def test_pure_promises_are_basic() -> None:
    found = calibrate("laplace", sensitivity=2, folds=5, epsilon="0.1")
    assert (found.noise, found.method, found.adaptive) == (DiscreteLaplace(Fraction(100)), "basic", True)


def test_an_enormous_budget_means_no_noise() -> None:
    for family in ("laplace", "gaussian"):
        assert calibrate(family, sensitivity=1, folds=4, epsilon="1e9", delta="1e-6").noise.variance == 0


def test_what_cannot_be_promised_is_refused() -> None:
    with pytest.raises(SpecError, match="delta"):
        calibrate("gaussian", sensitivity=1, folds=1, epsilon=1)
    with pytest.raises(SpecError):
        calibrate("laplace", sensitivity=0, folds=1, epsilon=1)
    with pytest.raises(SpecError):
        calibrate("laplace", sensitivity=1, folds=1, epsilon=0)
