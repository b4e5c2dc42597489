"""What a release publishes of its sums: the contract of every aggregate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from tidegauge.mechanism.noise.error import ErrorDistribution
    from tidegauge.model.query import Component, Query

    Floats = NDArray[np.float64]

Part = Literal["rows", "numbers", "values", "distances"]
"""What is summed of each row.

rows: 1 where there is a value; numbers: 1 where there is a number; values: the number itself, clamped;
distances: its distance from the middle of the bounds.
"""


@dataclass(frozen=True)
class Estimate:
    """A value with its error; None where the noise hides the value."""

    value: float | None
    stderr: float | None
    low: float
    high: float


class Formula(ABC):
    """How the error of a reading depends on what only its reader knows, such as a number of rows."""

    @abstractmethod
    def as_json(self) -> dict[str, Any]:
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
    """What its errors are counted in."""
    no_windows: ClassVar[str] = ""
    """Why no other windows can be derived from its measurements; empty where they can."""
    planned_rows: ClassVar[int] = 1
    """Errors are predicted for readings over so many rows, where they fall with that number."""
    promise: ClassVar[str] = ""
    """What predicted half-widths hold for, where that is not every reading."""
    never_negative: ClassVar[bool] = False
    """Whether a running value below 0 can only be noise."""

    @property
    def bounded(self) -> bool:
        """Whether bounds of the values have to be declared."""
        return not {"values", "distances"}.isdisjoint(self.parts)

    @abstractmethod
    def decode(
        self, query: Query, values: Sequence[Floats], errors: Sequence[ErrorDistribution]
    ) -> list[Estimate]:
        """One estimate a cell, from each component's estimated sums and the distribution of their errors."""

    @abstractmethod
    def half_width(self, errors: Sequence[ErrorDistribution], stderr: float, level: float) -> float:
        """How far the truth may be from a reading with this standard error, with this probability."""

    def formula(
        self, component: Component, errors: Sequence[ErrorDistribution], half_width: float
    ) -> Formula | None:
        """How the worst 95 % half-width depends on the number of rows; None where it does not.

        `half_width`: the worst over the readings, as predicted for `planned_rows`.
        """
        del component, errors, half_width
        return None
