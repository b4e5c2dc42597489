"""The noise that is drawn is as wide as the noise from which the loss is computed.

The fuzz computes the loss from the scale that each draw was asked to have.  Here the draws of whole gauges
are taken as they come from the sampler for real data, and their spread is compared with that scale: a scale
that is wrong in drawing and in error bars alike does not pass.  alpha = 1e-9; a twin draws noise 10 % too
small and must be rejected.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from scipy import stats

from tidegauge.mechanism.encode import scaled
from tidegauge.mechanism.noise.samplers import DiscreteGaussian, DiscreteLaplace, SecureSampler
from tidegauge.run.gauge import Gauge
from tidegauge.testing import Clock, Script

if TYPE_CHECKING:
    from pathlib import Path

    from tidegauge.mechanism.noise.samplers import Noise

ALPHA: Final = 1e-9
CELLS, BINS = 3000, 8


class Recorder:
    """The sampler for real data, and what it gave."""

    simulated: Final = False

    def __init__(self, factor: Fraction) -> None:
        self._factor, self.draws = factor, defaultdict[Any, list[int]](list)

    def draw(self, noise: Noise, count: int) -> list[int]:
        found = SecureSampler().draw(scaled(noise, self._factor), count)
        self.draws[noise] += found
        return found


def spread(noise: Noise) -> tuple[float, float]:
    """The variance that the loss is computed from, and the kurtosis, for noise that is many steps wide."""
    if isinstance(noise, DiscreteLaplace):
        assert noise.scale > 30
        return float(2 * noise.scale**2), 6.0
    assert isinstance(noise, DiscreteGaussian)
    assert noise.sigma_squared > 900
    return float(noise.sigma_squared), 3.0


def wide_enough(noise: Noise, draws: list[int]) -> bool:
    """Whether so little spread would come about with a chance of more than alpha."""
    variance, kurtosis = spread(noise)
    found = float(np.mean(np.square(np.array(draws, dtype=np.float64)))) / variance
    return bool(found > 1 - stats.norm.isf(ALPHA) * sqrt((kurtosis - 1) / len(draws)))


HIERARCHY = {
    "name": "hierarchy",
    "branching": 2,
    "height": 2,
    "bins": BINS,
    "load": "apart",
    "scales": "3/2 1/2 1",
}
REMEMBERING = {"name": "autoregressive", "bins": BINS, "memory": 50000, "shared_noise": "3/2", "first": 0}
CASES = [
    ({"epsilon": "1"}, {"name": "disjoint", "base": 0}),
    ({"rho": "1/2"}, {"name": "disjoint", "base": 0}),
    ({"epsilon": "1"}, HIERARCHY),
    ({"rho": "1/2"}, HIERARCHY),
    ({"epsilon": "1"}, REMEMBERING),
    (
        {"epsilon": "1"},
        {"name": "ahead", "branching": 8, "height": 2, "bins": BINS, "first": 0, "scales": "1 3/4"},
    ),
]


def drawn(
    folder: Path, budget: dict[str, str], strategy: dict[str, Any], factor: Fraction
) -> dict[Noise, list[int]]:
    """All draws of a gauge over a table in which nothing is, by the law that they were asked to have."""
    recorder = Recorder(factor)
    gauge = Gauge(
        source=Script({"g": "VARCHAR"}, []),
        constraint={"at_most": 2},
        budget=budget,
        releases={
            "count": {
                "sql": "SELECT g, COUNT(*) FROM t GROUP BY g",
                "groups": {"g": [f"g{n}" for n in range(CELLS)]},
                "start": "1970-01-01",
                "every": "10 microseconds",
                "for": f"{10 * (BINS - 1)} microseconds",
                "strategy": strategy,
            }
        },
        store=folder / "store.db",
        now=Clock(1000),
        sampler=recorder,
    )
    for _ in gauge.run():
        pass
    return dict(recorder.draws)


@pytest.mark.parametrize(("budget", "strategy"), CASES)
def test_noise_is_as_wide_as_the_loss_says(
    tmp_path: Path, budget: dict[str, str], strategy: dict[str, Any]
) -> None:
    found = drawn(tmp_path, budget, strategy, Fraction(1))
    assert sum(map(len, found.values())) >= CELLS * BINS
    laws = {law for law, draws in found.items() if len(draws) >= CELLS}
    assert laws == set(found)
    assert all(wide_enough(law, draws) for law, draws in found.items())


@pytest.mark.parametrize(("budget", "strategy"), CASES[:2])
def test_noise_that_is_too_small_by_a_tenth_is_found(
    tmp_path: Path, budget: dict[str, str], strategy: dict[str, Any]
) -> None:
    found = drawn(tmp_path, budget, strategy, Fraction(9, 10))
    assert not any(wide_enough(law, draws) for law, draws in found.items() if len(draws) >= 4 * CELLS)
