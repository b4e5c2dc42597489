"""From exact sums to noisy integers: the only place where noise meets data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tidegauge.mechanism.noise import DiscreteGaussian, DiscreteLaplace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from fractions import Fraction

    from tidegauge.mechanism.noise import Noise, Sampler
    from tidegauge.mechanism.strategy import Row, Strategy

_NARROW: Final = 2**62
"""Sums that stay below this are exact in 64-bit integers; others are computed with Python's own."""


@dataclass(frozen=True)
class Channel:
    """How one component is measured: by which strategy, on how fine a grid, with how much noise."""

    strategy: Strategy
    refine: int
    """A measured integer is 1/refine of the strategy's own unit, so that the noise is many steps wide."""
    noise: Noise
    """In measured integers, for a layer of scale 1."""

    def noise_of(self, layer: int) -> Noise:
        """The noise of one layer."""
        return scaled(self.noise, self.strategy.scales[layer])

    @property
    def veil(self) -> Noise | None:
        """The noise of the draw that all rows of a cell share, where the strategy has one."""
        return None if self.strategy.shared is None else scaled(self.noise, self.strategy.shared)


def scaled(noise: Noise, factor: Fraction) -> Noise:
    """The same kind of noise, this many times as wide."""
    if factor == 1:
        return noise
    if isinstance(noise, DiscreteLaplace):
        return DiscreteLaplace(noise.scale * factor)
    assert isinstance(noise, DiscreteGaussian)
    return DiscreteGaussian(noise.sigma_squared * factor**2)


def measure(
    channel: Channel,
    totals: Mapping[tuple[int, int], int],
    *,
    bins: range,
    veils: Sequence[int],
    sampler: Sampler,
) -> list[tuple[int, int, int]]:
    """Measure every row that these bins complete: (bin, cell, noisy integer), in the strategy's order.

    `totals` holds the exact change by (bin, cell) of every bin that the rows speak of; absent is 0.  `veils` holds one
    number a cell: its shared draw, or 0.
    """
    cells = len(veils)
    exact = [
        (
            bin_,
            row.layer,
            [row.shared * veil + channel.refine * amount for veil, amount in zip(veils, sums, strict=True)],
        )
        for bin_, row, sums in _combinations(channel.strategy, totals, bins, cells)
    ]
    drawn = {
        layer: iter(
            sampler.draw(channel.noise_of(layer), cells * sum(1 for _, of, _ in exact if of == layer))
        )
        for layer in sorted({layer for _, layer, _ in exact})
    }
    return [
        (bin_, cell, amount + next(drawn[layer]))
        for bin_, layer, sums in exact
        for cell, amount in enumerate(sums)
    ]


def _combinations(
    strategy: Strategy, totals: Mapping[tuple[int, int], int], bins: range, cells: int
) -> Iterator[tuple[int, Row, list[int]]]:
    """The exact integer C x of every row, by prefix sums over the bins."""
    first = min((bin_ for bin_, _ in totals), default=0)
    shape = (max([bins.stop, *(bin_ + 1 for bin_, _ in totals)]) - first + 1, cells)
    largest = sum(map(abs, totals.values()))
    exact = np.zeros(shape, dtype=object)
    for (bin_, cell), amount in totals.items():
        exact[bin_ - first + 1, cell] = amount
    prefix = np.cumsum(exact, axis=0)
    narrow = prefix.astype(np.int64) if largest < _NARROW else None
    for bin_ in bins:
        for row in strategy.rows(bin_):
            begins, ends, factors = (list(column) for column in zip(*row.stretches, strict=True))
            spots = [np.maximum(np.array(edge) - first, 0) for edge in (begins, [end + 1 for end in ends])]
            fits = narrow is not None and 2 * largest * sum(map(abs, factors)) < _NARROW
            source = narrow if fits and narrow is not None else prefix
            weights = np.array(factors, dtype=np.int64 if fits else object)
            yield bin_, row, [int(amount) for amount in weights @ (source[spots[1]] - source[spots[0]])]
