"""Running values without an end: a new strategy for a finite time starts whenever the time has doubled.

The estimated sum of a past epoch does not change any more.  Longer epochs have more noise, so that a change
costs the same privacy loss in every epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import count
from math import sqrt
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np

from tidegauge.errors import SpecError
from tidegauge.mechanism.decoding.weighted import LayerTerms, equal_by_powers, merged
from tidegauge.mechanism.decoding.windows import Decoding, Windows
from tidegauge.mechanism.exposure import most_changes, over_cases, spread
from tidegauge.mechanism.strategies.hierarchy import Hierarchy
from tidegauge.mechanism.strategies.toeplitz import Toeplitz
from tidegauge.mechanism.strategy import Exposure, Row, Strategy, StrategyKind, says

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tidegauge.mechanism.decoding.weighted import Terms
    from tidegauge.mechanism.exposure import Flow
    from tidegauge.mechanism.search.task import Search
    from tidegauge.mechanism.strategy import Recorded
    from tidegauge.theory.paths.path import BinCase
    from tidegauge.theory.sensitivity import Sensitivity

    Floats = NDArray[np.float64]

_LONGEST: Final = 8192
"""Longest epoch, in bins: the rows of the square root grow with the epoch."""


class Part(NamedTuple):
    """What one epoch has of some windows."""

    number: int
    epoch: int
    """The index of its length."""
    inner: Strategy
    where: NDArray[np.intp]
    """The places of the windows that it has a part of."""
    windows: Windows
    """Their parts, on the epoch's own bins."""


@dataclass(frozen=True)
class Epochs(Strategy):
    """Epochs of n, n, 2n, 4n, ... bins, n = `start`: square roots (branching 0) or trees."""

    name: ClassVar[str] = "epochs"

    start: int
    branching: int = 0
    pure: bool = False
    """Whether the noise of epochs is scaled for the L1 norm (Laplace) or the L2 norm (Gaussian)."""

    def __post_init__(self) -> None:
        if not 1 <= self.start <= _LONGEST or self.start & (self.start - 1) or self.branching in {-1, 1}:
            raise SpecError("start must be a power of two, and branching 0 (none), or 2 or more")

    @property
    def parameters(self) -> dict[str, int | float | str]:
        """The first length, the branching, and the norm."""
        return {"start": self.start, "branching": self.branching, "pure": int(self.pure)}

    @cached_property
    def _lengths(self) -> list[int]:
        """The lengths of the epochs; the last length repeats."""
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
        """The denominator of the longest epoch."""
        return self._inner[-1].denominator

    def _sizes(self, power: int) -> list[Fraction]:
        """L1 (power 1) or squared L2 (power 2) of a change by 1 in each epoch."""
        if self.branching:
            return [Fraction(inner.height) for inner in self._inner if isinstance(inner, Hierarchy)]
        series = [inner.coefficients.tolist() for inner in self._inner if isinstance(inner, Toeplitz)]
        return [Fraction(sum(a**power for a in found), found[0] ** power) for found in series]

    @cached_property
    def scales(self) -> tuple[Fraction, ...]:
        """The scale of each epoch; the last is for all later epochs."""
        sizes = self._sizes(1 if self.pure else 2)
        shares = [float(size / sizes[0]) for size in sizes]
        return tuple(Fraction(round(1024 * (share if self.pure else sqrt(share))), 1024) for share in shares)

    def _epochs(self, through: int) -> Iterator[tuple[int, int]]:
        """(index of its length, first bin) of every epoch that has started by bin `through`."""
        start = 0
        for epoch in count():
            if start > through:
                return
            which = min(epoch, len(self._lengths) - 1)
            yield which, start
            start += self._lengths[which]

    def epoch(self, number: int) -> tuple[Strategy, int]:
        """The strategy of an epoch, and how many rows it has."""
        which = min(number, len(self._lengths) - 1)
        inner = self._inner[which]
        return inner, len(inner.layers(self._lengths[which] - 1))

    def rows(self, bin_: int) -> tuple[Row, ...]:
        """The rows of the epoch's strategy; their layer is the epoch."""
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
        """Each epoch is decoded separately."""
        return self.smoothed(bin_, span, through=bin_)

    def smoothed(self, bin_: int, span: int | None, *, through: int) -> Floats:
        """Each epoch is decoded separately, from all its rows so far."""
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
        """The first bin that the epoch's strategy needs; the next bin after the end of an epoch."""
        *_, (epoch, start) = self._epochs(max(bin_, 0))
        if bin_ == start + self._lengths[epoch] - 1:
            return bin_ + 1
        return start + self._inner[epoch].needed_from(bin_ - start)

    def layers(self, through: int) -> NDArray[np.int64]:
        """The epoch of every row."""
        found = []
        for epoch, start in self._epochs(through):
            last = min(through - start, self._lengths[epoch] - 1)
            found.append(np.full(len(self._inner[epoch].layers(last)), epoch))
        return np.concatenate(found)

    def decoding(self, cells: int) -> Decoding:
        """Each epoch is decoded separately."""
        return _Parts(self, cells)

    def parts(self, windows: Windows) -> Iterator[Part]:
        """The windows that each epoch has a part of, as windows on the bins of its own strategy."""
        for number, (epoch, start) in enumerate(self._epochs(int(max(windows.last, default=-1)))):
            end = start + self._lengths[epoch] - 1
            where = np.flatnonzero((windows.last >= start) & (windows.after < end))
            some = windows.at(where)
            inside = Windows(
                np.maximum(some.after - start, -1),
                np.minimum(some.last, end) - start,
                np.minimum(some.through, end) - start,
            )
            yield Part(number, epoch, self._inner[epoch], where, inside)

    def powers(self, windows: Windows, power: int) -> Floats:
        """Sums over the epochs, for all windows at once."""
        found = np.zeros((len(windows), len(self.scales)))
        for part in self.parts(windows):
            finer = (part.inner.denominator / self.denominator) ** power
            found[part.where, part.epoch] += part.inner.powers(part.windows, power).sum(axis=1) * finer
        return found

    def terms(self, windows: Windows, at: int) -> Terms:
        """Those of the epochs; epochs of one length have one layer."""
        parts = [
            LayerTerms(part.epoch, some.sizes * (part.inner.denominator / self.denominator), some.counts)
            for part in self.parts(windows.at(slice(at, at + 1)))
            if len(part.where)
            for some in part.inner.terms(part.windows, 0)
        ]
        return merged(parts)

    def equal(self, windows: Windows) -> NDArray[np.int64]:
        """Looked at one by one where the powers allow it."""
        return equal_by_powers(self, windows)

    def sensitivity(self, exposure: Exposure) -> Sensitivity:
        """The sum over changes: within an epoch, several changes never cost more than each change alone."""
        S, M = spread(exposure)
        one, two = (
            max(size / scale**power for size, scale in zip(self._sizes(power), self.scales, strict=True))
            * self.denominator**power
            for power in (1, 2)
        )

        def stock(case: BinCase) -> tuple[Fraction, Fraction]:
            later = most_changes(case, exposure.schedule.bins) - 1
            if exposure.grouped:
                return (1 + 2 * later) * M * one, (1 + 2 * later) * S * M * two
            return (M + later * S) * one, (M**2 + later * S**2) * two

        def flow(counts: Flow) -> tuple[Fraction, Fraction]:
            return counts.total * M * one, (counts.total * M) ** 2 * two

        return over_cases(exposure, stock=stock, flow=flow)


class _Parts(Decoding):
    """One decoding for each epoch."""

    def __init__(self, strategy: Epochs, cells: int) -> None:
        self._strategy, self._cells = strategy, cells
        self._kept: list[Decoding] = []
        self._open = 0
        """How many rows are missing in the last epoch."""

    def add(self, rows: Floats) -> None:
        """Each epoch takes its rows."""
        while len(rows):
            if not self._open:
                inner, self._open = self._strategy.epoch(len(self._kept))
                self._kept.append(inner.decoding(self._cells))
            self._kept[-1].add(rows[: self._open])
            self._open, rows = max(self._open - len(rows), 0), rows[self._open :]

    def sums(self, windows: Windows) -> Floats:
        """Added up over the epochs."""
        found = np.zeros((len(windows), self._cells))
        for part in self._strategy.parts(windows):
            finer = part.inner.denominator / self._strategy.denominator
            found[part.where] += self._kept[part.number].sums(part.windows) * finer
        return found


def _candidates(search: Search) -> Iterator[Epochs]:
    if search.schedule.bins is None and search.schedule.span is None:
        yield Epochs(64, branching=8, pure=True) if search.pure else Epochs(64)


def _read(recorded: Recorded) -> Epochs:
    return Epochs(**{**recorded.parameters, "pure": bool(recorded.parameters["pure"])})


KIND: Final = StrategyKind(
    Epochs, says("starts again in periods of doubling length"), _candidates, fixed={}, read=_read
)
