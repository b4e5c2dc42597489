"""The contract of every aggregate: which sums it measures, and how readings are computed from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from tidegauge.mechanism.noise.error import ErrorDistribution
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

    @property
    def bounded(self) -> bool:
        """Whether the release must declare bounds of the values."""
        return not {"values", "distances"}.isdisjoint(self.parts)

    @abstractmethod
    def decode(
        self, query: Query, values: Sequence[Floats], errors: Sequence[ErrorDistribution]
    ) -> list[Estimate]:
        """One estimate per cell, from the estimated sums of each component and their errors."""

    def exact(self, query: Query, sums: Sequence[int]) -> float | None:
        """The value that follows from exact sums of each component; None: not known.  Secret."""
        del query, sums
        return None

    @abstractmethod
    def half_width(self, errors: Sequence[ErrorDistribution], stderr: float, level: float) -> float:
        """Half-width of the noise interval, at this level, of a reading with this standard error."""

    def formula(
        self, component: Component, errors: Sequence[ErrorDistribution], half_width: float
    ) -> Formula | None:
        """How the worst 95 % half-width depends on the number of rows; None where it does not.

        `half_width`: the worst over the readings, as predicted for `planned_rows`.
        """
        del component, errors, half_width
        return None
