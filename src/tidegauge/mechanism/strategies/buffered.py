"""An approximation of the damped strategy from a few integers per cell; for long releases.

The effect of a change on later rows is a mixture of exponentials.  A row can therefore be computed from a few
leaky sums of the changes (buffers.py), without past bins.  One more number removes the shared offset.
Mixtures of exponentials fall and are convex, as the bounds of T10 require.  T13 bounds the rounding errors of
fixed-point arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import sqrt
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from tidegauge.errors import SpecError
from tidegauge.mechanism.decoding.kernel import Convolved, Kernel
from tidegauge.mechanism.decoding.windows import Decoding
from tidegauge.mechanism.exposure import most_changes, over_cases, root_above, spread, square_of, stock_square
from tidegauge.mechanism.strategies import shapes
from tidegauge.mechanism.strategies.buffers import BILLION, BITS, GAIN, MILLION, SHAPE, Buffers
from tidegauge.mechanism.strategy import (
    Row,
    Strategy,
    StrategyKind,
    refuse_sum_before,
    refuse_windows_before,
    says,
)
from tidegauge.theory.paths.toeplitz import toeplitz_paths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tidegauge.mechanism.decoding.windows import Windows
    from tidegauge.mechanism.exposure import Flow
    from tidegauge.mechanism.search.task import Search, Task
    from tidegauge.mechanism.strategy import Exposure
    from tidegauge.theory.paths.path import BinCase, Domain
    from tidegauge.theory.sensitivity import Sensitivity

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

LONGEST: Final = 1 << 17
"""Most bins for which the sensitivity is certified in about a second."""
_TRIED: Final = 20_000
"""Most bins for which two changes are tried pair by pair; beyond, the bound for more changes is used."""
_MOST_BUFFERS: Final = 32
_EARLY: Final = 4
"""Rows after which the weights of a strategy with an offset differ."""


@dataclass(frozen=True)
class Buffered(Strategy):
    """Weighted leaky sums of the changes, minus the best estimate of a shared offset.

    buffers: "weight:forgets ...".  Weights (multiples of a millionth) add up to 1; each bin removes the part
             `forgets` of a buffer (a multiple of a billionth; 0 forgets nothing, 1 everything).
    offset:  the variance of the shared offset, over that of a row's noise.
    """

    name: ClassVar[str] = "buffered"

    bins: int
    buffers: str
    offset: float
    first: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.bins - self.first <= LONGEST:
            raise SpecError(f"bins must be at most {LONGEST}")
        if not (self.offset == 0 or 1e-9 <= self.offset <= 1e9):  # false also for NaN
            raise SpecError("offset must be 0, or lie between 1e-9 and 1e9")
        weights, forgets = self._parts
        if not 0 < len(weights) <= _MOST_BUFFERS or min(weights) <= 0 or sum(weights) != MILLION:
            raise SpecError(
                f"buffers must be at most {_MOST_BUFFERS}, with weights above 0 that add up to exactly 1"
            )
        if not (min(forgets) >= 0 and max(forgets) <= BILLION):
            raise SpecError("buffers: the second number of each pair must lie between 0 and 1")

    @cached_property
    def _parts(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        try:
            parts = [part.split(":") for part in self.buffers.split()]
            found = [(Fraction(weight) * MILLION, Fraction(forgets) * BILLION) for weight, forgets in parts]
        except (AttributeError, ValueError, ArithmeticError):
            raise SpecError(
                "buffers must be pairs 'weight:forgets' with blanks between them, such as '0.6:1 0.4:0.05'"
            ) from None
        if any(number.denominator != 1 for part in found for number in part):
            raise SpecError("buffers: weights have at most 6 decimals, and the second numbers at most 9")
        return tuple(int(weight) for weight, _ in found), tuple(int(forgets) for _, forgets in found)

    @property
    def parameters(self) -> dict[str, int | float | str]:
        """The buffers and the offset."""
        return {"bins": self.bins, "first": self.first, "offset": self.offset, "buffers": self.buffers}

    @property
    def denominator(self) -> int:
        """2^24."""
        return 1 << BITS

    @cached_property
    def stream(self) -> Buffers:
        """The buffers and the estimate of the offset."""
        weights, forgets = self._parts
        return Buffers(weights, forgets, Fraction(self.offset), self.bins, self.first)

    def needed_from(self, bin_: int) -> int:
        """The next bin: the stream state replaces all measured bins."""
        return bin_ + 1

    @cached_property
    def _units(self) -> Integers:
        """The effect of a change by 1 on later rows, in units of 2^-48; exactly falling and convex."""
        weights, forgets = (
            np.array(part) / whole for part, whole in zip(self._parts, (MILLION, BILLION), strict=True)
        )
        ages = np.arange(self.bins - self.first - 1)
        falls = np.zeros(len(ages))
        for weight, forgotten in zip(weights, forgets, strict=True):
            falls += weight * forgotten * (1 - forgotten) ** ages
        whole = np.minimum.accumulate(np.rint(falls * 2**SHAPE).astype(np.int64))
        found: Integers = (1 << SHAPE) - np.concatenate([[0], np.cumsum(whole)])
        return found - min(int(found[-1]), 0)

    @cached_property
    def shape(self) -> Floats:
        """The same as floats, for which the sensitivity is certified."""
        found: Floats = self._units / 2**SHAPE
        return found

    @cached_property
    def _noise(self) -> Floats:
        """The effect of the noise of a row on later running values."""
        return shapes.inverse(np.diff(self.shape, prepend=0.0))

    @cached_property
    def _before(self) -> Floats:
        """The precision of the offset before each row and after the last, relative to that at the start."""
        return np.concatenate([[1.0], 1 + self.offset * np.cumsum(self.shape**2)])

    def rows(self, bin_: int) -> tuple[Row, ...]:
        """The linear map of the stream, rounded to integers."""
        age = bin_ - self.first
        if age < 0:
            return ()
        a, before = self.shape[: age + 1], self._before
        learned = np.zeros(age + 1)
        if age:
            learned[:age] = shapes.convolve(
                np.concatenate([a[:age], np.zeros(age)]), np.concatenate([a[age - 1 :: -1], np.zeros(age)])
            )[age - 1 : 2 * age - 1]
        new = a[::-1] - self.offset * a[-1] / before[age] * learned
        weights = np.rint(new * sqrt(before[age] / before[age + 1]) * self.denominator).astype(np.int64)
        ranges = ((self.first + i, self.first + i, weight) for i, weight in enumerate(weights.tolist()))
        return (Row(0, age, tuple(one for one in ranges if one[2])),)

    def layers(self, through: int) -> Integers:
        """All alike."""
        return np.zeros(max(through - self.first + 1, 0), dtype=np.int64)

    def weights(self, bin_: int, span: int | None) -> Floats:
        """By the inverse series.  Every row also improves the estimate of the offset."""
        refuse_sum_before(self.first, bin_, span)
        age = bin_ - self.first
        found = self._level(age)
        if span is not None and span <= age:
            found[: age - span + 1] -= self._level(age - span)
        return found / self.denominator

    def _level(self, age: int) -> Floats:
        a, back, after = self.shape[: age + 1], self._noise[age::-1], self._before[1 : age + 2]
        later = 1 - np.cumsum(back * a)  # the running value has the offset once
        weights: Floats = (back + self.offset * a / after * later) * np.sqrt(after / self._before[: age + 1])
        return weights

    def smoothed(self, bin_: int, span: int | None, *, through: int) -> Floats:
        """Later rows have weight 0: there are as many rows as bins."""
        return np.concatenate([self.weights(bin_, span), np.zeros(through - bin_)])

    def decoding(self, cells: int) -> Decoding:
        """The offset is put back row by row; what is left is a convolution."""
        return _Freed(self, cells)

    @cached_property
    def _kernel(self) -> Kernel:
        return Kernel(lambda _: self._noise, self.first)

    def powers(self, windows: Windows, power: int) -> Floats:
        """Squares in closed form for all windows at once; other powers from the weights."""
        refuse_windows_before(self.first, windows)
        if power != 2:
            return super().powers(windows, power)
        levels = np.where(windows.after < self.first, self.offset, 0.0)
        return (self._kernel.powers(windows, 2) + levels)[:, None] / self.denominator**2

    def equal(self, windows: Windows) -> Integers:
        """Without an offset, weights depend on age alone; with one, only the first windows can be equal."""
        if not self.offset:
            return self._kernel.equal(windows)
        found = np.zeros(len(windows), dtype=np.int64)
        early = np.flatnonzero(windows.last - self.first < _EARLY)
        found[early] = super().equal(windows.at(early))
        return found

    def freed(self, age: int, row: Floats, learned: Floats) -> Floats:
        """A row without the removal of the offset.  `learned`: the sum of shape times such rows before."""
        before, after = self._before[age], self._before[age + 1]
        found: Floats = row * sqrt(after / before) + self.offset * self.shape[age] / before * learned
        return found

    def noise(self, count: int) -> Floats:
        """The weights of such rows in a running value by age."""
        return self._noise[:count]

    def sensitivity(self, exposure: Exposure) -> Sensitivity:
        """The bound of the linear map, plus the effect of fixed-point rounding.  [T13]"""
        S, M = spread(exposure)
        count, stream = len(self._units), self.stream
        apart = int(np.abs(self._units - stream.shape).max()) + 1
        away = Fraction(apart, 1 << SHAPE) + stream.slack
        gains = (1 + (1 + Fraction(self.offset)) * count) / 2**GAIN

        def fixed_point(square: Fraction, moved: Fraction, cells: int) -> tuple[Fraction, Fraction]:
            """L1 and squared L2, with fixed-point rounding, from the squared L2 of the linear map."""
            exact, rows, each = root_above(square), root_above(count), root_above(cells)
            rounded = 2 * each * stream.slack + each / 2**BITS
            whole = exact * (1 + root_above(Fraction(self.offset)) * rows * away)
            whole += rows * (moved * (away + gains) + rounded + gains * 2 * cells * stream.slack)
            most = whole**2 * self.denominator**2
            return root_above(most * count * cells), most

        def stock(case: BinCase) -> tuple[Fraction, Fraction]:
            changes = most_changes(case, count) * (2 if exposure.grouped else 1)
            exact = stock_square(exposure, case, first=self.first, most=self._most)
            return fixed_point(exact, S * changes, changes if exposure.grouped else 1)

        def flow(counts: Flow) -> tuple[Fraction, Fraction]:
            most = M * counts.total
            exact = most**2 * Fraction(square_of(self._units.tolist()), 4**SHAPE)
            return fixed_point(exact, most, counts.total if exposure.grouped else 1)

        return over_cases(exposure, stock=stock, flow=flow)

    def _most(self, case: BinCase, domain: Domain) -> float:
        coarse = len(self.shape) > _TRIED
        return toeplitz_paths(self.shape, offset=self.offset, case=case, domain=domain, coarse=coarse)


class _Freed(Decoding):
    """Puts the offset back into each row, and decodes the rest as a convolution."""

    def __init__(self, strategy: Buffered, cells: int) -> None:
        self._strategy, self._age, self._learned = strategy, 0, np.zeros(cells)
        self._convolved = Convolved(strategy.noise, strategy.first, cells)

    def add(self, rows: Floats) -> None:
        """The next running values."""
        shape, found = self._strategy.shape, rows / self._strategy.denominator
        for row in found:
            row[...] = self._strategy.freed(self._age, row, self._learned)
            self._learned += shape[self._age] * row
            self._age += 1
        self._convolved.add(found)

    def sums(self, windows: Windows) -> Floats:
        """A running value, or the difference of two."""
        return self._convolved.sums(windows)


@lru_cache(maxsize=64)
def _tuned(task: Task) -> Buffered:
    from tidegauge.mechanism.search import tune  # noqa: PLC0415  (it tries buffers)

    bins, first = task.schedule.bins, task.schedule.base
    assert bins is not None
    noise, target = tune.running_noise_for(task), tune.Target.of(task.schedule, worst=task.worst)
    return tune.buffered(noise, target, task.cases, bins=bins, first=first, domain=task.domain)


def _candidates(search: Search) -> Iterator[Buffered]:
    bins = search.schedule.bins
    if not search.pure and bins is not None and bins - search.schedule.base <= LONGEST:
        yield _tuned(search.task)


KIND: Final = StrategyKind(
    Buffered,
    says("keeps a few fading sums of the past, with a shared offset, tuned to how often a unit may change"),
    _candidates,
    fixed={"bins": "bins", "first": "base"},
)
