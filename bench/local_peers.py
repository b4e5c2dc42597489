"""Local protocols of others, from the formulas of their papers: exact squared error, and a simulation.

Each takes a Setting and returns the error of a count, per person, for evenly spread answers, and a function
that draws the reports of given people and estimates every window's histogram from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import exp, tanh
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.local import Survey, tilted_law
from tidegauge.local.design import layers_for, prefix_nodes
from tidegauge.local.groups import best_oracle
from tidegauge.local.simulate import true_histogram

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]
    Peer = tuple[float, Callable[[Integers, Generator], Floats]]


@dataclass(frozen=True)
class Setting:
    answers: int
    later: int  # k: changes after the first
    windows: int
    epsilon: int

    @property
    def changes(self) -> int:
        return self.later + 1

    def survey(self, protocol: str) -> Survey:
        return Survey(
            answers=[f"answer {i}" for i in range(self.answers)], windows=self.windows, changes=self.changes,
            epsilon=self.epsilon, protocol=protocol, reveals_change_times=protocol == "memoized",
        )  # fmt: skip


def independent(setting: Setting) -> Peer:
    """Every window a fresh report of the state, with epsilon / windows."""
    law = best_oracle(epsilon=Fraction(setting.epsilon, setting.windows), answers=setting.answers)

    def simulate(lives: Integers, random: Generator) -> Floats:
        true = true_histogram(lives, setting.answers)
        said = random.binomial(true, law.p) + random.binomial(
            len(lives) - true, law.q
        )  # each answer has this law
        return np.asarray((said - len(lives) * law.q) / (law.p - law.q), dtype=np.float64)

    variance = law.variance(1 / setting.answers)
    return variance.noise - variance.known, simulate


def tree(setting: Setting, gap: float, said: Callable[[Integers, Generator], Integers]) -> Peer:
    """One level and one answer a person; a change is reported with a bias, no change as a fair coin."""
    z, T, h = setting.answers, setting.windows, layers_for(setting.windows, 2)
    nodes = [prefix_nodes(t, branching=2, layers=h) for t in range(T)]

    def simulate(lives: Integers, random: Generator) -> Floats:
        n = len(lives)
        level, answer = random.permutation(np.arange(n) % h), random.permutation(np.arange(n) % z)
        per_level = []
        for at in range(h):
            mine = level == at
            j = answer[mine]
            here = np.pad(
                (lives[mine][:, (1 << at) - 1 :: 1 << at] == j[:, None]).astype(np.int64), ((0, 0), (1, 0))
            )
            noisy = said(np.diff(here, axis=1), random)
            sums = np.stack([noisy[j == a].sum(axis=0) / max((j == a).sum(), 1) for a in range(z)], axis=1)
            per_level.append(sums * n / gap)
        return np.array([sum(per_level[at][i] for at, i in nodes[t]) for t in range(T)])

    return float(np.mean([len(each) for each in nodes])) * z * h / gap**2, simulate


def erlingsson(setting: Setting) -> Peer:
    """Keep one random change of the tracked answer and tell it with the whole epsilon."""
    K, bias = setting.changes, tanh(setting.epsilon / 2)

    def said(change: Integers, random: Generator) -> Integers:
        kept = np.cumsum(change != 0, axis=1) - 1 == random.integers(K, size=len(change))[:, None]
        coin = random.integers(2, size=change.shape) * 2 - 1
        noisy = np.where(random.random(change.shape) < (1 + bias) / 2, change, -change)
        return np.where(kept & (change != 0), noisy, coin)

    return tree(setting, bias / K, said)


def futurerand(setting: Setting) -> Peer:
    """The best exchangeable law on signs: T11 without silence."""
    law = tilted_law(changes=setting.changes, epsilon=Fraction(setting.epsilon), signals=2, nu=Fraction(1, 2))
    types, chances = list(law.types), np.array([float(each) for each in law.types.values()])

    def said(change: Integers, random: Generator) -> Integers:
        matches = np.array([i for i, _ in types])[random.choice(len(types), len(change), p=chances)]
        pattern = random.permuted(np.where(np.arange(law.changes) < matches[:, None], 1, -1), axis=1)
        ordinal = np.minimum(np.maximum(np.cumsum(change != 0, axis=1) - 1, 0), law.changes - 1)
        coin = random.integers(2, size=change.shape) * 2 - 1
        return np.where(change != 0, change * np.take_along_axis(pattern, ordinal, axis=1), coin)

    return tree(setting, float(law.gap), said)


@dataclass(frozen=True)
class Bits:
    """dBitFlip (Ding, Kulkarni and Yekhanin 2017): d of z answers, drawn once, a noisy bit for each."""

    answers: int
    drawn: int
    loss: float
    """Log of the ratio of the chances of one bit."""

    @property
    def chances(self) -> tuple[float, float]:
        """Of a 1 if the bit's answer is the person's, and if it is not."""
        p = exp(self.loss) / (exp(self.loss) + 1)
        return p, 1 - p

    @property
    def variance(self) -> float:
        """Of a count, per person, for evenly spread answers: of the bits, and of who was asked what."""
        (p, q), every, present = self.chances, self.answers / self.drawn, 1 / self.answers
        return every * p * q / (p - q) ** 2 + present * (every - 1)

    def ask(self, people: int, random: Generator) -> Integers:
        """(people, d): the answers that each is asked about."""
        return np.argsort(random.random((people, self.answers)), axis=1)[:, : self.drawn]

    def estimate(self, asked: Integers, bits: Integers) -> Floats:
        """Counts of the answers from everybody's bits."""
        p, q = self.chances
        found = np.bincount(asked.ravel(), weights=(bits.ravel() - q) / (p - q), minlength=self.answers)
        return found * self.answers / self.drawn


def fresh_bits(setting: Setting) -> Peer:
    """dBitFlip with fresh noise in every window, which divides epsilon by the windows; the best d.

    One answer that is asked about moves one bit, several move two.
    """
    each = setting.epsilon / setting.windows
    laws = [Bits(setting.answers, d, each if d == 1 else each / 2) for d in range(1, setting.answers + 1)]
    law = min(laws, key=lambda one: one.variance)

    def simulate(lives: Integers, random: Generator) -> Floats:
        p, q = law.chances
        asked, found = law.ask(len(lives), random), []
        for now in lives.T:
            bits = random.random(asked.shape) < np.where(asked == now[:, None], p, q)
            found.append(law.estimate(asked, bits.astype(np.int64)))
        return np.array(found)

    return law.variance, simulate


def kept_bits(setting: Setting) -> Peer:
    """dBitFlip as published: bits are drawn once for each state and sent again, so changes are visible.

    Epsilon is divided by the states of a life: the d answers and "none of them", or those a life can reach.
    """

    def law_of(d: int) -> Bits:
        states = min(d + 1, setting.changes + 1)
        each = setting.epsilon / states
        return Bits(setting.answers, d, each if d == 1 else each / 2)

    law = min(map(law_of, range(1, setting.answers + 1)), key=lambda one: one.variance)

    def simulate(lives: Integers, random: Generator) -> Floats:
        p, q = law.chances
        asked, people = law.ask(len(lives), random), np.arange(len(lives))
        alone = np.eye(law.drawn + 1, law.drawn, dtype=bool)
        kept = random.random((len(lives), law.drawn + 1, law.drawn)) < np.where(alone, p, q)
        found = []
        for now in lives.T:
            hit = asked == now[:, None]
            state = np.where(hit.any(axis=1), hit.argmax(axis=1), law.drawn)
            found.append(law.estimate(asked, kept[people, state].astype(np.int64)))
        return np.array(found)

    return law.variance, simulate


def updates(setting: Setting, lives: Integers) -> Peer:
    """THRESH (Joseph, Roth, Ullman and Waggoner 2018) if its votes cost nothing and came at the right times.

    Everybody reports at U updates with epsilon / U each, and the estimate is published again until the next
    update; U is the best for these people, which only hindsight knows.  The error depends on the number of
    people: a published value that is out of date is as wrong for many as for few.  bench/thresholds.py runs
    the whole protocol.
    """
    T, z = setting.windows, setting.answers
    truth = true_histogram(lives, z)

    def times(count: int) -> Integers:
        return np.unique(np.linspace(0, T, count, endpoint=False).astype(np.int64))

    def last(at: Integers) -> Integers:
        return at[np.searchsorted(at, np.arange(T), side="right") - 1]

    def error(count: int) -> float:
        law = best_oracle(epsilon=Fraction(setting.epsilon, count), answers=z)
        variance = law.variance(1 / z)
        late = (truth - truth[last(times(count))]) ** 2
        return variance.noise - variance.known + float(late.mean()) / len(lives)

    count = min(range(1, T + 1), key=error)
    law = best_oracle(epsilon=Fraction(setting.epsilon, count), answers=z)

    def simulate(lives: Integers, random: Generator) -> Floats:
        at = times(count)
        true = true_histogram(lives, z)[at]
        said = random.binomial(true, law.p) + random.binomial(len(lives) - true, law.q)
        found = (said - len(lives) * law.q) / (law.p - law.q)
        return np.asarray(found[np.searchsorted(at, last(at))], dtype=np.float64)

    return error(count), simulate


REVEALING = "dBitFlip, kept bits (reveals change times)"
UPDATED = "THRESH, votes for free"
PEERS = {
    "independent, eps/T each": independent,
    "Erlingsson-style tree": erlingsson,
    "FutureRand, best law": futurerand,
    "dBitFlip, fresh, eps/T each": fresh_bits,
    REVEALING: kept_bits,
}
