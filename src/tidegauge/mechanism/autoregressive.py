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
from tidegauge.mechanism.exposed import most_changes, over_lives, spread
from tidegauge.mechanism.strategy import Exposure, Row, Strategy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.mechanism.exposed import Flow
    from tidegauge.theory.paths import Limits
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
            raise SpecError("this strategy does not measure the initial load: it tells changes, not levels")
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
        """Exact for a fixed shift of the shared draw by the middle of the range; none where there are groups."""
        S, M = spread(exposure)
        b, bins = self._memory, self.bins - self.first
        middle = Fraction(abs(max(exposure.upper, 0) + min(exposure.lower, 0)), 2)
        veiled = bool(self.veil) and not exposure.grouped

        def stock(limit: Limits) -> tuple[Fraction, Fraction]:
            changes = most_changes(limit, bins)
            later = min(changes, bins - 1) if veiled else changes - 1
            rest = bins - 1 - later
            if veiled:  # levels count from what they were before the first bin
                shift = (S / 2 if self.first else middle) / self.veil
                parts = [(1, S / 2), (later, (1 + b) * S / 2), (rest, (1 - b) * S / 2), (1, shift)]
            elif self.first and exposure.grouped:  # the group that was left stays below its first level
                parts = [(1, 2 * M), (later, 2 * M), (rest, 2 * (1 - b) * M)]
            else:
                most = S if self.first else M
                parts = [(1, most), (later, (1 + b) * most), (rest, (1 - b) * most)]
            return self._both(parts)

        def flow(counts: Flow) -> tuple[Fraction, Fraction]:
            most = counts.total * M
            return self._both([(1, most), (bins - 1, (1 - b) * most)])

        return over_lives(exposure, stock=stock, flow=flow)

    def _both(self, parts: list[tuple[int, Fraction]]) -> tuple[Fraction, Fraction]:
        l1 = sum((count * size for count, size in parts), Fraction(0))
        square = sum((count * size**2 for count, size in parts), Fraction(0))
        return l1 * self.denominator, square * self.denominator**2
