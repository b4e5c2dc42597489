"""Exact filter and smoother for several models and several cells at once.

Arrays have the axes (state, model, cell) for means and (state, state, model) for covariances; covariances do
not depend on the data.  The sum of the changes in a window is the running value at its end minus that at
its start.  So the covariance of the state with the running value at the start of each open window is carried
along.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidegauge.publish.denoise.bank import mixed, shares

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from tidegauge.publish.denoise.bank import Models
    from tidegauge.publish.denoise.system import Step, System

    Floats = NDArray[np.float64]

_UNKNOWN: Final = 1e4
"""Variance of an unknown rate about its first estimate."""


class Span(NamedTuple):
    """The steps after `start` (None: all from the beginning) up to `end`."""

    start: int | None
    end: int


@dataclass(eq=False)
class Forward:
    """What the filter found; the lists by step or row are filled for the smoother alone."""

    scores: Floats
    """Logarithm of the likelihood, models by cells."""
    means: list[Floats] = field(default_factory=list)
    """Past-only means of each span."""
    variances: list[Floats] = field(default_factory=list)
    errors: list[Floats] = field(default_factory=list)
    """Prediction error of each row, models by cells."""
    spreads: list[Floats] = field(default_factory=list)
    gains: list[Floats] = field(default_factory=list)
    levels: list[Floats] = field(default_factory=list)
    """Predicted running value of each step, models by cells."""
    level_covariances: list[Floats] = field(default_factory=list)
    """Covariance of the predicted running value with the state, state by models."""
    crossed: dict[Span, Floats] = field(default_factory=dict)
    """Covariance of the predicted state at the end of a window with the running value at its start."""


class _Windows:
    """Running values at the starts of open windows, and their covariances with the current state."""

    def __init__(self, spans: Sequence[Span], width: int, models: int, cells: int) -> None:
        self.ends: dict[int, list[Span]] = {}
        last: dict[int, int] = {}
        for span in spans:
            self.ends.setdefault(span.end, []).append(span)
            if span.start is not None:
                last[span.start] = max(last.get(span.start, 0), span.end)
        self.last = last
        self.slots: dict[int, int] = {}
        self.closing: dict[int, list[int]] = {}
        for start, end in last.items():
            self.closing.setdefault(end, []).append(start)
        events = sorted([(start, 1) for start in last] + [(end + 1, -1) for end in last.values()])
        most = int(np.max(np.cumsum([change for _, change in events]), initial=0))
        self.free = list(range(most))
        self.covariance = np.zeros((width, models, most))
        self.variance = np.zeros((models, most))
        self.mean = np.zeros((models, most, cells))

    def open(self, at: int, mean: Floats, covariance: Floats) -> None:
        """Begin to carry the running value of this step, as predicted."""
        if at in self.last:
            slot = self.slots[at] = self.free.pop()
            self.covariance[:, :, slot] = covariance[:, 0]
            self.variance[:, slot] = covariance[0, 0]
            self.mean[:, slot] = mean[0]

    def move(self, step: Step, models: Models) -> None:
        """Carry the covariances through a transition."""
        if self.slots:
            _move(step, models, self.covariance)

    def correct(self, weights: Floats, gain: Floats, spread: Floats, error: Floats) -> None:
        """Use a row."""
        if not self.slots:
            return
        found = np.tensordot(weights, self.covariance[: len(weights)], 1)
        share = found / spread[:, None]
        self.mean += share[:, :, None] * error[:, None, :]
        self.variance -= share * found
        self.covariance -= gain[:, :, None] * found[None]

    def keep(self, at: int, found: Forward) -> None:
        """Keep what the smoother needs of the windows that end with this step."""
        for span in self.ends.get(at, ()):
            if span.start is not None:
                found.crossed[span] = self.covariance[:, :, self.slots[span.start]].copy()

    def ending(self, at: int, mean: Floats, covariance: Floats) -> Iterator[tuple[Floats, Floats]]:
        """Mean (models by cells) and variance (by models) of each span that ends with this step."""
        for span in self.ends.get(at, ()):
            if span.start is None:
                yield mean[0], covariance[0, 0]
            else:
                slot = self.slots[span.start]
                spread = covariance[0, 0] + self.variance[:, slot] - 2 * self.covariance[0, :, slot]
                yield mean[0] - self.mean[:, slot], np.maximum(spread, 0.0)

    def close(self, at: int) -> None:
        """Forget the running values that no later window needs."""
        for start in self.closing.get(at, ()):
            slot = self.slots.pop(start)
            self.covariance[:, :, slot] = 0
            self.free.append(slot)


def _move(step: Step, models: Models, state: Floats) -> None:
    """Multiply the first axis (the state, then the extra state) by the transition, in place."""
    width = len(step.gain)
    shape = (-1,) + (1,) * (state.ndim - 1)
    by_model = (-1,) + (1,) * (state.ndim - 2)
    extra = state[width]
    if step.diagonal:
        state[:width] *= step.transition.reshape(shape)
    else:
        state[:width] = np.tensordot(step.transition, state[:width], 1)
    state[:width] += step.gain.reshape(shape) * (models.pull.reshape(by_model) * extra)
    extra *= models.keep.reshape(by_model)


def _predict(step: Step, models: Models, level: Floats, mean: Floats, covariance: Floats) -> Floats:
    """Move mean (in place) and covariance to the next step; returns the covariance."""
    width = len(step.gain)
    _move(step, models, mean)
    covariance = _on_both_sides(_move, step, models, covariance)
    both = level + models.other
    covariance[:width, :width] += step.gain[:, None, None] * step.gain[:, None] * both
    covariance[:width, width] += step.gain[:, None] * models.other
    covariance[width, :width] += step.gain[:, None] * models.other
    covariance[width, width] += models.other
    return covariance


def _levels(models: Models, step: int) -> Floats:
    return models.level if models.level.ndim == 1 else models.level[step]


def forward(
    system: System,
    rows: Floats,
    models: Models,
    spans: Sequence[Span],
    *,
    own: bool = False,
    keep: bool = False,
    memory: float | None = None,
) -> Forward:
    """Filter the rows (rows by cells).

    own:     model i is for cell i alone; the axis of cells then has length 1
    keep:    keep what the smoother needs
    memory:  estimate every span from the rows up to its end, with models weighted by their likelihood so far;
             earlier steps count less, by this factor a step
    """
    width, count = system.width, len(models)
    shaped = rows[:, :, None] if own else rows[:, None, :]
    cells = shaped.shape[2]
    mean, covariance = np.zeros((width + 1, count, cells)), np.zeros((width + 1, width + 1, count))
    _begin(system, models, shaped[0], mean, covariance)
    found, recent = Forward(np.zeros((count, cells))), np.zeros((count, cells))
    windows, number = _Windows(spans, width + 1, count, cells), 1
    for at, step in enumerate(system.steps):
        if at:
            covariance = _predict(step, models, _levels(models, at), mean, covariance)
            windows.move(step, models)
        if at == 1 and system.rates and step.seen:
            _first_rate(step, shaped[number], mean)
        windows.open(at, mean, covariance)
        if keep:
            found.levels.append(mean[0].copy())
            found.level_covariances.append(covariance[0].copy())
            windows.keep(at, found)
        recent *= memory or 1.0
        for weights, variance in step.seen if at else step.seen[1:]:
            weighted = np.tensordot(weights, covariance[:width], 1)
            spread = weights @ weighted[:width] + variance
            error, gain = shaped[number] - _row(weights, mean), weighted / spread
            score = -0.5 * (np.log(spread)[:, None] + error**2 / spread[:, None])
            found.scores += score
            recent += score
            mean += gain[:, :, None] * error[None]
            covariance -= gain[:, None] * weighted[None]
            windows.correct(weights, gain, spread, error)
            number += 1
            if keep:
                found.errors.append(error)
                found.spreads.append(spread)
                found.gains.append(gain)
        if memory is not None:
            for value, spread in windows.ending(at, mean, covariance):
                one, other = mixed(shares(recent + models.prior[:, None]), value, spread[:, None])
                found.means.append(one)
                found.variances.append(other)
        windows.close(at)
    return found


def _row(weights: Floats, mean: Floats) -> Floats:
    """The expected row, models by cells."""
    whole: Floats = weights @ mean[: len(weights)].reshape(len(weights), -1)
    return whole.reshape(mean.shape[1:])


def _begin(system: System, models: Models, row: Floats, mean: Floats, covariance: Floats) -> None:
    """The state of step 0 after its first row, which is the only estimate of the start value."""
    step, width = system.steps[0], system.width
    start = step.gain / float(step.seen[0].weights @ step.gain)
    mean[:width] = start[:, None, None] * row
    covariance[:width, :width] = (step.seen[0].variance * np.outer(start, start))[:, :, None]
    covariance[width, width] = models.start
    if system.rates:
        covariance[width - 1, width - 1] = _UNKNOWN


def _first_rate(step: Step, row: Floats, mean: Floats) -> None:
    """Put the unknown rate where the first row that contains it is expected as it was measured."""
    weights, moved = step.seen[0].weights, step.transition[:, -1]
    error = row - _row(weights, mean)
    mean[: len(moved)] += moved[:, None, None] * error / float(weights @ moved)


@dataclass(frozen=True, eq=False)
class Smoothed:
    """Estimates of every span from all rows, for each model."""

    means: list[Floats]
    """Models by cells."""
    variances: list[Floats]
    changes: Floats
    """Expected square of each step's lasting change, steps by models (for one cell a model)."""
    jumps: Floats
    """Statistic of a jump in each step: its squared estimate over its variance, steps by models."""


def backward(system: System, models: Models, spans: Sequence[Span], found: Forward) -> Smoothed:
    """Smooth what the filter kept.  The kept lists are used up."""
    width, (count, cells) = system.width, found.scores.shape
    pull, inside = np.zeros((width + 1, count, cells)), np.zeros((width + 1, width + 1, count))
    levels, spreads = found.levels, [np.empty(0)] * len(system.steps)
    crossed: dict[Span, Floats] = {}
    number = system.rows - 1
    ends: dict[int, list[Span]] = {}
    for span in spans:
        ends.setdefault(span.end, []).append(span)
    changes, jumps = np.zeros((len(system.steps), count)), np.zeros((len(system.steps), count))
    for at in range(len(system.steps) - 1, -1, -1):
        step = system.steps[at]
        for weights, _ in reversed(step.seen if at else step.seen[1:]):
            number -= 1
            gain, spread = found.gains[number], found.spreads[number]
            error = found.errors[number] / spread[:, None] - (gain[:, :, None] * pull).sum(axis=0)
            pull[:width] += weights[:, None, None] * error[None]
            across = (inside * gain[None]).sum(axis=1)
            own = 1 / spread + (gain * across).sum(axis=0)
            inside[:width] -= weights[:, None, None] * across[None]
            inside[:, :width] -= weights[None, :, None] * across[:, None]
            inside[:width, :width] += weights[:, None, None] * weights[None, :, None] * own
        own_level = found.level_covariances[at]
        levels[at] += (own_level[:, :, None] * pull).sum(axis=0)
        informed = (inside * own_level[None]).sum(axis=1)
        spreads[at] = own_level[0] - (own_level * informed).sum(axis=0)
        for span in ends.get(at, ()):
            if span.start is not None:
                begun = found.crossed.pop(span)
                crossed[span] = begun[0] - (begun * informed).sum(axis=0)
        if not at:
            break
        if cells == 1:
            force = np.tensordot(step.gain, pull[:width, :, 0], 1)
            press = np.tensordot(step.gain, np.tensordot(step.gain, inside[:width, :width], 1), 1)
            variance = _levels(models, at)
            jumps[at] = force**2 / np.maximum(press, 1e-300)
            changes[at] = (variance * force) ** 2 + variance - variance**2 * press
        _back(step, models, pull)
        inside = _on_both_sides(_back, step, models, inside)
    means, variances = [], []
    for span in spans:
        mean, variance = levels[span.end], spreads[span.end]
        if span.start is not None:
            mean = mean - levels[span.start]
            variance = variance + spreads[span.start] - 2 * crossed[span]
        means.append(mean)
        variances.append(np.maximum(variance, 0.0))
    return Smoothed(means, variances, changes, jumps)


def _back(step: Step, models: Models, state: Floats) -> None:
    """Multiply the first axis by the transposed transition, in place."""
    width = len(step.gain)
    by_model = (-1,) + (1,) * (state.ndim - 2)
    force = np.tensordot(step.gain, state[:width], 1)
    if step.diagonal:
        state[:width] *= step.transition.reshape((-1,) + (1,) * (state.ndim - 1))
    else:
        state[:width] = np.tensordot(step.transition.T, state[:width], 1)
    state[width] = models.keep.reshape(by_model) * state[width] + models.pull.reshape(by_model) * force


def _on_both_sides(
    multiply: Callable[[Step, Models, Floats], None], step: Step, models: Models, matrices: Floats
) -> Floats:
    """Each matrix with that of `multiply` on its left and the transposed one on its right."""
    turned = np.ascontiguousarray(np.moveaxis(matrices, 2, 1))
    multiply(step, models, turned)
    turned = np.ascontiguousarray(turned.transpose(2, 1, 0))
    multiply(step, models, turned)
    return np.ascontiguousarray(turned.transpose(0, 2, 1))
