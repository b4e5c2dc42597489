"""A published row as users see it; and what can be asked for besides."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final, Literal, TypedDict

from tidegauge.model.quantity import moment
from tidegauge.model.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegauge.model.tick import Published
    from tidegauge.plan.outline import Outline

_DUST: Final = 1e-12
"""Relative distance from a multiple of the grid that is no information."""


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


def as_reading(outline: Outline, published: Published, half_width: Callable[[float], float]) -> Reading:
    """A published row as users see it.

    half_width: that of its noise interval at a level; the one at 95 % was published with it.
    """

    def interval(level: float) -> tuple[float, float]:
        if level == 0.95 or published.value is None or published.stderr is None:
            return published.low, published.high
        half = half_width(level)
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
