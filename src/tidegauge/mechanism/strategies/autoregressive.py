"""The default for long running values with Laplace noise: fading noise, and shared noise.

The published value is s + N + X.  N[t] = b N[t-1] + fresh noise.  X is the shared noise, which is drawn once
and never published.  A shift of X by half the range of a row turns the values 0 and 1 into -1/2 and +1/2.  A
bin without a change then costs (1 - b) / 2, and a bin with a change costs (1 + b) / 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import exp, log, sqrt
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from tidegauge.errors import SpecError
from tidegauge.mechanism.decoding.kernel import Kernel
from tidegauge.mechanism.decoding.sums import Levels
from tidegauge.mechanism.decoding.windows import Decoding
from tidegauge.mechanism.exposure import in_grid_units, over_cases, spread
from tidegauge.mechanism.strategy import (
    Exposure,
    Row,
    Strategy,
    StrategyKind,
    refuse_sum_before,
    refuse_windows_before,
    says,
)
from tidegauge.theory.paths.autoregressive import AutoregressiveRows, autoregressive_paths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tidegauge.mechanism.decoding.windows import Windows
    from tidegauge.mechanism.exposure import Flow
    from tidegauge.mechanism.search.task import Search, Task
    from tidegauge.mechanism.strategy import Recorded
    from tidegauge.theory.paths.path import BinCase
    from tidegauge.theory.sensitivity import Sensitivity

    Floats = NDArray[np.float64]

_MEMORY: Final = 1 << 16
"""The memory b is a whole multiple of 1/65536 ..."""
_FINER: Final = 1 << 8
"""... and shared noise a whole multiple of 1/256 of a grid unit."""
_LONGEST: Final = 1 << 17
"""Most bins for which the sensitivity is computed in about a second."""


@dataclass(frozen=True)
class Autoregressive(Strategy):
    """One row per bin: the running value minus b times the previous running value.

    memory:        b, in 65536ths
    shared_noise:  the scale of the shared noise; 0: there is none
    """

    name: ClassVar[str] = "autoregressive"

    bins: int
    memory: int
    shared_noise: Fraction
    first: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.memory <= _MEMORY or self.shared_noise < 0 or self.bins <= self.first:
            raise SpecError("memory must lie between 0 and 65536, and shared_noise must be 0 or more")

    @property
    def parameters(self) -> dict[str, int | float | str]:
        """Bins, memory and shared noise; exact."""
        return {
            "bins": self.bins,
            "memory": self.memory,
            "shared_noise": str(self.shared_noise),
            "first": self.first,
        }

    @property
    def denominator(self) -> int:
        """2^24."""
        return _MEMORY * _FINER

    @property
    def shared(self) -> Fraction | None:
        """The scale in 256ths of a grid unit; rows are in units of 2^-24."""
        return self.shared_noise / _MEMORY if self.shared_noise else None

    @property
    def _memory(self) -> Fraction:
        return Fraction(self.memory, _MEMORY)

    def rows(self, bin_: int) -> tuple[Row, ...]:
        """The running value after this bin minus b times that before it, both with the shared noise."""
        age = bin_ - self.first
        if age < 0:
            return ()
        forgotten = (_MEMORY - self.memory) if age else _MEMORY
        past = ((self.first, bin_ - 1, forgotten * _FINER),) if age and forgotten else ()
        return (
            Row(
                0, age, (*past, (bin_, bin_, self.denominator)), shared=forgotten if self.shared_noise else 0
            ),
        )

    def weights(self, bin_: int, span: int | None) -> Floats:
        """Powers of b by the age of a row."""
        age = bin_ - self.first
        found = float(self._memory) ** np.arange(age, -1, -1.0)
        if span is not None and span <= age:
            found[: age - span + 1] -= float(self._memory) ** np.arange(age - span, -1, -1.0)
        else:
            refuse_sum_before(self.first, bin_, span)
        return found / self.denominator

    def decoding(self, cells: int) -> Decoding:
        """Each running value follows from the one before."""
        return _Fading(self, cells)

    def kernel(self, count: int) -> Floats:
        """The weights of the rows in a running value by age."""
        found: Floats = float(self._memory) ** np.arange(count, dtype=np.float64) / self.denominator
        return found

    @cached_property
    def _kernel(self) -> Kernel:
        return Kernel(self.kernel, self.first)

    def powers(self, windows: Windows, power: int) -> Floats:
        """Sums over powers of b, for all windows at once."""
        refuse_windows_before(self.first, windows)
        return self._kernel.powers(windows, power)[:, None]

    def equal(self, windows: Windows) -> NDArray[np.int64]:
        """As many as there are rows, if b is 0 or 1."""
        return self._kernel.equal(windows)

    def shared_weights(self, windows: Windows) -> Floats:
        """The shared noise is in a running value once, in multiples of 1/256, and cancels in a change."""
        whole = (windows.after < self.first) & (self.shared is not None)
        return np.where(whole, 1 / _FINER, 0.0)

    def sensitivity(self, exposure: Exposure) -> Sensitivity:
        """L1: exact, for the best shift of the shared noise (none with groups).  L2: an upper bound.

        Shared noise is a multiple of 1/256 of a grid unit.  A finer grid only adds more possible shifts.
        """
        S, M = spread(exposure)
        b, bins = self._memory, self.bins - self.first
        shift = None if exposure.grouped or not self.shared_noise else 1 / self.shared_noise
        domain = in_grid_units(exposure, self.first)

        def most(case: BinCase, shift: Fraction | None) -> Fraction:
            rows = AutoregressiveRows(b, shift, bins, Fraction(1, _FINER))
            return autoregressive_paths(rows, case=case, domain=domain)

        def stock(case: BinCase) -> tuple[Fraction, Fraction]:
            return self._both(most(case, shift), most(case, None), 2 * S)

        def flow(counts: Flow) -> tuple[Fraction, Fraction]:
            largest = counts.total * M
            total = largest * (1 + (bins - 1) * (1 - b))
            return self._both(total, total, largest)

        return over_cases(exposure, stock=stock, flow=flow)

    def _both(self, l1: Fraction, total: Fraction, largest: Fraction) -> tuple[Fraction, Fraction]:
        """L1, and a bound on squared L2: the largest change of a row times the total of all changes."""
        return l1 * self.denominator, total * largest * self.denominator**2


class _Fading(Decoding):
    """N[t] = b N[t-1] + row[t]."""

    def __init__(self, strategy: Autoregressive, cells: int) -> None:
        self._levels, self._unit = Levels(strategy.first, cells), strategy.denominator
        self._memory = float(Fraction(strategy.memory, _MEMORY))

    def add(self, rows: Floats) -> None:
        """The next running values."""
        level, found = self._levels.last, rows / self._unit
        for at in range(len(found)):
            found[at] += self._memory * level
            level = found[at]
        self._levels.add(found)

    def sums(self, windows: Windows) -> Floats:
        """A running value, or the difference of two."""
        return self._levels.sums(windows)


@lru_cache(maxsize=64)
def _tuned(task: Task) -> Autoregressive:
    """The memory and shared noise with the least error; no shared noise if there are groups."""
    from tidegauge.mechanism.search import tune  # noqa: PLC0415  (it tunes strategies of this folder)

    bins, first = task.schedule.bins, task.schedule.base
    assert bins is not None
    target, domain = tune.Target.of(task.schedule, worst=task.worst), task.domain
    count, grouped = bins - first, domain.groups > 1
    changes = max(case.within(count)[0] for case in task.cases)
    apart, middle = domain.high + domain.low, abs(domain.high - domain.low) / 2

    def strategy(at: Floats) -> Autoregressive:
        memory = round((1 - exp(min(at[0], -0.05))) * 2**16)
        shared = Fraction(0) if grouped else Fraction(max(round(exp(min(at[1], 8.0)) * 256), 1), 256)
        return Autoregressive(bins, memory, shared, first)

    def value(at: Floats) -> float:
        found = strategy(at)
        level = target.judged(found.variances(target.bins, target.span)) * float(found.denominator) ** 2
        b, shared = found.memory / 2**16, float(found.shared_noise)
        later = min(changes, count - 1)
        size = 1 + later * (1 + b) + (count - 1 - later) * (1 - b)
        return sqrt(level) * (size if grouped else apart * size / 2 + middle / shared)

    start = [log(min(0.6, 2 * changes / count)), log(1.0 if target.span is None else 50.0)]
    return strategy(tune.nelder_mead(value, start, [1.0, 0.7], 60))


def _candidates(search: Search) -> Iterator[Autoregressive]:
    bins = search.schedule.bins
    if search.pure and bins is not None and bins - search.schedule.base <= _LONGEST:
        yield _tuned(search.task)


def _read(recorded: Recorded) -> Autoregressive:
    """From recorded parameters; in older records `shared_noise` is called `veil`."""
    parameters = dict(recorded.parameters)
    known = [parameters.pop(name) for name in ("shared_noise", "veil") if name in parameters]
    if len(known) != 1:
        raise SpecError("an autoregressive strategy needs the parameter shared_noise, and only once")
    return Autoregressive(**parameters, shared_noise=Fraction(known[0]))


KIND: Final = StrategyKind(
    Autoregressive,
    says("lets each error fade into the next, behind shared noise that is never published"),
    _candidates,
    fixed={"bins": "bins", "first": "base"},
    read=_read,
)
