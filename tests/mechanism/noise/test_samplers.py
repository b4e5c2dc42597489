"""Noise as a value: its exact distribution, its bounds, and who may draw it."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from importlib import import_module

import numpy as np
import pytest

from tidegauge.errors import SpecError, TidegaugeError
from tidegauge.mechanism.noise import samplers as module
from tidegauge.mechanism.noise.samplers import (
    DiscreteGaussian,
    DiscreteLaplace,
    Noise,
    SecureSampler,
    SimulationSampler,
    gaussian_for,
    laplace_for,
)

mp = import_module("mpmath").mp.clone()
mp.dps = 30

SCALES = ["0.03", "0.3", "1", "2.9", "3.1", "40"]


def exact_variance(exponent_of_one: str, power: int) -> float:
    """From the definition: P(x) proportional to exp(-rate |x|^power)."""
    rate = mp.mpf(1) / mp.mpf(exponent_of_one)
    weights = [mp.exp(-rate * x**power) for x in range(1500)]
    total = weights[0] + 2 * mp.fsum(weights[1:])
    return float(2 * mp.fsum(w * x * x for x, w in enumerate(weights)) / total)


@pytest.mark.parametrize("scale", SCALES)
def test_variance_is_that_of_the_discrete_law(scale: str) -> None:
    laplace = DiscreteLaplace(Fraction(scale))
    assert laplace.variance == pytest.approx(exact_variance(scale, 1), rel=1e-12, abs=1e-300)
    gaussian = DiscreteGaussian(Fraction(scale))
    assert gaussian.variance == pytest.approx(
        exact_variance(str(2 * mp.mpf(scale)), 2), rel=1e-12, abs=1e-300
    )


@pytest.mark.parametrize("noise", [DiscreteLaplace(Fraction(7, 2)), DiscreteGaussian(Fraction(7, 2))])
def test_masses_are_a_law(noise: Noise) -> None:
    masses = noise.masses(200)
    assert masses.sum() == pytest.approx(1, abs=1e-13)
    assert masses @ np.arange(-200, 201) ** 2.0 == pytest.approx(noise.variance, rel=1e-12)
    assert noise.masses(0) == masses[200]


@pytest.mark.parametrize("scale", ["0.05", "0.5", "2", "9", "11", "100"])
def test_characteristic_functions(scale: str) -> None:
    angles = np.linspace(-7, 7, 29)
    for noise in (DiscreteLaplace(Fraction(scale)), DiscreteGaussian(Fraction(scale))):
        direct = noise.masses(4000) @ np.cos(np.outer(np.arange(-4000, 4001), angles))
        assert np.allclose(noise.characteristic(angles), direct, rtol=0, atol=1e-13)


def test_calibration_is_exact() -> None:
    assert laplace_for(Fraction(3), Fraction(1, 7)) == DiscreteLaplace(Fraction(21))
    assert gaussian_for(Fraction(3), Fraction(1, 7)) == DiscreteGaussian(Fraction(21, 2))


@pytest.mark.parametrize("scale", ["1/3", "0.1", "7/5", "123456789/1000", str(2**52)])
def test_the_sampler_is_handed_no_less_noise_than_was_asked(scale: str) -> None:
    exact = Fraction(scale)
    laplace, gaussian = DiscreteLaplace(exact), DiscreteGaussian(exact)
    assert 0 <= Fraction(laplace._handed) - exact < exact / 2**51
    assert 0 <= Fraction(gaussian._handed) ** 2 - exact < exact / 2**50
    assert laplace._measurement().map(1) <= float(1 / exact) * (1 + 1e-12)
    assert gaussian._measurement().map(1.0) <= float(1 / (2 * exact)) * (1 + 1e-12)


@pytest.mark.parametrize("noise", [DiscreteLaplace(Fraction(2)), DiscreteGaussian(Fraction(4))])
def test_a_sampler_that_states_a_larger_loss_is_not_used(
    noise: Noise, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = module._opendp
    monkeypatch.setattr(module, "_opendp", lambda family, scale: real(family, scale * 0.999))
    with pytest.raises(TidegaugeError, match="Nothing was drawn"):
        noise.sample(1)


@pytest.mark.parametrize(
    "noise", [DiscreteLaplace(Fraction(1, 10**9)), DiscreteGaussian(Fraction(1, 10**400))]
)
def test_an_enormous_budget_means_no_noise(noise: Noise) -> None:
    assert noise.sample(50) == [0] * 50
    assert noise.simulate(50, np.random.default_rng(1)) == [0] * 50
    assert noise.variance == 0


@pytest.mark.parametrize("noise", [DiscreteLaplace(Fraction(2**52)), DiscreteGaussian(Fraction(2**104))])
def test_the_largest_noise_stays_within_its_integers(noise: Noise) -> None:
    draws = noise.sample(500)
    assert all(type(draw) is int for draw in draws)
    assert 2**50 < max(map(abs, draws)) < 2**60


@pytest.mark.parametrize("size", [Fraction(0), Fraction(-1), Fraction(2**104 + 1)])
def test_noise_that_cannot_be_drawn_is_refused(size: Fraction) -> None:
    with pytest.raises(SpecError, match="2\\^52"):
        DiscreteLaplace(size)
    with pytest.raises(SpecError, match="2\\^52"):
        DiscreteGaussian(size)
    with pytest.raises(SpecError):
        laplace_for(Fraction(1), -abs(size))
    with pytest.raises(SpecError):
        gaussian_for(-abs(size), Fraction(1))


def test_a_simulation_repeats_and_says_so() -> None:
    noise = DiscreteGaussian(Fraction(30))
    first, second = SimulationSampler(7), SimulationSampler(7)
    assert first.draw(noise, 20) == second.draw(noise, 20)
    assert first.draw(noise, 20) != SimulationSampler(8).draw(noise, 20)
    assert first.simulated
    assert all(type(draw) is int for draw in first.draw(noise, 3))


def test_the_secure_sampler_does_not_repeat() -> None:
    noise = DiscreteLaplace(Fraction(10**6))
    sampler = SecureSampler()
    assert sampler.draw(noise, 20) != sampler.draw(noise, 20)
    assert sampler.draw(noise, 0) == []
    assert not sampler.simulated


def test_importing_noise_does_not_import_opendp() -> None:
    code = (
        "import sys, tidegauge.mechanism.noise.samplers; sys.exit('opendp' in sys.modules or "
        "'dp_accounting' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
