"""Aggregates with one component, published as it is estimated: COUNT and SUM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.mechanism.aggregate import Aggregate, Estimate, Estimates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.mechanism.aggregate import Error, Floats
    from tidegauge.mechanism.noise.errors import Errors
    from tidegauge.model.query import Query


class Linear(Aggregate):
    """An aggregate with one component, whose estimate is the reading."""

    def decode(self, query: Query, values: Sequence[Floats], errors: Sequence[Error]) -> list[Estimate]:
        """One estimate per cell; all cells have the same error."""
        del query
        stderr, half = errors[0].stderr, errors[0].half_width(0.95)
        return [
            Estimate(float(value), stderr, float(value) - half, float(value) + half) for value in values[0]
        ]

    def estimates(self, query: Query, values: Sequence[Floats], errors: Sequence[Errors]) -> Estimates:
        """All at once."""
        del query
        (value,), (error,) = values, errors
        stderrs = error.stderrs[:, None].repeat(value.shape[1], axis=1)
        halves = error.half_widths(0.95)[:, None]
        return Estimates(value, stderrs, value - halves, value + halves)

    def exact(self, query: Query, sums: Sequence[int]) -> float:
        """The sum in its unit."""
        return float(sums[0] * query.components[0].grid)

    def half_width(self, errors: Sequence[Error], stderr: float, level: float) -> float:
        """The half-width of the component's noise."""
        del stderr
        return errors[0].half_width(level)
