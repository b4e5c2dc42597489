"""The contract of an engine: it enforces the constraint and adds up exact integer sums.

A tick calls `arrive` with every batch and stores `waiting`.  When a bin has ended it calls `fold`, stores
each part and then `waiting`.  The engine keeps nothing that the store does not have as well: after `forget`,
or in a new process, it reads the waiting changes and the state from the store again.

Every engine gives the same integers for the same program and changes, wherever batches are cut.
docs/expressions.md says what each operation of a query means.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from tidegauge.model.grid import GridEngine, Variant
    from tidegauge.model.mutation import RemoteRows
    from tidegauge.model.program import Arrived, Folded, Program, State

StateType = Literal["VARCHAR", "BIGINT"]
"""The types that a column of the state can have: text, or an integer of 64 bits.  Both may be NULL."""


@dataclass(frozen=True)
class StateLayout:
    """The columns of the state that an engine needs; the store makes the tables when the plan is committed.

    Some columns are required, because the store finds rows by them: see each table.  The others, at least one
    a table, are the engine's own.
    """

    entries: Mapping[str, StateType]
    """Rows that exist: `entry` (the row's name), and `unit` where a unit owns several rows."""
    units: Mapping[str, StateType]
    """Counters of a unit in a scope: `unit`, `scope`, `expires` (when the unit must be folded although it
    does not change; NULL: never), and `excess`, if the engine has it: the true contribution less the accepted
    one, as text (`Excess`); NULL where they are equal."""
    used: Mapping[str, StateType]
    """What a unit has used of a flow's clip: `unit`, `release`."""

    def tables(self) -> dict[str, dict[str, str]]:
        """Table name -> column name -> type, as the store records it."""
        return {"entries": dict(self.entries), "units": dict(self.units), "used": dict(self.used)}


class Excess(NamedTuple):
    """One part of the difference between the true contribution of a unit and the accepted one."""

    release: int
    """Its number in the program."""
    component: int
    cell: int
    amount: int

    @classmethod
    def parse(cls, text: str) -> list[Self]:
        """The parts of a text: release:component:cell:amount, separated by spaces."""
        return [cls(*map(int, part.split(":"))) for part in text.split(" ")]


class Engine(ABC):
    """Carries out one program.

    What an engine can do besides is declared by a further base class: KeepingEngine, HistoryEngine
    (model/history.py), StampReader and StampEngine (model/stamp.py).
    """

    @property
    @abstractmethod
    def layout(self) -> StateLayout:
        """The columns of the state that this engine needs for its program."""

    @abstractmethod
    def arrive(self, rows: pa.Table, *, state: State, now: int, arrivals: int) -> Arrived:
        """Take a batch (its form: tidegauge.model.mutation); its changes wait until they take effect.

        `now`: the clock; a later time stamp becomes this one.  `arrivals`: how many changes arrived before
        this batch.
        """

    @abstractmethod
    def waiting(self, since: int | None = None) -> pa.Table:
        """The changes that have arrived (`since`: from this number on) and have not taken effect.

        The columns are the engine's own; `State.waiting` gives them back.
        """

    @abstractmethod
    def fold(self, *, state: State, watermark: int, reached: int) -> Iterator[Folded]:
        """Enforce and fold what takes effect by `reached`, in parts that have no unit in common.

        A change takes effect at its own time, but after `watermark` (the end of the last measured bin) and
        not before an earlier change of its unit.  The fold is complete once the last part was taken.
        """

    @abstractmethod
    def begin(self, releases: Collection[str], *, state: State) -> None:
        """Let the next fold begin with every row of the state, for releases that contribute nothing yet.

        Their units get their first change right after the watermark.  For all other releases nothing changes.
        The state must keep what the program `keeps`.
        """

    @abstractmethod
    def forget(self) -> None:
        """Read the waiting changes from the store when next needed: a transaction was rolled back."""

    @abstractmethod
    def close(self) -> None:
        """Free memory and temporary files."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class KeepingEngine(Engine):
    """An engine that keeps state and waiting changes itself, in versions, instead of in the store.

    A tick calls `resume` with the committed version, then `arrive` (or `arrive_remote`) and `fold`, then
    `version`, whose text the store commits with everything else.  Until then the version before must remain:
    a tick that is not committed is repeated from there.  The store's tables of the state stay empty.
    """

    @abstractmethod
    def keep_in(self, store: Path, secret: bytes | None = None) -> None:
        """Keep everything beside the store at this path.  Called once, before the first tick.

        secret: 32 bytes of an encrypted store, under which everything is encrypted; None: it is plain.
        Raises SpecError where the engine cannot do this.
        """

    @abstractmethod
    def resume(self, version: str | None) -> None:
        """Go on from this version; None: from an empty state.  Raises StoreCorrupt if it is not complete."""

    @abstractmethod
    def arrive_remote(self, rows: RemoteRows, *, now: int, arrivals: int) -> Arrived:
        """Take a batch that is elsewhere; the arguments are those of `arrive`."""

    @abstractmethod
    def version(self) -> str:
        """The state as this tick leaves it, durable."""


@dataclass(frozen=True)
class EngineKind:
    """A kind of engine, by the name that `[engine] kind` has for it."""

    name: str
    open: Callable[[Program, Mapping[str, str]], Engine]
    """Opens an engine for a program over a table with these columns (name -> SQL type).

    Binds every query to the columns.  Raises QueryError for a query that the engine cannot compute.
    """
    grid: Callable[[Program, Mapping[str, str], Sequence[Sequence[Variant]]], GridEngine] | None = None
    """Opens an engine for many constraints at once; the variants of each scope.  None: it has none."""
    leaves: str | None = None
    """What the engine leaves on the disk unencrypted, as the start of a sentence; None: nothing."""
    sources: frozenset[str] | None = None
    """The kinds of source whose changes it can take, besides objects; None: all."""
    stamps: str | None = None
    """The kind of engine that stamps changelogs for it; None: itself."""
