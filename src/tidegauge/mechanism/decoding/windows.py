"""Sums of bins, and how they are estimated from measurements as these come in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Windows:
    """The sums of the bins after `after`, up to `last`, each estimated from the rows of bins 0..through.

    after is -1 for a sum from the beginning.
    """

    after: Integers
    last: Integers
    through: Integers

    @classmethod
    def of(cls, bins: Integers, span: int | None, *, through: int | None = None) -> Windows:
        """The last `span` bins (None: all) up to each of these; from the rows up to then by default."""
        last = np.asarray(bins, dtype=np.int64)
        after = np.full_like(last, -1) if span is None else np.maximum(last - span, -1)
        return cls(after, last, last if through is None else np.full_like(last, through))

    def at(self, places: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Windows:
        """Some of these windows."""
        return Windows(self.after[places], self.last[places], self.through[places])

    def by_span(self) -> Iterator[tuple[int | None, NDArray[np.intp]]]:
        """Every length in bins (None: from the beginning), and the places of the windows that have it."""
        spans = np.where(self.after < 0, 0, self.last - self.after)
        for span in np.unique(spans).tolist():
            yield span or None, np.flatnonzero(spans == span)

    def span(self, place: int) -> int | None:
        """The length of one window in bins; None: from the beginning."""
        return None if self.after[place] < 0 else int(self.last[place] - self.after[place])

    def __len__(self) -> int:
        return len(self.last)


class Decoding(ABC):
    """What was measured of some cells so far, in the form from which sums are estimated.

    Estimates do not depend on how the rows were cut into calls of `add`.
    """

    @abstractmethod
    def add(self, rows: Floats) -> None:
        """Take in the rows (by cells) of the next bins, whole bins only, in the strategy's order."""

    @abstractmethod
    def sums(self, windows: Windows) -> Floats:
        """The estimated sums of these windows, by cells, in grid units if a measured 1 is 1 / denominator."""
