"""From exact sums to noisy integers: the only place where noise meets data."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegauge.mechanism.noise import DiscreteGaussian, DiscreteLaplace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from tidegauge.mechanism.noise import Noise, Sampler
    from tidegauge.mechanism.strategy import Strategy


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
        scale = self.strategy.scales[layer]
        return self.noise if scale == 1 else scaled(self.noise, scale)


def scaled(noise: Noise, factor: Fraction) -> Noise:
    """The same kind of noise, this many times as wide."""
    if isinstance(noise, DiscreteLaplace):
        return DiscreteLaplace(noise.scale * factor)
    assert isinstance(noise, DiscreteGaussian)
    return DiscreteGaussian(noise.sigma_squared * factor**2)


def measure(
    channel: Channel,
    totals: Mapping[tuple[int, int], int],
    *,
    first: int,
    last: int,
    cells: int,
    sampler: Sampler,
) -> list[tuple[int, int, int]]:
    """Measure every row that bins first..last complete: (bin, cell, noisy integer), in the strategy's order.

    `totals` holds the exact change by (bin, cell) of every bin that the rows speak of; absent is 0.
    """
    by_bin: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (bin_, cell), amount in totals.items():
        by_bin[bin_].append((cell, amount))
    exact: list[tuple[int, int, list[int]]] = []
    for bin_ in range(first, last + 1):
        for row in channel.strategy.rows(bin_):
            sums = [0] * cells
            for begin, end, coefficient in row.stretches:
                for spot in range(begin, end + 1):
                    for cell, amount in by_bin.get(spot, ()):
                        sums[cell] += coefficient * amount
            exact.append((bin_, row.layer, sums))
    drawn = {
        layer: iter(
            sampler.draw(channel.noise_of(layer), cells * sum(1 for _, of, _ in exact if of == layer))
        )
        for layer in sorted({layer for _, layer, _ in exact})
    }
    return [
        (bin_, cell, channel.refine * amount + next(drawn[layer]))
        for bin_, layer, sums in exact
        for cell, amount in enumerate(sums)
    ]
