"""From exact sums to noisy integers: the only place where noise meets data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidegauge.errors import TidegaugeError
from tidegauge.mechanism.noise.samplers import DiscreteGaussian, DiscreteLaplace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from fractions import Fraction

    from tidegauge.mechanism.noise.samplers import Noise, Sampler
    from tidegauge.mechanism.strategy import Row, Strategy, Stream, Whole

_NARROW: Final = 2**62
"""Sums below this are exact in 64-bit integers; larger ones use Python's integers."""


@dataclass(frozen=True)
class ComponentPlan:
    """How one component is measured: the strategy, the grid and the noise."""

    strategy: Strategy
    refine: int
    """A measured 1 is 1/refine of the strategy's unit, so that the noise is many steps wide."""
    noise: Noise
    """In measured integers, for a layer of scale 1."""

    def noise_of(self, layer: int) -> Noise:
        """The noise of one layer."""
        return scaled(self.noise, self.strategy.scales[layer])

    @property
    def shared_noise(self) -> Noise | None:
        """The noise that all rows of a cell share; None: there is none."""
        return None if self.strategy.shared is None else scaled(self.noise, self.strategy.shared)


class Measurement(NamedTuple):
    """One noisy integer."""

    bin: int
    cell: int
    value: int


def scaled(noise: Noise, factor: Fraction) -> Noise:
    """Noise of the same kind whose scale is multiplied by `factor`."""
    if factor == 1:
        return noise
    if isinstance(noise, DiscreteLaplace):
        return DiscreteLaplace(noise.scale * factor)
    assert isinstance(noise, DiscreteGaussian)
    return DiscreteGaussian(noise.sigma_squared * factor**2)


def measure(
    component_plan: ComponentPlan,
    totals: Mapping[tuple[int, int], int],
    *,
    bins: range,
    shared_noise: Sequence[int],
    sampler: Sampler,
    stream_state: Whole | None = None,
    noise_ahead: Whole | None = None,
) -> list[Measurement]:
    """Every measurement that these bins complete, in the strategy's order.

    totals:        the exact change by (bin, cell); an absent key counts 0
    shared_noise:  the shared noise of each cell, or 0
    stream_state:  for a strategy with a stream, its state (width by cells; None: before the first bin);
                   updated in place
    noise_ahead:   for a strategy whose noise is drawn ahead, the noise of these rows (rows by cells)
    """
    if (noise_ahead is None) != (component_plan.strategy.ahead is None):
        raise TidegaugeError(
            "the store keeps noise that was drawn ahead for another strategy than the committed one. Nothing "
            "was measured. Bring back the newest copy of the store that tidegauge verify accepts."
        )
    cells, stream = len(shared_noise), component_plan.strategy.stream
    if stream is None:
        sums_of_rows = _combinations(component_plan.strategy, totals, bins, cells)
    else:
        state = np.zeros((stream.width, cells), dtype=object) if stream_state is None else stream_state
        sums_of_rows = _streamed(stream, totals, bins, state)
    exact = [
        (
            bin_,
            layer,
            [
                shared * draw + component_plan.refine * amount
                for draw, amount in zip(shared_noise, sums, strict=True)
            ],
        )
        for bin_, layer, shared, sums in sums_of_rows
    ]
    if noise_ahead is not None:
        return [
            Measurement(bin_, cell, amount + int(noise))
            for (bin_, _, sums), row in zip(exact, noise_ahead, strict=True)
            for cell, (amount, noise) in enumerate(zip(sums, row, strict=True))
        ]
    drawn = {
        layer: iter(
            sampler.draw(component_plan.noise_of(layer), cells * sum(1 for _, of, _ in exact if of == layer))
        )
        for layer in sorted({layer for _, layer, _ in exact})
    }
    return [
        Measurement(bin_, cell, amount + next(drawn[layer]))
        for bin_, layer, sums in exact
        for cell, amount in enumerate(sums)
    ]


def expected_draws(component_plan: ComponentPlan, bins: range, cells: int) -> Counter[Noise]:
    """How many draws of each law `measure` asks for; none where the noise is drawn ahead."""
    if component_plan.strategy.ahead is not None:
        return Counter()
    found: Counter[Noise] = Counter()
    for row in (row for bin_ in bins for row in _rows(component_plan.strategy, bin_)):
        found[component_plan.noise_of(row.layer)] += cells
    return found


@lru_cache(maxsize=16)
def _rows(strategy: Strategy, bin_: int) -> tuple[Row, ...]:
    """The rows that a bin completes; in one tick, releases with the same strategy have them in common."""
    return tuple(strategy.rows(bin_))


def draw_ahead(component_plan: ComponentPlan, cells: int, sampler: Sampler) -> Whole | None:
    """The noise of all rows (rows by cells); None for a strategy whose noise is not drawn ahead.  [T20]

    The draws are combined here and not kept.
    """
    ahead = component_plan.strategy.ahead
    if ahead is None:
        return None
    drawn = []
    layers = [node.layer for node in ahead.nodes]
    for layer in sorted(set(layers)):
        count = layers.count(layer)
        found = sampler.draw(component_plan.noise_of(layer), count * cells)
        drawn.append(np.array(found, dtype=object).reshape(count, cells))
    return ahead.combined(np.concatenate(drawn))


def _combinations(
    strategy: Strategy, totals: Mapping[tuple[int, int], int], bins: range, cells: int
) -> Iterator[tuple[int, int, int, list[int]]]:
    """(bin, layer, times shared noise, exact integers C x by cell) of every row, by prefix sums."""
    first = min((bin_ for bin_, _ in totals), default=0)
    shape = (max([bins.stop, *(bin_ + 1 for bin_, _ in totals)]) - first + 1, cells)
    largest = sum(map(abs, totals.values()))
    exact = np.zeros(shape, dtype=object)
    for (bin_, cell), amount in totals.items():
        exact[bin_ - first + 1, cell] = amount
    prefix = np.cumsum(exact, axis=0)
    narrow = prefix.astype(np.int64) if largest < _NARROW else None
    for bin_ in bins:
        for row in _rows(strategy, bin_):
            begins, ends, factors = (list(column) for column in zip(*row.ranges, strict=True))
            spots = [np.maximum(np.array(edge) - first, 0) for edge in (begins, [end + 1 for end in ends])]
            fits = narrow is not None and 2 * largest * sum(map(abs, factors)) < _NARROW
            source = narrow if fits and narrow is not None else prefix
            weights = np.array(factors, dtype=np.int64 if fits else object)
            sums = weights @ (source[spots[1]] - source[spots[0]])
            yield bin_, row.layer, row.shared, [int(amount) for amount in sums]


def _streamed(
    stream: Stream, totals: Mapping[tuple[int, int], int], bins: range, state: Whole
) -> Iterator[tuple[int, int, int, list[int]]]:
    """The same from the stream state.  Updates the stream state in place."""
    cells = range(state.shape[1])
    for bin_ in bins:
        changes = np.array([totals.get((bin_, cell), 0) for cell in cells], dtype=object)
        state[...], rows = stream.advance(bin_, state, changes)
        for sums in rows:
            yield bin_, 0, 0, sums.tolist()
