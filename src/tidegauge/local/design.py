"""Choosing the groups of a survey: who reports snapshots, who reports changes, and on which level.

The prediction assumes that everybody joins in the first window, that answers are spread evenly and that each
person makes all allowed changes at even times.  Only accuracy depends on it; the privacy guarantee does not.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidegauge.local.groups import (
    Group,
    Memoized,
    Response,
    Setting,
    Snapshot,
    Tilted,
    best_oracle,
    best_tilted,
    oracle,
    tilted_variance,
)
from tidegauge.local.merge import Measured, merge
from tidegauge.local.reporter import ONE, acceptance

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_WHOLE = 10_000  # shares are whole numbers out of this
_LEAST = 0.004  # a group with a smaller share is left out
_ROUNDS = 12  # of adjusting the shares; the error is flat around the best ones


def _planned(values: Floats, channel: int, channels: int) -> Measured:
    spread = np.zeros((len(values), channels))
    spread[:, channel] = values
    return Measured(values, np.zeros((len(values), 1)), spread)


def tilted_nodes(group: Tilted, share: float, setting: Setting) -> Floats:
    """The predicted variance per person of every node of the group's level."""
    nodes = setting.windows >> group.level
    moving = setting.moving_share(nodes)
    out = np.empty(nodes)
    for place, joining in ((slice(1, None), False), (slice(0, 1), True)):
        noise, known = tilted_variance(group.map, setting.answers, group.law, moving=moving, joining=joining)
        out[place] = max(float(noise) / share - known, 1e-12)
    return out


def snapshot_nodes(group: Snapshot, share: float, setting: Setting) -> Floats:
    """The predicted variance per person of a window's snapshot."""
    answers = setting.answers
    law = oracle(group.oracle, epsilon=setting.epsilon, answers=answers).variance(1 / answers)
    return np.full(setting.windows, law.of(share / setting.windows))


def predicted(groups: tuple[Group, ...], setting: Setting) -> Floats:
    """The predicted variance per person of every window's count, averaged over the answers."""
    head = groups[0]
    if isinstance(head, Response):
        return _response_variance(head, setting)
    if isinstance(head, Memoized):
        each, answers = setting.each(head.to_dict()), setting.answers
        law = oracle(head.oracle, epsilon=each, answers=answers).variance(1 / answers)
        return np.full(setting.windows, law.of(1.0))
    shares = np.array([group.share for group in groups], dtype=np.float64)
    return _merged(groups, shares / shares.sum(), setting)[0]


def _merged(groups: Sequence[Group], shares: Floats, setting: Setting) -> tuple[Floats, Floats]:
    """Predicted variance per window, and how much of it comes from each group on average."""
    levels, snapshots = {}, None
    for at, (group, share) in enumerate(zip(groups, shares, strict=True)):
        if isinstance(group, Tilted):
            nodes = tilted_nodes(group, share, setting)
            levels[group.level] = _planned(nodes, at, len(groups))
        elif isinstance(group, Snapshot):
            nodes = snapshot_nodes(group, share, setting)
            snapshots = _planned(nodes, at, len(groups))
    merged = merge(windows=setting.windows, levels=levels, snapshots=snapshots)
    return merged.planned, merged.spread.mean(axis=0)


@lru_cache(maxsize=256)
def tilted_groups(setting: Setting, *, snapshots: bool, only: str = "", levels: int = 0) -> tuple[Group, ...]:
    """One group a level, and one of snapshots if asked, with the shares of least predicted error.

    Shares are in proportion to what each group contributes to the error, which is where the error is least.
    only:   the one signal map to consider; empty: all.
    levels: how many levels, from the lowest; 0: as many as the windows have.
    """
    groups: list[Group] = [
        best_tilted(setting, level=level, only=only)
        for level in range(levels or max(setting.windows.bit_length() - 1, 1))
    ]
    if snapshots:
        best = best_oracle(epsilon=setting.epsilon, answers=setting.answers)
        groups.append(Snapshot(share=1, oracle=best.name))
    shares = np.full(len(groups), 1 / len(groups))
    for _ in range(_ROUNDS):
        _, parts = _merged(groups, shares, setting)
        better = parts / parts.sum()
        keep = better >= _LEAST
        keep[0] |= not snapshots  # without snapshots, only the lowest level speaks in every window
        settled = np.abs(better - shares).max() < _LEAST
        groups = [group for group, kept in zip(groups, keep, strict=True) if kept]
        shares = better[keep] / better[keep].sum()
        if settled:
            break
    return tuple(
        replace(group, share=max(1, round(_WHOLE * s))) for group, s in zip(groups, shares, strict=True)
    )


# -- the paper's protocol ------------------------------------------------------------------------------


def layers_for(windows: int, branching: int) -> int:
    """The least height whose layers cover every running total with fewer than `branching` nodes a layer."""
    layers = 1
    while branching**layers < windows:
        layers += 1
    return layers


class Node(NamedTuple):
    """A node of a hierarchy of windows: its layer (0 is the bottom), and its number there."""

    layer: int
    number: int


def prefix_nodes(window: int, *, branching: int, layers: int) -> list[Node]:
    """The nodes whose union is the windows 0..window."""
    nodes: list[Node] = []
    at, left = 0, window + 1
    for layer in reversed(range(layers)):
        width = branching**layer
        count, left = divmod(left, width)
        nodes += [Node(layer, at // width + i) for i in range(count)]
        at += count * width
    return nodes


def response_law(*, cells: int, loss: Fraction) -> tuple[float, float]:
    """P*: the probabilities of the true cell and of any other."""
    accept = acceptance(loss)
    total = accept * (cells - 1) + ONE
    return ONE / total, accept / total


def _response_variance(group: Response, setting: Setting) -> Floats:
    p, q = response_law(cells=(setting.answers + 1) ** 2, loss=setting.each(group.to_dict()))
    left, nodes = np.arange(1, setting.windows + 1), np.zeros(setting.windows)
    for layer in reversed(range(group.layers)):
        count, left = np.divmod(left, group.branching**layer)
        nodes += count
    return np.asarray(nodes * 2 * setting.answers * q / (p - q) ** 2)


def response_groups(setting: Setting, *, hierarchy: bool, branching: int = 0) -> tuple[Group, ...]:
    """The disjoint release, or the hierarchy with this branching (0: that of least predicted error)."""
    if not hierarchy:
        return (Response(share=1, branching=2, layers=1),)

    def error(group: Response) -> float:
        return float(_response_variance(group, setting).mean())

    choices = [branching] if branching else range(2, max(setting.windows - 1, 2) + 1)
    found = (Response(share=1, branching=c, layers=layers_for(setting.windows, c)) for c in choices)
    return (min(found, key=error),)
