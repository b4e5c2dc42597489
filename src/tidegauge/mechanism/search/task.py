"""What candidates are found for, as one value that every kind of strategy reads."""

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
    """What decides which parameters are best; equal for releases that are read and changed alike."""

    schedule: Schedule
    cases: tuple[BinCase, ...]
    domain: Domain
    pure: bool
    worst: bool


@dataclass(frozen=True)
class Search:
    """A request for candidates: what is read, what one unit can do, which noise, which error counts."""

    schedule: Schedule
    exposure: Exposure
    pure: bool
    """Laplace noise; otherwise Gaussian."""
    worst: bool = True
    """Parameters are best for the worst reading; otherwise for the mean error over the readings."""
    shared: bool = True
    """Strategies may use shared noise (Strategy.shared)."""
    cache: Path | None = None
    """Where optimised matrices are kept."""
    ask: bool = False
    """Also find candidates whose search takes minutes."""

    @property
    def task(self) -> Task:
        """The part of the request that parameters depend on."""
        exposure = self.exposure
        groups = MANY if exposure.grouped else 1
        if exposure.kind == "flow":  # changes in one bin add up, as if one of them had that size
            allowed: tuple[BinCase, ...] = (BinCase(1, None),)
            found = ON_OFF._replace(groups=groups)
        else:
            allowed, found = bin_cases(exposure.constraint, self.schedule), domain(exposure, 0)
            # Which end of the range is which, and how many groups there are, does not decide what is best.
            found = found._replace(high=max(found[:2]), low=round(min(found[:2]), 2), groups=groups)
        return Task(self.schedule, allowed, found, self.pure, self.worst)
