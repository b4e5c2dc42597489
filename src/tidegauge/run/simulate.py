"""A simulation of a declared gauge: opens its source, and leaves no trace beside its store."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.model import kinds
from tidegauge.model.quantity import instant
from tidegauge.model.source import Location
from tidegauge.scratch import ScratchFolder
from tidegauge.simulate.grid import grid_of
from tidegauge.simulate.simulation import Task, simulate

if TYPE_CHECKING:
    from tidegauge.plan.spec.declaration import GaugeSpec
    from tidegauge.simulate.grid import Asked
    from tidegauge.simulate.simulation import Simulation


def simulated(
    spec: GaugeSpec, base: Path, asked: Asked, *, start: str | None = None, until: str | None = None
) -> Simulation:
    """The errors that the declared gauge would have on the history of its source.

    `base`: the folder that the paths of the source are relative to.  Nothing is spent or stored.
    """
    grid = grid_of(spec, asked)
    with ScratchFolder() as folder:
        source = kinds.find(spec.source.kind).open(
            spec.source, Location(base, Path(folder.name) / "simulate.db")
        )
        try:
            return simulate(
                Task(
                    spec,
                    source,
                    grid,
                    now=time.time_ns() // 1000,
                    start=None if start is None else instant(start),
                    until=None if until is None else instant(until),
                )
            )
        finally:
            source.close()
