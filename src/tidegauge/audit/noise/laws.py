"""The noise that is really drawn against the exact distribution that the plan names, and its independence.

Probabilities come from the definition of the distribution and the numbers in the plan: not from the code that
draws, nor from the code that computes error bars.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from math import exp, isfinite, sqrt
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy import stats

from tidegauge.audit.findings import require
from tidegauge.mechanism.noise.samplers import DiscreteGaussian, DiscreteLaplace, SecureSampler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tidegauge.mechanism.noise.samplers import Noise

    Floats = NDArray[np.float64]

_CLASSES: Final = 20
"""Classes of equal probability, as nearly as integers allow."""
_FEWEST: Final = 2000
"""Draws of one distribution below which it is not tested by itself."""
_FINE: Final = 10**6
"""Variance above which sums over the integers equal integrals."""


class Recorder:
    """The sampler for real data, and everything that it drew, call by call."""

    simulated: Final = False

    def __init__(self) -> None:
        self.calls: list[tuple[Noise, list[int]]] = []

    def draw(self, noise: Noise, count: int) -> list[int]:
        """As the sampler for real data draws."""
        found = SecureSampler().draw(noise, count)
        self.calls.append((noise, found))
        return found

    @property
    def draws(self) -> Counter[int]:
        """How often each number was drawn."""
        return Counter(value for _, found in self.calls for value in found)


@lru_cache(maxsize=256)
def deviation(noise: Noise) -> float:
    """The standard deviation, from the definition."""
    values, masses = _table(noise)
    if values is None:
        return sqrt(2) * float(_scale(noise)) if isinstance(noise, DiscreteLaplace) else float(_scale(noise))
    return sqrt(float(masses @ values**2))


def _scale(noise: Noise) -> float:
    if isinstance(noise, DiscreteLaplace):
        return float(noise.scale)
    assert isinstance(noise, DiscreteGaussian)
    return sqrt(noise.sigma_squared)


def _table(noise: Noise) -> tuple[Floats | None, Floats]:
    """All values of any weight and their probabilities; None where there are too many to list."""
    scale = _scale(noise)
    if scale**2 > _FINE:
        return None, np.zeros(0)
    reach = int(60 * scale) + 60
    values = np.arange(-reach, reach + 1, dtype=np.float64)
    exponents = (
        -np.abs(values) / scale if isinstance(noise, DiscreteLaplace) else -(values**2) / (2 * scale**2)
    )
    masses = np.exp(exponents)
    return values, masses / masses.sum()


def below(noise: Noise, value: int) -> float:
    """The probability of a draw up to this value, from the definition."""
    scale = _scale(noise)
    if isinstance(noise, DiscreteLaplace):
        ratio = exp(-1 / scale)
        return 1 - ratio ** (value + 1) / (1 + ratio) if value >= 0 else ratio**-value / (1 + ratio)
    values, masses = _table(noise)
    if values is None:
        return float(stats.norm.cdf((value + 0.5) / scale))
    place = value - int(values[0]) + 1
    return float(masses[: max(0, place)].sum())


@lru_cache(maxsize=256)
def classes(noise: Noise) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Upper ends of the classes but the last, and the probability of each class."""
    spread, last, before = deviation(noise), None, 0.0
    edges: list[int] = []
    chances: list[float] = []
    for step in range(-400, 401):
        edge = round(step * spread / 50)
        if edge == last:
            continue
        last, upto = edge, below(noise, edge)
        if upto - before >= 1 / _CLASSES and 1 - upto >= 1 / (2 * _CLASSES):
            edges.append(edge)
            chances.append(upto - before)
            before = upto
    return tuple(edges), (*chances, 1 - before)


def distribution_p(noise: Noise, draws: Sequence[int]) -> float:
    """The chance of draws at least as far from the distribution, by Pearson's chi-square."""
    edges, chances = classes(noise)
    values = np.array(draws, dtype=np.float64)
    if len(chances) == 1:  # nearly all of the probability is at one value
        return 1.0
    seen = np.bincount(np.searchsorted(np.array(edges, dtype=np.float64), values), minlength=len(chances))
    expected = len(values) * np.array(chances)
    statistic = float(((seen - expected) ** 2 / expected).sum())
    return float(stats.chi2.sf(statistic, len(chances) - 1))


def correlation_p(left: Floats, right: Floats) -> float:
    """The chance of a correlation at least as large, of independent numbers with mean 0 and variance 1.

    Ranks are compared, so that the distribution of the numbers has no effect.
    """
    count = min(len(left), len(right))
    if count < 100 or left[:count].std() == 0 or right[:count].std() == 0:
        return 1.0
    found = stats.spearmanr(left[:count], right[:count]).statistic
    return float(2 * stats.norm.sf(abs(found) * sqrt(count - 1))) if isfinite(found) else 1.0


@dataclass
class Laws:
    """The tests of one run's draws: name -> chance under the right code."""

    chances: dict[str, float] = field(default_factory=dict)
    draws: int = 0

    def check(self, alpha: float) -> None:
        """Raise Discrepancy where a chance is below alpha, divided among all tests."""
        for name, chance in self.chances.items():
            require(chance >= alpha / max(1, len(self.chances)), f"{name} (p = {chance:.1e})")


def laws_of(recorder: Recorder) -> Laws:
    """The distribution of each kind of noise, and independence of draws near each other and between calls."""
    found = Laws()
    by_law: dict[Noise, list[int]] = {}
    for noise, draws in recorder.calls:
        by_law.setdefault(noise, []).extend(draws)
    found.draws = sum(map(len, by_law.values()))
    large = {noise: draws for noise, draws in by_law.items() if len(draws) >= _FEWEST}
    for number, (noise, draws) in enumerate(large.items()):
        found.chances[f"the drawn noise does not have its distribution (kind {number + 1})"] = distribution_p(
            noise, draws
        )
    _pool_small(found, by_law)
    ordered = np.concatenate(
        [np.array(draws, dtype=np.float64) / max(deviation(noise), 1e-9) for noise, draws in recorder.calls]
        or [np.zeros(0)]
    )
    for lag in (1, 2, 3, 7):
        found.chances[f"draws that follow each other are not independent (lag {lag})"] = correlation_p(
            ordered[:-lag], ordered[lag:]
        )
    calls = [
        np.array(draws, dtype=np.float64) / max(deviation(noise), 1e-9) for noise, draws in recorder.calls
    ]
    for apart in (1, 2):
        pairs = list(zip(calls, calls[apart:], strict=False))
        left = [one[: len(other)] for one, other in pairs]
        right = [other[: len(one)] for one, other in pairs]
        if pairs:
            found.chances[f"draws of different calls are not independent (calls {apart} apart)"] = (
                correlation_p(np.concatenate(left), np.concatenate(right))
            )
    return found


def _pool_small(found: Laws, by_law: dict[Noise, list[int]]) -> None:
    """Kinds of noise with few draws: made uniform by their own distributions, and tested together."""
    places = []
    for noise, draws in by_law.items():
        if len(draws) < _FEWEST and deviation(noise) >= 30:  # wide enough for steps not to matter
            places += [(below(noise, value) + below(noise, value - 1)) / 2 for value in draws]
    if len(places) >= 500:
        seen = np.bincount((np.array(places) * 10).astype(int).clip(0, 9), minlength=10)
        expected = len(places) / 10
        statistic = float(((seen - expected) ** 2).sum() / expected)
        found.chances["the drawn noise does not have its distribution (rarer kinds)"] = float(
            stats.chi2.sf(statistic, 9)
        )
