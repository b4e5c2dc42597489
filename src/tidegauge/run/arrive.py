"""The arrival of a batch: its rows come with it, or lie where the engine computes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegauge.model.engine import KeepingEngine

if TYPE_CHECKING:
    from tidegauge.model.engine import Engine
    from tidegauge.model.mutation import Batch
    from tidegauge.model.program import Arrived, State
    from tidegauge.model.tick import Clock


def arrive(engine: Engine, state: State, batch: Batch, *, since: Clock, now: int) -> Arrived:
    """Hand a batch to the engine; the result counts late changes, unless the engine counts them itself."""
    import pyarrow.compute as pc  # noqa: PLC0415  (slow to load)

    if isinstance(engine, KeepingEngine):
        if batch.remote is not None:
            return engine.arrive_remote(batch.remote, now=now, arrivals=since.arrivals)
        return engine.arrive(batch.rows, state=state, now=now, arrivals=since.arrivals)
    assert batch.remote is None, "the gauge checks that source and engine fit"
    arrived = engine.arrive(batch.rows, state=state, now=now, arrivals=since.arrivals)
    late = pc.sum(pc.less_equal(batch.rows["time"], since.watermark)).as_py() or 0
    return replace(arrived, counts={**arrived.counts, "late": late})
