"""What a plan predicts is what happens: errors, their size and their intervals, with seeded noise."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tidegauge.mechanism.strategies.autoregressive import Autoregressive
from tidegauge.mechanism.strategies.buffered import Buffered
from tidegauge.mechanism.strategies.damped import Damped
from tidegauge.mechanism.strategies.epochs import Epochs
from tidegauge.mechanism.strategies.hierarchy import Hierarchy
from tidegauge.mechanism.strategies.toeplitz import Toeplitz

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.mechanism.strategy import Strategy

    Floats = NDArray[np.float64]

ALPHA = 1e-9
DRAWS = 60_000
BINS = 48
STRATEGIES: list[tuple[Strategy, int | None]] = [
    (Hierarchy(3, 3, BINS), None),
    (Hierarchy(2, 4, BINS), 7),
    (Toeplitz("root", BINS), None),
    (Toeplitz("banded", BINS, 1, width=7), 7),
    (Damped(BINS, 0.93, 0.0, 0.15), None),
    (Damped(BINS, 0.999, 1.3, 0.1), 7),
    (Buffered(BINS, "0.3:1 0.4:0.5 0.2:0.07 0.1:0", 0.15), None),
    (Buffered(BINS, "0.1:1 0.5:0.5 0.4:0.01", 0.9), 7),
    (Epochs(8), None),
    (Autoregressive(BINS, 62000, Fraction(3, 4)), None),
]
NAMES = [f"{strategy.name}-{span}" for strategy, span in STRATEGIES]


def errors(strategy: Strategy, span: int | None, *, too_small: float = 1.0) -> Floats:
    """Errors of the last reading, straight from the contract: noise on the integers C x, then the weights."""
    rng = np.random.default_rng(17)
    rows = list(strategy.measured(BINS - 1))
    changes = rng.integers(-3, 6, BINS)
    exact = np.array([sum(w * int(changes[a : b + 1].sum()) for a, b, w in row.ranges) for row in rows])
    scales = np.array([float(strategy.scales[row.layer]) for row in rows])
    base = 5.0 * strategy.denominator * too_small
    noise = rng.normal(size=(DRAWS, len(rows))) * scales * base
    if strategy.shared is not None:
        shared = np.rint(rng.normal(size=(DRAWS, 1)) * float(strategy.shared) * base)
        noise += shared * np.array([row.shared for row in rows])
    truth = changes.sum() if span is None else changes[-span:].sum()
    found: Floats = (exact + np.rint(noise)) @ strategy.weights(BINS - 1, span) - truth
    return found


def predicted(strategy: Strategy, span: int | None) -> float:
    variance = strategy.variances(np.array([BINS - 1]), span)[0]
    return 5.0 * strategy.denominator * sqrt(variance)


def size_is_right(found: Floats, stderr: float) -> bool:
    """The mean square of normal errors lies this near to its expectation, but for a chance of ALPHA."""
    slack = NormalDist().inv_cdf(1 - ALPHA / 2) * sqrt(2 / len(found))
    assert slack < 0.04  # an error in the standard deviation of 2 % is seen
    return abs(float(found @ found) / len(found) / stderr**2 - 1) <= slack


def covers(found: Floats, stderr: float, level: float = 0.95) -> bool:
    half = NormalDist().inv_cdf((1 + level) / 2) * stderr
    slack = NormalDist().inv_cdf(1 - ALPHA / 2) * sqrt(level * (1 - level) / len(found))
    return abs(float((np.abs(found) <= half).mean()) - level) <= slack


@pytest.mark.parametrize(("strategy", "span"), STRATEGIES, ids=NAMES)
def test_errors_are_as_large_as_predicted(strategy: Strategy, span: int | None) -> None:
    found, stderr = errors(strategy, span), predicted(strategy, span)
    assert abs(found.mean()) <= NormalDist().inv_cdf(1 - ALPHA / 2) * stderr / sqrt(DRAWS)
    assert size_is_right(found, stderr)
    assert covers(found, stderr)


@pytest.mark.parametrize(("strategy", "span"), STRATEGIES, ids=NAMES)
def test_noise_that_is_too_small_is_seen(strategy: Strategy, span: int | None) -> None:
    found, stderr = errors(strategy, span, too_small=0.9), predicted(strategy, span)
    assert not size_is_right(found, stderr)
    assert not covers(found, stderr)
