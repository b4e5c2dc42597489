"""The best linear estimate of every window from all snapshots and differences up to it.  [T12]"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """Unbiased measurements, one a node, with independent errors.

    planned: (nodes,)           the public variance that sets the weights; infinite where nothing was measured
    value:   (nodes, answers)   the measurements
    spread:  (nodes, channels)  variances and covariances, in any layout
    """

    planned: Floats
    value: Floats
    spread: Floats


@dataclass(frozen=True)
class Merged:
    """The estimate of every window; NaN in a window about which nothing is known."""

    planned: Floats
    value: Floats
    spread: Floats


class _Node(NamedTuple):
    """One measured node; `start`: where its change starts among the windows that are remembered."""

    start: int | None
    planned: float
    value: Floats
    spread: Floats


def merge(*, windows: int, levels: Mapping[int, Measured], snapshots: Measured | None = None) -> Merged:
    """Estimate the state at the end of every window, from nothing before the first.  [T12]

    Levels:    node i of level l measures the change over the windows [i 2^l, (i + 1) 2^l).
    Snapshots: node t measures the state at the end of window t.
    Promise:   unbiased, because the weights depend on `planned` alone; of least variance if `planned` is
               true.
    State:     at most one past window a level, so O(log windows).
    Proof:     docs/theory/T12-unbiased.md, docs/theory/T12-best.md
    """
    sources = list(levels.values()) + ([] if snapshots is None else [snapshots])
    answers, channels = sources[0].value.shape[1], sources[0].spread.shape[1]
    ends = [-1]  # the windows whose estimates are still needed; -1: before the first, when all is zero
    x, P, S = np.zeros((1, answers)), np.zeros((1, 1)), np.zeros((1, 1, channels))
    result = Merged(
        np.full(windows, np.nan), np.full((windows, answers), np.nan), np.full((windows, channels), np.nan)
    )
    for t in range(windows):
        found = _measured_at(t, ends, levels, snapshots)
        if not found:
            continue
        x, P, S = _begin(x, P, S, found[0])
        for start, planned, value, spread in found[1:]:
            h = np.zeros(len(x))
            h[-1] = 1
            if start is not None:
                h[start] = -1
            Ph, Sh = P @ h, np.tensordot(S, h, axes=(1, 0))
            gain = Ph / (h @ Ph + planned)
            x = x + np.outer(gain, value - h @ x)
            P = P - np.outer(gain, Ph)
            Sg = Sh[:, None, :] * gain[None, :, None]
            S = S - Sg - Sg.transpose(1, 0, 2) + np.outer(gain, gain)[:, :, None] * (h @ Sh + spread)
        ends.append(t)
        result.planned[t], result.value[t], result.spread[t] = P[-1, -1], x[-1], S[-1, -1]
        needed = {t} | {((t + 1) >> level << level) - 1 for level in levels}
        keep = [k for k, end in enumerate(ends) if end in needed]
        ends = [ends[k] for k in keep]
        x, P, S = x[keep], P[np.ix_(keep, keep)], S[np.ix_(keep, keep)]
    return result


def _measured_at(
    t: int, ends: Sequence[int], levels: Mapping[int, Measured], snapshots: Measured | None
) -> list[_Node]:
    """What is measured at the end of window t."""
    found: list[_Node] = []
    for level, measured in levels.items():
        start, node = t - (1 << level), t >> level
        if (t + 1) % (1 << level) == 0 and start in ends and np.isfinite(measured.planned[node]):
            place = ends.index(start)
            found.append(_Node(place, measured.planned[node], measured.value[node], measured.spread[node]))
    if snapshots is not None and np.isfinite(snapshots.planned[t]):
        found.append(_Node(None, snapshots.planned[t], snapshots.value[t], snapshots.spread[t]))
    return found


def _begin(x: Floats, P: Floats, S: Floats, first: _Node) -> tuple[Floats, Floats, Floats]:
    """Append a new state that the first measurement alone determines."""
    start, planned, value, spread = first
    size = len(x)
    index = [*range(size), 0 if start is None else start]
    x, P, S = x[index], P[np.ix_(index, index)], S[np.ix_(index, index)]
    if start is None:
        x[size], P[size], P[:, size], S[size], S[:, size] = 0, 0, 0, 0, 0
    x[size] += value
    P[size, size] += planned
    S[size, size] += spread
    return x, P, S
