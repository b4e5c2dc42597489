"""What the operator alone sees: the accepted and the true value of a reading, and units with a difference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegauge.audit.findings import require
from tidegauge.audit.installed.exercises import OWN, Exercise, with_changes
from tidegauge.audit.installed.published import Silent
from tidegauge.audit.readers.readers import opener
from tidegauge.audit.worlds.rehearsal import MemoryLog, Rehearsal, SetClock, carry_out
from tidegauge.audit.worlds.world import Random, Table
from tidegauge.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegauge.audit.replay.pairs import OpenLog

_LOG: Final = with_changes((5, "k", {"x": 1}), (15, "k", {"x": 3}), (25, "k", {"x": -2}), (35, "k", {"x": 2}))
"""One other row of value 1, and a row whose values are 1, 3, -2 and 2."""
_CONSTRAINTS: Final[tuple[tuple[dict[str, object], float, int, int], ...]] = (
    ({"at_most": 1}, 2, 3, 1),
    ({"at_most": 2}, 4, 2, 1),
    ({"at_most": 2, "on_excess": "retire"}, 1, 2, 1),
    ({"within": "12 microseconds"}, 4, 2, 1),
    ({"within": "32 microseconds", "on_excess": "retire"}, 0, 0, 2),
)
"""A constraint, the value that it accepts, the changes that it drops, and the units that differ."""
_TRUE: Final = 3


def check_kept_out() -> None:
    """The accepted and the true value are those of the rows, however they were read.  Raises Discrepancy."""
    files = opener("files", owner=None)
    for constraint, *expected in _CONSTRAINTS:
        exercise = Exercise(_LOG, OWN, constraint)
        for passes, stamped, open_log in (
            ((12, 24, 200), False, None),
            ((200,), False, files),
            ((24, 200), False, files),
            ((200,), True, files),
        ):  # fmt: skip
            _require_status(exercise, tuple(expected), passes, open_log, stamped=stamped)
        if "on_excess" in constraint:
            owned = replace(exercise, rows=2)
            for passes in ((200,), (24, 200)):
                of_units = opener("files", owner="owner")
                _require_status(owned, tuple(expected), passes, of_units, stamped=False)


def _require_status(
    exercise: Exercise,
    expected: tuple[float, ...],
    passes: tuple[int, ...],
    open_log: OpenLog | None,
    *,
    stamped: bool,
) -> None:
    subject, table, rng = exercise.subject(), Table(None), Random(1)
    exercise.happen(table)
    with ScratchFolder() as name:
        folder = Path(name.name)
        source = (
            MemoryLog("t", subject.plan.columns, rng, owner=subject.plan.program.owner, informed=False)
            if open_log is None
            else open_log(folder, rng)
        )
        carry_out(subject, source, table.log, folder=folder, passes=passes, sampler=Silent(), stamped=stamped)
        clock = SetClock(passes[-1])
        gauge = Rehearsal(subject, source, store=folder / "store.db", now=clock, sampler=Silent())
        status = gauge.status()
    require(status.whole_error is not None, "the difference from the truth is not known")
    assert status.whole_error is not None
    (cell,) = status.whole_error.releases["r"]
    found = cell.accepted, cell.true, cell.units, status.operator_only.get("dropped", 0)
    accepted, dropped, units = expected
    require(
        found[:3] == (accepted, _TRUE, units), "status shows another value than the accepted or the true one"
    )
    require(found[3] == dropped, "status shows another number of dropped changes")


OPERATORS: dict[str, Callable[[], None]] = {"what the constraint keeps out": check_kept_out}
