"""Decoding by weights: right for every strategy, in the time of all rows so far for each estimate."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidegauge.mechanism.decoding.sums import Growing
from tidegauge.mechanism.decoding.windows import Decoding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.mechanism.decoding.windows import Windows
    from tidegauge.mechanism.strategy import Strategy

    Floats = NDArray[np.float64]


class LayerTerms(NamedTuple):
    """The distinct sizes of the weights of one layer, ascending, and how many weights have each size."""

    layer: int
    sizes: Floats
    counts: NDArray[np.int64]


Terms = list[LayerTerms]


class Weighted(Decoding):
    """Keeps all rows."""

    def __init__(self, strategy: Strategy, cells: int) -> None:
        self._strategy, self._rows = strategy, Growing(cells)

    def add(self, rows: Floats) -> None:
        """Keep the rows."""
        self._rows.add(rows)

    def sums(self, windows: Windows) -> Floats:
        """By the weights of each window."""
        rows = self._rows.values
        found = np.empty((len(windows), rows.shape[1]))
        for at, (last, through) in enumerate(zip(windows.last, windows.through, strict=True)):
            weights = self._strategy.smoothed(int(last), windows.span(at), through=int(through))
            found[at] = weights @ rows[: len(weights)]
        return found


def terms_of(weights: Floats, layers: NDArray[np.int64]) -> Terms:
    """The weights of all rows by layer and size."""
    found = []
    for layer in np.unique(layers).tolist():
        sizes, counts = distinct(weights[layers == layer])
        if len(sizes):
            found.append(LayerTerms(layer, sizes, counts))
    return found


def merged(terms: Terms) -> Terms:
    """Terms of the same layer together."""
    found = []
    for layer in sorted({one.layer for one in terms}):
        some = [one for one in terms if one.layer == layer]
        sizes, counts = (np.concatenate([one[part] for one in some]) for part in (1, 2))
        found.append(LayerTerms(layer, *distinct(sizes, counts)))
    return found


def equal_by_powers(strategy: Strategy, windows: Windows) -> NDArray[np.int64]:
    """What `Strategy.equal` gives.  Terms are looked at only where the sums of powers allow equal sizes."""
    powers = [strategy.powers(windows, power) for power in (2, 4, 6)]
    alone = np.count_nonzero(powers[0], axis=1) == 1
    two, four, six = (some.max(axis=1, initial=0.0) for some in powers)
    found = np.zeros(len(windows), dtype=np.int64)
    for at in np.flatnonzero(alone & (two * six <= four**2 * (1 + 1e-6))):
        (one,) = strategy.terms(windows, int(at))
        if len(one.sizes) == 1:
            found[at] = one.counts[0]
    return found


def distinct(weights: Floats, counts: NDArray[np.int64] | None = None) -> tuple[Floats, NDArray[np.int64]]:
    """The distinct absolute sizes, to 12 digits of the largest and without zeros, and how many have each."""
    sizes = np.abs(weights)
    largest = sizes.max(initial=0.0)
    if not largest:
        return np.empty(0), np.empty(0, dtype=np.int64)
    shares, places, alike = np.unique(np.round(sizes / largest, 12), return_inverse=True, return_counts=True)
    if counts is not None:
        alike = np.zeros(len(shares), dtype=np.int64)
        np.add.at(alike, places, counts)
    first = int(shares[0] == 0)
    return shares[first:] * largest, alike[first:]
