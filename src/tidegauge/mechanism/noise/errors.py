"""Standard errors and half-widths of many estimates at once, as `ErrorDistribution` has them one by one.

Normal noise needs the variance alone, and sums of many Laplace terms three powers of their sizes.  Estimates
for which that is not enough are looked at one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

import numpy as np

from tidegauge.mechanism.noise.error import FINE, ErrorDistribution, Part, expanded, lattice_half_width
from tidegauge.mechanism.noise.samplers import DiscreteLaplace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.mechanism.decoding.windows import Windows
    from tidegauge.mechanism.encode import ComponentPlan
    from tidegauge.mechanism.noise.samplers import Noise

    Floats = NDArray[np.float64]

_NEAR: Final = 1e-6
"""Estimates this near to the limit of a method are looked at one by one."""


@dataclass(frozen=True)
class OneError:
    """One of many errors."""

    errors: Errors
    place: int

    @property
    def stderr(self) -> float:
        """The standard deviation of the error."""
        return float(self.errors.stderrs[self.place])

    def half_width(self, level: float = 0.95) -> float:
        """The least h, rounded up, such that the error is in [-h, h] with this probability."""
        return float(self.errors.half_widths(level)[self.place])


@dataclass(frozen=True, eq=False)
class Errors:
    """The errors of the estimates of these windows, in units of `unit` per measured 1."""

    component_plan: ComponentPlan
    windows: Windows
    unit: float

    @cached_property
    def _noises(self) -> list[Noise]:
        return [
            self.component_plan.noise_of(layer) for layer in range(len(self.component_plan.strategy.scales))
        ]

    @cached_property
    def _shared(self) -> Floats:
        return np.abs(self.component_plan.strategy.shared_weights(self.windows))

    def _moment(self, power: int, *, laplace: bool = False) -> Floats:
        """The sum of this power of the standard deviations of all terms, or of the Laplace terms."""
        powers = self.component_plan.strategy.powers(self.windows, power)
        found = np.zeros(len(self.windows))
        for layer, noise in enumerate(self._noises):
            if not laplace or isinstance(noise, DiscreteLaplace):
                found += powers[:, layer] * noise.variance ** (power / 2)
        shared = self.component_plan.shared_noise
        if shared is not None and (not laplace or isinstance(shared, DiscreteLaplace)):
            found += self._shared**power * shared.variance ** (power / 2)
        return found

    @cached_property
    def stderrs(self) -> Floats:
        """The standard deviation of each error."""
        return np.sqrt(self._moment(2)) * self.unit

    def at(self, place: int) -> OneError:
        """One of these errors."""
        return OneError(self, place)

    def distribution(self, at: int) -> ErrorDistribution:
        """The distribution of one error."""
        parts = [
            Part(self._noises[layer], tuple((sizes * self.unit).tolist()), tuple(counts.tolist()))
            for layer, sizes, counts in self.component_plan.strategy.terms(self.windows, at)
        ]
        shared = self.component_plan.shared_noise
        if shared is not None and self._shared[at]:
            parts.append(Part(shared, (float(self._shared[at]) * self.unit,), (1,)))
        return ErrorDistribution(tuple(parts))

    def half_widths(self, level: float) -> Floats:
        """The least h, rounded up, such that each error is in [-h, h] with this probability."""
        if level not in self._known:
            self._known[level] = self._half_widths(level)
        return self._known[level]

    @cached_property
    def _known(self) -> dict[float, Floats]:
        return {}

    def _half_widths(self, level: float) -> Floats:
        found = np.full(len(self.windows), np.nan)
        if not len(found):
            return found
        silent, heard = self._silent(level)
        found[silent] = 0.0
        left = heard & ~np.isfinite(found)
        left &= ~self._equal(found, left, level)
        left &= ~self._coarse()
        z = NormalDist().inv_cdf((1 + level) / 2)
        if any(isinstance(noise, DiscreteLaplace) for noise in self._noises):
            variances = np.where(left, (self.stderrs / self.unit) ** 2, 1.0)
            fourth, sixth = (
                factor * self._moment(power, laplace=True) / 2 ** (power // 2) / variances ** (power // 2)
                for factor, power in ((12, 4), (240, 6))
            )
            left &= fourth * (1 + z * z) < 0.5 - _NEAR
            found[left] = (self.stderrs * expanded(fourth, sixth, z))[left]
        else:
            found[left] = self.stderrs[left] * z
        for at in np.flatnonzero(np.isnan(found)).tolist():
            found[at] = self.distribution(at).half_width(level)
        return found

    def _silent(self, level: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whether all noise is 0 with this probability: certainly, and certainly not."""
        used = self.component_plan.strategy.powers(self.windows, 2) > 0
        zeros = np.array([log(noise.masses(0)[0]) for noise in self._noises])
        shared = self.component_plan.shared_noise
        hidden = 0.0 if shared is None else log(shared.masses(0)[0]) * (self._shared > 0)
        least = (self.windows.through + 1) * (used @ zeros) + hidden
        return least >= log(level), used @ zeros + hidden < log(level)

    def _equal(self, found: Floats, left: NDArray[np.bool_], level: float) -> NDArray[np.bool_]:
        """Fill in the half-widths of sums of terms of one size, on their lattice; returns where these are."""
        strategy = self.component_plan.strategy
        counts = strategy.equal(self.windows)
        counts[self._shared > 0] = 0
        places = np.flatnonzero(left & (counts > 0))
        if not len(places):
            return np.zeros(len(found), dtype=bool)
        powers = strategy.powers(self.windows, 2)
        layers = powers.argmax(axis=1)
        sizes = np.sqrt(powers.max(axis=1)[places] / counts[places]) * self.unit
        pairs, which = np.unique(np.column_stack([layers, counts])[places], axis=0, return_inverse=True)
        steps = [lattice_half_width(self._noises[layer], count, level) for layer, count in pairs.tolist()]
        found[places] = sizes * np.array(steps, dtype=np.float64)[which.ravel()]
        return counts > 0

    def _coarse(self) -> NDArray[np.bool_]:
        """Whether a term may have so few steps that the error is not nearly continuous."""
        noises = [*self._noises, *([shared] if (shared := self.component_plan.shared_noise) else [])]
        if min(sqrt(noise.variance) for noise in noises) >= FINE:
            return np.zeros(len(self.windows), dtype=bool)
        largest = self.component_plan.strategy.powers(self.windows, 6).max(axis=1) ** (1 / 6)
        largest = np.maximum(largest, self._shared) * self.unit * (1 + _NEAR)
        return np.asarray(self.stderrs < FINE * largest)
