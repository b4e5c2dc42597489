"""The tilted randomizer of T11: its exact law, and the nu that makes the variance of its estimate smallest.

symbol in T11    here
d                signals    different changes that a report can express
K                changes    windows in which one person's answer may change
nu               nu         probability of each signal in a report about no change
G                good       patterns, as (matches, mismatches), whose probability is raised by e^epsilon
c                c          the normaliser
gap              gap        expected value of (match - mismatch / (d - 1)) in one entry of the pattern
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln

from tidegauge.errors import LocalError
from tidegauge.local.reporter import ONE, acceptance, pattern_weights

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


@dataclass(frozen=True)
class TiltedLaw:
    """The law of one person's secret pattern, in exact numbers.  [T11]"""

    changes: int
    epsilon: Fraction
    signals: int
    nu: Fraction
    good: frozenset[tuple[int, int]]

    @property
    def tilt(self) -> Fraction:
        """The factor by which good patterns become likelier: e^epsilon, rounded down."""
        return Fraction(ONE, acceptance(self.epsilon))

    @cached_property
    def types(self) -> dict[tuple[int, int], Fraction]:
        """The probability of every (matches, mismatches)."""
        weights = pattern_weights(
            changes=self.changes,
            signals=self.signals,
            nu=int(self.nu * ONE),
            good=sorted(self.good),
            accept=acceptance(self.epsilon),
        )
        total = sum(weights.values())
        return {pair: Fraction(weight, total) for pair, weight in weights.items()}

    @cached_property
    def c(self) -> Fraction:
        """The density of a pattern outside good, relative to the base law."""
        silent = (0, 0)
        base = (1 - self.signals * self.nu) ** self.changes
        if base:
            return self.types[silent] / base / (self.tilt if silent in self.good else 1)
        match = (self.changes, 0)
        return self.types[match] / self.nu**self.changes / (self.tilt if match in self.good else 1)

    @cached_property
    def match(self) -> Fraction:
        """The probability that an entry of the pattern is the true signal."""
        return sum((i * law for (i, _), law in self.types.items()), Fraction(0)) / self.changes

    @cached_property
    def mismatch(self) -> Fraction:
        """The probability that an entry of the pattern is another signal."""
        return sum((j * law for (_, j), law in self.types.items()), Fraction(0)) / self.changes

    @cached_property
    def gap(self) -> Fraction:
        """What the estimate divides by."""
        return self.match - self.mismatch / (self.signals - 1)


def tilted_law(*, changes: int, epsilon: Fraction, signals: int, nu: Fraction) -> TiltedLaw:
    """The tilted law with the largest gap for a given base law.  [T11]

    Base law: each of `signals` outputs with probability nu, silence otherwise.
    Promise:  all reports of one person together are epsilon-indistinguishable, for any two inputs and for
              every nu and good.
    Tight:    the loss is epsilon (its exponential rounded down to a multiple of 2^-64), unless good is all or
              nothing.
    Proof:    docs/theory/T11.md, docs/theory/T11-gap.md
    """
    if changes < 1 or epsilon <= 0 or signals < 2 or not 0 < nu * signals <= 1:
        raise LocalError("a tilted law needs changes >= 1, epsilon > 0, signals >= 2 and 0 < nu <= 1/signals")
    nu = max(Fraction(int(nu * ONE), ONE), Fraction(1, ONE))
    accept = acceptance(epsilon)
    base = pattern_weights(changes=changes, signals=signals, nu=int(nu * ONE), good=(), accept=1)
    value = {(i, j): i * (signals - 1) - j for i, j in base}
    whole, mass, moment, best = accept * sum(base.values()), 0, 0, Fraction(0)
    good: list[tuple[int, int]] = []
    for pair in sorted((pair for pair, law in base.items() if law), key=lambda pair: -value[pair]):
        mass += base[pair]
        moment += base[pair] * value[pair]
        gap = Fraction((ONE - accept) * moment, whole + (ONE - accept) * mass)
        if gap <= best:
            break
        best = gap
        good.append(pair)
    return TiltedLaw(changes=changes, epsilon=epsilon, signals=signals, nu=nu, good=frozenset(good))


@dataclass(frozen=True)
class Sketch:
    """Approximate laws for many values of nu at once, to choose one of them."""

    nu: NDArray[np.float64]
    gap: NDArray[np.float64]
    match: NDArray[np.float64]
    mismatch: NDArray[np.float64]


def sketch(*, changes: int, epsilon: Fraction, signals: int, nu: NDArray[np.float64]) -> Sketch:
    """Approximately what tilted_law gives for each nu."""
    i, j = np.array([(i, j) for i in range(changes + 1) for j in range(changes + 1 - i)]).T
    value = i - j / (signals - 1)
    order = np.argsort(-value, kind="stable")
    i, j, value = i[order], j[order], value[order]
    rest = changes - i - j
    ways = gammaln(changes + 1) - gammaln(i + 1) - gammaln(j + 1) - gammaln(rest + 1)
    silent = np.maximum(1 - signals * nu, 0)[:, None] ** rest
    base = np.exp(ways + i * np.log(nu)[:, None] + j * np.log((signals - 1) * nu)[:, None]) * silent
    raised = ONE / acceptance(epsilon) - 1
    mass, moment = np.cumsum(base, axis=1), np.cumsum(base * value, axis=1)
    ratios = raised * moment / (1 + raised * mass)
    last = np.argmax(ratios, axis=1)
    inside = np.arange(len(value)) <= last[:, None]
    law = base * (1 + raised * inside)
    law /= law.sum(axis=1, keepdims=True)
    gap = ratios[np.arange(len(nu)), last] / changes
    return Sketch(nu=nu, gap=gap, match=law @ i / changes, mismatch=law @ j / changes)


def sharpest_law(
    *, changes: int, epsilon: Fraction, signals: int, variance: Callable[[Sketch], NDArray[np.float64]]
) -> TiltedLaw:
    """The law whose nu makes `variance` smallest, on a grid that is refined once."""
    top = np.log(1 / signals)
    tried = np.exp(np.linspace(top - 30, top, 240))
    for _ in range(2):
        errors = variance(sketch(changes=changes, epsilon=epsilon, signals=signals, nu=tried))
        at = int(np.argmin(errors))
        around = tried[max(at - 1, 0)], tried[min(at + 1, len(tried) - 1)]
        best, tried = tried[at], np.geomspace(*around, 64)
    nu = min(Fraction(float(best)), Fraction(1, signals))
    return tilted_law(changes=changes, epsilon=epsilon, signals=signals, nu=nu)
