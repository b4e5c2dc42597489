"""What one entry can do to all nodes of a hierarchy together, over every path it can take: exact.

Let s be the entry's state at the ends of the bins.  A node is changed when the states at its two ends differ, so what a
path adds up to is a sum over nodes of a cost of (state before, state after): a (max, +) matrix product along the
leaves, with the node's own cost added whenever its subtree is complete.
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidegauge.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tidegauge.theory.paths import Limits

    Product = NDArray[np.int64]
    """[..., state before, state after, jumps]: most that the leaves so far add up to."""

_NEVER = -(2**60)
_FINEST = 2**30
_POSITIONS = 2**12


class Costs(NamedTuple):
    """What a changed node adds: between[u][v] from state u at its start to state v at its end; state 0 is nothing.

    `again`: between two states of the one kind that stands for many, such as being in one group or another.
    """

    between: tuple[tuple[Fraction, ...], ...]
    again: Fraction = Fraction(0)


def hierarchy_paths(
    costs: Costs,
    *,
    weights: Sequence[Fraction],
    base: Fraction,
    branching: int,
    leaves: int | None,
    limits: Limits,
) -> Fraction:
    """Most that one entry's path adds up to, over the nodes that it changes.  [T10]

    Nodes:    of layer j: every `branching`^j leaves, once complete, each weighing weights[j]; before the leaves (None:
              without end) one node of weight `base` for the initial load, 0 if it is not measured.
    Groups:   an entry that changes from one group to another never comes back to an earlier one, which costs it
              nothing: coming back only makes nodes unchanged.
    Exact:    but for more than a few thousand leaves with a limited reach (as if without end), and for weights and
              costs without a common denominator below 2^30 (rounded up).
    Proof:    docs/theory/T10.md
    """
    jumps, reach = limits
    if leaves is not None:
        reach = None if reach is None or reach > leaves else reach
        jumps = None if jumps is None or jumps > leaves else jumps
    elif jumps is None and reach is None:
        raise SpecError("nothing bounds what one entry changes in a hierarchy without end")
    if jumps is not None and reach is not None and jumps >= reach:
        jumps = None
    flat = [cost for row in costs.between for cost in row] + [costs.again]
    unit, whole = _integers([weight * cost for weight in (*weights, base) for cost in flat])
    tree = _Tree(branching, len(costs.between), jumps, leaves, whole)
    return unit * max(tree.from_load(reach), tree.elsewhere(reach))


def _integers(values: Sequence[Fraction]) -> tuple[Fraction, list[int]]:
    largest = max(values)
    unit = Fraction(1, lcm(*(value.denominator for value in values)))
    if largest > unit * _FINEST:
        unit = largest / _FINEST
    return unit, [-int(-value // unit) for value in values]


class _Tree:
    """The (max, +) products of complete subtrees, and their products along the leaves."""

    def __init__(
        self, branching: int, states: int, jumps: int | None, leaves: int | None, costs: list[int]
    ) -> None:
        self.branching, self.states, self.leaves = branching, states, leaves
        self.limited = jumps is not None
        self.slots = 2 if jumps is None else jumps + 1
        spent = np.arange(self.slots)
        self.left_over = np.where(spent[:, None] < spent, self.slots, spent[:, None] - spent)
        *layers, load = np.reshape(costs, (-1, states**2 + 1))
        self.costs = [self._node(cost) for cost in layers]
        self.height = len(layers)
        leaf = self._one()
        leaf[:, :, 1] = 0
        self.load = leaf + self._node(load)
        self.full = [self._bounded(leaf + self.costs[0])]
        for layer in range(1, self.height):
            self.full.append(self._bounded(self._power(self.full[-1], branching) + self.costs[layer]))

    def _node(self, cost: NDArray[np.int64]) -> Product:
        between = np.repeat(cost[:-1].reshape(self.states, self.states, 1), self.slots, axis=2)
        between[-1, -1, 1:] = cost[-1]
        return between

    def _one(self) -> Product:
        one = np.full((self.states, self.states, self.slots), _NEVER, dtype=np.int64)
        one[:, :, 0][np.diag_indices(self.states)] = 0
        return one

    @staticmethod
    def _bounded(product: Product) -> Product:
        return np.maximum(product, _NEVER)

    def _times(self, left: Product, right: Product) -> Product:
        """First the leaves of the one, then those of the other."""
        if self.limited:
            never = np.full((*right.shape[:-1], 1), _NEVER, dtype=np.int64)
            rest = np.concatenate([right, never], axis=-1)[..., self.left_over]
            ways = left[..., :, :, None, None, :] + rest[..., None, :, :, :, :]
            return self._bounded(ways.max(axis=(-4, -1)))
        none, some = left[..., :1], left[..., 1:]
        unchanged = (none[..., :, :, None, :] + right[..., None, :, :, :]).max(axis=-3)
        changed = (some[..., :, :, None, :] + right[..., None, :, :, :]).max(axis=(-3, -1))
        unchanged[..., 1] = np.maximum(unchanged[..., 1], changed)
        return self._bounded(unchanged)

    def _power(self, product: Product, exponent: int) -> Product:
        result = self._one()
        while exponent:
            if exponent & 1:
                result = self._times(result, product)
            product, exponent = self._times(product, product), exponent >> 1
        return result

    def _powers(self, product: Product, most: int) -> Product:
        powers = [self._one()]
        for _ in range(most):
            powers.append(self._times(powers[-1], product))
        return np.stack(powers)

    def _first(self, leaves: int) -> Product:
        """The first so many leaves, with the complete nodes among them."""
        result, rest = self._one(), leaves
        for layer in reversed(range(self.height)):
            count, rest = divmod(rest, self.branching**layer)
            result = self._times(result, self._power(self.full[layer], count))
        return result

    @staticmethod
    def _most(product: Product) -> int:
        return int(product[..., 0, :, :].max())

    def from_load(self, reach: int | None) -> int:
        """Paths that may begin with the initial load."""
        if reach is not None:
            rest = reach - 1 if self.leaves is None else min(reach - 1, self.leaves)
            after = self._prefix(rest)
        elif self.leaves is None:
            after = self._power(self.full[-1], self.slots)
        else:
            after = self._first(self.leaves)
        return self._most(self._times(self.load, after))

    def _prefix(self, count: int) -> Product:
        """Changes in the first `count` leaves alone."""
        return self._windows(np.zeros(1, dtype=np.int64), count, self.leaves) if count else self._one()

    def elsewhere(self, reach: int | None) -> int:
        """Paths that begin after the first leaf, where their length is limited."""
        if reach is None or (self.leaves is not None and self.leaves < reach):
            return 0
        if self.leaves is not None and self.leaves * self.slots <= _POSITIONS:
            return self._most(self._windows(np.arange(self.leaves - reach + 1), reach, self.leaves))
        # Every start relative to the lowest layer whose nodes hold the path, before a boundary of all layers:
        # a boundary of more layers only splits nodes, and the parts change when the whole does.
        top = self.branching ** (self.height - 1)
        layer = next((j for j in range(self.height) if self.branching**j >= reach), self.height - 1)
        starts = top + np.arange(-(self.branching**layer), 0)
        return self._most(self._windows(starts, reach, None))

    def _windows(self, starts: NDArray[np.int64], reach: int, leaves: int | None) -> Product:
        """Changes in `reach` leaves from each of the starts, climbing from both ends to where they meet."""
        first, last = starts, starts + reach - 1
        one = self._one()
        left = np.broadcast_to(self.full[0], (len(starts), *one.shape))
        right = left if reach > 1 else np.broadcast_to(one, left.shape)
        for layer in range(1, self.height):
            powers = self._powers(self.full[layer - 1], self.branching - 1)
            together, apart = first == last, first // self.branching != last // self.branching
            between = np.clip(last - first - 1, 0, self.branching - 1)
            met = self._times(self._times(left, powers[between]), right)
            beyond = self._times(left, powers[self.branching - 1 - first % self.branching])
            before = self._times(powers[last % self.branching], right)
            first, last = first // self.branching, last // self.branching
            left = np.where(_each(together), left, np.where(_each(apart), beyond, met))
            left = self._bounded(left + self._complete(first, layer, leaves))
            right = np.where(_each(apart), self._bounded(before + self._complete(last, layer, leaves)), one)
        most = int((last - first).max(initial=0))
        powers = self._powers(self.full[-1], max(most - 1, 0))
        return self._times(self._times(left, powers[np.clip(last - first - 1, 0, None)]), right)

    def _complete(self, nodes: NDArray[np.int64], layer: int, leaves: int | None) -> Product:
        """What the nodes cost themselves, where the horizon lets them be measured."""
        ends = (nodes + 1) * self.branching**layer
        measured = np.ones_like(ends, dtype=bool) if leaves is None else ends <= leaves
        return np.where(_each(measured), self.costs[layer], 0)


def _each(chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return chosen[:, None, None, None]
