"""The default for long-lived stocks with Laplace noise: noise that forgets, and one shared draw that hides the level.

What is published is s + N + X: N[t] = b N[t-1] + fresh noise, and X one draw for all time, never shown.  Shifting X by half of an
entry's range makes its level +1/2 or -1/2 instead of 0 or 1: staying costs (1 - b) / 2 a bin, changing (1 + b) / 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from tidegauge.errors import SpecError
from tidegauge.mechanism.exposure import in_grid_units, over_lives, spread
from tidegauge.mechanism.strategy import Exposure, Row, Strategy, refuse_running_values
from tidegauge.theory.paths.remembered import Remembered, remembered_paths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.mechanism.exposure import Flow
    from tidegauge.theory.paths.path import Limits
    from tidegauge.theory.sensitivity import Sensitivity

    Floats = NDArray[np.float64]

_MEMORY: Final = 1 << 16
"""The memory b is a whole multiple of 1/65536 ..."""
_FINER: Final = 1 << 8
"""... and the shared draw a whole multiple of 1/256 of a grid unit."""


@dataclass(frozen=True)
class Autoregressive(Strategy):
    """One row a bin: the level less b times the level before; `memory` is b in 65536ths, `veil` the shared draw's scale."""

    name: ClassVar[str] = "autoregressive"

    bins: int
    memory: int
    veil: Fraction
    first: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.memory <= _MEMORY or self.veil < 0 or self.bins <= self.first:
            raise SpecError("an autoregressive strategy has a memory from 0 to 65536 and a veil of 0 or more")

    @property
    def parameters(self) -> dict[str, int | float | str]:
        """Memory and veil, exactly."""
        return {"bins": self.bins, "memory": self.memory, "veil": str(self.veil), "first": self.first}

    @property
    def denominator(self) -> int:
        """2^24."""
        return _MEMORY * _FINER

    @property
    def shared(self) -> Fraction | None:
        """In 256ths of a grid unit, where a row counts in 2^-24."""
        return self.veil / _MEMORY if self.veil else None

    @property
    def _memory(self) -> Fraction:
        return Fraction(self.memory, _MEMORY)

    def rows(self, bin_: int) -> tuple[Row, ...]:
        """The level after this bin less b times the level before it, both with the shared draw."""
        age = bin_ - self.first
        if age < 0:
            return ()
        forgotten = (_MEMORY - self.memory) if age else _MEMORY
        past = ((self.first, bin_ - 1, forgotten * _FINER),) if age and forgotten else ()
        return (Row(0, age, (*past, (bin_, bin_, self.denominator)), shared=forgotten if self.veil else 0),)

    def weights(self, bin_: int, span: int | None) -> Floats:
        """What is remembered of each row."""
        age = bin_ - self.first
        found = float(self._memory) ** np.arange(age, -1, -1.0)
        if span is not None and span <= age:
            found[: age - span + 1] -= float(self._memory) ** np.arange(age - span, -1, -1.0)
        elif self.first and (span is None or span > bin_):
            refuse_running_values()
        return found / self.denominator

    def variances(self, bins: NDArray[np.int64], span: int | None) -> Floats:
        """In closed form for all bins at once."""
        ages, b = bins - self.first, float(self._memory)
        steps = np.arange(int(ages.max()) + 1, dtype=np.float64)
        kept = b**steps
        if span is not None:
            kept[span:] -= b ** steps[: len(steps) - span]
        hidden = float(self.veil) ** 2 * (np.ones(len(bins)) if span is None else ages < span)
        return (np.cumsum(kept**2)[ages] + hidden) / self.denominator**2

    def sensitivity(self, exposure: Exposure) -> Sensitivity:
        """In L1 exact, for the best shift of the shared draw (of no use where there are groups); in L2 an upper bound.

        The draw is a whole multiple of 1/256 of a grid unit; refined, it has finer steps, of which those are some.
        """
        S, M = spread(exposure)
        b, bins = self._memory, self.bins - self.first
        veil = None if exposure.grouped or not self.veil else 1 / self.veil
        moves = in_grid_units(exposure, self.first)

        def most(limit: Limits, veil: Fraction | None) -> Fraction:
            rows = Remembered(b, veil, bins, Fraction(1, _FINER))
            return remembered_paths(rows, limits=limit, moves=moves)

        def stock(limit: Limits) -> tuple[Fraction, Fraction]:
            return self._both(most(limit, veil), most(limit, None), 2 * S)

        def flow(counts: Flow) -> tuple[Fraction, Fraction]:
            largest = counts.total * M
            total = largest * (1 + (bins - 1) * (1 - b))
            return self._both(total, total, largest)

        return over_lives(exposure, stock=stock, flow=flow)

    def _both(self, l1: Fraction, total: Fraction, largest: Fraction) -> tuple[Fraction, Fraction]:
        """An L2 for completeness: no row is moved further than this, and all together no further than that."""
        return l1 * self.denominator, total * largest * self.denominator**2
