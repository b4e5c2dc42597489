"""Events: mechanisms that were run on one unit, and how often. How to account for them is decided elsewhere.

Noise is on the integers, as this library samples it, so a sensitivity is a whole number of grid steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from tidegauge.errors import SpecError
from tidegauge.model.quantity import fraction

if TYPE_CHECKING:
    from tidegauge.model.quantity import Number


@dataclass(frozen=True, init=False)
class Event:
    """A mechanism run `times` times, each time on the same unit."""

    times: int

    def _set(self, *, times: int, **numbers: Number | str) -> None:
        if isinstance(times, bool) or not isinstance(times, int) or times < 0:
            raise SpecError("must be a whole number, not negative", key="times")
        object.__setattr__(self, "times", times)
        for name, value in numbers.items():
            number = fraction(value)
            if number < 0:
                raise SpecError("must not be negative", key=name)
            object.__setattr__(self, name, number)


@dataclass(frozen=True)
class Approximate(Event):
    """Any (epsilon, delta) mechanism."""

    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Number | str, delta: Number | str = 0, times: int = 1) -> None:
        self._set(epsilon=epsilon, delta=delta, times=times)
        if self.delta > 1:
            raise SpecError("must be a probability, from 0 to 1", key="delta")


@dataclass(frozen=True)
class Concentrated(Event):
    """Any rho-zCDP mechanism."""

    rho: Fraction

    def __init__(self, rho: Number | str, times: int = 1) -> None:
        self._set(rho=rho, times=times)


@dataclass(frozen=True)
class Laplace(Event):
    """Discrete Laplace noise on one number that a unit moves by at most `sensitivity`."""

    scale: Fraction
    sensitivity: int

    def __init__(self, scale: Number | str, sensitivity: int = 1, times: int = 1) -> None:
        self._set(scale=scale, times=times)
        object.__setattr__(self, "sensitivity", _steps(sensitivity))
        if not self.scale:
            raise SpecError("must be above 0: without noise nothing is private", key="scale")

    @property
    def epsilon(self) -> Fraction:
        """The privacy loss of one run, as pure epsilon."""
        return self.sensitivity / self.scale


@dataclass(frozen=True)
class Gaussian(Event):
    """Discrete Gaussian noise on one number that a unit moves by at most `sensitivity`."""

    sigma_squared: Fraction
    sensitivity: int

    def __init__(self, sigma_squared: Number | str, sensitivity: int = 1, times: int = 1) -> None:
        self._set(sigma_squared=sigma_squared, times=times)
        object.__setattr__(self, "sensitivity", _steps(sensitivity))
        if not self.sigma_squared:
            raise SpecError("must be above 0: without noise nothing is private", key="sigma_squared")

    @property
    def rho(self) -> Fraction:
        """The privacy loss of one run, as rho-zCDP."""
        return self.sensitivity**2 / (2 * self.sigma_squared)


@dataclass(frozen=True)
class Repeated(Event):
    """A composition that is itself run several times."""

    events: tuple[Event, ...]

    def __init__(self, *events: Event, times: int = 1) -> None:
        self._set(times=times)
        object.__setattr__(self, "events", events)


def _steps(sensitivity: int) -> int:
    if isinstance(sensitivity, bool) or not isinstance(sensitivity, int) or sensitivity < 0:
        raise SpecError("must be a whole number of grid steps, not negative", key="sensitivity")
    return sensitivity
