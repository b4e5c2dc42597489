"""A published row as a reading that users see, and the options for what else is shown."""

from __future__ import annotations

from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Final, Literal, TypedDict

from tidegauge.model.quantity import moment
from tidegauge.model.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegauge.model.tick import Published
    from tidegauge.plan.outline import Outline

_DUST: Final = 1e-12
"""Relative distance from a multiple of the grid that is no information."""
_Z: Final = NormalDist().inv_cdf(0.975)


def on_grid(value: float, grid: Fraction) -> float:
    """The multiple of the grid that this value is, up to the last digits of a double; otherwise the value.

    9600.330000000016 on a grid of 1/100 is 9600.33; a noisy value lies between multiples and stays as it is.
    """
    nearest = float(round(Fraction(value) / grid) * grid)
    return nearest if abs(nearest - value) <= _DUST * max(1.0, abs(value)) else value


class Shown(TypedDict, total=False):
    """How readings are shown; what is not given is off."""

    smoothed: bool
    """Re-estimate past values with later measurements."""
    consistent: bool
    """Parts add up to their whole (parts_of) and counts are not negative; each reading then has its bias."""
    denoised: Literal["all", "past"] | None
    """Each reading also has a model's estimate, from all measurements or from those up to its time."""


def ends(value: float | None, stderr: float | None, low: float, high: float) -> tuple[float, float]:
    """The ends of a 95 % interval, as users see them.

    The interval of a mean is cut off at the bounds of the mean.  If it lies wholly beyond one of them, the
    value is this bound, and the ends are the wrong way round: then as much is shown as the noise reaches from
    the bound inwards.
    """
    if low <= high or value is None or stderr is None:
        return low, high
    reach = _Z * stderr
    return (value, value + reach) if value == low else (value - reach, value)


def nested(value: float, half: float, outer: tuple[float, float]) -> tuple[float, float]:
    """An interval of a lower level with this half-width, which is never wider than that of 95 %."""
    return max(outer[0], value - half), min(outer[1], value + half)


def as_reading(outline: Outline, published: Published, half_width: Callable[[float], float]) -> Reading:
    """A published row as users see it.

    half_width: that of its noise interval at a level; the one at 95 % was published with it.
    """

    def interval(level: float) -> tuple[float, float]:
        outer = ends(published.value, published.stderr, published.low, published.high)
        if level == 0.95 or published.value is None or published.stderr is None:
            return outer
        half = half_width(level)
        if level < 0.95:
            return nested(published.value, half, outer)
        return published.value - half, published.value + half

    value = published.value
    if value is not None and outline.grid is not None:
        value = on_grid(value, outline.grid)
    return Reading(
        release=published.release,
        time=moment(published.time),
        group=outline.cells[published.cell],
        value=value,
        stderr=published.stderr,
        _interval=interval,
        never_negative=outline.never_negative,
        zero_is_nothing=outline.zero_is_nothing,
    )
