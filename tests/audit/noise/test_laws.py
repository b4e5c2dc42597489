"""The tests of drawn noise pass on right noise, and fail on wrong noise.  alpha = 1e-9."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from tidegauge.audit.findings import Discrepancy
from tidegauge.audit.noise.laws import Recorder, below, classes, deviation, laws_of
from tidegauge.mechanism.noise.samplers import DiscreteGaussian, DiscreteLaplace, SimulationSampler

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegauge.mechanism.noise.samplers import Noise

ALPHA = 1e-9
LAWS = [
    DiscreteGaussian(Fraction(10**9)),
    DiscreteGaussian(Fraction(5000)),
    DiscreteGaussian(Fraction(3, 2)),
    DiscreteLaplace(Fraction(10**5)),
    DiscreteLaplace(Fraction(7, 3)),
]


def recorder(law: Noise, change: Callable[[list[int]], list[int]] = list) -> Recorder:
    found, sampler = Recorder(), SimulationSampler(7)
    found.calls = [(law, change(sampler.draw(law, 5000))) for _ in range(6)]
    return found


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_right_noise_passes(law: Noise) -> None:
    laws = laws_of(recorder(law))
    laws.check(ALPHA)
    assert laws.draws == 30_000
    assert sum(classes(law)[1]) == pytest.approx(1)
    assert below(law, 0) > 0.5 > below(law, -1)
    assert deviation(law) ** 2 == pytest.approx(law.variance, rel=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        lambda draws: [round(0.9 * one) for one in draws],
        lambda draws: [abs(one) for one in draws],
        lambda draws: [one for one in draws[::2] for _ in range(2)],
        lambda draws: [one + 30_000 for one in draws],
        sorted,
    ],
    ids=["small", "positive", "twice", "moved", "sorted"],
)
def test_wrong_noise_is_found(change: Callable[[list[int]], list[int]]) -> None:
    with pytest.raises(Discrepancy):
        laws_of(recorder(LAWS[0], change)).check(ALPHA)


def test_the_same_noise_in_two_calls_is_found() -> None:
    found = recorder(LAWS[0])
    found.calls[1] = found.calls[0]
    found.calls[3] = LAWS[0], found.calls[2][1][:2000]
    with pytest.raises(Discrepancy, match="different calls"):
        laws_of(found).check(ALPHA)
