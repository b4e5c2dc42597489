"""The arrival of a batch: its rows come with it, or lie where the engine computes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegauge.model.engine import KeepingEngine

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegauge.model.engine import Engine
    from tidegauge.model.mutation import Batch
    from tidegauge.model.program import Arrived, State
    from tidegauge.model.tick import Clock


def arrive(engine: Engine, state: State, batch: Batch, *, since: Clock, now: int) -> Arrived:
    """Hand a batch to the engine; the result counts late changes, unless the engine counts them itself."""
    if isinstance(engine, KeepingEngine):
        if batch.remote is not None:
            return engine.arrive_remote(batch.remote, now=now, arrivals=since.arrivals)
        return engine.arrive(batch.rows, state=state, now=now, arrivals=since.arrivals)
    assert batch.remote is None, "the gauge checks that source and engine fit"
    rows, late = not_before(since.watermark + 1, batch.rows)
    arrived = engine.arrive(rows, state=state, now=now, arrivals=since.arrivals)
    return replace(arrived, counts={**arrived.counts, "late": late})


def not_before(first: int, rows: pa.Table) -> tuple[pa.Table, int]:
    """The changes, those before this instant at this instant, and their number."""
    import pyarrow as pa  # noqa: PLC0415  (slow to load)
    import pyarrow.compute as pc  # noqa: PLC0415

    late = pc.sum(pc.less(rows["time"], first)).as_py() or 0
    if late:
        time = pc.max_element_wise(rows["time"], pa.scalar(first, pa.int64()))
        rows = rows.set_column(rows.schema.get_field_index("time"), "time", time)
    return rows, late
