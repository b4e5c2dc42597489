"""The contract of a history: all changes of a source up to an instant, for an engine that reads it by itself.

A source that knows its past can deliver it as one value instead of batches.  The engine then selects what it
needs of every change, in SQL of the embedded engine, and no change becomes a Python object on the way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa

    from tidegauge.model.program import Arrived, Folded, State

    Report = Callable[[int, int], None]
    """Called with what is done and the total."""


class History(Protocol):
    """Every change of a table up to `upto`; what a change is: tidegauge.model.mutation."""

    @property
    def upto(self) -> int:
        """Every change up to this instant is part of the history, and no later one."""
        ...

    @property
    def position(self) -> str:
        """Where the source goes on after the history."""
        ...

    @property
    def rows(self) -> int:
        """At most so many changes are part of the history; secret."""
        ...

    @property
    def informed(self) -> bool:
        """Whether old rows are delivered."""
        ...

    @property
    def key(self) -> str:
        """The SQL type of the column `key`: an integer type, or VARCHAR."""
        ...

    @property
    def after(self) -> pa.DataType:
        """The Arrow type of the column `after`."""
        ...

    def scan(self, columns: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        """Every change, in an order that is the same for every scan: these columns, each an SQL expression.

        The expressions can use time, entry, unit, before, after and informed as tidegauge.model.mutation has
        them, `key`: the key as the source has it, whose text is `entry` (NULL: `entry` is ''), and what
        costs less to compute: `alive` and `existed`, whether there is a new and an old row; `new` and `old`,
        the same rows as `after` and `before`, with any values where there is none.  Changes of one instant
        come in the order of the log.
        """
        ...

    def batches(self) -> Iterator[pa.Table]:
        """Every change in the order of time, as batches (tidegauge.model.mutation)."""
        ...

    def close(self) -> None:
        """Free what the source holds for the history."""
        ...


@dataclass(frozen=True)
class Backfilled:
    """What an engine made of a history; all of it secret."""

    arrived: Arrived
    arrivals: int
    """How many changes the history has."""
    parts: Iterator[Folded]
    """Parts that have no unit in common; to be taken once."""


class HistoryEngine(ABC):
    """An engine that enforces and folds a whole history at once."""

    @abstractmethod
    def backfill(
        self, history: History, *, state: State, reached: int, now: int, report: Report
    ) -> Backfilled:
        """Fold a history that ends at `reached`, for a store that has nothing yet.

        The result is that of `arrive` and `fold` on all its batches; no change waits after it.
        """
