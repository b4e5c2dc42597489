"""Intervals of a mean hold at every level, whatever the noise of its two sums is."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import NormalDist

import pytest

from tidegauge.mechanism.aggregates.mean import Mean

LEVELS = (0.05, 0.25, 0.5, 0.8, 0.9, 0.95, 0.99, 0.9999)


@dataclass(frozen=True)
class Laplace:
    """Noise of scale 1."""

    stderr: float = sqrt(2)

    def half_width(self, level: float) -> float:
        return -log(1 - level)


@dataclass(frozen=True)
class Normal:
    """Noise of variance 1."""

    stderr: float = 1.0

    def half_width(self, level: float) -> float:
        return NormalDist().inv_cdf((1 + level) / 2)


@pytest.mark.parametrize("level", LEVELS)
def test_the_error_of_two_sums_with_laplace_noise_is_covered(level: float) -> None:
    """The sum of two such errors lies in [-h, h] with probability 1 - (1 + h / 2) e^-h."""
    half_width = Mean().half_width([Laplace(), Laplace()], 2.0, level)
    assert 1 - (1 + half_width / 2) * exp(-half_width) >= level


@pytest.mark.parametrize("level", LEVELS)
def test_one_sum_alone_and_normal_noise_need_no_more_than_their_own_tails(level: float) -> None:
    alone = Mean().half_width([Laplace(), Laplace()], sqrt(2), level)
    assert alone >= Laplace().half_width(level) * (1 - 1e-12)
    normal = Mean().half_width([Normal(), Normal()], sqrt(2), level)
    assert normal == pytest.approx(sqrt(2) * Normal().half_width(level))
