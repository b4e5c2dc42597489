"""The contract of a kind of source, and of a source that is open.

A kind is one folder in source/ and one line in source/registry.py.  Every method that a kind may leave out has a default
here, so nothing ever asks whether a source has it.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from tidegauge.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from tidegauge.model.declared import SourceSpec
    from tidegauge.model.mutation import Batch, Source

S = TypeVar("S", bound="SourceSpec")


@dataclass(frozen=True)
class Check:
    """One thing a source needs.  `fix` is the statement that brings it about, where it is missing and there is one."""

    name: str
    ok: bool
    detail: str
    fix: str | None = None

    def __post_init__(self) -> None:
        if self.ok:
            object.__setattr__(self, "fix", None)


class OpenSource(ABC):
    """A source that is open: table, columns and changes, and defaults for everything else."""

    follows: ClassVar[bool] = False
    """Whether it delivers whatever its log holds, rather than the changes up to a time."""
    installs: ClassVar[bool] = False
    """Whether something must be installed in the database before the first read."""
    leaves_out: int | None = None
    """From how many bytes on a value that did not change may be missing from a new row (`kept`); None: never."""

    @property
    @abstractmethod
    def table(self) -> str:
        """The table's name in SQL."""

    @property
    @abstractmethod
    def columns(self) -> Mapping[str, str]:
        """Public schema: column name -> SQL type of the embedded engine ('VARCHAR' where nothing was declared)."""

    @abstractmethod
    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        """Yield the changes that follow `position`; model/mutation.py has the rules."""

    def select(self, columns: Collection[str]) -> None:  # noqa: B027
        """Deliver these columns only, from the next read on.  The others may change as they like."""

    def acknowledge(self, position: str) -> None:  # noqa: B027
        """Release what was held for changes up to this position: they are committed."""

    def close(self) -> None:  # noqa: B027
        """Close connections and files.  The next read opens them again."""

    def reach(self) -> None:  # noqa: B027
        """Wait until the source answers, as a read would.  Raises at once what waiting does not help."""

    def rehearse(self) -> None:  # noqa: B027
        """Look at everything that the first read will look at, change nothing, and raise what it would raise."""

    def doctor(self, position: str | None = None) -> list[Check]:  # noqa: ARG002
        """The checks of what a run needs that goes on from the store's `position`, or begins where there is none."""
        found = f"table {self.table} can be read; its columns are {', '.join(self.columns)}"
        return [Check("source", ok=True, detail=found)]

    def install(self) -> str:
        """Install what following the source needs; returns what was done, as a sentence."""
        return "This kind of source needs nothing to be installed."

    def uninstall(self) -> str:
        """Remove what was installed for this gauge; returns what was done, as a sentence."""
        return "This kind of source has nothing installed."


class FollowedSource(OpenSource):
    """A source that is followed through a log, or something like one, elsewhere."""

    follows = True


class GivenSource(OpenSource):
    """A source that was given as an object with table, columns and read, and nothing else."""

    def __init__(self, given: Source) -> None:
        self._given = given

    @property
    def table(self) -> str:
        """The object's table."""
        return self._given.table

    @property
    def columns(self) -> Mapping[str, str]:
        """The object's columns."""
        return self._given.columns

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        """The object's changes."""
        return self._given.read(position, until)


def whole(given: Source) -> OpenSource:
    """The object as a source with every method of the contract."""
    return given if isinstance(given, OpenSource) else GivenSource(given)


@dataclass(frozen=True)
class Location:
    """Where a declared source is opened: its paths are relative to `base`, what it keeps lies beside `store`.

    `position` is how far the gauge has read the source, if it is known.
    """

    base: Path
    store: Path
    position: str | None = None


class Claim(enum.Enum):
    """How a kind answers when `init` shows it something."""

    NONE = "cannot read it"
    IF_NAMED = "can read it where --kind names this kind"
    OTHERWISE = "takes it where no other kind does"
    LIKELY = "looks like what the kind is for"
    OWN = "this is what the kind is for"


@dataclass(frozen=True)
class Asked:
    """What `init` was asked for: the thing, the folder of the declaration, and the options."""

    what: str | None
    folder: Path
    table: str | None = None
    schema: str | None = None

    @property
    def server(self) -> bool:
        """Whether the thing is a database server, named by a variable of the environment."""
        return self.what is not None and self.what.startswith("env:")


@dataclass(frozen=True)
class Draft:
    """A declaration that `init` begins: the lines of its [source], and what its releases can count."""

    source: tuple[str, ...]
    table: str
    numbers: tuple[str, ...]
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Columns of text, and their values where they are known."""
    next: str = "tidegauge plan"
    """What to do once the declaration is complete."""
    understood: tuple[str, ...] = ()
    """What the table seems to be, one line per decision, without data."""
    unsure: tuple[str, ...] = ()
    """Decisions that the user should check, one sentence each, without data."""
    rows: tuple[str, ...] = ()
    """The first rows as changes.  These are data: for the terminal of the operator alone."""
    first: int | None = None
    """The first time in the data, if they have a past."""
    last: int | None = None
    changes: int = 4
    """How many changes of a unit should count (at_most)."""
    open_ended: bool = False
    """Whether rows remain after the last time in the data, so that today's number is of interest."""


class SourceKind(ABC, Generic[S]):
    """A kind of source: its part of the declaration, how it is opened, and what `init` and `status` say of it."""

    @property
    @abstractmethod
    def spec(self) -> type[S]:
        """The class of its [source] table."""

    @abstractmethod
    def open(self, spec: S, where: Location) -> OpenSource:
        """Open a declared source."""

    def operator_counts(self, spec: S, where: Location) -> Mapping[str, float]:  # noqa: ARG002
        """Counts of rows or values that the source could not use, by the name that `status` shows.

        The counts are for the operator alone.
        """
        return {}

    def claim(self, asked: Asked) -> Claim:  # noqa: ARG002
        """Whether `template` can begin a declaration of this."""
        return Claim.NONE

    def template(self, asked: Asked) -> Draft:  # noqa: ARG002
        """Begin a declaration.  Raises SpecError where the table or its columns cannot be found."""
        raise SpecError("this kind is declared by hand", key="--kind")
