"""Most measurements of a release that one unit can change: T2, T3 and T4, and T7 for local privacy.

A unit's changes lie in a closed interval of time. A window (a, b] is half-open: a change at b belongs to it.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from tidegauge.errors import SpecError
from tidegauge.model.quantity import Exact, alike
from tidegauge.theory._arguments import length, whole
from tidegauge.theory.paths.cases import constraint_cases

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from tidegauge.model.constraint import Constraint
    from tidegauge.model.quantity import Quantity
    from tidegauge.theory._arguments import Length
    from tidegauge.theory.paths.cases import ConstraintCase


def most_span(times: Sequence[Quantity], bound: Length) -> int:
    """Most windows that a closed interval of length `bound` touches.  [T2]

    Windows:  (-inf, t1], (t1, t2], ...; times never fall, and a window that ends where it begins is empty.
    Tight:    an interval that begins at the end of a window.
    Proof:    docs/theory/T2-span.md
    """
    return _most_span(times, length(bound, key="bound", empty=True))


def _most_span(times: Sequence[Quantity], bound: Exact) -> int:
    *moments, longest = alike(*times, bound)
    ends = _distinct(moments)
    last = len(ends) - 1
    return max(
        (min(bisect_left(ends, end + longest, i), last) - i + 1 for i, end in enumerate(ends)), default=0
    )


def dcr_folds(
    constraint: Constraint | None,
    times: Sequence[Quantity] | None = None,
    *,
    width: Length | None = None,
    count: int | None = None,
    local: bool = False,
) -> int:
    """Most windows of a disjoint release that one unit can change.  [T2, T7]

    Windows:  (-inf, t1], (t1, t2], ... at any `times`, or `count` of them (None: without end) `width` apart.
    Requires: the constraint is enforced.  Local: any two units are adjacent.
    Tight:    one change at each of the first times of the densest part (local: at regular times).
    Proof:    docs/theory/T2.md, docs/theory/T7.md
    """
    if times is not None and (width is not None or count is not None):
        raise SpecError("give either times, or width and count", key="times")
    windows = _endless(count) if times is None else len(_distinct(alike(*times)))
    step = None if width is None else length(width, key="width")

    def span(bound: Exact | None) -> int | None:
        if bound is None:
            return None
        if times is not None:
            return _most_span(times, bound)
        if step is None:
            raise SpecError("a bound in time needs the times of the windows or their width", key="width")
        return _ceiling(bound, step) + 1

    folds = max(_least(windows, case.mutations, span(case.bound)) for case in constraint_cases(constraint))
    return _of_two(windows, folds) if local else folds


def swcr_folds(
    constraint: Constraint | None,
    *,
    window: Length,
    period: Length,
    count: int | None = None,
    local: bool = False,
) -> int:
    """Most windows of a sliding release that one unit can change.  [T3, T7]

    Windows:  (t - window, t] for `count` times t (None: without end) one period apart; there may be gaps.
    Requires: the constraint is enforced.  Local: any two units are adjacent.
    Tight:    changes at the ends of every ceil(window / period)-th window, and one as late as allowed.
    Proof:    docs/theory/T3.md, docs/theory/T7.md
    """
    windows = _endless(count)
    extent, step = length(window, key="window"), length(period, key="period")
    each = _ceiling(extent, step)

    def by_mutations(mutations: int | None) -> int | None:
        return None if mutations is None else mutations * each

    def by_bound(bound: Exact | None) -> int | None:
        if bound is None:
            return None
        longest, wide, apart = alike(bound, extent, step)
        return ceil((longest + wide) / apart)

    folds = max(
        _least(windows, by_mutations(case.mutations), by_bound(case.bound))
        for case in constraint_cases(constraint)
    )
    return _of_two(windows, folds) if local else folds


def hdcr_folds(
    constraint: Constraint | None,
    *,
    width: Length,
    branching: int,
    height: int,
    count: int | None = None,
    initial: bool = True,
    local: bool = False,
) -> int:
    """Most nodes of a hierarchical release that one unit can change.  [T4, T7]

    Nodes:    of layer j < height: (i c^j W, (i+1) c^j W] for i < ceil(count / c^j), counted from the start;
              and, where the `initial` load is measured, one node (-inf, start] in front of all layers.
    Requires: the constraint is enforced.  Local: any two units are adjacent.
    Tight:    a unit whose last change is just past the end of a node of the highest layer that it can reach.
    Proof:    docs/theory/T4.md, docs/theory/T7-hierarchy.md
    """
    layers = _layers(width, branching, height, count)
    options = constraint_cases(constraint)
    inside = [[layer.most(case) for layer in layers] for case in options]
    after_load = [[layer.most(case, loaded=True) for layer in layers] for case in options]
    folds = max(map(sum, inside))
    if initial:
        folds = max(folds, 1 + max(map(sum, after_load)))
    if not local:
        return folds
    return min(2 * folds, _of_two_in_layers(layers, inside, after_load if initial else None))


def load_folds(
    constraint: Constraint | None, *, width: Length, branching: int, height: int, count: int | None = None
) -> int:
    """Most nodes of a hierarchical release that a unit of its initial load can change.  [T4]

    Nodes:    as for hdcr_folds, the initial one included.
    Requires: the constraint is enforced.
    Tight:    a unit whose first change is at the start of the hierarchy.
    Proof:    docs/theory/T4-load.md
    """
    layers = _layers(width, branching, height, count)
    return 1 + max(
        sum(layer.most(case, loaded=True) for layer in layers) for case in constraint_cases(constraint)
    )


def _of_two(windows: int | None, folds: int) -> int:
    """Most windows in which one of two units changes something, each of them in at most `folds`.  [T7]"""
    return _least(windows, 2 * folds)


def _of_two_in_layers(
    layers: list[_Layer], inside: list[list[int]], after_load: list[list[int]] | None
) -> int:
    """Most nodes that one of two units changes.  [T7]

    By case and layer: the most of a unit that enters after the start, and of one of the load (None: the load
    is not measured).
    """
    first = list(map(max, zip(*inside, strict=True)))
    two = sum(_of_two(layer.nodes, most) for layer, most in zip(layers, first, strict=True))
    if after_load is None:
        return two
    second = list(map(max, zip(*after_load, strict=True)))
    one_loaded = sum(
        _least(layer.nodes, most + rest) for layer, most, rest in zip(layers, first, second, strict=True)
    )
    return max(two, 1 + one_loaded)


class _Layer(NamedTuple):
    """Adjacent windows of one width: `nodes` of them (None: without end)."""

    width: Exact
    nodes: int | None

    def most(self, case: ConstraintCase, *, loaded: bool = False) -> int:
        """Most windows that a unit can change; `loaded`: its first change is not later than their start."""
        spent = 1 if loaded else 0
        by_mutations = None if case.mutations is None else case.mutations - spent
        by_bound = None if case.bound is None else _ceiling(case.bound, self.width) + 1 - spent
        return _least(self.nodes, by_mutations, by_bound)


def _layers(width: Length, branching: int, height: int, count: int | None) -> list[_Layer]:
    bottom, windows = length(width, key="width"), _endless(count)
    base = whole(branching, key="branching", least=2)
    sizes = [base**layer for layer in range(whole(height, key="height", least=1))]
    return [
        _Layer(Exact(bottom.value * size, bottom.temporal), None if windows is None else -(-windows // size))
        for size in sizes
    ]


def _endless(count: int | None) -> int | None:
    return None if count is None else whole(count, key="count", least=0)


def _distinct(ends: list[Fraction]) -> list[Fraction]:
    if any(later < earlier for earlier, later in pairwise(ends)):
        raise SpecError("must be in order, the earliest first", key="times")
    return list(dict.fromkeys(ends))


def _ceiling(long: Exact, short: Exact) -> int:
    dividend, divisor = alike(long, short)
    return ceil(dividend / divisor)


def _least(*limits: int | None) -> int:
    known = [limit for limit in limits if limit is not None]
    if not known:
        raise SpecError("nothing bounds the loss: give a constraint (AtMost, Within), or a count of windows")
    return min(known)
