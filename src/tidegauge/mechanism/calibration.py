"""The least noise for a promised (epsilon, delta), by whichever bound of T8 asks for least."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Literal

from tidegauge.errors import SpecError
from tidegauge.mechanism.noise.samplers import DiscreteGaussian, DiscreteLaplace, gaussian_for, laplace_for
from tidegauge.model.quantity import fraction
from tidegauge.theory.accounting.composition import ADAPTIVE, compose
from tidegauge.theory.accounting.conversion import epsilon_to_rho
from tidegauge.theory.accounting.events import Gaussian, Laplace

if TYPE_CHECKING:
    from tidegauge.model.quantity import Number
    from tidegauge.theory.accounting.composition import Method

_CLOSE: Final = Fraction(1001, 1000)
"""The search ends when the least noise is known to a thousandth."""


@dataclass(frozen=True)
class Calibration:
    """Noise that keeps a promise, and the bound by which that is known."""

    noise: DiscreteLaplace | DiscreteGaussian
    method: Method

    @property
    def adaptive(self) -> bool:
        """Whether the promise also holds where the data react to what was published."""
        return self.method in ADAPTIVE


def calibrate(
    family: Literal["laplace", "gaussian"],
    *,
    sensitivity: int,
    folds: int,
    epsilon: Number | str,
    delta: Number | str = 0,
    adaptive: bool = False,
) -> Calibration:
    """Least noise under which `folds` numbers, each moved by at most `sensitivity`, are (epsilon, delta)-private.

    With `adaptive`, only bounds that hold for data which react to the readings are used.
    """
    if sensitivity < 1 or folds < 1:
        raise SpecError(
            "noise is calibrated to a sensitivity and a number of folds of 1 or more", key="noise"
        )
    loss, slack = fraction(epsilon), fraction(delta)
    best = _simplest(family, sensitivity, folds, loss, slack)
    if not slack or (adaptive and family == "gaussian"):
        return best
    size = best.noise.scale if isinstance(best.noise, DiscreteLaplace) else best.noise.sigma_squared
    too_little, enough = Fraction(0), size
    while enough > too_little * _CLOSE:
        middle = (too_little + enough) / 2
        event = (
            Laplace(middle, sensitivity, folds)
            if family == "laplace"
            else Gaussian(middle, sensitivity, folds)
        )
        found = compose(event, target_delta=slack, methods=ADAPTIVE if adaptive else None)
        if found.epsilon > loss:
            too_little = middle
        else:
            enough = middle
            noise = DiscreteLaplace(middle) if family == "laplace" else DiscreteGaussian(middle)
            best = Calibration(noise, found.method)
    return best


def _simplest(
    family: Literal["laplace", "gaussian"], sensitivity: int, folds: int, epsilon: Fraction, delta: Fraction
) -> Calibration:
    """Basic composition for Laplace noise, zCDP for Gaussian: a closed form, and a start for the search."""
    if family == "laplace":
        return Calibration(laplace_for(Fraction(folds * sensitivity), epsilon), "basic")
    if not delta:
        raise SpecError(
            "Gaussian noise has no pure guarantee: give a delta, or use Laplace noise", key="delta"
        )
    rho = epsilon_to_rho(epsilon, delta=delta)
    return Calibration(gaussian_for(Fraction(folds * sensitivity**2), rho), "renyi")
