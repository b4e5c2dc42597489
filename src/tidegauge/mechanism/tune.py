"""The best parameters of each kind of strategy, for what will be read and how an entry may change.

Tuning is quick and approximate; what it finds is certified afterwards by the strategy's own sensitivity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, exp, log, sqrt
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize

from tidegauge.mechanism import shapes
from tidegauge.mechanism.autoregressive import Autoregressive
from tidegauge.mechanism.damped import Damped
from tidegauge.mechanism.hierarchy import Hierarchy
from tidegauge.mechanism.strategy import MANY
from tidegauge.mechanism.toeplitz import Toeplitz
from tidegauge.theory.paths import ON_OFF, Limits
from tidegauge.theory.toeplitz_paths import toeplitz_paths
from tidegauge.theory.tree_paths import Costs, hierarchy_paths

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from tidegauge.mechanism.strategy import Exposure, Strategy
    from tidegauge.model.schedule import Schedule
    from tidegauge.theory.paths import Moves

    Floats = NDArray[np.float64]

_UNIT = Costs(((Fraction(0), Fraction(1)), (Fraction(1), Fraction(0))))
_SEVERAL, _MANY = 8, 32
"""Changes from which on a hierarchy is tuned for one limit at a time, and for its folds alone."""
_ENDLESS = 3650
"""Readings over which a release without an end is judged ..."""
_JUDGED = 1 << 13
"""... and of which many one that has more of them."""


@dataclass(frozen=True, eq=False)
class Target:
    """What will be read: sums of `span` bins (None: all) ending with these, judged by their worst or their mean error."""

    bins: NDArray[np.int64]
    span: int | None
    worst: bool = True

    @classmethod
    def of(cls, schedule: Schedule, *, worst: bool = True) -> Target:
        """All readings of a schedule (the first thousands, where it has no end; some of them, where there are very many)."""
        count = _ENDLESS if schedule.count is None else schedule.count
        readings = np.arange(count)
        if count > _JUDGED:
            readings = np.linspace(0, count - 1, _JUDGED).astype(np.int64)
        return cls(schedule.offset + schedule.stride * readings, schedule.span, worst)

    def level(self, variances: Floats) -> float:
        """The variance that counts."""
        return float(variances.max() if self.worst else variances.mean())


def error(strategy: Strategy, exposure: Exposure, target: Target, *, pure: bool) -> float:
    """Root mean squared error at epsilon = 1 (pure) or rho = 1/2, in grid units, worst or mean over the readings."""
    sensitivity = strategy.sensitivity(exposure)
    level = target.level(strategy.variances(target.bins, target.span))
    return float(sensitivity.l1) * sqrt(2 * level) if pure else sqrt(float(sensitivity.l2_squared) * level)


def _search(
    value: Callable[[Floats], float], start: Sequence[float], steps: Sequence[float], rounds: int
) -> Floats:
    corners = [list(start)] + [
        [x + (i == j) * step for j, x in enumerate(start)] for i, step in enumerate(steps)
    ]
    options = {"initial_simplex": corners, "maxfev": rounds, "fatol": 1e-4, "xatol": 1e-2}
    found: Floats = minimize(value, start, method="Nelder-Mead", options=options).x
    return found


def _digits(value: float) -> float:
    """Few enough digits to be written down, as part of a committed plan."""
    return float(f"{value:.4g}")


def damped(
    target: Target, limits: Sequence[Limits], *, bins: int, first: int = 0, grouped: bool = False
) -> Damped:
    """A damped root with white noise and offset."""
    count = bins - first
    changes = [limit.within(count) for limit in limits]
    jumps = max(jumps for jumps, _ in changes)
    bursts = _bursts(changes, count)
    moves = ON_OFF._replace(groups=MANY if grouped else 1)
    ages = target.bins - first
    whole = np.full(len(ages), True) if target.span is None else ages < target.span

    def strategy(at: Floats) -> tuple[float, float, float]:
        beta = 1 - exp(min(at[0], -0.05))
        return beta, max(float(at[2]), 0.0) if len(at) > 2 else 0.0, exp(min(at[1], 3.0))

    def value(at: Floats) -> float:
        beta, white, offset = strategy(at)
        shape = shapes.damped_root(count, beta, white)
        shape = shapes.rounded_convex(shape, 40) / 2**40
        noise = shapes.inverse(np.diff(shape, prepend=0.0))
        variances = np.cumsum(shapes.lag_difference(noise, target.span) ** 2)[ages]
        level = target.level(variances + np.where(whole, offset, 0.0))
        return sqrt(level * max(_coarsely(shape, limit, moves, offset) for limit in limits))

    pace = 0.1 if bursts else {1: 0.3, 2: 1.6}.get(jumps, 2.5 * jumps)
    start = [log(min(0.6, pace / count)), log(0.12 if target.span is None else 1.3)]
    steps = [1.0, 0.7]
    if bursts:
        start.append(_white(bursts))
        steps.append(0.3 * start[-1])
    beta, white, offset = map(_digits, strategy(_search(value, start, steps, 30)))
    return Damped(bins, 1 - _digits(1 - beta), white, offset, first)


def root(target: Target, limits: Sequence[Limits], *, bins: int, grouped: bool = False) -> Toeplitz:
    """A damped root alone, for more bins than a full matrix can have."""
    changes = [limit.within(bins) for limit in limits]
    jumps, bursts = max(jumps for jumps, _ in changes), _bursts(changes, bins)
    moves = ON_OFF._replace(groups=MANY if grouped else 1)

    def strategy(at: Floats) -> Toeplitz:
        beta = 1 - _digits(exp(min(at[0], -0.05)))
        return Toeplitz("root", bins, beta=beta, white=_digits(max(at[1], 0.0)) if bursts else 0.0)

    def value(at: Floats) -> float:
        found = strategy(at)
        shape = found.coefficients / found.denominator
        level = target.level(found.variances(target.bins, target.span)) * float(found.denominator) ** 2
        return sqrt(level * max(_coarsely(shape, limit, moves, 0.0) for limit in limits))

    start, steps = [log(min(0.6, (0.1 if bursts else 0.8 * jumps) / bins))], [1.0]
    if bursts:
        start.append(_white(bursts))
        steps.append(0.3 * start[-1])
    return strategy(_search(value, start, steps, 16))


def _bursts(changes: list[tuple[int, int]], count: int) -> list[int]:
    """The reaches in which an entry may change in every bin."""
    return [reach for jumps, reach in changes if 2 < jumps >= reach < count]


def _white(bursts: list[int]) -> float:
    """How much white noise to begin with, from experience."""
    return float(0.36 * max(bursts) ** 0.65)


def _coarsely(shape: Floats, limit: Limits, moves: Moves, offset: float) -> float:
    return toeplitz_paths(shape, limits=limit, moves=moves, offset=offset, coarse=True)


def autoregressive(
    target: Target, limits: Sequence[Limits], *, bins: int, first: int = 0, grouped: bool = False
) -> Autoregressive:
    """Noise that forgets, with a shared draw where there are no groups."""
    count = bins - first
    changes = max(limit.within(count)[0] for limit in limits)

    def strategy(at: Floats) -> Autoregressive:
        memory = round((1 - exp(min(at[0], -0.05))) * 2**16)
        veil = Fraction(0) if grouped else Fraction(max(round(exp(min(at[1], 8.0)) * 256), 1), 256)
        return Autoregressive(bins, memory, veil, first)

    def value(at: Floats) -> float:
        found = strategy(at)
        level = target.level(found.variances(target.bins, target.span)) * float(found.denominator) ** 2
        b, veil = found.memory / 2**16, float(found.veil)
        later = min(changes, count - 1)
        size = 1 + later * (1 + b) + (count - 1 - later) * (1 - b)
        return sqrt(level) * (size if grouped else (size + 1 / veil) / 2)

    start = [log(min(0.6, 2 * changes / count)), log(1.0 if target.span is None else 50.0)]
    return strategy(_search(value, start, [1.0, 0.7], 60))


def hierarchy(
    target: Target, limits: Sequence[Limits], *, pure: bool, bins: int | None, levels: bool
) -> Hierarchy:
    """Branching, height, and how the initial load is measured; with Laplace noise a scale for every layer.

    `levels`: whether the initial load counts at all.
    """
    leaves = (bins or int(target.bins.max()) + 1) - 1
    power = 1 if pure else 2
    quick = []
    for branching in [*range(2, 17), 20, 24, 32, 48, 64]:
        for height in range(1, leaves.bit_length() + 1):
            if height > 1 and branching ** (height - 1) > leaves:
                break
            found = Hierarchy(branching, height, bins, "leaf" if levels else "none")
            level = target.level(found.variances(target.bins, target.span))
            folds = max(_folds(limit, branching, height, leaves) for limit in limits)
            quick.append((level * folds ** (2 / power), branching, found))
    some = [found for *_, found in sorted(quick, key=lambda one: one[:2])[:8]]
    some += [_with_load(found, limits, power) for found in some if levels]

    def value(found: Hierarchy) -> float:
        level = target.level(found.variances(target.bins, target.span))
        most = max(float(_most(found, limit, power)) for limit in limits)
        return sqrt(level) * (most if pure else sqrt(most))

    best = min(some, key=value)
    return _with_scales(best, value) if pure and best.height > 1 else best


def _folds(limit: Limits, branching: int, height: int, leaves: int) -> int:
    """T4, for regular bins."""
    total = 0
    for layer in range(height):
        most = [-(-leaves // branching**layer), limit.jumps]
        if limit.bins is not None:
            most.append(-(-(limit.bins - 1) // branching**layer) + 1)
        total += min(count for count in most if count is not None)
    return total


def _most(found: Hierarchy, limit: Limits, power: int) -> Fraction:
    """What changes by 1 add up to, at most: quicker than exactly where there are many, or the reach is limited."""
    *layers, load = (1 / scale**power for scale in found.scales)
    if limit.jumps is not None and limit.jumps > _SEVERAL and limit.bins is not None:
        return min(
            _most(found, Limits(limit.jumps, None), power), _most(found, Limits(None, limit.bins), power)
        )
    if limit.jumps is not None and limit.jumps > _MANY:
        leaves = found.bins or limit.jumps * found.branching**found.height
        nodes = (-(-leaves // found.branching**layer) for layer in range(found.height))
        return load + sum((w * min(limit.jumps, n) for w, n in zip(layers, nodes, strict=True)), Fraction(0))
    ends = found.bins is not None and (limit.bins is None or 4 * limit.bins > found.bins)
    return hierarchy_paths(
        _UNIT,
        weights=layers,
        base={"apart": load, "none": Fraction(0)}.get(found.load),
        branching=found.branching,
        leaves=found.bins if ends else None,
        limits=limit,
    )


def _with_load(found: Hierarchy, limits: Sequence[Limits], power: int) -> Hierarchy:
    """The initial load apart, with the least noise that makes no path worse: a change there is one less elsewhere."""
    total = max(_most(found, limit, power) for limit in limits)
    rest = [
        _most(found, Limits(*(None if most is None else most - 1 for most in limit)), power)
        for limit in limits
        if 1 not in limit
    ]
    weight = max(total - max(rest, default=Fraction(0)), Fraction(1))
    scale = Fraction(ceil(1024 / float(weight) ** (1 / power)), 1024)
    return replace(found, load="apart", relative=(Fraction(1),) * found.height + (scale,))


def _with_scales(found: Hierarchy, value: Callable[[Hierarchy], float]) -> Hierarchy:
    """More noise where there are fewer nodes in a sum."""
    free = found.height - 1 + (found.load == "apart")

    def scaled(at: Floats) -> Hierarchy:
        factors = np.concatenate([[1.0], np.exp(np.clip(at, -2, 2)), np.ones(found.height - free)])
        scales = [
            Fraction(max(round(64 * float(s) * f), 1), 64) for s, f in zip(found.scales, factors, strict=True)
        ]
        return replace(found, relative=tuple(scales))

    tuned = scaled(_search(lambda at: value(scaled(at)), [0.0] * free, [0.15] * free, 30))
    return min(found, tuned, key=value)
