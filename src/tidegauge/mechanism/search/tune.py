"""The best parameters of each kind of strategy, for the readings and for the changes that a unit may make.

Tuning is quick and approximate.  The sensitivity of the strategy then certifies the result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, log, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidegauge.mechanism.decoding.kernel import lag_difference
from tidegauge.mechanism.strategies import shapes
from tidegauge.mechanism.strategies.buffered import Buffered
from tidegauge.mechanism.strategies.hierarchy import Hierarchy
from tidegauge.theory.paths.path import ON_OFF, BinCase
from tidegauge.theory.paths.toeplitz import toeplitz_paths
from tidegauge.theory.paths.tree import Costs, hierarchy_paths

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from tidegauge.mechanism.search.task import Task
    from tidegauge.mechanism.strategy import Exposure, Strategy
    from tidegauge.model.schedule import Schedule
    from tidegauge.theory.paths.path import Domain

    Floats = NDArray[np.float64]

_UNIT = Costs(((Fraction(0), Fraction(1)), (Fraction(1), Fraction(0))))
_SEVERAL, _MANY = 8, 32
"""Most changes for which a hierarchy is tuned with both bounds of a case, and with exact paths."""
_FEW_BINS, _ENOUGH, _MANY_BINS = 1 << 10, 1 << 11, 1 << 15
"""Most bins for which: buffers are tuned in full; noise is tuned in full; several ladders are compared."""
_LONG_BURST = 128
"""A long run of bins in all of which a unit may change."""
_SOME_OFFSET = 1e-6
"""A shared offset below this has no effect and is left out."""
_RUNGS = 7
"""Rates on a ladder of buffers."""
_ENDLESS = 3650
"""Readings over which a release without an end is tuned ..."""
_JUDGED = 1 << 13
"""... and the number of readings to which a longer release is thinned out."""


@dataclass(frozen=True, eq=False)
class Target:
    """The readings to tune for: sums of `span` bins (None: all) that end with `bins`; worst or mean error."""

    bins: NDArray[np.int64]
    span: int | None
    worst: bool = True

    @classmethod
    def of(cls, schedule: Schedule, *, worst: bool = True) -> Target:
        """The readings of a schedule; the first thousands if it has no end, a selection if there are many."""
        count = _ENDLESS if schedule.count is None else schedule.count
        readings = np.arange(count)
        if count > _JUDGED:
            readings = np.linspace(0, count - 1, _JUDGED).astype(np.int64)
        return cls(schedule.offset + schedule.stride * readings, schedule.span, worst)

    def judged(self, variances: Floats) -> float:
        """The worst variance, or the mean."""
        return float(variances.max() if self.worst else variances.mean())


def error(strategy: Strategy, exposure: Exposure, target: Target, *, pure: bool) -> float:
    """Root mean squared error at epsilon = 1 (pure) or rho = 1/2, in grid units; worst or mean."""
    sensitivity = strategy.sensitivity(exposure)
    level = target.judged(strategy.variances(target.bins, target.span))
    return float(sensitivity.l1) * sqrt(2 * level) if pure else sqrt(float(sensitivity.l2_squared) * level)


def nelder_mead(
    value: Callable[[Floats], float], start: Sequence[float], steps: Sequence[float], rounds: int
) -> Floats:
    """The argument with the least value that scipy's Nelder-Mead finds; `steps` span the first simplex."""
    from scipy.optimize import minimize  # noqa: PLC0415  (slow to load)

    corners = [list(start)] + [
        [x + (i == j) * step for j, x in enumerate(start)] for i, step in enumerate(steps)
    ]
    options = {"initial_simplex": corners, "maxfev": rounds, "fatol": 1e-4, "xatol": 1e-2}
    found: Floats = minimize(value, start, method="Nelder-Mead", options=options).x
    return found


def _digits(value: float) -> float:
    """The value with four digits, short enough for a committed plan."""
    return float(f"{value:.4g}")


class RunningNoise(NamedTuple):
    """Noise of running values: a damped root, plus white noise and a shared offset in units of the root."""

    beta: float
    white: float
    offset: float

    def shape(self, count: int) -> Floats:
        """The effect of a change on this many rows, before the offset is removed."""
        return shapes.rounded_convex(shapes.damped_root(count, self.beta, self.white), 40) / 2**40

    def over(self, count: int, known: int, target: Target) -> RunningNoise:
        """The noise for `count` bins, if this noise is best for `known` bins: the damping is rescaled."""
        if target.span is not None or count == known:
            return self
        return self._replace(beta=1 - _digits(min((1 - self.beta) * known / count, 0.9)))


def _enough(least: int, count: int, cases: Sequence[BinCase], span: int | None) -> int:
    """A number of bins that is enough to tune for more bins: several windows, and few changes per bin."""
    return min(count, max(least, 4 * (span or 0), *(8 * case.within(count)[0] for case in cases)))


def _early(target: Target, first: int, count: int) -> Target:
    """The target cut to `count` bins; every bin is a reading if no window is that short."""
    if target.span is None:
        return replace(target, bins=first + np.arange(count))
    soon = target.bins[target.bins < first + count]
    return replace(target, bins=soon if len(soon) else first + np.arange(count))


@dataclass(frozen=True)
class _Judge:
    """Computes the error of the target's readings for a noise, from its variance and its sensitivity."""

    target: Target
    cases: Sequence[BinCase]
    first: int
    domain: Domain

    def error(self, shape: Floats, offset: float) -> float:
        """Root mean squared error at rho = 1/2; quick and approximate."""
        ages, span = self.target.bins - self.first, self.target.span
        noise = shapes.inverse(np.diff(shape, prepend=0.0))
        variances = np.cumsum(lag_difference(noise, span) ** 2)[ages]
        whole = np.full(len(ages), True) if span is None else ages < span
        level = self.target.judged(variances + np.where(whole, offset, 0.0))
        return sqrt(level * max(self._bounds(shape, offset)))

    def _bounds(self, shape: Floats, offset: float) -> list[float]:
        return [
            toeplitz_paths(shape, case=case, domain=self.domain, offset=offset, coarse=True, quick=True)
            for case in self.cases
        ]

    def weighty(self, shape: Floats, offset: float) -> _Judge:
        """The same for the cases with a large sensitivity here; the other cases are left out."""
        if len(self.cases) == 1:
            return self
        bounds = self._bounds(shape, offset)
        pairs = zip(self.cases, bounds, strict=True)
        return replace(self, cases=[case for case, bound in pairs if bound > 0.6 * max(bounds)])


def running_noise(
    target: Target,
    cases: Sequence[BinCase],
    *,
    bins: int,
    first: int = 0,
    domain: Domain = ON_OFF,
    known: RunningNoise | None = None,
) -> RunningNoise:
    """The best damped root, white noise and offset.  Very many bins are tuned as fewer bins, then rescaled.

    `known`: the best noise for values of one sign, as a start for values of both signs.
    """
    count = bins - first
    least = _ENOUGH if target.span is None else 2 * _ENOUGH
    if count > (enough := _enough(least, count, cases, target.span)):
        early = _early(target, first, enough)
        near = None if known is None else known.over(enough, count, target)
        found = running_noise(early, cases, bins=first + enough, first=first, domain=domain, known=near)
        return found.over(count, enough, target)
    most, bursts = max(case.within(count)[0] for case in cases), _bursts(cases, count)
    judge = _Judge(target, cases, first, domain)

    def noise(at: Floats) -> RunningNoise:
        beta = 1 - exp(min(at[0], -0.05))
        return RunningNoise(beta, max(float(at[2]), 0.0) if len(at) > 2 else 0.0, exp(min(at[1], 3.0)))

    def value(at: Floats) -> float:
        found = noise(at)
        return judge.error(found.shape(count), found.offset)

    pace = 0.1 if bursts else {1: 0.3, 2: 1.6}.get(most, 2.5 * most)
    start = [log(min(0.6, pace / count)), log(0.12 if target.span is None else 1.3)]
    steps = [1.0, 0.7]
    if bursts:
        start.append(_white(bursts))
        steps.append(0.3 * start[-1])
    judge = judge.weighty(noise(np.array(start)).shape(count), noise(np.array(start)).offset)
    rounds = 30
    if known is not None:  # the optimum is near; each try takes longer
        faster = max(log(max(1 - known.beta, 1e-9)), start[0])
        start[:2] = [faster, log(max(known.offset, 1e-6)) - 2 * domain.low]
        start[2:] = [known.white] if bursts else []
        steps, rounds = [0.5, 1.0, max(0.3 * known.white, 0.1)][: len(start)], 14
    beta, white, offset = map(_digits, noise(nelder_mead(value, start, steps, rounds)))
    return RunningNoise(1 - _digits(1 - beta), white, offset)


@lru_cache(maxsize=64)
def running_noise_for(task: Task) -> RunningNoise:
    """The best noise for a release with an end.  Values of both signs start from the noise for one sign."""
    bins, first = task.schedule.bins, task.schedule.base
    assert bins is not None
    known = (
        running_noise_for(task._replace(domain=task.domain._replace(low=0.0))) if task.domain.low else None
    )
    target = Target.of(task.schedule, worst=task.worst)
    return running_noise(target, task.cases, bins=bins, first=first, domain=task.domain, known=known)


def buffered(
    noise: RunningNoise,
    target: Target,
    cases: Sequence[BinCase],
    *,
    bins: int,
    first: int = 0,
    domain: Domain = ON_OFF,
) -> Buffered:
    """Buffers that approximate this noise: the best of a few ladders of rates, with tuned weights.

    The weights are tuned for fewer bins.
    """
    count = bins - first
    judge = _Judge(target, cases, first, domain).weighty(noise.shape(count), noise.offset)
    cases = judge.cases
    few = _enough(_FEW_BINS, count, cases, target.span)
    brief = _Judge(_early(target, first, few), cases, first, domain)
    shapes_wanted = {count: noise.shape(count), few: noise.over(few, count, target).shape(few)}

    def strategy(count: int, rungs: tuple[float, float], tilt: Floats) -> Buffered:
        parts = _exponentials(shapes_wanted[count], rungs, np.clip(tilt, -3, 3))
        offset = _digits(noise.offset * exp(min(tilt[-1], 3.0)))
        return Buffered(first + count, parts, offset if offset > _SOME_OFFSET else 0.0, first)

    def value(found: Buffered, judge: _Judge = judge) -> float:
        return judge.error(found.shape, found.offset)

    bursts = max(_bursts(cases, count), default=0)
    fastest = (0.7, 0.5, 0.35) if count <= _MANY_BINS and not (bursts or domain.low) else (0.5,)
    even, ladders = np.zeros(5), [(fast, slow) for fast in fastest for slow in (0.3, 2.5)]
    best = min(ladders, key=lambda rungs: value(strategy(count, rungs, even)))
    if bursts > _LONG_BURST or domain.low:  # each try takes long
        return strategy(count, best, even)
    rounds = 16 if bursts else 24
    tilt = nelder_mead(lambda at: value(strategy(few, best, at), brief), even.tolist(), [0.2] * 5, rounds)
    return min((strategy(count, best, at) for at in (even, tilt)), key=value)


def _exponentials(wanted: Floats, rungs: tuple[float, float], tilt: Floats) -> str:
    """Buffers with rates on a geometric ladder.  Weights: non-negative least squares, then tilted.

    The fit minimises relative errors, and every octave of ages has the same weight.
    """
    from scipy.optimize import nnls  # noqa: PLC0415  (slow to load)

    fastest, slowest = rungs[0], min(rungs[1] / len(wanted), rungs[0])
    ages = np.unique(np.geomspace(1, len(wanted), 160).astype(int)) - 1
    forgets = np.array([1.0, *(float(f"{one:.3g}") for one in np.geomspace(fastest, slowest, _RUNGS)), 0.0])
    care = np.sqrt(np.diff(ages + 1, append=2 * len(wanted)) / (ages + 1)) / wanted[ages]
    care[0] = 30 * care.max()  # the weights add up to the first
    powers = (1 - forgets) ** ages[:, None] * care[:, None]
    weights, _ = nnls(powers, wanted[ages] * care)
    at = np.linspace(1, -1, _RUNGS)
    weights *= np.exp([tilt[0], *(tilt[1] * at + tilt[2] * (at**2 - 0.5)), tilt[3]])
    millionths = np.rint(weights / weights.sum() * 1e6).astype(int)
    millionths[millionths.argmax()] += 10**6 - millionths.sum()
    parts = zip(millionths.tolist(), forgets.tolist(), strict=True)
    return " ".join(f"{weight / 1e6:.6g}:{forgotten:.9g}" for weight, forgotten in parts if weight)


def _bursts(cases: Sequence[BinCase], count: int) -> list[int]:
    """The spans in which a unit may change in every bin."""
    changes = (case.within(count) for case in cases)
    return [span for most, span in changes if 2 < most >= span < count]


def _white(bursts: list[int]) -> float:
    """The white noise to start from, found by experiment."""
    return float(0.36 * max(bursts) ** 0.65)


def hierarchy(
    target: Target, cases: Sequence[BinCase], *, pure: bool, bins: int | None, levels: bool
) -> Hierarchy:
    """The best branching, height and measurement of the initial load; for Laplace noise also scales.

    `levels`: whether readings are running values, so that the initial load is measured.
    """
    leaves = (bins or int(target.bins.max()) + 1) - 1
    power = 1 if pure else 2
    quick = []
    for branching in [*range(2, 17), 20, 24, 32, 48, 64]:
        for height in range(1, leaves.bit_length() + 1):
            if height > 1 and branching ** (height - 1) > leaves:
                break
            found = Hierarchy(branching, height, bins, "leaf" if levels else "none")
            level = target.judged(found.variances(target.bins, target.span))
            folds = max(_folds(case, branching, height, leaves) for case in cases)
            quick.append((level * folds ** (2 / power), branching, found))
    some = [found for *_, found in sorted(quick, key=lambda one: one[:2])[:8]]
    some += [_with_load(found, cases, power) for found in some if levels]

    def value(found: Hierarchy) -> float:
        level = target.judged(found.variances(target.bins, target.span))
        most = max(float(_most(found, case, power)) for case in cases)
        return sqrt(level) * (most if pure else sqrt(most))

    best = min(some, key=value)
    return _with_scales(best, value) if pure and best.height > 1 else best


def _folds(case: BinCase, branching: int, height: int, leaves: int) -> int:
    """Most nodes that one unit can change, by T4 for bins of equal width."""
    total = 0
    for layer in range(height):
        most = [-(-leaves // branching**layer), case.changes]
        if case.bins is not None:
            most.append(-(-(case.bins - 1) // branching**layer) + 1)
        total += min(count for count in most if count is not None)
    return total


def _most(found: Hierarchy, case: BinCase, power: int) -> Fraction:
    """The sensitivity to changes by 1; a quick upper bound if there are many changes."""
    *layers, load = (1 / scale**power for scale in found.scales)
    if case.changes is not None and case.changes > _SEVERAL and case.bins is not None:
        return min(
            _most(found, BinCase(case.changes, None), power), _most(found, BinCase(None, case.bins), power)
        )
    if case.changes is not None and case.changes > _MANY:
        leaves = found.bins or case.changes * found.branching**found.height
        nodes = (-(-leaves // found.branching**layer) for layer in range(found.height))
        return load + sum((w * min(case.changes, n) for w, n in zip(layers, nodes, strict=True)), Fraction(0))
    ends = found.bins is not None and (case.bins is None or 4 * case.bins > found.bins)
    return hierarchy_paths(
        _UNIT,
        weights=layers,
        base={"apart": load, "none": Fraction(0)}.get(found.load),
        branching=found.branching,
        leaves=found.bins if ends else None,
        case=case,
    )


def _with_load(found: Hierarchy, cases: Sequence[BinCase], power: int) -> Hierarchy:
    """Measure the initial load as a separate node, with the least noise that raises no sensitivity."""
    total = max(_most(found, case, power) for case in cases)
    rest = [
        _most(found, BinCase(*(None if most is None else most - 1 for most in case)), power)
        for case in cases
        if 1 not in case
    ]
    weight = max(total - max(rest, default=Fraction(0)), Fraction(1))
    scale = Fraction(ceil(1024 / float(weight) ** (1 / power)), 1024)
    return replace(found, load="apart", relative=(Fraction(1),) * found.height + (scale,))


def _with_scales(found: Hierarchy, value: Callable[[Hierarchy], float]) -> Hierarchy:
    """Tune the noise of each layer: layers with fewer nodes in a reading get more noise."""
    free = found.height - 1 + (found.load == "apart")

    def scaled(at: Floats) -> Hierarchy:
        factors = np.concatenate([[1.0], np.exp(np.clip(at, -2, 2)), np.ones(found.height - free)])
        scales = [
            Fraction(max(round(64 * float(s) * f), 1), 64) for s, f in zip(found.scales, factors, strict=True)
        ]
        return replace(found, relative=tuple(scales))

    tuned = scaled(nelder_mead(lambda at: value(scaled(at)), [0.0] * free, [0.15] * free, 30))
    return min(found, tuned, key=value)
