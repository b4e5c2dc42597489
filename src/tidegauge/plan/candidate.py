"""A candidate: a strategy with its parameters, its privacy loss and its predicted error."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from tidegauge.model.json import as_flag, as_number, as_object, as_scalar, as_text, as_whole, lists

if TYPE_CHECKING:
    from tidegauge.model.json import Json, JsonObject, Scalar

Measure = Literal["epsilon", "rho"]


@dataclass(frozen=True)
class Candidate:
    """A strategy that was considered, with its privacy loss and predicted error."""

    strategy: str
    parameters: dict[str, Scalar]
    folds: int | None
    """Measurements that one unit can change, where the strategy counts them."""
    loss: Fraction
    half_width_worst: float
    half_width_mean: float
    adaptive: bool
    noise: float
    """Standard deviation of one measurement, in published units of what it measures."""
    memory: int
    """Exact numbers that are stored per cell."""
    growth: tuple[tuple[int, float], ...] = ()
    """For a release without an end: (n, worst 95 % half-width of the first n readings)."""

    def as_json(self, measure: Measure) -> dict[str, Json]:
        """The fields that plan --json shows."""
        return {
            "strategy": self.strategy,
            "parameters": self.parameters,
            "folds": self.folds,
            measure: float(self.loss),
            "half_width_worst": self.half_width_worst,
            "half_width_mean": self.half_width_mean,
            "adaptive": self.adaptive,
            "noise": self.noise,
            "memory": self.memory,
            **({"growth": [list(point) for point in self.growth]} if self.growth else {}),
        }

    def record(self) -> dict[str, Json]:
        """The record in a committed plan."""
        return {
            **vars(self),
            "loss": str(self.loss),
            "growth": [list(point) for point in self.growth],
        }

    @classmethod
    def from_record(cls, record: JsonObject) -> Candidate:
        """The candidate that was committed."""
        return cls(
            strategy=as_text(record["strategy"]),
            parameters=parameters(record["parameters"]),
            folds=None if record["folds"] is None else as_whole(record["folds"]),
            loss=Fraction(as_text(record["loss"])),
            half_width_worst=as_number(record["half_width_worst"]),
            half_width_mean=as_number(record["half_width_mean"]),
            adaptive=as_flag(record["adaptive"]),
            noise=as_number(record["noise"]),
            memory=as_whole(record["memory"]),
            growth=tuple((as_whole(reading), as_number(width)) for reading, width in lists(record["growth"])),
        )


def parameters(record: Json) -> dict[str, Scalar]:
    """The parameters of a strategy, from its record."""
    return {name: as_scalar(value) for name, value in as_object(record).items()}
