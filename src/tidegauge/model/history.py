"""The contract of a history: all changes of a source up to an instant, for an engine that reads it by itself.

A source that knows its past can deliver it as one value instead of batches.  The engine then selects what it
needs of every change, in SQL of the embedded engine, and no change becomes a Python object on the way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import pyarrow as pa

    from tidegauge.model.program import Arrived, Folded, State

    Report = Callable[[int, int], None]
    """Called with what is done and the total."""
    Piece = bytes | memoryview


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
    def owner(self) -> str:
        """The SQL type of the column `owner`: an integer type, or VARCHAR."""
        ...

    @property
    def after(self) -> pa.DataType:
        """The Arrow type of the column `after`."""
        ...

    def scan(self, columns: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        """Every change, in an order that is the same for every scan: these columns, each an SQL expression.

        The expressions can use time, entry, unit, before, after and informed as tidegauge.model.mutation has
        them, `key`: the key as the source has it, whose text is `entry` (NULL: `entry` is ''), `owner`: the
        unit of a new row as the source has it, whose text is `unit`, and what costs less to compute: `alive`
        and `existed`, whether there is a new and an old row; `new` and `old`, the same rows as `after` and
        `before`, with any values where there is none.  Changes of one instant come in the order of the log.
        """
        ...

    def batches(self) -> Iterator[pa.Table]:
        """Every change in the order of time, as batches (tidegauge.model.mutation)."""
        ...

    def close(self) -> None:
        """Free what the source holds for the history."""
        ...


class LastingHistory(ABC):
    """What a history offers in addition if another process can read it again, to continue a fold."""

    @abstractmethod
    def fingerprint(self) -> str | None:
        """A hash of everything that the changes follow from, apart from `upto`.

        None: the source has changed since the history began.
        """

    @abstractmethod
    def intact(self) -> None:
        """Raise SourceError if what was read so far is not what the fingerprint was made of."""

    @abstractmethod
    def until(self, upto: int) -> History:
        """The same history up to an earlier instant.  Only one of the two is used and closed."""


class Files(Protocol):
    """Files of numbered pieces: work on a history that does not fit into memory.  All of it is secret."""

    @property
    def names(self) -> Collection[str]:
        """The files that were there at the beginning, every byte of them checked."""
        ...

    def write(self, name: str, pieces: Sequence[Piece]) -> None:
        """Write a file completely or not at all; several threads may write different files at once."""
        ...

    def read(self, name: str, number: int) -> Piece:
        """One piece of a file; several threads may read at once."""
        ...

    def close(self) -> None:
        """Free memory; files that do not outlive the process are removed."""
        ...


class Keeper(Protocol):
    """Keeps the finished work on a history until the history is committed, also if the process is killed."""

    def begin(self, work: str, *, source: str, upto: int, size: int) -> Files | None:
        """The files of this work; those of any other work are removed.  None: there is no room for them.

        `work`: everything that the content of the files follows from, besides the store, its plan, the source
        and `upto`.  `source`: the fingerprint of the history.  `size`: about how many bytes are written.
        """
        ...


class Narrating(ABC):
    """A `Report` that can also print a sentence for the operator."""

    @abstractmethod
    def __call__(self, done: int, total: int) -> None:
        """Show this progress."""

    @abstractmethod
    def says(self, text: str) -> None:
        """Print a sentence; it may depend on secret data."""


@dataclass(frozen=True)
class Backfilled:
    """What an engine made of a history; all of it secret."""

    arrived: Arrived
    arrivals: int
    """How many changes the history has."""
    parts: Iterator[Folded]
    """Parts of which no two have the same row, or the counters of the same unit; to be taken once."""


class HistoryEngine(ABC):
    """An engine that enforces and folds a whole history at once."""

    @property
    def can_backfill(self) -> bool:
        """Whether it can do so for its program; if not, the history is read in batches."""
        return True

    @abstractmethod
    def backfill(
        self,
        history: History,
        *,
        state: State,
        reached: int,
        now: int,
        report: Report,
        keeper: Keeper | None = None,
    ) -> Backfilled:
        """Fold a history that ends at `reached`, for a store that has nothing yet.

        The result is that of `arrive` and `fold` on all its batches; no change waits after it.  `keeper`:
        where an engine that can continue an interrupted fold keeps what is finished.
        """
