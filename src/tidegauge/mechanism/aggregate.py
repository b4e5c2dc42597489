"""The contract of every aggregate: which sums it measures, and how readings are computed from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from tidegauge.mechanism.noise.errors import Errors
    from tidegauge.model.json import JsonObject
    from tidegauge.model.query import Component, Query

    Floats = NDArray[np.float64]

Part = Literal["rows", "numbers", "values", "distances"]
"""What is summed of each row.

rows: 1 if there is a value; numbers: 1 if there is a number; values: the number, clamped to the bounds;
distances: the distance of the number from the middle of the bounds.
"""


@dataclass(frozen=True)
class Estimate:
    """A value with its error; None where the noise hides the value."""

    value: float | None
    stderr: float | None
    low: float
    high: float


class Error(Protocol):
    """What is known of the error of an estimate."""

    @property
    def stderr(self) -> float:
        """The standard deviation of the error."""
        ...

    def half_width(self, level: float) -> float:
        """The least h, rounded up, such that the error is in [-h, h] with this probability."""
        ...


class Estimates(NamedTuple):
    """Values with their errors, readings by cells; NaN where the noise hides the value."""

    values: Floats
    stderrs: Floats
    lows: Floats
    highs: Floats


class Formula(ABC):
    """How the error of a reading depends on a number that its reader knows, such as its rows."""

    @abstractmethod
    def as_json(self) -> JsonObject:
        """The fields that plan --json shows."""

    @abstractmethod
    def __str__(self) -> str:
        """The same as a sentence without its full stop."""


class Aggregate(ABC):
    """A frozen, stateless description of one aggregate function of SQL; everything about it is public."""

    name: ClassVar[str]
    """The function's name in SQL, in small letters; a committed query names its aggregate by it."""
    parts: ClassVar[tuple[Part, ...]]
    """The components that are measured, in order."""
    unit: ClassVar[str]
    """The unit of its errors, in words."""
    no_windows: ClassVar[str] = ""
    """Why no other windows can be derived from its measurements; empty where they can."""
    planned_rows: ClassVar[int] = 1
    """The number of rows for which errors are predicted, where errors depend on the number of rows."""
    promise: ClassVar[str] = ""
    """The readings for which predicted half-widths hold; empty: all readings."""
    never_negative: ClassVar[bool] = False
    """Whether a running value below 0 can only be noise."""
    zero_is_nothing: ClassVar[bool] = True
    """Whether 0 means that there is nothing; a mean of 0 is a value as any other."""

    @property
    def bounded(self) -> bool:
        """Whether the release must declare bounds of the values."""
        return not {"values", "distances"}.isdisjoint(self.parts)

    @abstractmethod
    def decode(self, query: Query, values: Sequence[Floats], errors: Sequence[Error]) -> list[Estimate]:
        """One estimate per cell, from the estimated sums of each component and their errors."""

    def estimates(self, query: Query, values: Sequence[Floats], errors: Sequence[Errors]) -> Estimates:
        """The same for many readings: `values` has, for each component, readings by cells.

        By default reading by reading.
        """
        import numpy as np  # noqa: PLC0415  (whoever only shows readings does without)

        found = Estimates(*np.full((4, *values[0].shape), np.nan))
        for at in range(len(values[0])):
            decoded = self.decode(query, [some[at] for some in values], [error.at(at) for error in errors])
            for cell, estimate in enumerate(decoded):
                found.lows[at, cell], found.highs[at, cell] = estimate.low, estimate.high
                if estimate.value is not None and estimate.stderr is not None:
                    found.values[at, cell], found.stderrs[at, cell] = estimate.value, estimate.stderr
        return found

    def exact(self, query: Query, sums: Sequence[int]) -> float | None:
        """The value that follows from exact sums of each component; None: not known.  Secret."""
        del query, sums
        return None

    @abstractmethod
    def half_width(self, errors: Sequence[Error], stderr: float, level: float) -> float:
        """Half-width of the noise interval, at this level, of a reading with this standard error."""

    def formula(self, component: Component, errors: Sequence[Error], half_width: float) -> Formula | None:
        """How the worst 95 % half-width depends on the number of rows; None where it does not.

        `half_width`: the worst over the readings, as predicted for `planned_rows`.
        """
        del component, errors, half_width
        return None
