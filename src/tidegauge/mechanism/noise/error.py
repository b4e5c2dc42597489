"""The public distribution of the error of an estimate: a weighted sum of independent noises."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil, inf, log, log2, pi, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np

from tidegauge.errors import SpecError
from tidegauge.mechanism.decoding.weighted import distinct
from tidegauge.mechanism.noise.samplers import DiscreteLaplace, Noise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

FINE: Final = 64.0
"""Standard deviation, in steps of the lattice, from which a distribution is nearly continuous."""
_MODEST: Final = 1e-4
"""The smallest terms are approximated by one normal term, as long as their kurtosis is below this."""
_SIGHT: Final = 80.0
"""Length of the line on which characteristic functions are inverted, in standard deviations."""
_BLUR: Final = 1 / 256
"""Standard deviation of the normal noise that smooths terms on different lattices."""


class Part(NamedTuple):
    """The terms that share one noise: their distinct sizes, and how many terms have each."""

    noise: Noise
    sizes: tuple[float, ...]
    counts: tuple[int, ...]

    @property
    def variance(self) -> float:
        """The variance of the sum of these terms."""
        return self.noise.variance * float(np.square(self.sizes) @ np.asarray(self.counts))


@dataclass(frozen=True)
class ErrorDistribution:
    """The distribution of an error, symmetric about 0.  `+` combines independent errors."""

    parts: tuple[Part, ...] = ()

    @classmethod
    def of(cls, weights: Sequence[float] | Floats, noise: Noise) -> ErrorDistribution:
        """The distribution of a weighted sum of independent draws, one draw per weight."""
        sizes, counts = distinct(np.asarray(weights, dtype=np.float64))
        return cls((Part(noise, tuple(sizes.tolist()), tuple(counts.tolist())),) if len(sizes) else ())

    def __add__(self, other: ErrorDistribution) -> ErrorDistribution:
        return ErrorDistribution(self.parts + other.parts)

    @cached_property
    def stderr(self) -> float:
        """The standard deviation of the error."""
        return sqrt(sum(part.variance for part in self.parts))

    def half_width(self, level: float = 0.95) -> float:
        """The least h, rounded up, such that the error is in [-h, h] with this probability."""
        if not 0 < level < 1:
            raise SpecError("must lie between 0 and 1, for example 0.95", key="level")
        silence = sum(sum(part.counts) * log(part.noise.masses(0)[0]) for part in self.parts)
        if silence >= log(level):
            return 0.0
        if len(self.parts) == 1 and len(self.parts[0].sizes) == 1:
            part = self.parts[0]
            return part.sizes[0] * lattice_half_width(part.noise, part.counts[0], level)
        if self.stderr < FINE * max(part.sizes[-1] for part in self.parts):
            return _coarse_half_width(self, level)
        scales: list[float] = []
        counts: list[int] = []
        for part in self.parts:
            if isinstance(part.noise, DiscreteLaplace):
                scales += np.round(
                    np.multiply(part.sizes, sqrt(part.noise.variance / 2) / self.stderr), 9
                ).tolist()
                counts += part.counts
        return self.stderr * _standard_half_width(tuple(scales), tuple(counts), level)


def ratio(
    *, sum_value: float, sum_stderr: float, count_value: float, count_stderr: float
) -> tuple[float, float] | None:
    """A mean and its standard error by the delta method; None if the noise hides the count.

    Requires: independent errors.
    """
    if count_value <= 0 or count_value < 2.5 * count_stderr:
        return None
    mean = sum_value / count_value
    return mean, sqrt(sum_stderr**2 + (mean * count_stderr) ** 2) / count_value


def ratio_interval(
    *, sum_value: float, sum_half_width: float, count_value: float, count_half_width: float
) -> tuple[float, float]:
    """Interval of the mean from both half-widths at one level (Fieller 1954); valid for small counts too.

    The interval has every r for which 0 is within the half-width of sum - r count.
    """
    curve = count_value**2 - count_half_width**2
    if count_value <= 0 or curve <= 0:
        return -inf, inf
    middle = sum_value * count_value
    spread = sqrt((sum_value * count_half_width) ** 2 + sum_half_width**2 * curve)
    return (middle - spread) / curve, (middle + spread) / curve


@lru_cache(maxsize=4096)
def lattice_half_width(noise: Noise, count: int, level: float) -> int:
    """Least m such that the sum of `count` draws lies in [-m, m] with this probability."""
    deviation = sqrt(count * noise.variance)
    if deviation >= FINE:
        scales = (round(1 / sqrt(2 * count), 9),) if isinstance(noise, DiscreteLaplace) else ()
        return ceil(deviation * _standard_half_width(scales, (count,), level) - 0.5)
    reach = 2 ** ceil(log2(40 * deviation + 64))
    circle = np.fft.ifftshift(noise.masses(reach)[:-1])
    masses = np.fft.irfft(np.fft.rfft(circle) ** count, len(circle))[: reach + 1]
    return int(np.searchsorted(2 * np.cumsum(masses) - masses[0], level))


_Number = TypeVar("_Number", float, "Floats")


def expanded(fourth: _Number, sixth: _Number, z: float) -> _Number:
    """Cornish and Fisher's expansion of the half-width, from cumulants for variance 1.  z: of a normal."""
    bend = fourth * (z**3 - 3 * z) / 24 + sixth * (z**5 - 10 * z**3 + 15 * z) / 720
    return z + bend - fourth**2 * (3 * z**5 - 24 * z**3 + 29 * z) / 384


@lru_cache(maxsize=4096)
def _standard_half_width(scales: tuple[float, ...], counts: tuple[int, ...], level: float) -> float:
    """Half-width of a sum of real Laplace terms, and of a normal one that makes its variance 1."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    b, n = np.asarray(scales), np.asarray(counts[: len(scales)], dtype=np.float64)
    fourth, sixth = 12 * float(n @ b**4), 240 * float(n @ b**6)
    if fourth * (1 + z * z) < 0.5:  # Cornish and Fisher's expansion is then exact to a millionth
        return expanded(fourth, sixth, z)
    modest = np.cumsum(12 * n * b**4) < _MODEST
    t = (np.arange(2**12) + 0.5) * (2 * pi / _SIGHT)
    exponent = max(0.0, 1 - 2 * float(n[~modest] @ b[~modest] ** 2)) * t * t / 2
    for scale, count in zip(b[~modest], n[~modest], strict=True):
        exponent += count * np.log1p((scale * t) ** 2)
    return _inverted(np.exp(-exponent), level)


@lru_cache(maxsize=1024)
def _coarse_half_width(error: ErrorDistribution, level: float) -> float:
    """Half-width of terms on lattices of different steps, blurred by a little normal noise."""
    unit = max(error.stderr, *(part.sizes[-1] for part in error.parts))
    t = (np.arange(2**14) + 0.5) * (2 * pi / _SIGHT)
    phi = np.exp(-((_BLUR * t) ** 2) / 2)
    for part in error.parts:
        sizes, counts, variance = np.divide(part.sizes, unit), np.asarray(part.counts), part.noise.variance
        second = np.cumsum(counts * sizes**2) * variance
        fourth = np.cumsum(counts * sizes**4) * (variance + 3 * variance**2)
        normal = np.flatnonzero((fourth < _MODEST * (error.stderr / unit) ** 4) & (fourth < second**2 / 50))
        first = normal[-1] + 1 if len(normal) else 0
        if first:
            phi *= np.exp(-second[first - 1] * t * t / 2)
        for size, count in zip(sizes[first:], counts[first:], strict=True):
            phi *= part.noise.characteristic(size * t) ** count
    return unit * (_inverted(phi, level) + 4 * _BLUR)


def _inverted(phi: Floats, level: float) -> float:
    """Solve P(|X| <= x) = level, the integral of 2/pi phi(t) sin(x t)/t, on a grid of x by one transform."""
    half = len(phi)
    sums = 2 * half * np.fft.ifft(2 / pi * phi / (np.arange(half) + 0.5), 2 * half)[:half]
    covered = (sums * np.exp(0.5j * pi / half * np.arange(half))).imag
    safe = level + 1e-7  # more than the error of the sums
    reached = np.flatnonzero(covered >= safe)
    if not len(reached):
        return _SIGHT / 2
    above = reached[0]
    below = covered[above - 1]
    return float(above - 1 + (safe - below) / (covered[above] - below)) * _SIGHT / (2 * half)
