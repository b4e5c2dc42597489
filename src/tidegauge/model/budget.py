"""The privacy budget of a gauge: the most that its whole lifetime may reveal about one unit."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Self

from tidegauge.errors import SpecError
from tidegauge.model.json import as_scalar
from tidegauge.model.quantity import fraction

if TYPE_CHECKING:
    from tidegauge.model.json import JsonObject
    from tidegauge.model.quantity import Number

_MOST: Final = Fraction(10**300)
"""No double can hold a larger loss.  Far smaller budgets already need no noise."""


@dataclass(frozen=True)
class Budget:
    """Pure epsilon, (epsilon, delta), or rho (zero-concentrated)."""

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    rho: Fraction | None = None

    def __init__(
        self,
        epsilon: Number | str | None = None,
        delta: Number | str | None = None,
        rho: Number | str | None = None,
    ) -> None:
        given = {"epsilon": epsilon, "delta": delta, "rho": rho}
        numbers = {name: None if value is None else fraction(value) for name, value in given.items()}
        for name, number in numbers.items():
            if number is not None and number <= 0:
                raise SpecError("must be greater than 0", key=f"budget.{name}")
            if number is not None and number > _MOST:
                raise SpecError("must be at most 1e300", key=f"budget.{name}")
            object.__setattr__(self, name, number)
        if (self.epsilon is None) == (self.rho is None):
            raise SpecError("give epsilon (with or without delta) or rho, one of the two", key="budget")
        if self.delta is not None and (self.rho is not None or self.delta >= 1):
            raise SpecError("goes with epsilon and must be below 1", key="budget.delta")

    @classmethod
    def from_json(cls, record: JsonObject) -> Self:
        """The budget of a declaration or a plan.  Raises SpecError, or TypeError for a key that is none."""
        if unknown := record.keys() - {"epsilon", "delta", "rho"}:
            raise TypeError(f"a budget has no {sorted(unknown)}")
        return cls(**{name: as_scalar(value) for name, value in record.items()})

    @property
    def pure(self) -> bool:
        """Whether delta is 0, so that the noise is Laplace noise."""
        return self.rho is None and self.delta is None

    def __str__(self) -> str:
        if self.rho is not None:
            return f"rho = {self.rho}"
        return f"epsilon = {self.epsilon}" + (
            "" if self.delta is None else f", delta = {float(self.delta):g}"
        )
