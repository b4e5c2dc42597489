"""Composition by privacy loss distributions (dp-accounting); every estimate is pessimistic.

All losses are put on one grid.  Where they lie on one lattice the grid is that lattice and nothing is lost by
rounding; otherwise the grid is so fine that little is.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor, inf, log2, pi, sqrt
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidegauge.theory.accounting.events import Approximate, Gaussian, Laplace
from tidegauge.theory.accounting.precise import above, below

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidegauge.theory.accounting.events import Event

_LEAST_DELTA: Final = Fraction(1, 10**13)
"""Below this the tails that dp-accounting cuts off would dominate."""
_MOST_LOSS: Final = 300
"""Above this the exponentials leave the range of a double, and a tight bound is of no use."""
_LEAST_LOSS: Final = Fraction(1, 2**60)
"""Smaller losses are taken for this one, for the same reason."""
_MOST_POINTS: Final = 2**20
_MOST_STEPS: Final = 512
"""Laplace noise of a larger sensitivity is accounted on a coarser lattice and loses more (T8-substitutes)."""
_SMOOTH: Final = 64**2
"""From this sigma squared on, discrete Gaussian noise is accounted as a real Gaussian (T8-substitutes.md)."""
_ROUNDED: Final = 4
"""The part of sigma squared that rounds that real Gaussian to the integers."""
_FFT_ERROR: Final = 40 * 2.0**-53
"""Of composing one run, in L2, for each binary digit of the length of the transform (T8-transforms.md)."""
_POINT_ERROR: Final = 8 * 2.0**-53
"""Of the distribution of one run, for each of its points (T8-one-run.md)."""


class _Loss(NamedTuple):
    """The privacy loss of one mechanism that is run `times` times."""

    step: float
    """Losses lie on multiples of this, or may be cut this finely without harm."""
    deviation: float
    largest: float
    times: int
    distribution: Callable[[float], Any]
    """Given the grid's interval, dp-accounting's distribution."""
    norm: Callable[[float], float] = lambda _: 1.0
    """Given the grid's interval, at least the L2 norm of that distribution."""


def numeric_epsilon(events: Sequence[Event], delta: Fraction) -> Fraction | None:
    """Epsilon of the composition at this delta, or None where this method does not apply.  [T8]

    Proof:    docs/theory/T8-numeric.md
    """
    known = [event for event in events if isinstance(event, Approximate | Laplace | Gaussian)]
    if delta < _LEAST_DELTA or len(known) < len(events):
        return None
    if any((event.rho if isinstance(event, Gaussian) else event.epsilon) > _MOST_LOSS for event in known):
        return None
    losses = _losses(known)
    if not losses or max(loss.largest for loss in losses) > _MOST_LOSS:
        return None
    variance = sum(loss.times * loss.deviation**2 for loss in losses)
    if variance > _MOST_LOSS:
        return None
    step = min(loss.step for loss in losses)
    if len(losses) > 1:
        step /= 8
    reach = 20 * sqrt(variance) + variance + 2 * max(loss.largest for loss in losses)
    step = max(step, reach / _MOST_POINTS)
    points = 2 * sum(loss.times * (ceil(loss.largest / step) + 1) for loss in losses)
    runs = sum(loss.times for loss in losses)
    composed = sum(loss.times * loss.norm(step) for loss in losses if loss.times > 1) + 2 * (len(losses) - 1)
    transforms = _FFT_ERROR * composed * log2(points) * sqrt(points)
    largest = sum(loss.times * loss.largest for loss in losses)
    spare = float(delta) - transforms - _POINT_ERROR * (points + 4 * runs + largest)
    if spare <= 0:
        return None
    whole = None
    for loss in losses:
        part = loss.distribution(step)
        part = part.self_compose(loss.times) if loss.times > 1 else part
        whole = part if whole is None else whole.compose(part)
    assert whole is not None
    epsilon = whole.get_epsilon_for_delta(spare)
    while epsilon < inf and whole.get_delta_for_epsilon(epsilon) > spare:
        epsilon += max(epsilon, step) * 2.0**-30
    return Fraction(epsilon) * (1 + Fraction(1, 2**36)) if epsilon < inf else None


def _losses(events: Sequence[Approximate | Laplace | Gaussian]) -> list[_Loss]:
    # imported here because it takes two seconds
    from dp_accounting.pld import privacy_loss_distribution as pld  # noqa: PLC0415

    losses, square = [], Fraction(0)
    for event in events:
        if isinstance(event, Gaussian):
            if event.sigma_squared >= _SMOOTH:
                square += event.times * event.sensitivity**2 / (event.sigma_squared - _ROUNDED)
            elif event.sensitivity:
                losses.append(_discrete_gaussian(event, pld))
        elif event.epsilon:
            losses.append(_staircase(event, pld))
    if square:
        mu = sqrt(above(max(square, _LEAST_LOSS**2))) * (1 + 2.0**-50)
        largest = 11 * mu + mu * mu / 2
        losses.append(_Loss(mu / 256, mu, largest, 1, lambda step: pld.from_gaussian_mechanism(
            1 / mu, value_discretization_interval=step, use_connect_dots=True)))  # fmt: skip
    return losses


def _staircase(event: Approximate | Laplace, pld: Any) -> _Loss:
    """Randomized response, or Laplace noise; the first is the second with sensitivity 1."""
    steps, each = 1, event.epsilon
    if isinstance(event, Laplace):
        coarser = ceil(Fraction(event.sensitivity, _MOST_STEPS))
        steps, each = ceil(Fraction(event.sensitivity, coarser)), coarser / event.scale
    unit = above(max(each, _LEAST_LOSS))
    largest = unit * steps
    return _Loss(unit, largest, largest, event.times, lambda step: pld.from_discrete_laplace_mechanism(
        unit, sensitivity=steps, value_discretization_interval=step, use_connect_dots=True))  # fmt: skip


def _discrete_gaussian(event: Gaussian, pld: Any) -> _Loss:
    sigma = sqrt(below(event.sigma_squared)) * (1 - 2.0**-50)
    shift = event.sensitivity
    step, deviation = shift / (2 * sigma * sigma), shift / sigma
    largest = 11.6 * deviation + deviation**2
    squares = (1 + sigma * sqrt(pi)) / (2 * pi * sigma * sigma)  # of the probabilities of the noise
    return _Loss(step, deviation, largest, event.times, lambda step: pld.from_discrete_gaussian_mechanism(
        sigma, sensitivity=shift, value_discretization_interval=step, use_connect_dots=True),
        lambda grid: min(1.0, sqrt(2 * (floor(grid / (2 * step)) + 1) * squares)))  # fmt: skip
