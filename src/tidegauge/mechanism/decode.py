"""From noisy integers to readings with errors.  Everything here is public, so floats are allowed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.mechanism.aggregates import aggregate_of
from tidegauge.mechanism.noise.error import ErrorDistribution

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tidegauge.mechanism.aggregate import Estimate
    from tidegauge.mechanism.encode import ComponentPlan
    from tidegauge.model.query import Component, Query
    from tidegauge.model.schedule import Schedule


@dataclass(frozen=True)
class Decoder:
    """Turns the measurements of one release into readings: sums of the last `span` bins (None: all bins)."""

    query: Query
    schedule: Schedule
    component_plans: tuple[ComponentPlan, ...]
    span: int | None

    def error(self, component: int, bin_: int, through: int | None = None) -> ErrorDistribution:
        """The distribution of the error of the component's estimate at this bin."""
        return _error(
            self.component_plans[component], self.query.components[component], bin_, self.span, through
        )

    def estimates(
        self, reading: int, measured: Sequence[NDArray[np.float64]], *, through: int | None = None
    ) -> list[Estimate]:
        """One estimate per cell, from all measurements up to the reading's bin.

        `measured`: for each component an array of rows by cells.  `through`: use the rows of bins 0..through
        instead; this smoothed estimate is more precise, and differs from the published one.
        """
        bin_ = self.schedule.bin_of_reading(reading)
        errors = [self.error(j, bin_, through) for j in range(len(self.component_plans))]
        values = []
        for component_plan, component, rows in zip(
            self.component_plans, self.query.components, measured, strict=True
        ):
            weights = _weights(component_plan, component, bin_, self.span, through)
            values.append(weights @ rows[: len(weights)])
        return aggregate_of(self.query.aggregate).decode(self.query, values, errors)

    def half_width(self, bin_: int, stderr: float, level: float) -> float:
        """Half-width of the noise interval, at this level, of a reading at this bin."""
        errors = [self.error(j, bin_) for j in range(len(self.component_plans))]
        return aggregate_of(self.query.aggregate).half_width(errors, stderr, level)


@lru_cache(maxsize=64)
def _unit_weights(
    component_plan: ComponentPlan, bin_: int, span: int | None, through: int | None
) -> NDArray[np.float64]:
    if through is None:
        return component_plan.strategy.weights(bin_, span)
    return component_plan.strategy.smoothed(bin_, span, through=through)


def _weights(
    component_plan: ComponentPlan, component: Component, bin_: int, span: int | None, through: int | None
) -> NDArray[np.float64]:
    return _unit_weights(component_plan, bin_, span, through) * float(component.grid / component_plan.refine)


@lru_cache(maxsize=4096)
def _error(
    component_plan: ComponentPlan, component: Component, bin_: int, span: int | None, through: int | None
) -> ErrorDistribution:
    weights, strategy = _weights(component_plan, component, bin_, span, through), component_plan.strategy
    last = bin_ if through is None else through
    layers = strategy.layers(last)
    if strategy.ahead is not None:
        weights = strategy.ahead.reach(weights)
        layers = np.array([node.layer for node in strategy.ahead.nodes])
    if len(strategy.scales) == 1 and component_plan.shared_noise is None:
        return ErrorDistribution.of(weights, component_plan.noise)
    error = ErrorDistribution()
    for layer in np.unique(layers):
        error += ErrorDistribution.of(weights[layers == layer], component_plan.noise_of(int(layer)))
    if component_plan.shared_noise is not None:
        shared = np.array([row.shared for row in strategy.measured(last)])
        error += ErrorDistribution.of([float(weights @ shared)], component_plan.shared_noise)
    return error
