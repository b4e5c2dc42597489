"""Sensitivity of all nodes of a hierarchy together, over every path of one unit: exact.

Let s be the unit's state at the ends of the bins.  A node is changed when the states at its two ends differ,
so a path's total is a sum over nodes of a cost of (state before, state after): a (max, +) matrix product
along the leaves. The cost of a node is added when its subtree is complete.
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidegauge.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from tidegauge.theory.paths.path import BinCase

    Product = NDArray[np.int64]
    """[..., state before, state after, changes]: most that the leaves so far add up to."""

_COUNTED, _COUNTED_WITHIN = 64, 24
"""Most changes that are counted one by one, without and with a limited span; more are priced instead."""
_PRICES = 18
_GOLDEN = (sqrt(5) - 1) / 2
_NEVER = -(2**60)
_LARGEST = 2**60
"""Sums below this are exact: two of them still fit into 64-bit integers."""
_UNKNOWN = 2**200
"""More than any bound: what a price gives whose sums are not exact.  A higher price may do better."""
_FINEST = 2**30
_POSITIONS = 2**12


class Costs(NamedTuple):
    """Costs of a changed node: between[u][v] from state u at its start to v at its end; state 0 is nothing.

    `again`: between two states of the kind that stands for many, such as being in one group or another.
    """

    between: tuple[tuple[Fraction, ...], ...]
    again: Fraction = Fraction(0)


def hierarchy_paths(
    costs: Costs,
    *,
    weights: Sequence[Fraction],
    base: Fraction | None,
    branching: int,
    leaves: int | None,
    case: BinCase,
) -> Fraction:
    """Largest total cost of one unit's path over the nodes that it changes.  [T10]

    Nodes:    of layer j: every `branching`^j leaves, once complete, each with weight weights[j]; before the
              leaves (None: without end) one node of weight `base` for the initial load, 0 if it is not
              measured; None if there is nothing before the leaves.
    Groups:   a unit that changes groups is taken never to return to an earlier group: returning only leaves
              nodes unchanged.
    Exact:    except for more than a few thousand leaves with a limited span (as if without end), for weights
              and costs without a common denominator below 2^30 (rounded up), for sums beyond 2^60 (every
              change costs the most), and for many changes, which are not counted but priced: certified from
              above, and exact where each further change adds ever less.
    Proof:    docs/theory/T10-hierarchy.md, docs/theory/T10-hierarchy-prices.md
    """
    changes, span = case
    loaded, base = base is not None, base or Fraction(0)
    if leaves is not None:
        span = None if span is None or span > leaves else span
        changes = None if changes is None or changes > leaves else changes
    elif changes is None and span is None:
        raise SpecError(
            "nothing bounds what one unit changes in a hierarchy without end: give a constraint or 'for'"
        )
    if changes is not None and span is not None and changes >= span:
        changes = None
    flat = [cost for row in costs.between for cost in row] + [costs.again]
    unit, whole = _integers([weight * cost for weight in (*weights, base) for cost in flat])
    states = len(costs.between)
    largest: list[int] = np.reshape(whole, (-1, len(flat))).max(axis=1).tolist()
    each, load = sum(largest[:-1]), largest[-1]
    apart = min(most for most in (changes, span, leaves) if most is not None) * each + load
    if changes is None or changes <= (_COUNTED if span is None else _COUNTED_WITHIN):
        tree = _Tree(branching, states, changes, leaves, whole)
        found = tree.most(span, loaded=loaded)
        return unit * (found if tree.exact else apart)

    finer = _FINEST // max(*whole, 1)  # so that a price need not be a whole number of units
    unit, whole = unit / finer, [cost * finer for cost in whole]

    def priced(price: int) -> int:
        """Most of a path with any number of changes less their price, plus the price of those allowed."""
        tree = _Tree(branching, states, None, leaves, whole, price=price, roots=changes + 1)
        found = tree.most(span, loaded=loaded)
        return found + price * changes if tree.exact else _UNKNOWN - price

    return unit * min(_least(priced, finer * (each + load)), apart * finer)


def _least(value: Callable[[int], int], highest: int) -> int:
    """The least value found of a convex function on [0, highest]; any of its values is a bound."""
    low, high = 0, highest
    inner = [high - round((high - low) * _GOLDEN), low + round((high - low) * _GOLDEN)]
    values = [value(at) for at in inner]
    best = min(value(0), *values)
    for _ in range(_PRICES):
        if high - low < 4:
            break
        if values[0] <= values[1]:
            high = inner[1]
            inner = [high - round((high - low) * _GOLDEN), inner[0]]
            values = [value(inner[0]), values[0]]
        else:
            low = inner[0]
            inner = [inner[1], low + round((high - low) * _GOLDEN)]
            values = [values[1], value(inner[1])]
        best = min(best, *values)
    return best


def _integers(values: Sequence[Fraction]) -> tuple[Fraction, list[int]]:
    largest = max(values)
    unit = Fraction(1, lcm(*(value.denominator for value in values)))
    if largest > unit * _FINEST:
        unit = largest / _FINEST
    return unit, [-int(-value // unit) for value in values]


class _Tree:
    """The (max, +) products of complete subtrees, and their products along the leaves.

    `price`: the cost of a change.  `roots`: number of top subtrees that stand for a tree without end.
    """

    def __init__(
        self,
        branching: int,
        states: int,
        changes: int | None,
        leaves: int | None,
        costs: list[int],
        *,
        price: int = 0,
        roots: int | None = None,
    ) -> None:
        self.branching, self.states, self.leaves = branching, states, leaves
        self.exact = True
        """Whether no sum so far reached _LARGEST, beyond which sums may leave the 64-bit integers."""
        self.limited = changes is not None
        self.slots = 2 if changes is None else changes + 1
        *layers, load = np.reshape(costs, (-1, states**2 + 1))
        self.costs = [self._node(cost) for cost in layers]
        self.height = len(layers)
        leaf = self._one()
        leaf[:, :, 1] = -price
        self.roots = self.slots if roots is None else roots
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
        """The product: first the leaves of `left`, then those of `right`."""
        shape = np.broadcast_shapes(left.shape, right.shape)
        found = np.full(shape, _NEVER, dtype=np.int64)
        some = right.max(axis=-1)
        # loops over the short axes, because reductions over short axes are slow
        for middle in range(self.states):
            before, after = left[..., :, middle, None, :], right[..., None, middle, :, :]
            for spent in range(self.slots):
                reached = found[..., spent:]
                if self.limited:
                    ways = before[..., spent, None] + after[..., : self.slots - spent]
                elif spent:
                    ways = before[..., spent, None] + some[..., None, middle, :, None]
                else:
                    ways = before[..., spent, None] + after
                np.maximum(reached, ways, out=reached)
        self.exact = self.exact and bool(found.max(initial=0) < _LARGEST)
        return found

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
        """The first `leaves` leaves, with the complete nodes among them."""
        result, rest = self._one(), leaves
        for layer in reversed(range(self.height)):
            count, rest = divmod(rest, self.branching**layer)
            result = self._times(result, self._power(self.full[layer], count))
        return result

    @staticmethod
    def _most(product: Product) -> int:
        """The most from nothing, with one change or more."""
        return int(product[..., 0, :, 1:].max())

    def most(self, span: int | None, *, loaded: bool) -> int:
        """Most over all paths, from the initial load (or the first leaf) on or from a later leaf."""
        first = self.load if loaded else self._one()
        return max(self._from_start(first, span, int(loaded)), self.elsewhere(span))

    def _from_start(self, first: Product, span: int | None, used: int) -> int:
        """Paths that may begin with the first bin of all; `used` bins of the span lie before the leaves."""
        if span is not None:
            rest = span - used if self.leaves is None else min(span - used, self.leaves)
            after = self._prefix(rest)
        elif self.leaves is None:
            after = self._power(self.full[-1], self.roots)
        else:
            after = self._first(self.leaves)
        return self._most(self._times(first, after))

    def _prefix(self, count: int) -> Product:
        """Changes in the first `count` leaves alone."""
        return self._windows(np.zeros(1, dtype=np.int64), count, self.leaves) if count else self._one()

    def elsewhere(self, span: int | None) -> int:
        """Paths that begin after the first leaf, where their span is limited."""
        if span is None or (self.leaves is not None and self.leaves < span):
            return _NEVER
        if self.leaves is not None and self.leaves * self.slots <= _POSITIONS:
            return self._most(self._windows(np.arange(self.leaves - span + 1), span, self.leaves))
        # Every start relative to the lowest layer whose nodes hold the path, before a boundary of this layer
        # and of each number of layers above.  Where costs obey the triangle inequality, a boundary of all
        # layers is the worst: a boundary of more layers only splits nodes, and the parts cost no less.
        layer = next((j for j in range(self.height) if self.branching**j >= span), self.height - 1)
        before = np.arange(-(self.branching**layer), 0)
        layers = [self.height - 1] if self._splits_cost_no_less() else range(layer, self.height)
        return max(self._most(self._windows(self.branching**j + before, span, None)) for j in layers)

    def _splits_cost_no_less(self) -> bool:
        """Whether going from one state to another costs no more than going by way of any third."""
        return all(
            bool((cost[:, None, :] <= cost[:, :, None] + cost[None, :, :]).all())
            for layer in self.costs
            for cost in [layer.max(axis=-1)]
        )

    def _windows(self, starts: NDArray[np.int64], span: int, leaves: int | None) -> Product:
        """Changes in `span` leaves from each of the starts, climbing from both ends to where they meet."""
        first, last = starts, starts + span - 1
        one = self._one()
        left = np.broadcast_to(self.full[0], (len(starts), *one.shape))
        right = left if span > 1 else np.broadcast_to(one, left.shape)
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
        counts, which = np.unique(np.clip(last - first - 1, 0, None), return_inverse=True)
        between = np.stack([self._power(self.full[-1], count) for count in counts.tolist()])[which]
        return self._times(self._times(left, between), right)

    def _complete(self, nodes: NDArray[np.int64], layer: int, leaves: int | None) -> Product:
        """The nodes' own costs, where they are complete before the last leaf."""
        ends = (nodes + 1) * self.branching**layer
        measured = np.ones_like(ends, dtype=bool) if leaves is None else ends <= leaves
        return np.where(_each(measured), self.costs[layer], 0)


def _each(chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return chosen[:, None, None, None]
