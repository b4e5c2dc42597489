"""Nodes of a hierarchy that make up a range of windows, and sliding windows made of them: T5 and T6."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from tidegauge.errors import SpecError
from tidegauge.model.quantity import alike
from tidegauge.theory._arguments import length, whole
from tidegauge.theory.folds import hdcr_folds, swcr_folds

if TYPE_CHECKING:
    from tidegauge.model.constraint import Constraint
    from tidegauge.theory._arguments import Length


class Node(NamedTuple):
    """A node of a hierarchy."""

    layer: int
    """0 is the bottom."""
    number: int
    """From the left in its layer, from 0."""


def cover(left: int, right: int, *, branching: int, height: int) -> list[Node]:
    """The fewest nodes whose disjoint union is (left, right], from left to right, as (layer, number).  [T5]

    Nodes:    number i of layer j < height is (i c^j, (i+1) c^j], in bottom windows from the start.
    Tight:    no other set of nodes is as small.
    Proof:    docs/theory/T5.md
    """
    at, end = whole(left, key="left", least=0), whole(right, key="right", least=0)
    base, layers = whole(branching, key="branching", least=2), whole(height, key="height", least=1)
    if end < at:
        raise SpecError("must not lie before left", key="right")
    nodes = []
    while at < end:
        layer, size = 0, 1
        while layer + 1 < layers and at % (size * base) == 0 and at + size * base <= end:
            layer, size = layer + 1, size * base
        nodes.append(Node(layer, at // size))
        at += size
    return nodes


def cover_bound(windows: int, *, branching: int, height: int) -> int:
    """Most nodes that the cover of so many bottom windows needs, wherever they lie.  [T5]

    Nodes:    as for cover.  Never more than 2 (c-1) h', h' = max(1, ceil(log_c windows)), if height >= h'.
    Tight:    as many small nodes as fit on both sides of a node boundary of the top layer.
    Proof:    docs/theory/T5-bound.md
    """
    rest, nodes = whole(windows, key="windows", least=0), 0
    base = whole(branching, key="branching", least=2)
    for _ in range(whole(height, key="height", least=1) - 1):
        small = rest % base
        if small <= base - 2 and rest >= small + base:
            small += base
        nodes += small
        rest = (rest - small) // base
    return nodes + rest


def sliding_from_hierarchy(
    *, window: Length, period: Length, branching: int
) -> tuple[Fraction | timedelta, int]:
    """Bottom width and height of the hierarchy that sliding windows are summed from.  [T6]

    Width:    the greatest that divides both; a timedelta where the arguments are durations.
    Height:   max(1, ceil(log_c(window / width))), enough for T5's bound.
    Proof:    docs/theory/T6.md
    """
    extent = length(window, key="window")
    wide, apart = alike(extent, length(period, key="period"))
    base = whole(branching, key="branching", least=2)
    scale = wide.denominator * apart.denominator
    width = Fraction(gcd(int(wide * scale), int(apart * scale)), scale)
    height = 1
    while base**height * width < wide:
        height += 1
    return timedelta(microseconds=int(width)) if extent.temporal else width, height


def hierarchy_beats_sliding(
    constraint: Constraint, *, window: Length, period: Length, branching: int
) -> bool:
    """Whether sliding windows summed from a hierarchy have the smaller worst-case variance.  [T6]

    Compares: pure epsilon at equal loss, no end in time, 2 (c-1) h nodes a window against one.
    Rough:    reported beside a plan; the planner decides by the exact variance.
    Proof:    docs/theory/T6-rule.md
    """
    width, height = sliding_from_hierarchy(window=window, period=period, branching=branching)
    nodes = hdcr_folds(constraint, width=width, branching=branching, height=height, initial=False)
    windows = swcr_folds(constraint, window=window, period=period)
    return 2 * (branching - 1) * height * nodes**2 < windows**2
