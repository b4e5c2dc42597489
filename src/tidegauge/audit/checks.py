"""Every check that is independent of the audited plan, by name: small gauges, definitions, drawn noise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegauge.audit.definitions import DEFINITIONS
from tidegauge.audit.exercises import COUNT, EXERCISES, Exercise, toggles
from tidegauge.audit.laws import Recorder, laws_of
from tidegauge.audit.rehearsal import MemoryLog, carry_out
from tidegauge.audit.world import Random
from tidegauge.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Callable

CELLS: Final = 2500
"""Cells whose noise is drawn; each has as many draws as there are bins."""


def check_drawn(alpha: float, *, pure: bool) -> int:
    """Draw the noise of a real gauge over an empty table; returns how many draws.  Raises Discrepancy."""
    grouped = {
        "sql": "SELECT s, COUNT(*) FROM t GROUP BY s",
        "groups": {"s": [f"g{n}" for n in range(CELLS)]},
    }
    subject = Exercise(toggles(), COUNT | grouped, pure=pure).subject()
    recorder = Recorder()
    source = MemoryLog("t", subject.plan.columns, Random(0), owner=None, informed=False)
    with ScratchFolder() as folder:
        carry_out(subject, source, [], folder=Path(folder.name), passes=(24, 44, 200), sampler=recorder)
    laws = laws_of(recorder)
    laws.check(alpha)
    return laws.draws


def checks(alpha: float) -> dict[str, Callable[[], object]]:
    """All of them.  `alpha`: the chance of a false alarm that they may have together."""
    found: dict[str, Callable[[], object]] = dict(DEFINITIONS)
    found |= {name: exercise.check for name, exercise in EXERCISES.items()}
    found["drawn noise, Gaussian"] = lambda: check_drawn(alpha / 2, pure=False)
    found["drawn noise, Laplace"] = lambda: check_drawn(alpha / 2, pure=True)
    return found
