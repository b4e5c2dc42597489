"""The contract of a kind of source, and of a source that is open.

A kind is one folder in source/ and one line in source/registry.py.  Every method that a kind may leave out
has a default here, so no caller has to ask whether a source has the method.
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
    from tidegauge.model.history import History
    from tidegauge.model.mutation import Batch, Source

S = TypeVar("S", bound="SourceSpec")


@dataclass(frozen=True)
class Check:
    """One requirement of a source.  `fix`: the statement or setting that meets it, if there is one."""

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
    """Whether a read delivers everything in the source's log, not just the changes up to a time."""
    installs: ClassVar[bool] = False
    """Whether something must be installed in the database before the first read."""
    has_past: ClassVar[bool] = True
    """Whether the first read delivers the whole past of the table, each change with its time."""
    engine: ClassVar[str | None] = None
    """The only kind of engine that takes what the source delivers; None: any."""
    leaves_out: int | None = None
    """Unchanged values of at least so many bytes may be missing from a new row (`kept`); None: never."""

    @property
    @abstractmethod
    def table(self) -> str:
        """The table's name in SQL."""

    @property
    @abstractmethod
    def columns(self) -> Mapping[str, str]:
        """Public schema: column name -> SQL type of the embedded engine ('VARCHAR' if none is declared)."""

    @abstractmethod
    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        """Yield the changes that follow `position`; model/mutation.py has the rules."""

    def select(self, columns: Collection[str]) -> None:  # noqa: B027
        """Deliver these columns only, from the next read on.  The types of other columns may change."""

    def history(self, until: int) -> History | None:  # noqa: ARG002
        """All changes up to an instant as one value; None: the source delivers batches only."""
        return None

    def acknowledge(self, position: str) -> None:  # noqa: B027
        """Free what the source keeps for the changes up to this position: they are committed."""

    def close(self) -> None:  # noqa: B027
        """Close connections and files.  The next read opens them again."""

    def reach(self, *, wait: bool) -> None:  # noqa: B027
        """Check that the source answers.

        wait: whether to try again, as a read would, where the source may answer later.
        Raises SourceError if the source does not answer, at once if waiting cannot help.
        """

    def rehearse(self) -> None:  # noqa: B027
        """Raise what the first read would raise.  Changes nothing."""

    def doctor(self, position: str | None = None) -> list[Check]:  # noqa: ARG002
        """The checks for a run that continues from the store's `position`; None: for a first run."""
        found = f"table {self.table} can be read; its columns are {', '.join(self.columns)}"
        return [Check("source", ok=True, detail=found)]

    def install(self) -> str:
        """Install what following the source needs.  Returns a sentence that says what was done."""
        return "This kind of source needs nothing to be installed."

    def uninstall(self, position: str | None = None) -> str:  # noqa: ARG002
        """Remove what was installed for the gauge with this position.

        Returns a sentence that says what was done.
        """
        return "This kind of source has nothing installed."


class FollowedSource(OpenSource):
    """A source that is followed through a log, or through something like a log."""

    follows = True
    has_past = False


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
    """Where a declared source is opened.

    base:     the folder that its paths are relative to.
    store:    the path of the gauge's store; the source keeps its files beside it.
    position: how far the gauge has read the source, if it is known.
    """

    base: Path
    store: Path
    position: str | None = None


class Claim(enum.Enum):
    """Whether a kind can read what `init` was asked for."""

    NONE = "cannot read it"
    IF_NAMED = "can read it if --kind names this kind"
    OTHERWISE = "can read it if no other kind claims it"
    LIKELY = "looks like what the kind is made for"
    OWN = "is made for it"


@dataclass(frozen=True)
class Asked:
    """What `init` was asked for: a file, folder or server, the folder of the declaration, and the options."""

    what: str | None
    folder: Path
    table: str | None = None
    schema: str | None = None

    @property
    def server(self) -> bool:
        """Whether `what` is a database server, named by an environment variable."""
        return self.what is not None and self.what.startswith("env:")


@dataclass(frozen=True)
class Draft:
    """A declaration that `init` begins: the lines of its [source], and what its releases can count."""

    source: tuple[str, ...]
    table: str
    numbers: tuple[str, ...]
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Columns of text, and their values if these are known."""
    next: str = "tidegauge plan"
    """The next commands, once the declaration is complete."""
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
    """A kind of source: its part of the declaration, how it is opened, and what `init` and `status` show."""

    @property
    @abstractmethod
    def spec(self) -> type[S]:
        """The class of its [source] table."""

    @abstractmethod
    def open(self, spec: S, where: Location) -> OpenSource:
        """Open a declared source."""

    def operator_counts(self, spec: S, where: Location) -> Mapping[str, float]:  # noqa: ARG002
        """Numbers of unusable inputs, by the name that `status` shows.  For the operator alone."""
        return {}

    def claim(self, asked: Asked) -> Claim:  # noqa: ARG002
        """Whether `template` can begin a declaration of this."""
        return Claim.NONE

    def template(self, asked: Asked) -> Draft:  # noqa: ARG002
        """Begin a declaration.  Raises SpecError if the table or its columns cannot be found."""
        raise SpecError("this kind is declared by hand", key="--kind")
