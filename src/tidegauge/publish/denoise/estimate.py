"""Denoised sums of one component: the bank of models, a robust stage for jumps, and guards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidegauge.publish.denoise.bank import Models, bank, mixed, shares
from tidegauge.publish.denoise.filter import backward, forward

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tidegauge.publish.denoise.filter import Span
    from tidegauge.publish.denoise.system import System

    Floats = NDArray[np.float64]

_MEMORY: Final = 1 - 1 / 182
"""Past-only weights forget the likelihood of a step over half a year of days."""
_NEGLIGIBLE: Final = 1e-3
"""Models of a lower weight in every cell are left out of the smoother."""
_KEPT: Final = 3e7
"""Most numbers that the smoother keeps at once."""
_FREEDOM: Final = 3.0
"""Degrees of freedom of Student's distribution, for changes with jumps."""
_ROUNDS: Final = 8
"""Rounds of the robust stage."""
_LEAST: Final = 1e-6
_FARTHEST: Final = 2.5
"""How far a denoised value may be from the plain reading, in standard errors of the reading."""
_DOUBT: Final = 0.35
"""How much wider smoothed intervals are where they rely on the model alone."""


class Denoised(NamedTuple):
    """Values and variances, spans by cells, in units of the base noise."""

    values: Floats
    variances: Floats


def past_only(system: System, rows: Floats, spans: Sequence[Span], plain: Denoised) -> Denoised:
    """Each span estimated from the rows up to its end.  `plain`: the plain estimates of the spans."""
    found = forward(system, rows, bank(), spans, memory=_MEMORY)
    values, variances = np.array(found.means), np.array(found.variances) + _offsets(system, spans)
    return Denoised(_near(values, plain), variances)


def smoothed(system: System, rows: Floats, spans: Sequence[Span], plain: Denoised) -> Denoised:
    """Each span estimated from all rows.  `plain`: the plain estimates of the spans.

    The more an interval relies on the model, the more it is widened: models are never quite true.
    """
    models = bank()
    scores = forward(system, rows, models, ()).scores + models.prior[:, None]
    weights = shares(scores)
    used = np.flatnonzero(weights.max(axis=1) > _NEGLIGIBLE)
    values, variances = np.empty((len(spans), rows.shape[1])), np.empty((len(spans), rows.shape[1]))
    group = max(int(_KEPT / (2 * len(system.steps) * len(used))), 1)
    for begin in range(0, rows.shape[1], group):
        cells = slice(begin, begin + group)
        some, part = models.only(used), weights[used, cells]
        found = forward(system, rows[:, cells], some, spans, keep=True)
        each = backward(system, some, spans, found)
        for at, (mean, variance) in enumerate(zip(each.means, each.variances, strict=True)):
            values[at, cells], variances[at, cells] = mixed(part / part.sum(axis=0), mean, variance[:, None])
    best = models.only(scores.argmax(axis=0))
    jumped = _jumped(system, rows, best)
    if len(jumped):
        robust = _robust(system, rows[:, jumped], spans, best.only(jumped))
        values[:, jumped], variances[:, jumped] = robust.values, robust.variances
    variances += _offsets(system, spans)
    relied = np.clip(1 - variances / np.maximum(plain.variances, 1e-300), 0.0, 1.0)
    return Denoised(_near(values, plain), variances * (1 + _DOUBT * relied) ** 2)


def _near(values: Floats, plain: Denoised) -> Floats:
    """The values, but never far from the plain ones: noise is rarely larger."""
    far = _FARTHEST * np.sqrt(plain.variances)
    return np.clip(values, plain.values - far, plain.values + far)


def _jumped(system: System, rows: Floats, best: Models) -> NDArray[np.int64]:
    """The cells with a jump that their best model does not explain (de Jong and Penzer 1998)."""
    each = backward(system, best, (), forward(system, rows, best, (), own=True, keep=True))
    return np.flatnonzero(each.jumps.max(axis=0) > 2 * np.log(len(system.steps)) + 10)


def _robust(system: System, rows: Floats, spans: Sequence[Span], best: Models) -> Denoised:
    """Estimates of cells with a jump: lasting changes follow Student's distribution.

    `best`: the best model of each cell.
    """
    scale = np.maximum(best.level, _LEAST)
    level = np.repeat(scale[None], len(system.steps), axis=0)
    for turn in range(_ROUNDS):
        models = Models(best.pull, best.keep, level, best.other, best.start, best.prior)
        wanted = spans if turn == _ROUNDS - 1 else ()
        each = backward(system, models, wanted, forward(system, rows, models, wanted, own=True, keep=True))
        squares = each.changes[1:]
        tail = (_FREEDOM + 1) / (_FREEDOM + squares / scale)
        scale = np.maximum((tail * squares).mean(axis=0), 1e-9)
        level[1:] = scale * (_FREEDOM + squares / scale) / (_FREEDOM + 1)
    return Denoised(np.array(each.means)[:, :, 0], np.array(each.variances))


def _offsets(system: System, spans: Sequence[Span]) -> Floats:
    """The variance of the shared offset, where a span starts at the beginning."""
    return np.array([[system.offset if span.start is None else 0.0] for span in spans])
