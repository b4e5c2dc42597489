"""From noisy integers to readings with errors.  Everything here is public, so floats are allowed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.mechanism.aggregates import aggregate_of
from tidegauge.mechanism.decoding.windows import Windows
from tidegauge.mechanism.noise.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.mechanism.aggregate import Estimates
    from tidegauge.mechanism.decoding.windows import Decoding
    from tidegauge.mechanism.encode import ComponentPlan
    from tidegauge.mechanism.noise.error import ErrorDistribution
    from tidegauge.model.query import Query
    from tidegauge.model.schedule import Schedule


@dataclass(frozen=True)
class Decoder:
    """Turns the measurements of one release into readings: sums of the last `span` bins (None: all bins)."""

    query: Query
    schedule: Schedule
    component_plans: tuple[ComponentPlan, ...]
    span: int | None

    def errors(self, windows: Windows) -> list[Errors]:
        """The errors of the estimated sums of each component over these windows."""
        return [
            Errors(component_plan, windows, float(component.grid / component_plan.refine))
            for component_plan, component in zip(self.component_plans, self.query.components, strict=True)
        ]

    def error(self, component: int, bin_: int) -> ErrorDistribution:
        """The distribution of the error of the component's estimate at this bin."""
        return self.errors(Windows.of(np.array([bin_]), self.span))[component].distribution(0)

    def estimates(self, windows: Windows, measured: Sequence[Decoding]) -> Estimates:
        """The estimates of these windows by cells.  `measured`: what was measured of each component."""
        errors = self.errors(windows)
        values = [one.sums(windows) * error.unit for one, error in zip(measured, errors, strict=True)]
        return aggregate_of(self.query.aggregate).estimates(self.query, values, errors)

    def half_width(self, window: Windows, stderr: float, level: float) -> float:
        """Half-width of the noise interval, at this level, of the reading of one window."""
        errors = [error.at(0) for error in self.errors(window)]
        return aggregate_of(self.query.aggregate).half_width(errors, stderr, level)
