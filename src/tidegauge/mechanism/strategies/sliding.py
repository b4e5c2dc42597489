"""A sliding-window release: each window that is read is measured as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from tidegauge.errors import SpecError
from tidegauge.mechanism.decoding.sums import Growing
from tidegauge.mechanism.decoding.windows import Decoding
from tidegauge.mechanism.exposure import domain, over_cases, spread
from tidegauge.mechanism.strategy import Exposure, Row, Strategy, StrategyKind, says
from tidegauge.theory.joint import joint
from tidegauge.theory.paths.gram import row_paths
from tidegauge.theory.sensitivity import Sensitivity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tidegauge.mechanism.decoding.windows import Windows
    from tidegauge.mechanism.exposure import Flow
    from tidegauge.mechanism.search.task import Search
    from tidegauge.model.schedule import Schedule
    from tidegauge.theory.paths.path import BinCase


_SHORT: Final = 12
"""Most readings for which all paths may be tried."""


@dataclass(frozen=True)
class Sliding(Strategy):
    """The last `span` bins, every `stride` bins from bin `span` on; `readings` of them (None: no end)."""

    name: ClassVar[str] = "sliding"

    span: int
    stride: int
    readings: int | None

    def __post_init__(self) -> None:
        if self.span < 1 or self.stride < 1:
            raise SpecError("span and stride must be 1 or more")

    @classmethod
    def of(cls, schedule: Schedule) -> Sliding:
        """The strategy for the windows of this schedule.  Raises SpecError if they do not slide."""
        if schedule.span is None or not schedule.sliding:
            raise SpecError(
                "this schedule has no sliding window: give the release a window longer than 'every'"
            )
        return cls(schedule.span, schedule.stride, schedule.count)

    @property
    def parameters(self) -> dict[str, int | float | str]:
        """Span and stride in bins, and the number of readings."""
        return {
            "span": self.span,
            "stride": self.stride,
            "readings": "ever" if self.readings is None else self.readings,
        }

    def _reading(self, bin_: int) -> int | None:
        reading, rest = divmod(bin_ - self.span, self.stride)
        outside = reading < 0 or (self.readings is not None and reading >= self.readings)
        return None if rest or outside else reading

    def rows(self, bin_: int) -> tuple[Row, ...]:
        """The window that ends with this bin, if there is one."""
        reading = self._reading(bin_)
        return () if reading is None else (Row(0, reading, ((bin_ - self.span + 1, bin_, 1),)),)

    def needed_from(self, bin_: int) -> int:
        """The first bin of the next window."""
        return max(-(-(bin_ + 1 - self.span) // self.stride), 0) * self.stride + 1

    def weights(self, bin_: int, span: int | None) -> NDArray[np.float64]:
        """Weight 1 for the window itself; other windows are not used."""
        reading = self._reading(bin_)
        if reading is None or span != self.span:
            raise SpecError(
                "a sliding strategy answers for the windows of its own release alone: choose another strategy"
            )
        return np.append(np.zeros(reading), 1.0)

    def decoding(self, cells: int) -> Decoding:
        """The rows are the windows."""
        return _Rows(self, cells)

    def powers(self, windows: Windows, power: int) -> NDArray[np.float64]:
        """One weight, 1."""
        del power
        return self.equal(windows).astype(np.float64)[:, None]

    def equal(self, windows: Windows) -> NDArray[np.int64]:
        """One row for every window."""
        return np.ones_like(self.numbers(windows))

    def numbers(self, windows: Windows) -> NDArray[np.int64]:
        """The row of each window.  Raises SpecError unless all are measured windows."""
        numbers, rests = np.divmod(windows.last - self.span, self.stride)
        outside = (numbers < 0) | (rests != 0) | (windows.last - windows.after != self.span)
        if self.readings is not None:
            outside |= numbers >= self.readings
        if outside.any():
            raise SpecError(
                "a sliding strategy answers for the windows of its own release alone: choose another strategy"
            )
        return numbers

    def sensitivity(self, exposure: Exposure) -> Sensitivity:
        """One unit changes at most as many windows as T3 says."""
        seen = -(-self.span // self.stride)

        def both(
            folds: int, mutations: int | None = None, clip: int | None = None
        ) -> tuple[Fraction, Fraction]:
            found = joint(
                folds=folds,
                kind=exposure.kind,
                lower=exposure.lower,
                upper=exposure.upper,
                grouped=exposure.grouped,
                mutations=mutations,
                clip=clip,
                firsts=0,
                seen=seen,
            )
            return found.l1, found.l2_squared

        def folds(changes: int | None, bins: int | None) -> int:
            most = [
                self.readings,
                changes and changes * seen,
                bins and -(-(bins - 1 + self.span) // self.stride),
            ]
            return min(count for count in most if count is not None)

        def stock(case: BinCase) -> tuple[Fraction, Fraction]:
            found = both(folds(*case))
            exact = self._every_path(exposure, case)
            return found if exact is None else (min(found[0], exact[0]), min(found[1], exact[1]))

        def flow(counts: Flow) -> tuple[Fraction, Fraction]:
            return both(
                folds(counts.total, counts.bins), counts.total, min(counts.total, counts.each * self.span)
            )

        return over_cases(exposure, stock=stock, flow=flow)

    def _every_path(self, exposure: Exposure, case: BinCase) -> tuple[Fraction, Fraction] | None:
        """The exact sensitivity of a release so short that all paths can be tried; None for others."""
        if self.readings is None or self.readings > _SHORT:
            return None
        ages = np.arange(self.span + (self.readings - 1) * self.stride)
        starts = self.stride * np.arange(self.readings)[:, None]
        rows = ((starts <= ages) & (ages < starts + self.span)).astype(np.float64)
        found = row_paths(rows, case=case, domain=domain(exposure, 1))
        _, M = spread(exposure)
        return None if found is None else (M * Fraction(found[0]), M**2 * Fraction(found[1]))


class _Rows(Decoding):
    """Keeps the rows."""

    def __init__(self, strategy: Sliding, cells: int) -> None:
        self._strategy, self._rows = strategy, Growing(cells)

    def add(self, rows: NDArray[np.float64]) -> None:
        """Keep the rows."""
        self._rows.add(rows)

    def sums(self, windows: Windows) -> NDArray[np.float64]:
        """The row of each window."""
        found: NDArray[np.float64] = self._rows.values[self._strategy.numbers(windows)]
        return found


def _candidates(search: Search) -> Iterator[Sliding]:
    if search.schedule.sliding:
        yield Sliding.of(search.schedule)


KIND: Final = StrategyKind(
    Sliding,
    says("measures each window that is read, as a whole"),
    _candidates,
    fixed={"span": "span", "stride": "stride", "readings": "count"},
)
