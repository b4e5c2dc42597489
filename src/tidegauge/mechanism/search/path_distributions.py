"""Distributions on the paths of a row.  Each round shifts weight to the paths that measurements reveal most.

The energy of a path is its squared length under the measurement.  The weight of a path grows with its
energies in all rounds so far.  If there are few paths, each has its own weight.  Paths through groups form a
chain, and sums over the chain are exact.  Long paths with many changes are represented by a sample, and
every round redraws the changes of the sample one by one.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from tidegauge.mechanism.search.path_samples import SOFTEST, Crowd, Switches

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

LISTED: Final = 13
"""Spans, in bins, up to which all patterns of changes are listed."""


class PathDistribution(Protocol):
    """The distribution on paths that a search for an optimum uses."""

    noisy: bool
    """Whether moments are estimates from a sample, so that the search averages over rounds."""
    rounds: int
    """Most rounds of a search with this distribution."""

    def moments(self) -> Floats:
        """The mean outer product of the changes of a path."""

    def shift(self, gram: Floats) -> None:
        """Shift weight to the paths with the largest energy."""

    def most(self, gram: Floats) -> float:
        """The largest energy of any known path."""


def path_distribution(bins: int, *, changes: int, within: int, grouped: bool) -> PathDistribution:
    """The distribution for units with these changes in these bins; at first all paths have equal weight."""
    if grouped and changes > 1:
        return GroupChanges(bins, changes, within)
    if changes <= 2:
        return Pairs(bins, within if changes > 1 else 0)
    if within <= LISTED:
        return Patterns(bins, changes, within)
    return Crowd(bins, changes, within) if changes < within else Switches(bins, within)


class Pairs:
    """Paths of one change, and of two changes."""

    noisy = False
    rounds = 200

    def __init__(self, bins: int, within: int) -> None:
        lags = np.subtract.outer(np.arange(bins), np.arange(bins)).T
        self.near = (lags > 0) & (lags < within)
        self.one = np.full(bins, 0.3 / bins if self.near.any() else 1 / bins)
        self.two = 0.7 * self.near / max(self.near.sum(), 1)

    def moments(self) -> Floats:
        """Moments of changes by 1 and of their reversals."""
        return _of_intervals(self.one, self.two)

    def shift(self, gram: Floats) -> None:
        """Multiply each weight by the square of the energy."""
        one, two = self._energies(gram)
        self.one, self.two = self.one * one**2, self.two * two**2
        total = self.one.sum() + self.two.sum()
        self.one, self.two = np.maximum(self.one / total, 1e-12), self.two / total

    def most(self, gram: Floats) -> float:
        """The largest energy, exactly."""
        one, two = self._energies(gram)
        return float(max(one.max(), two.max()))

    def _energies(self, gram: Floats) -> tuple[Floats, Floats]:
        squares = gram.diagonal()
        return squares, np.where(self.near, np.add.outer(squares, squares) - 2 * gram, 0.0)


class GroupChanges:
    """Paths through groups, each interval in a new group; all changes within `within` bins.

    Arrays have one row per window of bins: one window of all bins, or one per bin of the first change.
    """

    noisy = False
    rounds = 200

    def __init__(self, bins: int, changes: int, within: int) -> None:
        self.bins, self.most_changes = bins, changes
        starts = np.arange(bins if within < bins else 1)
        positions = starts[:, None] + np.arange(min(within, bins))
        self.positions, self.inside = np.minimum(positions, bins - 1), positions < bins
        self.first = np.where(self.inside, 0.0, -np.inf)
        if within < bins:
            self.first[:, 1:] = -np.inf
        self.energies = np.zeros((bins, bins)), np.zeros(bins)

    def moments(self) -> Floats:
        """Moments over all intervals, by sums over the intervals before and after each."""
        from scipy.special import logsumexp  # noqa: PLC0415  (slow to load)

        closed, lasting = self._there(*self.energies)
        after = [np.full_like(lasting, -np.inf)]
        for change in range(self.most_changes, 0, -1):
            ways = [lasting]
            if change < self.most_changes:
                ways.append(logsumexp(closed + after[-1][:, None, :], axis=2))
            after.append(logsumexp(ways, axis=0))
        after.reverse()
        total = logsumexp(self.first + after[0])
        before, one, two = self.first, np.zeros(self.bins), np.zeros((self.bins, self.bins))
        last = np.zeros_like(lasting)
        intervals = np.zeros_like(closed)
        for change in range(self.most_changes):
            last += np.exp(before + lasting - total)
            if change < self.most_changes - 1:
                intervals += np.exp(before[:, :, None] + closed + after[change + 1][:, None, :] - total)
                before = logsumexp(before[:, :, None] + closed, axis=1)
        np.add.at(one, self.positions, last)
        np.add.at(two, (self.positions[:, :, None], self.positions[:, None, :]), intervals)
        return _of_intervals(np.maximum(one, 1e-12), two)

    def shift(self, gram: Floats) -> None:
        """Multiply each weight by a power of the energy, in units of the mean energy."""
        scale = SOFTEST / float((gram * self.moments()).sum())
        closed, lasting = _intervals(gram)
        self.energies = self.energies[0] + scale * closed, self.energies[1] + scale * lasting

    def most(self, gram: Floats) -> float:
        """The largest energy; exact if two intervals in one group never add to each other's energy."""
        closed, lasting = self._there(*_intervals(gram))
        so_far, best = self.first, 0.0
        for change in range(self.most_changes):
            best = max(best, float((so_far + lasting).max()))
            if change < self.most_changes - 1:
                so_far = (so_far[:, :, None] + closed).max(axis=1)
        return best

    def _there(self, closed: Floats, lasting: Floats) -> tuple[Floats, Floats]:
        """Values per window: of intervals from bin to later bin, and of intervals that do not end."""
        later = np.triu(np.ones((self.positions.shape[1],) * 2, dtype=bool), 1)
        fits = later[None] & self.inside[:, None, :]
        found = np.where(fits, closed[self.positions[:, :, None], self.positions[:, None, :]], -np.inf)
        return found, np.where(self.inside, lasting[self.positions], -np.inf)


class Patterns:
    """All patterns of changes within a few bins, from every start."""

    noisy = False
    rounds = 600

    def __init__(self, bins: int, changes: int, within: int) -> None:
        later = np.array(list(product((0, 1), repeat=within - 1)))
        marks = np.concatenate([np.ones((len(later), 1), dtype=np.int64), later], axis=1)
        marks = marks[marks.sum(axis=1) <= changes]
        self.changes = (marks * np.where(marks.cumsum(axis=1) % 2, 1, -1)).astype(np.float64)
        last = within - 1 - marks[:, ::-1].argmax(axis=1)
        self.bins, self.within = bins, within
        fits = np.arange(bins)[:, None] + last[None, :] < bins
        self.distribution: Floats = fits / fits.sum()

    def moments(self) -> Floats:
        """Moments, summed over all starts."""
        found = np.zeros((self.bins + self.within, self.bins + self.within))
        for start in range(self.bins):
            there = slice(start, start + self.within)
            found[there, there] += (self.changes.T * self.distribution[start]) @ self.changes
        found = found[: self.bins, : self.bins]
        found[np.diag_indices(self.bins)] += 1e-12
        return found

    def shift(self, gram: Floats) -> None:
        """Multiply each weight by the square of the energy."""
        self.distribution = self.distribution * self._energies(gram) ** 2
        self.distribution /= self.distribution.sum()

    def most(self, gram: Floats) -> float:
        """The largest energy, exactly."""
        return float(self._energies(gram).max())

    def _energies(self, gram: Floats) -> Floats:
        wide = np.zeros((self.bins + self.within, self.bins + self.within))
        wide[: self.bins, : self.bins] = gram
        found = np.empty_like(self.distribution)
        for start in range(self.bins):
            there = slice(start, start + self.within)
            found[start] = ((self.changes @ wide[there, there]) * self.changes).sum(axis=1)
        return found


def _intervals(gram: Floats) -> tuple[Floats, Floats]:
    """Energies of intervals that end, and of intervals that do not end."""
    squares = gram.diagonal()
    return np.add.outer(squares, squares) - 2 * gram, squares


def _of_intervals(lasting: Floats, closed: Floats) -> Floats:
    """Moments from the probabilities of intervals that do not end (`lasting`) and that end (`closed`)."""
    moments: Floats = np.diag(lasting + closed.sum(axis=0) + closed.sum(axis=1)) - closed - closed.T
    return moments
