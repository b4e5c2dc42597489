"""The running value itself, bin after bin, where constraints renew: the error never grows.  [T15]"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from tidegauge.errors import SpecError
from tidegauge.mechanism.decoding import sums
from tidegauge.mechanism.exposure import spread
from tidegauge.mechanism.strategy import Row, Strategy, StrategyKind, Stream, says
from tidegauge.theory.sensitivity import Sensitivity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tidegauge.mechanism.decoding.windows import Windows
    from tidegauge.mechanism.search.task import Search
    from tidegauge.mechanism.strategy import Exposure, Whole


class RunningSum(Stream):
    """The stream state is the running value."""

    @property
    def width(self) -> int:
        """One integer per cell."""
        return 1

    def advance(self, bin_: int, state: Whole, changes: Whole) -> tuple[Whole, Whole]:
        """Add the changes; the row is the sum."""
        del bin_
        after = state + changes
        return after, after


@dataclass(frozen=True)
class Levels(Strategy):
    """One row per bin, the sum of all bins so far."""

    name: ClassVar[str] = "levels"

    @property
    def parameters(self) -> dict[str, int | float | str]:
        """None."""
        return {}

    @property
    def plain_sums(self) -> bool:
        """A reading is a row, or the difference of two."""
        return True

    @property
    def stream(self) -> RunningSum:
        """The running value of each cell."""
        return RunningSum()

    def needed_from(self, bin_: int) -> int:
        """The next bin: the stream state replaces all measured bins."""
        return bin_ + 1

    def rows(self, bin_: int) -> tuple[Row, ...]:
        """The sum of all bins up to this one."""
        return (Row(0, bin_, ((0, bin_, 1),)),)

    def weights(self, bin_: int, span: int | None) -> NDArray[np.float64]:
        """The last row, less the row before the span."""
        weights = np.zeros(bin_ + 1)
        weights[bin_] = 1
        if span is not None and span <= bin_:
            weights[bin_ - span] = -1
        return weights

    def layers(self, through: int) -> NDArray[np.int64]:
        """Layer 0 for every row."""
        return np.zeros(through + 1, dtype=np.int64)

    def decoding(self, cells: int) -> sums.Levels:
        """The rows are the running values."""
        return sums.Levels(0, cells)

    def powers(self, windows: Windows, power: int) -> NDArray[np.float64]:
        """One row, or two."""
        del power
        return self.equal(windows).astype(np.float64)[:, None]

    def equal(self, windows: Windows) -> NDArray[np.int64]:
        """Every weight is 1 or -1."""
        return np.where(windows.after < 0, 1, 2)

    def folds(self, exposure: Exposure) -> int | None:
        """Bins that end in one term."""
        return exposure.returns_after

    def sensitivity(self, exposure: Exposure) -> Sensitivity:
        """Outside of its term a unit moves no row; inside, each by all that it contributes."""
        if exposure.returns_after is None or exposure.kind != "stock":
            raise SpecError(
                "levels need a constraint that renews: declare [constraint] renews, or choose "
                "another strategy"
            )
        _, magnitude = spread(exposure)
        most, bins = exposure.rows * magnitude, exposure.returns_after
        return Sensitivity(l1=bins * most, l2_squared=bins * most**2)


def _candidates(search: Search) -> Iterator[Levels]:
    if (
        search.exposure.returns_after is not None
        and search.exposure.kind == "stock"
        and not search.schedule.base
    ):
        yield Levels()


KIND: Final = StrategyKind(
    Levels,
    says("measures every running value by itself, so its error never grows"),
    _candidates,
    fixed={},
    valid="a running value or change where the constraint renews",
)
