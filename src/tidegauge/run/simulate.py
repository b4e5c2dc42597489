"""A simulation of a declared gauge: opens its source, and leaves no trace beside its store."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.errors import SpecError
from tidegauge.model.json import as_object
from tidegauge.model.kinds import SOURCES
from tidegauge.model.quantity import instant
from tidegauge.model.source import Location
from tidegauge.run.reader import StoreFile
from tidegauge.scratch import ScratchFolder
from tidegauge.simulate.grid import grid_of
from tidegauge.simulate.simulation import Task, simulate

if TYPE_CHECKING:
    from tidegauge.plan.spec.declaration import GaugeSpec
    from tidegauge.simulate.grid import Asked
    from tidegauge.simulate.simulation import Simulation


def require_not_amended(spec: GaugeSpec, file: Path) -> None:
    """Raise SpecError if releases were added to the gauge of this file after it had begun.

    An added release counts the changes of units from its own beginning and takes its budget from the reserve;
    a simulation counts them from the first day and divides the whole budget.
    """
    store = StoreFile(file.with_suffix(".db"), file.parent, spec.store)
    if not store.begun:
        return
    with store.public() as public:
        plans = public.plans
    first = as_object(as_object(plans[0]["declaration"])["release"]) if plans else {}
    added = [name for name in spec.release if name not in first] if len(plans) > 1 else []
    if added:
        raise SpecError(
            f"{', '.join(added)} was added to this gauge after it had begun, and counts changes from then on"
            "; a simulation counts them from the first day. Nothing was read. Copy the declaration to a file "
            "with another name: without what was added, to simulate the first releases; with nothing else, "
            "and a --history that begins with the table as it was then, to simulate what was added. "
            "tidegauge status shows the exact bias of both",
            key="release",
        )


def simulated(
    spec: GaugeSpec, base: Path, asked: Asked, *, start: str | None = None, until: str | None = None
) -> Simulation:
    """The errors that the declared gauge would have on the history of its source.

    `base`: the folder that the paths of the source are relative to.  Nothing is spent or stored.
    """
    grid = grid_of(spec, asked)
    with ScratchFolder() as folder:
        source = SOURCES.named(spec.source.kind).open(
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
