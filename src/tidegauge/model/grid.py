"""What an engine computes of a history for many constraints at once; all of it secret.

A *variant* is one constraint out of a grid.  Changes are counted and timed once; which of them a variant
drops follows from their numbers and times alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from tidegauge.model.program import Allowance

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegauge.model.program import Release
    from tidegauge.model.schedule import Schedule


@dataclass(frozen=True)
class Variant:
    """The constraint of one scope: allowances by label (None: for all units), and what happens beyond."""

    allowances: tuple[tuple[str | None, Allowance], ...]
    retire: bool = False
    renewal: int = 0
    """Which of the terms of a timetable the constraint has."""


@dataclass(frozen=True)
class Timetable:
    """When everything is read: the releases of the program with other schedules, and the terms."""

    releases: tuple[Release, ...]
    terms: tuple[Schedule | None, ...] = (None,)
    """When constraints renew, for each number `renewal` of a variant; None: they do not."""


@dataclass(frozen=True)
class Clip:
    """How much of one unit counts in what a variant leaves out of a release; public.

    What a unit leaves out of component 0, in steps, at the readings that count is a vector.  A unit whose
    vector has a squared norm above `most` counts less than once, so that its norm is at most sqrt(most).
    """

    first: int
    """The bin of the first reading that counts."""
    stride: int
    """Bins from one reading to the next."""
    readings: int
    """How many readings count."""
    step: int
    """A step, in units of the grid of the component."""
    most: int


PARTS: Final = 256
"""A unit counts once, or so many of these parts of once."""


@dataclass(frozen=True)
class GridSums:
    """Exact sums of some units over the bins of one timetable.

    Every table has the columns variant, release (number), component, bin, cell and amount.  The variant of
    `truth` and `allowed` is the number of the terms.
    """

    truth: pa.Table
    """Changes without a constraint, max_rows or clip."""
    allowed: pa.Table
    """Changes with max_rows and clip, without a constraint."""
    missing: pa.Table
    """Of the allowed changes, what a variant leaves out: `allowed` minus what would be accepted."""
    clipped: pa.Table
    """The change of what a variant leaves out of the readings that count, in steps and parts (PARTS).

    Rows beyond max_rows are left out too.  Each unit counts as its Clip allows.  Running values and changes
    over windows only; empty unless clips were given.  There is no component.
    """


class GridEngine(Protocol):
    """Reads a history once and computes the sums of all variants."""

    def add(self, rows: pa.Table, *, now: int) -> None:
        """Add a batch of the history (its form: tidegauge.model.mutation)."""
        ...

    def sums(
        self, timetables: Sequence[Timetable], *, reached: int, clips: Mapping[int, Clip] | None = None
    ) -> Iterator[tuple[int, GridSums]]:
        """Sums by the number of the timetable, in parts that have no unit or no terms in common.

        `clips`: by the number of the release, how much of a unit counts in `clipped`.
        Changes take effect at their own times; those after `reached` are left out.  Ends the engine's use.
        """
        ...

    def close(self) -> None:
        """Free memory and temporary files."""
        ...
