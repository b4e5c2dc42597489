"""What an engine computes of a history for many constraints at once; all of it secret.

A *variant* is one constraint out of a grid.  Changes are counted and timed once; which of them a variant
drops follows from their numbers and times alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tidegauge.model.program import Allowance

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegauge.model.program import Release


@dataclass(frozen=True)
class Variant:
    """The constraint of one scope: allowances by label (None: for all units), and what happens beyond."""

    allowances: tuple[tuple[str | None, Allowance], ...]
    retire: bool = False


@dataclass(frozen=True)
class GridSums:
    """Exact sums of some units over the bins of one timetable.

    Every table has the columns release (number), component, bin, cell and amount; `missing` and `differing`
    have the column variant as well.
    """

    truth: pa.Table
    """Changes without a constraint, max_rows or clip."""
    allowed: pa.Table
    """Changes with max_rows and clip, without a constraint."""
    missing: pa.Table
    """Of the allowed changes, what a variant leaves out: `allowed` minus what would be accepted."""
    differing: pa.Table
    """The change of the number of units whose allowed and accepted contributions to a reading differ.

    Running values and changes over windows only; empty unless it was asked for.  There is no component.
    """


class GridEngine(Protocol):
    """Reads a history once and computes the sums of all variants."""

    def add(self, rows: pa.Table, *, now: int) -> None:
        """Add a batch of the history (its form: tidegauge.model.mutation)."""
        ...

    def sums(
        self, timetables: Sequence[Sequence[Release]], *, reached: int, differing: bool = False
    ) -> Iterator[tuple[int, GridSums]]:
        """Sums by the number of the timetable, in parts that have no unit in common.

        `timetables`: the releases of the program, with other schedules.  `differing`: count units as well.
        Changes take effect at their own times; those after `reached` are left out.  Ends the engine's use.
        """
        ...

    def close(self) -> None:
        """Free memory and temporary files."""
        ...
