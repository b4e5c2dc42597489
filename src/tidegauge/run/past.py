"""The fold of a whole history, stamped or not, before anything is measured."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegauge.model.engine import KeepingEngine
from tidegauge.model.history import HistoryEngine, LastingHistory
from tidegauge.model.stamp import Stamped, StampReader
from tidegauge.model.tick import Clock, TickResult
from tidegauge.run.spill import spilled

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from tidegauge.model.engine import Engine
    from tidegauge.model.history import History, Keeper, Report
    from tidegauge.model.program import State
    from tidegauge.store.secret.unfinished import Unfinished


def fold_history(
    engine: Engine,
    state: State,
    history: History | Stamped,
    until: ExitStack,
    *,
    since: Clock,
    now: int,
    report: Report,
    keeper: Keeper,
) -> TickResult:
    """What becomes of a whole history; no change waits after it."""
    if isinstance(history, Stamped):
        assert isinstance(engine, StampReader)
        found = engine.fold_stamped(history, state=state)
    else:
        assert isinstance(engine, HistoryEngine)
        found = engine.backfill(
            history, state=state, reached=history.upto, now=now, report=report, keeper=keeper
        )
    folded = spilled(found.parts, until)
    arrived = replace(found.arrived, counts={**found.arrived.counts, "late": 0})
    clock = Clock(history.position, history.upto, since.arrivals + found.arrivals)
    return TickResult(
        since, clock, arrived, engine.waiting(), ended=True, folded=folded, version=kept_version(engine)
    )


def continued(history: History, unfinished: Unfinished, last_end: Callable[[int], int | None]) -> History:
    """The history up to the instant at which an interrupted run ended it, if that run can be continued.

    Bins may have ended since then; their changes follow with the next tick.
    """
    if not unfinished.found or not isinstance(history, LastingHistory):
        return history
    source = history.fingerprint()
    upto = None if source is None else unfinished.upto(source)
    if upto is None or upto >= history.upto or last_end(upto) != upto:
        return history
    return history.until(upto)


def kept_version(engine: Engine) -> str | None:
    """The version of the state that a tick commits; None: the store has the state."""
    return engine.version() if isinstance(engine, KeepingEngine) else None
