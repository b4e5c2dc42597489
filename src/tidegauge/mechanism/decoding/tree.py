"""Decoding of a tree of measured nodes by generalised least squares.

A leaf is a bin; leaves are counted from 1.  At any time the complete nodes without a complete parent are
roots.  The best estimate of a root is that of its own subtree: its measurement and the estimates of its
children, weighted by their precision.  The best estimate of the first leaves of a root is `share` times the
root plus a contrast of its children, and so on along the path to the last of these leaves.  A sum of leaves
therefore needs the nodes beside two paths, whose weights are equal in few groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidegauge.mechanism.decoding.sums import RunningSums
from tidegauge.mechanism.decoding.weighted import LayerTerms, distinct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tidegauge.mechanism.decoding.weighted import Terms

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]


class Leaves(NamedTuple):
    """The sums of leaves start+1..end, each from the nodes that are complete after leaf `through`."""

    start: Integers
    end: Integers
    through: Integers


class Alike(NamedTuple):
    """For each sum, `counts` nodes of one layer from node `first` on that have the same weight."""

    layer: int
    whole: bool
    """Whether the weight is that of the estimate of a node from its subtree, or of its measurement alone."""
    weights: Floats
    first: Integers
    counts: Integers


@dataclass(frozen=True)
class Tree:
    """Layers of nodes of 1, c, c^2, ... leaves.

    `own`: by layer, the weight of a node's measurement in the estimate of its sum from its subtree.
    """

    branching: int
    own: tuple[float, ...]

    @property
    def height(self) -> int:
        """The number of layers."""
        return len(self.own)

    def nodes(self, leaf: int) -> int:
        """The number of nodes that are complete after this leaf."""
        return sum(leaf // self.branching**layer for layer in range(self.height))

    @cached_property
    def spread(self) -> Floats:
        """By layer of a node and layer below: the weight of each measurement in the node's estimate."""
        found = np.zeros((self.height, self.height))
        for layer in range(self.height):
            weight = 1.0
            for below in range(layer, -1, -1):
                found[layer, below] = weight * self.own[below]
                weight *= 1 - self.own[below]
        return found

    def powers(self, leaves: Leaves, power: int) -> Floats:
        """The sum of this power of the absolute weights of each sum, by layer."""
        estimates, own = np.zeros((2, len(leaves.end), self.height))
        for some in self.alike(leaves):
            target = estimates if some.whole else own
            target[:, some.layer] += some.counts * np.abs(some.weights) ** power
        sizes = np.arange(self.height)
        nodes = float(self.branching) ** np.maximum(sizes[:, None] - sizes, 0)
        found: Floats = own + estimates @ (nodes * self.spread**power)
        return found

    def terms(self, leaves: Leaves) -> Terms:
        """The distinct sizes of the weights of one sum, by layer."""
        sizes: list[list[float]] = [[] for _ in range(self.height)]
        counts: list[list[int]] = [[] for _ in range(self.height)]
        for layer, whole, weights, _, (count,) in self.alike(leaves):
            for below in range(layer if count else -1, -1 if whole else layer - 1, -1):
                sizes[below].append(float(weights[0]) * (self.spread[layer, below] if whole else 1.0))
                counts[below].append(int(count) * self.branching ** (layer - below))
        found = []
        for layer, (some, alike) in enumerate(zip(sizes, counts, strict=True)):
            different = distinct(np.array(some), np.array(alike, dtype=np.int64))
            if len(different[0]):
                found.append(LayerTerms(layer, *different))
        return found

    def alike(self, leaves: Leaves) -> Iterator[Alike]:
        """All weights of these sums."""
        start, end = _Path(self, leaves.start), _Path(self, leaves.end)
        joint = np.zeros(len(leaves.end), dtype=bool)
        ones, reached = np.ones(len(joint)), np.zeros_like(leaves.end)
        for layer in reversed(range(self.height)):
            if layer < self.height - 1:
                yield from _below(start, end, joint, layer)
            size = self.branching**layer
            complete, first = leaves.through // size, reached // size
            begins, stops = start.enters(layer, first, complete), end.enters(layer, first, complete)
            low = np.clip(start.leaf // size, first, complete) + begins
            high = np.clip(end.leaf // size, first, complete)
            yield Alike(layer, True, ones, low, np.maximum(high - low, 0))
            together = begins & stops & (start.leaf // size == end.leaf // size)
            joint |= together
            start.begin(begins, np.where(together, end.share[layer], 1.0) - start.share[layer])
            end.begin(stops & ~together, end.share[layer])
            for path in (start, end):
                yield Alike(
                    layer, False, path.weight * self.own[layer], path.leaf // size, path.on.astype(np.int64)
                )
            reached = complete * size


class _Path:
    """The nodes that contain the boundary after a leaf, from a root down: one a layer, with its weight."""

    def __init__(self, tree: Tree, leaf: Integers) -> None:
        self.tree, self.leaf = tree, leaf
        self.on = np.zeros(len(leaf), dtype=bool)
        """Whether the boundary lies inside a root of this layer or above; not where the paths are joint."""
        self.weight = np.zeros(len(leaf))
        self.share: list[Floats] = [np.zeros(len(leaf))]
        """By layer: the share of the node that the leaves before the boundary have."""
        for layer in range(1, tree.height):
            self.share.append((self.digit(layer - 1) + self.share[-1]) / tree.branching)

    def digit(self, layer: int) -> Integers:
        """How many nodes of this layer lie before the boundary, inside the node of the layer above."""
        found: Integers = self.leaf // self.tree.branching**layer % self.tree.branching
        return found

    def node(self, layer: int) -> Integers:
        """The first node of this layer inside the node of the layer above."""
        found: Integers = self.leaf // self.tree.branching ** (layer + 1) * self.tree.branching
        return found

    def enters(self, layer: int, first: Integers, stop: Integers) -> Flags:
        """Whether the boundary lies inside one of the nodes first..stop-1 of this layer."""
        size = self.tree.branching**layer
        node = self.leaf // size
        found: Flags = (first <= node) & (node < stop) & (self.leaf % size != 0)
        return found

    def begin(self, where: Flags, weight: Floats) -> None:
        """The path begins with a root."""
        self.on |= where
        self.weight = np.where(where, weight, self.weight)


def _below(start: _Path, end: _Path, joint: Flags, layer: int) -> Iterator[Alike]:
    """The nodes of this layer beside both paths, below the paths' nodes of the layer above.

    Moves the paths down to this layer; `joint`, changed in place, says where both are the same.
    """
    c, rest = start.tree.branching, 1 - start.tree.own[layer + 1]
    (d, f, F), (e, g, G) = (
        (path.digit(layer), path.share[layer], path.share[layer + 1]) for path in (start, end)
    )
    alone, other, split = start.on & ~joint, end.on, joint & (d < e)
    base, apart = start.weight * rest + np.where(joint, F - G, F), end.weight * rest - G
    first, last = start.node(layer), end.node(layer)
    none = np.zeros_like(d)
    yield Alike(layer, True, np.where(joint, base, base - 1), first, np.where(start.on, d, none))
    yield Alike(layer, True, base, first + d + 1, np.where(alone, c - 1 - d, none))
    yield Alike(layer, True, base + 1, first + d + 1, np.where(split, e - d - 1, none))
    yield Alike(layer, True, base, first + e + 1, np.where(joint, c - 1 - e, none))
    yield Alike(layer, True, apart + 1, last, np.where(other, e, none))
    yield Alike(layer, True, apart, last + e + 1, np.where(other, c - 1 - e, none))
    start.weight = base - f + np.where(joint, np.where(split, 1.0, g), 0.0)
    end.weight = np.where(split, base, apart) + g
    end.on |= split
    joint &= ~split


class TreeSums:
    """What was measured of a tree, leaf after leaf."""

    def __init__(self, tree: Tree, cells: int) -> None:
        self._tree, self._leaf = tree, 0
        self._own = [RunningSums(cells) for _ in tree.own]
        self._estimates = [RunningSums(cells) for _ in tree.own]

    def add(self, rows: Floats) -> None:
        """Add the nodes that are complete with the next leaves: by leaf, then by layer."""
        tree, before = self._tree, self._tree.nodes(self._leaf)
        leaf, high = self._leaf, self._leaf + len(rows)
        while leaf < high:  # the last leaf that is complete with these rows
            middle = (leaf + high + 1) // 2
            leaf, high = (middle, high) if tree.nodes(middle) - before <= len(rows) else (leaf, middle - 1)
        for layer in range(tree.height):
            size = tree.branching**layer
            ends = np.arange(self._leaf // size + 1, leaf // size + 1) * size
            places = layer - before + sum((ends - 1) // tree.branching**each for each in range(tree.height))
            measured = rows[places]
            self._own[layer].add(measured)
            if layer:
                children = ends // size * tree.branching
                below = self._estimates[layer - 1].between(children - tree.branching, children)
                measured = tree.own[layer] * measured + (1 - tree.own[layer]) * below
            self._estimates[layer].add(measured)
        self._leaf = leaf

    def sums(self, leaves: Leaves) -> Floats:
        """The estimated sums, by cells."""
        found = np.zeros((len(leaves.end), self._own[0].cells))
        for layer, whole, weights, first, counts in self._tree.alike(leaves):
            there = np.flatnonzero(counts)
            if len(there):
                kept = (self._estimates if whole else self._own)[layer]
                stops = first[there] + counts[there]
                found[there] += weights[there, None] * kept.between(first[there], stops)
        return found
