"""Arrays that grow, and running sums whose differences keep their digits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidegauge.mechanism.decoding.windows import Decoding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.mechanism.decoding.windows import Windows

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]


class Growing:
    """Rows of numbers by cells, to which rows are added at the end in constant time each."""

    def __init__(self, cells: int) -> None:
        self._kept = np.empty((64, cells))
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, rows: Floats) -> None:
        """Add rows at the end."""
        count = self._count + len(rows)
        if count > len(self._kept):
            larger = np.empty((max(count, 2 * len(self._kept)), self._kept.shape[1]))
            larger[: self._count] = self.values
            self._kept = larger
        self._kept[self._count : count] = rows
        self._count = count

    @property
    def values(self) -> Floats:
        """All rows so far."""
        return self._kept[: self._count]


class RunningSums:
    """Running sums of rows.  A difference of two is as exact as if only the rows between were added.

    Each sum is kept in two doubles: the rounded sum, and what all its additions lost.
    """

    def __init__(self, cells: int) -> None:
        self.cells = cells
        self._high, self._low = Growing(cells), Growing(cells)
        for part in (self._high, self._low):
            part.add(np.zeros((1, cells)))

    def __len__(self) -> int:
        """The number of rows that were added."""
        return len(self._high) - 1

    def add(self, rows: Floats) -> None:
        """Add rows, one sum each."""
        high = np.cumsum(np.concatenate([self._high.values[-1:], rows]), axis=0)
        before, after = high[:-1], high[1:]
        taken = after - before
        lost = (before - (after - taken)) + (rows - taken)
        low = np.cumsum(np.concatenate([self._low.values[-1:], lost]), axis=0)
        self._high.add(after)
        self._low.add(low[1:])

    def between(self, first: Integers, stop: Integers) -> Floats:
        """The sums of rows first..stop-1, for each pair; negative where stop lies before first."""
        high, low = self._high.values, self._low.values
        found: Floats = (high[stop] - high[first]) + (low[stop] - low[first])
        return found


class Summed(Decoding):
    """Decodes sums of bins, given the estimated change in each bin from bin `first` on."""

    def __init__(self, first: int, cells: int) -> None:
        self._first, self._sums = first, RunningSums(cells)

    def add(self, rows: Floats) -> None:
        """Take in the changes of the next bins."""
        self._sums.add(rows)

    def sums(self, windows: Windows) -> Floats:
        """Sums of the estimated changes."""
        return self._sums.between(
            np.maximum(windows.after - self._first, -1) + 1, windows.last - self._first + 1
        )


class Levels(Decoding):
    """Decodes sums of bins, given the estimated running value after each bin from bin `first` on."""

    def __init__(self, first: int, cells: int) -> None:
        self._first, self._levels = first, Growing(cells)

    def add(self, rows: Floats) -> None:
        """Take in the running values after the next bins."""
        self._levels.add(rows)

    @property
    def last(self) -> Floats:
        """The last running value; 0 before the first."""
        found: Floats = (
            self._levels.values[-1] if len(self._levels) else np.zeros(self._levels.values.shape[1])
        )
        return found

    def sums(self, windows: Windows) -> Floats:
        """A running value, less the one before the window."""
        before = windows.after - self._first
        found: Floats = self._levels.values[windows.last - self._first]
        inside = np.flatnonzero(before >= 0)
        found[inside] -= self._levels.values[before[inside]]
        return found
