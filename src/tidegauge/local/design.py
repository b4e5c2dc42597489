"""Choosing what a survey's people do: who takes snapshots, who reports changes, and on which level.

The prediction assumes that everybody joins in the first window, that answers are spread evenly and that each person then
uses up the allowed changes at even times.  It decides accuracy alone: no promise of privacy rests on it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.local.groups import (
    Group,
    Memoized,
    Response,
    Snapshot,
    Tilted,
    best_oracle,
    best_tilted,
    moving_share,
    oracle,
    tilted_variance,
)
from tidegauge.local.merge import Measured, merge
from tidegauge.local.reporter import ONE, acceptance, responses_of_a_life

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_WHOLE = 10_000  # shares are whole numbers out of this
_LEAST = 0.004  # a group with a smaller share is left out
_ROUNDS = 12  # of weighing the groups anew; the error is flat around the best shares


def _planned(values: Floats, channel: int, channels: int) -> Measured:
    spread = np.zeros((len(values), channels))
    spread[:, channel] = values
    return Measured(values, np.zeros((len(values), 1)), spread)


def tilted_nodes(group: Tilted, share: float, *, windows: int, changes: int, answers: int) -> Floats:
    """The predicted variance per person of every node of the group's level."""
    nodes = windows >> group.level
    moving = moving_share(windows=windows, changes=changes, nodes=nodes)
    out = np.empty(nodes)
    for place, joining in ((slice(1, None), False), (slice(0, 1), True)):
        noise, known = tilted_variance(group.map, answers, group.law, moving=moving, joining=joining)
        out[place] = max(float(noise) / share - known, 1e-12)
    return out


def snapshot_nodes(group: Snapshot, share: float, *, windows: int, epsilon: Fraction, answers: int) -> Floats:
    """The predicted variance per person of a window's snapshot."""
    law = oracle(group.oracle, epsilon=epsilon, answers=answers).variance(1 / answers)
    return np.full(windows, law.of(share / windows))


def predicted(
    groups: tuple[Group, ...], *, windows: int, changes: int, epsilon: Fraction, answers: int
) -> Floats:
    """The predicted variance per person of every window's count, averaged over the answers."""
    head = groups[0]
    if isinstance(head, Response):
        return _response_variance(head, windows=windows, changes=changes, epsilon=epsilon, answers=answers)
    if isinstance(head, Memoized):
        each = epsilon / responses_of_a_life(
            head.to_dict(), windows=windows, changes=changes, answers=answers
        )
        law = oracle(head.oracle, epsilon=each, answers=answers).variance(1 / answers)
        return np.full(windows, law.of(1.0))
    shares = np.array([group.share for group in groups], dtype=np.float64)
    setting = {"windows": windows, "changes": changes, "answers": answers}
    return _merged(groups, shares / shares.sum(), epsilon=epsilon, **setting)[0]


def _merged(
    groups: Sequence[Group], shares: Floats, *, windows: int, changes: int, epsilon: Fraction, answers: int
) -> tuple[Floats, Floats]:
    """Predicted variance per window, and how much of it comes from each group on average."""
    levels, snapshots = {}, None
    for at, (group, share) in enumerate(zip(groups, shares, strict=True)):
        if isinstance(group, Tilted):
            nodes = tilted_nodes(group, share, windows=windows, changes=changes, answers=answers)
            levels[group.level] = _planned(nodes, at, len(groups))
        elif isinstance(group, Snapshot):
            nodes = snapshot_nodes(group, share, windows=windows, epsilon=epsilon, answers=answers)
            snapshots = _planned(nodes, at, len(groups))
    merged = merge(windows=windows, levels=levels, snapshots=snapshots)
    return merged.planned, merged.spread.mean(axis=0)


@lru_cache(maxsize=256)
def tilted_groups(
    *,
    windows: int,
    changes: int,
    epsilon: Fraction,
    answers: int,
    snapshots: bool,
    only: str = "",
    levels: int = 0,
) -> tuple[Group, ...]:
    """Shares in proportion to what each group contributes to the error, which is where the error is least."""
    setting = {"windows": windows, "changes": changes, "answers": answers}
    groups: list[Group] = [
        best_tilted(level=level, epsilon=epsilon, only=only, **setting)
        for level in range(levels or max(windows.bit_length() - 1, 1))
    ]
    if snapshots:
        groups.append(Snapshot(share=1, oracle=best_oracle(epsilon=epsilon, answers=answers).name))
    shares = np.full(len(groups), 1 / len(groups))
    for _ in range(_ROUNDS):
        _, parts = _merged(groups, shares, epsilon=epsilon, **setting)
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


# -- the paper's protocol --------------------------------------------------------------------------------------------


def layers_for(windows: int, branching: int) -> int:
    """The least height whose layers cover every running total with fewer than `branching` nodes a layer."""
    layers = 1
    while branching**layers < windows:
        layers += 1
    return layers


def prefix_nodes(window: int, *, branching: int, layers: int) -> list[tuple[int, int]]:
    """The (layer, index) nodes whose union is the windows 0..window."""
    nodes, at, left = [], 0, window + 1
    for layer in reversed(range(layers)):
        width = branching**layer
        count, left = divmod(left, width)
        nodes += [(layer, at // width + i) for i in range(count)]
        at += count * width
    return nodes


def response_law(*, cells: int, loss: Fraction) -> tuple[float, float]:
    """P*: the probabilities of the true cell and of any other."""
    accept = acceptance(loss)
    total = accept * (cells - 1) + ONE
    return ONE / total, accept / total


def _response_variance(
    group: Response, *, windows: int, changes: int, epsilon: Fraction, answers: int
) -> Floats:
    responses = responses_of_a_life(group.to_dict(), windows=windows, changes=changes, answers=answers)
    p, q = response_law(cells=(answers + 1) ** 2, loss=epsilon / responses)
    left, nodes = np.arange(1, windows + 1), np.zeros(windows)
    for layer in reversed(range(group.layers)):
        count, left = np.divmod(left, group.branching**layer)
        nodes += count
    return np.asarray(nodes * 2 * answers * q / (p - q) ** 2)


def response_groups(
    *, windows: int, changes: int, epsilon: Fraction, answers: int, hierarchy: bool, branching: int = 0
) -> tuple[Group, ...]:
    """The disjoint release, or the hierarchy with the branching of least predicted error."""
    if not hierarchy:
        return (Response(share=1, branching=2, layers=1),)

    def error(group: Response) -> float:
        setting = {"windows": windows, "changes": changes, "answers": answers}
        return float(_response_variance(group, epsilon=epsilon, **setting).mean())

    choices = [branching] if branching else range(2, max(windows - 1, 2) + 1)
    return (min((Response(share=1, branching=c, layers=layers_for(windows, c)) for c in choices), key=error),)
