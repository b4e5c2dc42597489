"""Least squares over a whole tree in integers: the noise of every leaf, from one draw for every node.

The tree has `leaves` leaves.  Layer j has one node for every branching^j leaves; the last node of a layer may
have fewer.  A unit that changes the leaves by d moves the sums of the nodes by `sums(d)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numpy as np

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Indices = NDArray[np.int64]
    Whole = NDArray[np.object_]
    """Python's own integers, of any size."""

    Numbers = TypeVar("Numbers", bound=NDArray[Any])

_ONE: Final = 1 << 16
"""Weights are multiples of 1/65536."""
_NARROW: Final = 1 << 62


@dataclass(frozen=True)
class ConsistentTree:
    """The nodes of all layers, from the bottom up, and the scale of the noise of each layer."""

    leaves: int
    branching: int
    scales: tuple[Fraction, ...]

    @cached_property
    def sizes(self) -> list[int]:
        """The number of nodes of each layer."""
        found = [self.leaves]
        for _ in self.scales[1:]:
            found.append(-(-found[-1] // self.branching))
        return found

    @cached_property
    def layers(self) -> Indices:
        """The layer of every node."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def sums(self, leaves: Numbers) -> Numbers:
        """What every node sums; `leaves` by cells."""
        found = [leaves]
        for _ in self.scales[1:]:
            found.append(self._grouped(found[-1]))
        return cast("Numbers", np.concatenate(found))

    def leaf_noise(self, draws: Whole) -> Whole:
        """The noise of every leaf (leaves by cells) from draws for all nodes (nodes by cells).  [T20]

        Exact:    leaf_noise(draws + sums(d)) = leaf_noise(draws) + d, for all integers d.
        Nearly:   the least-squares estimate of the leaves from the draws, rounded to integers.
        Proof:    docs/theory/T20-exact.md
        """
        drawn = self._split(self._exact(draws))
        known = [drawn[0]]
        for layer, own in enumerate(self._own[1:], start=1):
            below = self._grouped(known[-1])
            known.append(below + _part(own, drawn[layer] - below))
        found = known[-1]
        for layer in reversed(range(len(known) - 1)):
            rest = found - self._grouped(known[layer])
            upto = _part(self._upto[layer], rest[self._parents(layer)])
            before = np.concatenate([upto[:1] * 0, upto[:-1]])
            before[:: self.branching] = 0
            found = known[layer] + upto - before
        return found.astype(object)

    def reach(self, weights: Floats) -> Floats:
        """Weights over the draws of a weighted sum of the noise of leaves, but for rounding.

        `weights`: one per leaf, or leaves by cases.
        """
        found, of_known = weights, []
        for layer in range(len(self.sizes) - 1):
            share = self._share(layer).reshape(-1, *(1,) * (weights.ndim - 1))
            above = self._grouped(share * found)
            of_known.append(found - above[self._parents(layer)])
            found = above
        carried, of_draws = found, []
        for layer in reversed(range(1, len(self.sizes))):
            own = (self._own[layer] / _ONE).reshape(-1, *(1,) * (weights.ndim - 1))
            of_draws.append(own * carried)
            carried = of_known[layer - 1] + ((1 - own) * carried)[self._parents(layer - 1)]
        return np.concatenate([carried, *reversed(of_draws)])

    def variances(self, first: Indices, last: Indices) -> Floats:
        """Variance of the noise of the sum of leaves first..last, for draws of variance scale^2.

        Of exact least squares; the weights of `leaf_noise` are rounded, and its variance hardly larger.
        """
        known, noise = self._known, [float(scale) ** 2 for scale in self.scales]
        left, right = first, last
        var = [known[0][left], np.where(left == right, 0.0, known[0][right])]
        cov = [one.copy() for one in var]
        joined = left == right
        for layer in range(1, len(known)):
            before = np.concatenate([[0.0], np.cumsum(known[layer - 1])])
            up, down = left // self.branching, right // self.branching
            starts, ends = down * self.branching, np.minimum((up + 1) * self.branching, self.sizes[layer - 1])
            meet = ~joined & (up == down)
            apart = ~joined & (up != down)
            inner = np.where(meet, before[right] - before[left + 1], 0.0)
            after = np.where(apart, before[ends] - before[left + 1], 0.0)
            front = np.where(apart, before[right] - before[starts], 0.0)
            var = [np.where(meet, var[0] + var[1] + inner, var[0] + after), np.where(meet, 0, var[1] + front)]
            cov = [np.where(meet, cov[0] + cov[1] + inner, cov[0] + after), np.where(meet, 0, cov[1] + front)]
            joined |= meet
            for side, node in ((0, up), (1, down)):
                whole = self._grouped(known[layer - 1])[node]
                gain = cov[side] / (whole + noise[layer])
                var[side] = var[side] - gain * cov[side]
                cov[side] = gain * noise[layer]
            left, right = up, down
        before = np.concatenate([[0.0], np.cumsum(known[-1])])
        return var[0] + np.where(joined, 0.0, var[1] + before[right] - before[np.minimum(left + 1, right)])

    @cached_property
    def covariance(self) -> Floats:
        """The covariance of the noise of the leaves (leaves by leaves), for draws of variance scale^2.

        Of exact least squares, like `variances`.
        """
        nodes = (
            self.sums(np.eye(self.leaves))
            / np.array([float(self.scales[one]) for one in self.layers])[:, None]
        )
        return np.linalg.inv(nodes.T @ nodes)

    @cached_property
    def _known(self) -> list[Floats]:
        """By layer: the variance of each node's sum, from the draws of its own subtree."""
        found = [np.full(self.leaves, float(self.scales[0]) ** 2)]
        for scale in self.scales[1:]:
            below, noise = self._grouped(found[-1]), float(scale) ** 2
            found.append(below * noise / (below + noise))
        return found

    @cached_property
    def _own(self) -> list[Indices]:
        """By layer: the weight of each node's own draw against those below, in units of 1/65536."""
        found = [np.full(self.leaves, _ONE, dtype=np.int64)]
        for known, scale in zip(self._known, self.scales[1:], strict=False):
            below = self._grouped(known)
            found.append(np.rint(_ONE * below / (below + float(scale) ** 2)).astype(np.int64))
        return found

    @cached_property
    def _upto(self) -> list[Indices]:
        """By layer: the share of a parent's rest of a node and the siblings before it; 65536 is all."""
        found = []
        for layer, known in enumerate(self._known[:-1]):
            parents = self._parents(layer)
            whole, total = self._grouped(known), np.cumsum(known)
            start = np.concatenate([[0.0], np.cumsum(whole)[:-1]])
            upto = np.rint(_ONE * (total - start[parents]) / whole[parents]).astype(np.int64)
            ends = np.append(np.flatnonzero(np.diff(parents)), len(parents) - 1)
            upto[ends] = _ONE
            found.append(upto)
        return found

    def _share(self, layer: int) -> Floats:
        """The share of a parent's rest that each node of a layer takes."""
        before = np.concatenate([[0], self._upto[layer][:-1]])
        before[:: self.branching] = 0
        found: Floats = (self._upto[layer] - before) / _ONE
        return found

    def _parents(self, layer: int) -> Indices:
        return np.arange(self.sizes[layer]) // self.branching

    def _grouped(self, values: Numbers) -> Numbers:
        """Sums over the children of each node of the next layer."""
        starts = np.arange(0, len(values), self.branching)
        return cast("Numbers", np.add.reduceat(values, starts, axis=0))

    def _split(self, nodes: Whole) -> list[Whole]:
        return np.split(nodes, np.cumsum(self.sizes)[:-1])

    def _exact(self, draws: Whole) -> Whole:
        """The draws, as 64-bit integers if no sum and no product of them can be too large."""
        largest = max(map(abs, draws.ravel().tolist()), default=0)
        narrow = 8 * _ONE * (largest + 1) * (self.leaves + len(draws)) < _NARROW
        found: Whole = draws.astype(np.int64 if narrow else object)
        return found


def _part(weights: Indices, rest: Whole) -> Whole:
    """weights/65536 times the rest, to the nearest integer."""
    found: Whole = (weights.reshape(-1, 1).astype(rest.dtype) * rest + _ONE // 2) // _ONE
    return found
