"""Samples of paths, where there are too many paths to list.  Every round of a search redraws the sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tidegauge.theory.paths.dense import levels

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

SOFTEST: Final = 2.0
"""The power of its energy by which a path's weight grows in a round."""
_CROWD: Final = 1000
"""Paths in a sample."""
_KNOWN: Final = 50
"""Worst paths that are kept from round to round."""
_SEED: Final = 20260101
"""Public: the search reads no data."""


class Crowd:
    """A sample of paths with many changes.  Every round redraws each change, given the other changes.

    changes[p, i]: the bin of the i-th change of path p; the number of bins if there is no such change.
    """

    noisy = True
    rounds = 200

    def __init__(self, bins: int, count: int, within: int) -> None:
        self.bins, self.count, self.within = bins, count, within
        self.chance = np.random.default_rng(_SEED)
        start = self.chance.integers(bins, size=(_CROWD, 1))
        apart = self.chance.random((_CROWD, min(within, bins) - 1)).argsort(axis=1)[:, : count - 1] + 1
        first = np.concatenate([start, start + apart], axis=1)
        self.changes = np.sort(np.where(first < bins, first, bins), axis=1)
        self.signs: Floats = np.where(np.arange(count) % 2, -1.0, 1.0)
        self.weights = np.zeros((bins + 1, bins + 1))
        self.worst = self.changes[:_KNOWN]
        self.round, self.found = 0, np.eye(bins)
        for _ in range(4):
            self.found = self._drawn()

    def moments(self) -> Floats:
        """The mean over the last rounds."""
        return self.found

    def shift(self, gram: Floats) -> None:
        """Multiply each weight by a power of the energy, in units of the mean energy."""
        mean = float((gram * self.found).sum())
        self.weights[:-1, :-1] += 1.5 * SOFTEST / mean * gram
        self.round += 1
        self.found = self.found + 4 / (self.round + 4) * (self._drawn() - self.found)

    def most(self, gram: Floats) -> float:
        """The largest energy found by shifting single changes of the sample and of the worst known paths."""
        padded = np.zeros((self.bins + 1, self.bins + 1))
        padded[:-1, :-1] = gram
        paths = np.concatenate([self.worst, self.changes[:: len(self.changes) // 200]])
        fields = self._fields(padded, paths)
        for _ in range(40):
            before = paths.copy()
            for at in range(self.count):
                fields -= self.signs[at] * padded[paths[:, at]]
                paths[:, at] = self._gains(padded, fields, paths, at).argmax(axis=1)
                fields += self.signs[at] * padded[paths[:, at]]
            if (paths == before).all():
                break
        each = padded[paths[:, :, None], paths[:, None, :]] * np.outer(self.signs, self.signs)
        energies = each.sum(axis=(1, 2))
        self.worst = paths[np.argsort(-energies)[:_KNOWN]]
        return float(energies.max())

    def _fields(self, weights: Floats, paths: Integers) -> Floats:
        """For each path and bin, the sum of the weights between the bin and all changes of the path."""
        fields = np.zeros((len(paths), self.bins + 1))
        for at in range(self.count):
            fields += self.signs[at] * weights[paths[:, at]]
        return fields

    def _gains(self, weights: Floats, others: Floats, paths: Integers, at: int) -> Floats:
        """The weight that each path gains if one change is in each bin; -inf if the bin is not allowed."""
        bins, places = self.bins, np.arange(self.bins + 1)
        low = paths[:, at - 1] + 1 if at else np.zeros(len(paths), dtype=np.int64)
        high = paths[:, at + 1] if at < self.count - 1 else np.full(len(paths), bins)
        allowed = (places >= np.minimum(low, bins)[:, None]) & (
            (places < high[:, None]) | (places == bins) & (high == bins)[:, None]
        )
        if self.within < bins:
            if at:
                allowed &= (places < paths[:, :1] + self.within) | (places == bins)
            else:
                last = np.where(paths[:, 1:] < bins, paths[:, 1:], -1).max(axis=1)
                allowed &= places > (last - self.within)[:, None]
                allowed[:, bins] &= last < 0
        gains: Floats = np.where(allowed, 2 * self.signs[at] * others + weights.diagonal(), -np.inf)
        return gains

    def _drawn(self) -> Floats:
        """Redraw each change of each path.  Returns the mean moments over all redraws."""
        crowd, bins = self.changes.shape[0], self.bins
        found = np.zeros((bins + 1, bins + 1))
        fields = self._fields(self.weights, self.changes)
        for at in range(self.count):
            fields -= self.signs[at] * self.weights[self.changes[:, at]]
            gains = self._gains(self.weights, fields, self.changes, at)
            chances: Floats = np.exp(gains - gains.max(axis=1, keepdims=True))
            sums: Floats = chances.cumsum(axis=1)
            drawn = self.chance.random((crowd, 1)) * sums[:, -1:]
            chances /= sums[:, -1:]
            rest = self._others(at)
            crossed = self.signs[at] * (rest @ chances)
            found += crossed + crossed.T + (rest @ rest.T).toarray() + np.diag(chances.sum(axis=0))
            self.changes[:, at] = np.minimum((sums < drawn).sum(axis=1), bins)
            fields += self.signs[at] * self.weights[self.changes[:, at]]
        found /= crowd * self.count
        return found[:bins, :bins]

    def _others(self, at: int) -> csr_array:
        """All changes of each path except one, as a sparse matrix [bin, path]."""
        from scipy.sparse import csr_array  # noqa: PLC0415  (slow to load)

        others = np.delete(self.changes, at, axis=1)
        signs = np.where(others < self.bins, np.delete(self.signs, at)[None, :], 0.0)
        paths = np.broadcast_to(np.arange(len(others))[:, None], others.shape)
        return csr_array((signs.ravel(), (others.ravel(), paths.ravel())), shape=(self.bins + 1, len(others)))


class Switches:
    """Paths that may be on or off in every bin of a window, and keep their last state after it."""

    noisy = True
    rounds = 300

    def __init__(self, bins: int, within: int) -> None:
        self.bins, self.within = bins, within
        self.chance = np.random.default_rng(_SEED)
        self.starts = self.chance.integers(bins - within + 1, size=_CROWD)
        self.bits = self.chance.integers(2, size=(_CROWD, within)).astype(np.float64)
        self.weights = np.zeros((bins, bins))
        self.worst = (self.starts[:_KNOWN], self.bits[:_KNOWN])
        self.round, self.found = 0, self._drawn()

    def moments(self) -> Floats:
        """The mean over the last rounds, mixed with a few single changes."""
        return 0.99 * self.found + 0.01 / self.bins * np.eye(self.bins)

    def shift(self, gram: Floats) -> None:
        """Multiply each weight by a power of the energy, in units of the mean energy."""
        self.weights += SOFTEST / float((gram * self.moments()).sum()) * levels(gram)
        self.round += 1
        self.found = self.found + 4 / (self.round + 4) * (self._drawn() - self.found)

    def most(self, gram: Floats) -> float:
        """The largest energy found by switching single bins of the sample and of the worst known paths."""
        weights, some = levels(gram), slice(None, None, len(self.starts) // 200)
        starts = np.concatenate([self.worst[0], self.starts[some]])
        bits = np.concatenate([self.worst[1], self.bits[some]])
        for _ in range(40):
            before = bits.copy()
            self._switch(weights, starts, bits, None)
            if (bits == before).all():
                break
        energies = self._energies(weights, starts, bits)
        first = np.argsort(-energies)[:_KNOWN]
        self.worst = starts[first], bits[first]
        return float(energies.max())

    def _drawn(self) -> Floats:
        self._switch(self.weights, self.starts, self.bits, self.chance)
        last = self.bins - self.within
        for step in (np.full(len(self.starts), last), 1 + self.chance.integers(3, size=len(self.starts))):
            moved = self.starts + self.chance.integers(-step, step + 1)
            moved = np.where((moved < 0) | (moved > last), self.starts, moved)
            gain = self._energies(self.weights, moved, self.bits) - self._energies(
                self.weights, self.starts, self.bits
            )
            taken = np.log(self.chance.random(len(gain))) < gain
            self.starts = np.where(taken, moved, self.starts)
        changes = np.diff(self._levels(self.starts, self.bits), axis=1, prepend=0.0)
        found: Floats = changes.T @ changes / len(changes)
        return found

    def _levels(self, starts: Integers, bits: Floats) -> Floats:
        at = np.arange(self.bins)[None, :] - starts[:, None]
        return np.where(at < 0, 0.0, np.take_along_axis(bits, np.clip(at, 0, self.within - 1), axis=1))

    def _energies(self, weights: Floats, starts: Integers, bits: Floats) -> Floats:
        found = self._levels(starts, bits)
        energies: Floats = ((found @ weights) * found).sum(axis=1)
        return energies

    def _switch(
        self, weights: Floats, starts: Integers, bits: Floats, chance: np.random.Generator | None
    ) -> None:
        """Redraw each bit, given the others; without `chance`, choose the value with the larger energy."""
        from scipy.special import expit  # noqa: PLC0415  (slow to load)

        fields, members = self._levels(starts, bits) @ weights, np.arange(len(starts))
        tails = weights[::-1].cumsum(axis=0)[::-1]
        own = tails[:, ::-1].cumsum(axis=1)[:, ::-1].diagonal()
        for at in range(self.within):
            place, old = starts + at, bits[:, at].copy()
            if at < self.within - 1:
                alone, rows, field = weights[place, place], weights, fields[members, place]
            else:
                after = np.arange(self.bins)[None, :] >= place[:, None]
                alone, rows, field = own[place], tails, (fields * after).sum(axis=1)
            gain = 2 * (field - old * alone) + alone
            new = gain > 0 if chance is None else chance.random(len(gain)) < expit(gain)
            bits[:, at] = new
            changed = np.flatnonzero(bits[:, at] != old)
            fields[changed] += (bits[changed, at] - old[changed])[:, None] * rows[place[changed]]
