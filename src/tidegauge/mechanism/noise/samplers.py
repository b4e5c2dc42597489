"""Noise on the integers, drawn by OpenDP (cryptographic) or in a simulation (seeded)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import exp, expm1, floor, inf, nextafter, pi, sqrt, tanh
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import numpy as np

from tidegauge.errors import SpecError, TidegaugeError
from tidegauge.theory.accounting.precise import above

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

_MOST: Final = 2**52
"""Largest scale: a draw leaves the 64-bit integers with probability below e^-1000."""
_LEAST: Final = 2.0**-10
"""Least scale of the sampler: a draw differs from 0 with probability below e^-1000.  Rounding up is safe."""


class Noise(ABC):
    """A symmetric distribution on the integers: `sample` draws for real data, `simulate` from a seed."""

    @property
    def variance(self) -> float:
        """The exact variance.  For a small scale, the continuous distribution has another."""
        return self._variance()

    def masses(self, reach: int) -> Floats:
        """The probabilities of -reach, ..., reach."""
        return self._masses(np.abs(np.arange(-reach, reach + 1, dtype=np.float64)))

    def characteristic(self, angles: Floats) -> Floats:
        """The mean of cos(angle x)."""
        return self._characteristic(angles)

    def sample(self, count: int) -> list[int]:
        """Independent draws with cryptographic randomness."""
        return list(self._measurement()([0] * count)) if count else []

    def simulate(self, count: int, rng: np.random.Generator) -> list[int]:
        """Independent draws of the same distribution from a seeded generator; never used for real data."""
        return list(map(int, self._simulated(count, rng)))

    @abstractmethod
    def _variance(self) -> float: ...

    @abstractmethod
    def _masses(self, distances: Floats) -> Floats: ...

    @abstractmethod
    def _characteristic(self, angles: Floats) -> Floats: ...

    @abstractmethod
    def _measurement(self) -> Any: ...

    @abstractmethod
    def _simulated(self, count: int, rng: np.random.Generator) -> Integers: ...


@dataclass(frozen=True)
class DiscreteLaplace(Noise):
    """P(x) is proportional to exp(-|x| / scale)."""

    scale: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.scale <= _MOST:
            raise SpecError(
                "the scale must be above 0 and at most 2^52 grid steps: give a coarser grid, or "
                "a larger budget",
                key="noise",
            )

    @property
    def _handed(self) -> float:
        return max(_LEAST, above(self.scale))

    def _variance(self) -> float:
        rate = 1 / self._handed
        return 2 * exp(-rate) / expm1(-rate) ** 2

    def _masses(self, distances: Floats) -> Floats:
        rate = 1 / self._handed
        return tanh(rate / 2) * np.exp(-rate * distances)

    def _characteristic(self, angles: Floats) -> Floats:
        return 1 / (1 + self.variance * (1 - np.cos(angles)))

    def _measurement(self) -> Any:
        return _checked("laplace", self._handed, 1 / self.scale)

    def _simulated(self, count: int, rng: np.random.Generator) -> Integers:
        return _difference_of_geometrics(self._handed, count, rng)


@dataclass(frozen=True)
class DiscreteGaussian(Noise):
    """P(x) is proportional to exp(-x^2 / (2 sigma_squared))."""

    sigma_squared: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.sigma_squared <= _MOST**2:
            raise SpecError(
                "sigma must be above 0 and at most 2^52 grid steps: give a coarser grid, or a larger budget",
                key="noise",
            )

    @property
    def _handed(self) -> float:
        root = sqrt(above(self.sigma_squared))
        while Fraction(root) ** 2 < self.sigma_squared:
            root = nextafter(root, inf)
        return max(_LEAST, root)

    @property
    def _square(self) -> float:
        return self._handed**2

    @property
    def _wide(self) -> bool:
        """Whether sums over the integers equal their integrals, to less than e^-170."""
        return self._square > 9

    def _variance(self) -> float:
        return self._square if self._wide else float(self.masses(60) @ np.arange(-60, 61) ** 2.0)

    def _masses(self, distances: Floats) -> Floats:
        total = sqrt(2 * pi * self._square)
        if not self._wide:
            total = float(np.exp(-(np.arange(-60, 61) ** 2.0) / (2 * self._square)).sum())
        return np.exp(-(distances**2) / (2 * self._square)) / total

    def _characteristic(self, angles: Floats) -> Floats:
        if self._wide:
            turned: Floats = np.remainder(angles + pi, 2 * pi) - pi
            return np.exp(-self._square * turned**2 / 2)
        masses = self.masses(60)[60:]
        mean = np.full_like(angles, masses[0])
        for x in range(1, int(np.count_nonzero(masses > 1e-18))):
            mean += 2 * masses[x] * np.cos(x * angles)
        return mean

    def _measurement(self) -> Any:
        return _checked("gaussian", self._handed, 1 / (2 * self.sigma_squared))

    def _simulated(self, count: int, rng: np.random.Generator) -> Integers:
        """Canonne, Kamath and Steinke (2020), algorithm 3: discrete Laplace draws, some rejected."""
        square, scale = self._square, floor(self._handed) + 1
        kept = np.empty(0, dtype=np.int64)
        while len(kept) < count:
            draws = _difference_of_geometrics(scale, 2 * (count - len(kept)) + 16, rng)
            accept = np.exp(-((np.abs(draws) - square / scale) ** 2) / (2 * square))
            kept = np.concatenate([kept, draws[rng.random(len(draws)) < accept]])
        return kept[:count]


def laplace_for(l1: Fraction, epsilon: Fraction) -> DiscreteLaplace:
    """The least noise that makes a vector of L1 sensitivity `l1` epsilon-private."""
    _positive(l1, epsilon)
    return DiscreteLaplace(l1 / epsilon)


def gaussian_for(l2_squared: Fraction, rho: Fraction) -> DiscreteGaussian:
    """The least noise that makes a vector of squared L2 sensitivity `l2_squared` rho-zCDP."""
    _positive(l2_squared, rho)
    return DiscreteGaussian(l2_squared / (2 * rho))


class Sampler(Protocol):
    """A source of noise."""

    @property
    def simulated(self) -> bool:
        """Whether the draws follow from a seed.  Such draws are refused with a real ledger."""
        ...

    def draw(self, noise: Noise, count: int) -> list[int]:
        """Independent draws of this noise."""
        ...


@dataclass(frozen=True)
class SecureSampler:
    """Cryptographic randomness: the only sampler for real data."""

    simulated: Literal[False] = False

    def draw(self, noise: Noise, count: int) -> list[int]:
        """Independent draws of this noise, in one call of OpenDP."""
        return noise.sample(count)


class SimulationSampler:
    """Draws that follow from a seed, for `simulate`, tests and plots."""

    simulated: Final = True

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def draw(self, noise: Noise, count: int) -> list[int]:
        """The next draws from the seeded generator."""
        return noise.simulate(count, self._rng)


def _positive(sensitivity: Fraction, loss: Fraction) -> None:
    if sensitivity <= 0 or loss <= 0:
        raise SpecError(
            "the sensitivity and the loss that it may cost must both be above 0: give a larger budget",
            key="noise",
        )


def _difference_of_geometrics(scale: float, count: int, rng: np.random.Generator) -> Integers:
    hit = -expm1(-1 / scale)
    return rng.geometric(hit, count) - rng.geometric(hit, count)


def _checked(family: Literal["laplace", "gaussian"], scale: float, loss: Fraction) -> Any:
    """OpenDP's measurement.  Raises TidegaugeError if OpenDP states a larger loss for one grid step."""
    measurement, stated = _opendp(family, scale)
    if not Fraction(stated) <= loss * (1 + Fraction(1, 2**40)):
        raise TidegaugeError(
            f"OpenDP's privacy map states a larger loss than {family} noise of this scale has. "
            "Nothing was drawn. Install the version of opendp that the lock names."
        )
    return measurement


@lru_cache(maxsize=256)
def _opendp(family: Literal["laplace", "gaussian"], scale: float) -> tuple[Any, float]:
    """OpenDP's measurement of integer vectors, and its loss at distance 1."""
    import opendp.prelude as dp  # noqa: PLC0415  (takes half a second)

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if family == "laplace":
        measurement: Any = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale)
        return measurement, measurement.map(1)
    measurement = dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=scale)
    return measurement, measurement.map(1.0)
