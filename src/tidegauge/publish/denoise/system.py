"""The measurements of one component as a linear system that is driven by the change of each step.

    state[t] = transition[t] state[t-1] + gain[t] change[t]         row = weights . state[t] + noise

Coordinate 0 of the state is the running value.  The unit of rows and state is the base scale of the noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


class Seen(NamedTuple):
    """One measured row: its weights on the state, and the variance of its noise."""

    weights: Floats
    variance: float


@dataclass(frozen=True, eq=False)
class Step:
    """What happens in one step."""

    transition: Floats
    """A matrix, or the diagonal of one."""
    gain: Floats
    seen: tuple[Seen, ...]

    @property
    def diagonal(self) -> bool:
        """Whether the transition is a diagonal matrix."""
        return self.transition.ndim == 1


@dataclass(frozen=True, eq=False)
class System:
    """The steps of one component.  At step 0 the state is its gain times an unknown start value."""

    steps: Sequence[Step]
    offset: float = 0.0
    """Variance of noise that all running values share; no measurement can reduce it."""
    rates: int = 0
    """1 if the last coordinate is the change of a step, and the model describes that change; else 0."""

    @property
    def width(self) -> int:
        """The number of coordinates of the state."""
        return len(self.steps[0].gain)

    @property
    def rows(self) -> int:
        """The number of measured rows."""
        return sum(len(step.seen) for step in self.steps)


def with_rates(system: System) -> System:
    """The same measurements, driven by the change of each step's change: for flows.

    A flow has about as many events in this step as in the last one; a running value has not about the same
    change.
    """
    width = system.width
    known: dict[int, Step] = {}

    def wider(step: Step) -> Step:
        if id(step) not in known:
            full = np.zeros((width + 1, width + 1))
            full[:width, :width] = np.diag(step.transition) if step.diagonal else step.transition
            full[:width, width] = step.gain
            full[width, width] = 1.0
            seen = tuple(Seen(np.append(weights, 0.0), variance) for weights, variance in step.seen)
            known[id(step)] = Step(full, np.append(step.gain, 1.0), seen)
        return known[id(step)]

    first = system.steps[0]
    seen = tuple(Seen(np.append(weights, 0.0), variance) for weights, variance in first.seen)
    start = Step(np.zeros((width + 1, width + 1)), np.append(first.gain, 0.0), seen)
    return System([start, *map(wider, system.steps[1:])], system.offset, rates=1)
