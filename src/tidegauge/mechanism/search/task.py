"""The request for candidates: one value that every kind of strategy reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tidegauge.mechanism.exposure import domain
from tidegauge.mechanism.strategy import MANY
from tidegauge.theory.paths.path import ON_OFF, BinCase, bin_cases

if TYPE_CHECKING:
    from pathlib import Path

    from tidegauge.mechanism.strategy import Exposure
    from tidegauge.model.schedule import Schedule
    from tidegauge.theory.paths.path import Domain


class Task(NamedTuple):
    """Everything that the best parameters depend on.  Releases with equal tasks share their parameters."""

    schedule: Schedule
    cases: tuple[BinCase, ...]
    domain: Domain
    pure: bool
    worst: bool


@dataclass(frozen=True)
class Search:
    """A request for candidates: readings, changes of one unit, noise, and error to minimise."""

    schedule: Schedule
    exposure: Exposure
    pure: bool
    """Laplace noise; otherwise Gaussian."""
    worst: bool = True
    """Minimise the error of the worst reading; otherwise the mean error over the readings."""
    shared: bool = True
    """Strategies may use shared noise (Strategy.shared)."""
    cache: Path | None = None
    """The folder of optimised matrices."""
    ask: bool = False
    """Also find candidates whose search takes minutes."""

    @property
    def task(self) -> Task:
        """The part of the request that the parameters depend on."""
        exposure = self.exposure
        groups = MANY if exposure.grouped else 1
        if exposure.kind == "flow":  # changes in one bin add up: the same as one larger change
            allowed: tuple[BinCase, ...] = (BinCase(1, None),)
            found = ON_OFF._replace(groups=groups)
        else:
            allowed, found = bin_cases(exposure.constraint, self.schedule), domain(exposure, 0)
            # The sign of the range and the number of groups do not change which parameters are best.
            found = found._replace(high=max(found[:2]), low=round(min(found[:2]), 2), groups=groups)
        return Task(self.schedule, allowed, found, self.pure, self.worst)
