"""Running values without an end: strategies for a finite time, begun anew whenever time has doubled.

The sums of past epochs stay as they were last decoded; an epoch's noise is larger the more measurements one
change can touch in it, so that a change costs the same in every epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import count
from math import sqrt
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from tidegauge.errors import SpecError
from tidegauge.mechanism.exposure import most_changes, over_cases, spread
from tidegauge.mechanism.strategies.hierarchy import Hierarchy
from tidegauge.mechanism.strategies.toeplitz import Toeplitz
from tidegauge.mechanism.strategy import Exposure, Row, Strategy, StrategyKind, says

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from numpy.typing import NDArray

    from tidegauge.mechanism.exposure import Flow
    from tidegauge.mechanism.search.task import Search
    from tidegauge.theory.paths.path import BinCase
    from tidegauge.theory.sensitivity import Sensitivity

    Floats = NDArray[np.float64]

_LONGEST: Final = 8192
"""Epochs do not grow beyond: rows of the square root would grow with them."""


@dataclass(frozen=True)
class Epochs(Strategy):
    """Epochs of `start` bins, as many again, twice as many, ...: square roots (branching 0) or trees."""

    name: ClassVar[str] = "epochs"

    start: int
    branching: int = 0
    pure: bool = False
    """Whether noise grows for the L1 norm (Laplace) or the L2 norm (Gaussian)."""

    def __post_init__(self) -> None:
        if not 1 <= self.start <= _LONGEST or self.start & (self.start - 1) or self.branching in {-1, 1}:
            raise SpecError(
                "epochs begin with a power of two of bins, and branch in two or more or not at all"
            )

    @property
    def parameters(self) -> dict[str, int | float | str]:
        """The strategy of each epoch."""
        return {"start": self.start, "branching": self.branching, "pure": int(self.pure)}

    @cached_property
    def _lengths(self) -> list[int]:
        """Of the epochs, until they no longer grow."""
        lengths = [self.start]
        while sum(lengths) <= _LONGEST:
            lengths.append(sum(lengths))
        return lengths

    @cached_property
    def _inner(self) -> list[Strategy]:
        """The strategy of each epoch, on its own bins."""
        if not self.branching:
            return [Toeplitz("root", length) for length in self._lengths]
        found: list[Strategy] = []
        for length in self._lengths:
            height = next(h for h in range(1, 64) if self.branching**h > length)
            found.append(Hierarchy(self.branching, height, length, load="leaf"))
        return found

    @property
    def denominator(self) -> int:
        """Of the longest epoch's coefficients."""
        return self._inner[-1].denominator

    def _sizes(self, power: int) -> list[Fraction]:
        """What one change by 1 adds up to in each epoch, in L1 or squared L2."""
        if self.branching:
            return [Fraction(inner.height) for inner in self._inner if isinstance(inner, Hierarchy)]
        series = [inner.coefficients.tolist() for inner in self._inner if isinstance(inner, Toeplitz)]
        return [Fraction(sum(a**power for a in found), found[0] ** power) for found in series]

    @cached_property
    def scales(self) -> tuple[Fraction, ...]:
        """Of each epoch, the last for all later ones."""
        sizes = self._sizes(1 if self.pure else 2)
        shares = [float(size / sizes[0]) for size in sizes]
        return tuple(Fraction(round(1024 * (share if self.pure else sqrt(share))), 1024) for share in shares)

    def _epochs(self, through: int) -> Iterator[tuple[int, int]]:
        """(which length, first bin) of every epoch that has begun."""
        start = 0
        for epoch in count():
            if start > through:
                return
            which = min(epoch, len(self._lengths) - 1)
            yield which, start
            start += self._lengths[which]

    def rows(self, bin_: int) -> tuple[Row, ...]:
        """What the epoch's strategy measures, with the epoch as its layer."""
        *_, (epoch, start) = self._epochs(bin_)
        inner = self._inner[epoch]
        finer = self.denominator // inner.denominator
        return tuple(
            Row(
                epoch,
                bin_,
                tuple((first + start, last + start, weight * finer) for first, last, weight in row.ranges),
            )
            for row in inner.rows(bin_ - start)
        )

    def weights(self, bin_: int, span: int | None) -> Floats:
        """Every epoch by itself."""
        return self.smoothed(bin_, span, through=bin_)

    def smoothed(self, bin_: int, span: int | None, *, through: int) -> Floats:
        """Every epoch by itself, from all of its rows so far."""
        first = 0 if span is None else max(bin_ - span + 1, 0)
        parts = []
        for epoch, start in self._epochs(through):
            inner, end = self._inner[epoch], start + self._lengths[epoch] - 1
            seen, last = min(through, end) - start, min(bin_, end) - start
            inside = None if first <= start else last - (first - start) + 1
            if start <= bin_ and (inside is None or inside > 0):
                part = inner.smoothed(last, inside, through=seen)
            else:
                part = np.zeros_like(inner.smoothed(seen, None, through=seen))
            parts.append(part * inner.denominator / self.denominator)
        return np.concatenate(parts)

    def needed_from(self, bin_: int) -> int:
        """What the epoch's strategy needs, or nothing after its last bin."""
        *_, (epoch, start) = self._epochs(max(bin_, 0))
        if bin_ == start + self._lengths[epoch] - 1:
            return bin_ + 1
        return start + self._inner[epoch].needed_from(bin_ - start)

    def layers(self, through: int) -> NDArray[np.int64]:
        """Which epoch's noise each row has."""
        found = []
        for epoch, start in self._epochs(through):
            last = min(through - start, self._lengths[epoch] - 1)
            found.append(np.full(len(self._inner[epoch].layers(last)), epoch))
        return np.concatenate(found)

    def variances(self, bins: NDArray[np.int64], span: int | None) -> Floats:
        """In closed form for running values: the sums of past epochs, and the current one."""
        if span is not None:
            return super().variances(bins, span)
        found, past = np.zeros(len(bins)), 0.0
        for epoch, start in self._epochs(int(bins.max())):
            inner, last = self._inner[epoch], self._lengths[epoch] - 1
            noise = (float(self.scales[epoch]) * inner.denominator / self.denominator) ** 2
            inside = (start <= bins) & (bins <= start + last)
            if inside.any():
                found[inside] = past + noise * inner.variances(bins[inside] - start, None)
            past += noise * float(inner.variances(np.array([last]), None)[0])
        return found

    def sensitivity(self, exposure: Exposure) -> Sensitivity:
        """One change after the other: in no epoch do several add up to more than each by itself."""
        S, M = spread(exposure)
        one, two = (
            max(size / scale**power for size, scale in zip(self._sizes(power), self.scales, strict=True))
            * self.denominator**power
            for power in (1, 2)
        )

        def stock(case: BinCase) -> tuple[Fraction, Fraction]:
            later = most_changes(case, None) - 1
            if exposure.grouped:
                return (1 + 2 * later) * M * one, (1 + 2 * later) * S * M * two
            return (M + later * S) * one, (M**2 + later * S**2) * two

        def flow(counts: Flow) -> tuple[Fraction, Fraction]:
            return counts.total * M * one, (counts.total * M) ** 2 * two

        return over_cases(exposure, stock=stock, flow=flow)


def _candidates(search: Search) -> Iterator[Epochs]:
    if search.schedule.bins is None and search.schedule.span is None:
        yield Epochs(64, branching=8, pure=True) if search.pure else Epochs(64)


def _read(parameters: dict[str, Any], attachments: Mapping[str, str]) -> Epochs:
    del attachments
    return Epochs(**(parameters | {"pure": bool(parameters["pure"])}))


KIND: Final = StrategyKind(
    Epochs, says("starts again in periods of doubling length"), _candidates, fixed={}, read=_read
)
