"""The noisy minimum of scores, drawn by OpenDP (cryptographic) or in a simulation (seeded)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import inf, nextafter
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegauge.errors import SpecError, TidegaugeError
from tidegauge.mechanism.noise.samplers import DiscreteLaplace
from tidegauge.theory.accounting.precise import above
from tidegauge.theory.choice import choice_rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tidegauge.mechanism.noise.samplers import Sampler


@dataclass(frozen=True)
class NoisyMinimum:
    """Draws the number of a candidate; the lower a score, the likelier.

    Adding a unit raises or lowers every score by at most `sensitivity`.  rho: exponential mechanism (Gumbel
    noise), pure epsilon: permute and flip (exponential noise).
    """

    sensitivity: int
    cost: Fraction
    """The privacy loss of one draw."""
    pure: bool

    @property
    def scale(self) -> float:
        """The scale of the noise, in steps of a score, rounded up."""
        found = above(2 * self.sensitivity / choice_rate(self.cost, pure=self.pure))
        while self._loss_of(found) > self.cost:
            found = nextafter(found, inf)
        return found

    def _loss_of(self, scale: float) -> Fraction:
        rate = 2 * self.sensitivity / Fraction(scale)
        return rate if self.pure else rate**2 / 8

    def draw(self, scores: Sequence[int], sampler: Sampler) -> int:
        """The number of the candidate that was drawn."""
        if not scores or max(map(abs, scores)) >= 2**62:
            raise SpecError("give at least one score, each below 2^62 in absolute value")
        if sampler.simulated:
            (seed,) = sampler.draw(DiscreteLaplace(Fraction(2**40)), 1)
            return self.simulate(scores, np.random.Generator(np.random.PCG64(abs(seed))))
        return int(self._measurement()(list(scores)))

    def probabilities(self, scores: Sequence[int]) -> NDArray[np.float64]:
        """How likely each candidate is to be drawn."""
        return likelihoods(np.asarray(scores, dtype=np.float64) / self.scale, pure=self.pure)

    def simulate(self, scores: Sequence[int], rng: np.random.Generator) -> int:
        """A draw of the same distribution from a seeded generator; never used for real data."""
        lowered = -np.asarray(scores, dtype=np.float64)
        draws = rng.exponential(size=len(scores)) if self.pure else rng.gumbel(size=len(scores))
        return int(np.argmax(lowered + self.scale * draws))

    def _measurement(self) -> Any:
        """OpenDP's measurement.  Raises TidegaugeError if OpenDP states a larger loss."""
        measurement, stated = _opendp(self.scale, self.sensitivity, pure=self.pure)
        if not Fraction(stated) <= self.cost * (1 + Fraction(1, 2**40)):
            raise TidegaugeError(
                "OpenDP's privacy map states a larger loss than this choice has. Nothing was drawn. "
                "Install the version of opendp that the lock names."
            )
        return measurement


def likelihoods(costs: NDArray[np.float64], *, pure: bool) -> NDArray[np.float64]:
    """How likely each candidate is to be drawn; `costs`: scores over the scale of the noise.

    Exponential noise: candidate i has the integral of a_i times the product of 1 - a_j y over all others j,
    for y from 0 to 1, where a = exp(least cost - cost).  That is a polynomial in y, and Gauss-Legendre
    quadrature with more than half as many nodes as candidates is exact for it.
    """
    weights = np.exp(costs.min() - costs)
    found: NDArray[np.float64] = weights / weights.sum()
    if pure:
        nodes, sizes = np.polynomial.legendre.leggauss(len(weights) // 2 + 1)
        kept = 1 - np.outer((nodes + 1) / 2, weights)
        others = np.array([np.delete(kept, n, axis=1).prod(axis=1) for n in range(len(weights))])
        found = weights * (others @ sizes) / 2
    return found


@lru_cache(maxsize=64)
def _opendp(scale: float, sensitivity: int, *, pure: bool) -> tuple[Any, float]:
    """OpenDP's noisy minimum of integers, and its loss where every score moves by up to `sensitivity`."""
    import opendp.prelude as dp  # noqa: PLC0415  (takes half a second)

    dp.enable_features("contrib")
    measurement: Any = dp.m.make_noisy_max(
        dp.vector_domain(dp.atom_domain(T="i64")),
        dp.linf_distance(monotonic=False, T="i64"),
        dp.max_divergence() if pure else dp.zero_concentrated_divergence(),
        scale=scale,
        negate=True,
    )
    return measurement, measurement.map(sensitivity)
