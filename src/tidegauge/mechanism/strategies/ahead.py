"""Noise drawn ahead: the noise of a whole hierarchy is drawn before the first reading.  [T20]

A hierarchy measures a node when its last bin has ended, and readings before that do without the node.  Here
every bin is published with noise that is the least-squares estimate of the bin from draws for all nodes, the
later ones included.  A reading then has the error that a hierarchy has once everything is known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from tidegauge.errors import SpecError
from tidegauge.mechanism.strategies.hierarchy import Hierarchy, read_scaled
from tidegauge.mechanism.strategy import (
    DrawnAhead,
    Exposure,
    Row,
    Strategy,
    StrategyKind,
    refuse_running_values,
    says,
)
from tidegauge.model.constraint import AtMost, Both
from tidegauge.theory.consistent import ConsistentTree
from tidegauge.theory.paths.path import ON_OFF

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tidegauge.mechanism.search.task import Search, Task
    from tidegauge.mechanism.strategy import Whole
    from tidegauge.theory.sensitivity import Sensitivity

    Floats = NDArray[np.float64]
    Indices = NDArray[np.int64]

_MOST_BINS: Final = 1 << 16
"""Most bins of a tree."""
_MOST_SCALE: Final = Fraction(10**9)
"""Weights are computed from squares of scales in doubles."""
_MOST_KEPT: Final = 1 << 20
"""Most integers of a release that the planner lets the store keep, and write again in every tick."""


class _Nodes(DrawnAhead):
    """The draws of a tree."""

    def __init__(self, strategy: Ahead) -> None:
        self._tree, self._first = strategy.tree, strategy.first

    @cached_property
    def nodes(self) -> tuple[Row, ...]:
        """Layer by layer, from the bottom up."""
        tree, last = self._tree, self._tree.leaves - 1
        return tuple(
            Row(layer, index, ((first + self._first, min(first + size - 1, last) + self._first, 1),))
            for layer, count in enumerate(tree.sizes)
            for size in [tree.branching**layer]
            for index in range(count)
            for first in [index * size]
        )

    def combined(self, draws: Whole) -> Whole:
        """By least squares in integers."""
        return self._tree.leaf_noise(draws)

    def reach(self, weights: Floats) -> Floats:
        """By the same least squares, the other way round."""
        missing = np.zeros((self._tree.leaves - len(weights), *weights.shape[1:]))
        return self._tree.reach(np.concatenate([weights, missing]))


@dataclass(frozen=True)
class Ahead(Strategy):
    """Bins `first`, first + 1, ... are the leaves of trees of `height` layers.

    Nodes that go beyond the last bin sum the bins that there are.
    """

    name: ClassVar[str] = "ahead"

    branching: int
    height: int
    bins: int
    first: int = 0
    relative: tuple[Fraction, ...] = ()
    """Scale of the noise of each layer, from the bottom up; empty: all are 1."""

    def __post_init__(self) -> None:
        if self.bins is None:
            raise SpecError(
                "noise is drawn ahead for releases that end: give the release a 'for', such as '2 years'"
            )
        if self.branching < 2 or self.height < 1 or self.first not in {0, 1}:
            raise SpecError("branching must be 2 or more, height 1 or more, and first 0 or 1")
        if not self.first < self.bins <= _MOST_BINS:
            raise SpecError(
                f"noise is drawn ahead for at most {_MOST_BINS:,} bins: give a shorter 'for' or "
                "a longer 'every'"
            )
        if self.branching ** (self.height - 1) > self.branching * _MOST_BINS:
            raise SpecError(
                "height is too large for these bins: every layer but the topmost must have more than one node"
            )
        low, high = 1 / _MOST_SCALE, _MOST_SCALE
        if self.relative and not (
            len(self.relative) == self.height and low <= min(self.relative) <= max(self.relative) <= high
        ):
            raise SpecError(
                f"scales must be as many numbers as the tree has layers, each between 1/{high} and {high}"
            )

    @property
    def parameters(self) -> dict[str, int | float | str]:
        """Branching, height, bins, first; and scales if they are not all 1."""
        found: dict[str, int | float | str] = {
            "branching": self.branching,
            "height": self.height,
            "bins": self.bins,
            "first": self.first,
        }
        return found | ({"scales": " ".join(map(str, self.relative))} if self.relative else {})

    @property
    def scales(self) -> tuple[Fraction, ...]:
        """The scales of the layers of nodes, from the bottom up."""
        return self.relative or (Fraction(1),) * self.height

    @property
    def plain_sums(self) -> bool:
        """Readings add up measured bins."""
        return True

    @cached_property
    def tree(self) -> ConsistentTree:
        """The nodes over all bins."""
        return ConsistentTree(self.bins - self.first, self.branching, self.scales)

    @cached_property
    def ahead(self) -> DrawnAhead:
        """A draw for every node."""
        return _Nodes(self)

    def rows(self, bin_: int) -> tuple[Row, ...]:
        """The bin itself."""
        return (Row(0, bin_ - self.first, ((bin_, bin_, 1),)),) if self.first <= bin_ < self.bins else ()

    def needed_from(self, bin_: int) -> int:
        """The next bin: a measured bin is not needed again."""
        return bin_ + 1

    def layers(self, through: int) -> Indices:
        """One row per bin."""
        return np.zeros(max(through + 1 - self.first, 0), dtype=np.int64)

    def _summed(self, bins: Indices, span: int | None) -> Indices:
        """The first leaf of the sum that ends with each bin."""
        begins = np.zeros_like(bins) if span is None else np.maximum(bins - span + 1, 0)
        if (begins < self.first).any():
            refuse_running_values()
        return begins - self.first

    def weights(self, bin_: int, span: int | None) -> Floats:
        """One for each bin in the span."""
        weights = np.ones(bin_ - self.first + 1)
        weights[: int(self._summed(np.array([bin_]), span)[0])] = 0
        return weights

    def variances(self, bins: Indices, span: int | None) -> Floats:
        """In closed form for all bins at once."""
        return self.tree.variances(self._summed(bins, span), bins - self.first)

    def sensitivity(self, exposure: Exposure) -> Sensitivity:
        """That of a hierarchy whose last nodes are complete.  [T20]

        A unit that does not change after the last bin moves a complete node as much as the part that exists.
        """
        if exposure.kind == "stock":  # at most one change in each bin that there is
            exposure = replace(exposure, constraint=Both(exposure.constraint, AtMost(self.bins)))
        return self.padded.sensitivity(exposure)

    @cached_property
    def padded(self) -> Hierarchy:
        """The hierarchy with the same nodes, all complete."""
        top = self.branching ** (self.height - 1)
        bins = -(-(self.bins - self.first) // top) * top + self.first
        scales = (*self.scales, Fraction(1))
        return Hierarchy(self.branching, self.height, bins, "none" if self.first else "leaf", scales)


@lru_cache(maxsize=64)
def _tuned(task: Task) -> Ahead:
    from tidegauge.mechanism.search import tune_ahead  # noqa: PLC0415  (it tries trees)

    return tune_ahead.ahead(task)


def _candidates(search: Search) -> Iterator[Ahead]:
    bins, exposure = search.schedule.bins, search.exposure
    if not search.pure or bins is None or not search.schedule.base + 1 < bins <= _MOST_BINS:
        return
    if bins * exposure.groups <= _MOST_KEPT:
        task = search.task
        cases = (one._replace(changes=None) if (one.changes or 0) >= bins else one for one in task.cases)
        yield _tuned(task._replace(domain=ON_OFF, cases=tuple(dict.fromkeys(cases))))


KIND: Final = StrategyKind(
    Ahead,
    says(
        "draws the noise of windows of several widths in advance, so that every reading can use all of them"
    ),
    _candidates,
    fixed={"bins": "bins", "first": "base"},
    read=partial(read_scaled, Ahead),
    valid="it needs a budget in pure epsilon and a release that ends",
    pure=True,
)
