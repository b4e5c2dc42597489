"""The noise of one tick, drawn together: one call of OpenDP for each law, however many releases use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegauge.mechanism.noise.samplers import Noise, Sampler


class Pool:
    """A sampler that draws at once what several releases will ask for.  Every draw is handed out once.

    wanted: how many draws of each law the tick is expected to need.  A wrong number costs time and nothing
    else: what is missing is drawn when it is asked for, and what is left over is never used.
    """

    def __init__(self, sampler: Sampler, wanted: Mapping[Noise, int]) -> None:
        self._sampler, self._wanted = sampler, dict(wanted)
        self._drawn: dict[Noise, list[int]] = {}

    @property
    def simulated(self) -> bool:
        """Whether the draws follow from a seed."""
        return self._sampler.simulated

    def draw(self, noise: Noise, count: int) -> list[int]:
        """Independent draws of this noise."""
        left = self._drawn.get(noise, [])
        if len(left) < count:
            missing = max(count - len(left), self._wanted.pop(noise, 0))
            left = left + self._sampler.draw(noise, missing)
        self._drawn[noise] = left[count:]
        return left[:count]
