"""A stamped changelog: the changes of a history, each with what enforcement found out about it.

One pass gives every change the number it has among the changes of its unit (`ordinal`), the time of the
unit's first change (`first`) and whether it is accepted.  After that the constraint is a filter, and exact
sums are a plain GROUP BY in any engine.  Ordinals depend on the releases, scopes and constraints of one plan.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from tidegauge.model.history import Backfilled, History, Report
    from tidegauge.model.program import Folded, State

MARK: Final = b"tidegauge.stamped"
"""The key, in the metadata of every Parquet file of a stamped changelog, that has the hash of its plan."""


@dataclass(frozen=True)
class Stamps:
    """What an engine made of a history besides its stamped changes; all of it secret."""

    arrivals: int
    views: Callable[[], pa.Table]
    """scope, view, release, component, cell, amount: what each contribution adds to the sums; to be called
    once all parts were taken."""
    bins: pa.Table
    """bin, release, number: the bin of each release that a bin of the changes belongs to."""
    parts: Iterator[Folded]
    """The state after the history, in parts that have no unit in common; to be taken once."""


@dataclass(frozen=True)
class Stamped:
    """A stamped changelog that was written before; all of it secret."""

    upto: int
    position: str
    arrivals: int
    counts: Mapping[str, int]
    changes: Path | Callable[[Sequence[str]], pa.RecordBatchReader]
    """A Parquet file: scope, unit, time, ordinal, first, bin, was, now, accepted.

    Of an encrypted store: a function that reads some of these columns, as often as it is called.
    """
    views: pa.Table
    bins: pa.Table
    parts: Callable[[], Iterator[tuple[pa.Table, pa.Table, pa.Table]]]
    """Rows, counters and used clips of the state after the history, in parts that have no unit in common."""
    state: tuple[Path, Path, Path]
    """The Parquet files of all these parts; of an encrypted store they are not there."""
    intact: Callable[[], None]
    """Raises SourceError if a file was replaced or written to since it was opened."""


class StampReader(ABC):
    """An engine that folds stamped histories."""

    @abstractmethod
    def fold_stamped(self, stamped: Stamped, *, state: State) -> Backfilled:
        """The result of `backfill` on the history that was stamped."""


class StampEngine(StampReader):
    """An engine that stamps histories as well."""

    @abstractmethod
    def stamp(
        self,
        history: History,
        *,
        reached: int,
        write: Callable[[pa.Table], None],
        report: Report,
    ) -> Stamps:
        """Hand the stamped changes of a history to `write`, in any order, and return what follows from them.

        Some of them are handed over while the parts of the state are taken.
        """
