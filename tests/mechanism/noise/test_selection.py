"""The noisy minimum has the probabilities that T22 claims; alpha = 1e-9, and a twin must fail."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, permutations
from math import exp
from typing import Final

import numpy as np
import pytest
from scipy import stats

from tidegauge.errors import SpecError
from tidegauge.mechanism.noise import selection
from tidegauge.mechanism.noise.samplers import SecureSampler, SimulationSampler
from tidegauge.mechanism.noise.selection import NoisyMinimum

ALPHA: Final = 1e-9
N: Final = 4000
SCORES = [0, 400, 1000, 2500]
RHO = NoisyMinimum(1000, Fraction(1, 2), pure=False)
PURE = NoisyMinimum(1000, Fraction(2), pure=True)


def expected(law: NoisyMinimum) -> list[float]:
    """The exponential mechanism, or permute and flip by its definition."""
    weights = [exp(-(score - min(SCORES)) / law.scale) for score in SCORES]
    if not law.pure:
        return [one / sum(weights) for one in weights]
    found = [0.0] * len(SCORES)
    orders = list(permutations(range(len(SCORES))))
    for order in orders:
        passed = 1.0
        for one in order:
            found[one] += passed * weights[one] / len(orders)
            passed *= 1 - weights[one]
    return found


def p_value(draws: list[int], law: NoisyMinimum) -> float:
    counts = np.bincount(draws, minlength=len(SCORES))
    return float(stats.chisquare(counts, np.array(expected(law)) * len(draws)).pvalue)


@pytest.mark.parametrize("law", [RHO, PURE], ids=["rho", "pure"])
def test_draws_have_the_claimed_probabilities(law: NoisyMinimum) -> None:
    secure = [law.draw(SCORES, SecureSampler()) for _ in range(N)]
    seeded = SimulationSampler(7)
    simulated = [law.draw(SCORES, seeded) for _ in range(N)]
    for draws in (secure, simulated):
        assert p_value(draws, law) > ALPHA
    assert p_value(secure, NoisyMinimum(2000, law.cost, law.pure)) < ALPHA  # the twin


@pytest.mark.parametrize("law", [RHO, PURE], ids=["rho", "pure"])
def test_probabilities_are_those_of_the_definition(law: NoisyMinimum) -> None:
    assert law.probabilities(SCORES) == pytest.approx(expected(law), rel=1e-12)
    many = [*range(0, 20_000, 700), 300, 300]  # as many as there are candidates of a choice
    assert law.probabilities(many).sum() == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("law", [RHO, PURE, NoisyMinimum(7, Fraction(1, 997), pure=False)])
def test_opendp_states_the_same_loss(law: NoisyMinimum) -> None:
    _, stated = selection._opendp(law.scale, law.sensitivity, pure=law.pure)
    assert float(law.cost) * 0.999 < stated <= float(law.cost) * (1 + 1e-12)


def test_the_scale_is_rounded_up() -> None:
    for number in range(1, 60):
        for pure in (False, True):
            law = NoisyMinimum(1000 + number, Fraction(number, 997), pure)
            rate = 2 * law.sensitivity / Fraction(law.scale)
            assert (rate if pure else rate**2 / 8) <= law.cost
    scales = [NoisyMinimum(1000, Fraction(1, n), pure=False).scale for n in range(1, 9)]
    assert all(one < other for one, other in pairwise(scales))


def test_what_is_refused() -> None:
    with pytest.raises(SpecError):
        RHO.draw([], SecureSampler())
    with pytest.raises(SpecError):
        RHO.draw([2**62], SecureSampler())
