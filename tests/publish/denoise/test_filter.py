"""The filter against the definition: the conditional normal distribution, by dense linear algebra."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tidegauge.mechanism.strategies.ahead import Ahead
from tidegauge.mechanism.strategies.autoregressive import Autoregressive
from tidegauge.mechanism.strategies.buffered import Buffered
from tidegauge.mechanism.strategies.damped import Damped
from tidegauge.mechanism.strategies.dense import Dense
from tidegauge.mechanism.strategies.disjoint import Disjoint
from tidegauge.mechanism.strategies.epochs import Epochs
from tidegauge.mechanism.strategies.hierarchy import Hierarchy
from tidegauge.mechanism.strategies.toeplitz import Toeplitz
from tidegauge.publish.denoise.bank import Models, bank
from tidegauge.publish.denoise.compress import compressed
from tidegauge.publish.denoise.filter import Span, backward, forward
from tidegauge.publish.denoise.measured import measured
from tidegauge.publish.denoise.system import with_rates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.mechanism.strategy import Strategy

    Floats = NDArray[np.float64]

N = 18
WINDOW = 4
MODELS = np.array([20, 90, 130, 200])
UNKNOWN = 1e7
"""Variance of the start value in the dense form; the filter has no such number."""
_dense = 2**19 * (np.tri(N, dtype=np.int64) + np.eye(N, dtype=np.int64)) - np.tril(
    np.random.default_rng(3).integers(1, 400_000, (N, N))
)

STRATEGIES: list[Strategy] = [
    Buffered(N, "0.3:0 0.4:0.1 0.3:1", 2.0),
    Buffered(N, "0.5:0.02 0.5:0.3", 0.0, 1),
    Disjoint(),
    Disjoint(1),
    Hierarchy(3, 3, N),
    Hierarchy(2, 5, N, load="leaf", relative=tuple(map(Fraction, (1, 2, 1, 1, 1, 1)))),
    Hierarchy(4, 2, N, load="none"),
    Toeplitz("root", N),
    Toeplitz("banded", N, 1, width=5),
    Toeplitz("window", N, 1, width=5),
    Damped(N, 0.95, 0.1, 2.0),
    Dense.of(_dense, 0),
    Autoregressive(N, 60000, Fraction(3, 2)),
    Autoregressive(N, 60000, Fraction(3, 2), 1),
    Autoregressive(N, 65536, Fraction(0)),
    Epochs(8),
    Epochs(8, branching=2),
    Ahead(3, 3, N, 0, tuple(map(Fraction, (1, 2, 1)))),
    Ahead(2, 4, N, 1),
]


def changes(models: Models, which: int, count: int, *, rates: bool) -> Floats:
    """The changes of steps as a linear map of independent normal numbers: steps by numbers."""
    found, extra, rate = (np.zeros((count, 2 * count + 3)), *np.zeros((2, 2 * count + 3)))
    extra[-3], rate[-2], found[0, -1] = models.start[which] ** 0.5, 1e2, UNKNOWN**0.5
    for step in range(1, count):
        new = models.pull[which] * extra
        new[step] += models.level[which] ** 0.5
        new[count + step] += models.other[which] ** 0.5
        extra = models.keep[which] * extra
        extra[count + step] += models.other[which] ** 0.5
        rate = rate + new
        found[step] = rate if rates else new
    return found


@pytest.mark.parametrize("rates", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda one: f"{one.name}")
def test_means_and_variances_are_those_of_the_conditional_distribution(
    strategy: Strategy, rates: bool
) -> None:
    first = next(bin_ for bin_ in range(N) if strategy.rows(bin_))
    measures = [(bin_ - first, row) for bin_ in range(N) for row in strategy.rows(bin_)]
    ends = np.array([step for step, _ in measures])
    matrix = np.zeros((len(measures), N))
    for at, (_, row) in enumerate(measures):
        for begin, end, weight in row.ranges:
            matrix[at, begin : end + 1] += weight / strategy.denominator
    scales = np.array([float(strategy.scales[row.layer]) for _, row in measures])
    shared = np.array([row.shared for _, row in measures]) * float(strategy.shared or 0)
    rows = 3 * np.random.default_rng(1).standard_normal((len(measures), 2)) + ends[:, None] / 5
    found = measured(strategy, N, rows)
    assert found.first == first
    system = with_rates(found.system) if rates else found.system
    count, models = N - first, bank().only(MODELS)
    spans = [
        Span(start, end)
        for end in range(count)
        for start in (None, end - WINDOW)
        if start != end - WINDOW or end >= WINDOW
    ]
    smooth = backward(system, models, spans, forward(system, found.rows, models, spans, keep=True))
    for which in range(len(models)):
        past = forward(system, found.rows, models.only(np.array([which])), spans, memory=1.0)
        moves = changes(models, which, count, rates=rates)
        seen = matrix[:, first:] @ moves
        own = strategy.tree.covariance if isinstance(strategy, Ahead) else np.diag(scales**2)
        noisy = seen @ seen.T + own + np.outer(shared, shared)
        for at, span in enumerate(spans):
            target = moves[: span.end + 1].sum(0) - (
                0 if span.start is None else moves[: span.start + 1].sum(0)
            )
            offset = system.offset if span.start is None else 0.0
            for used, mean, variance in (
                (ends <= span.end, past.means[at], past.variances[at][0]),
                (ends <= N, smooth.means[at][which], smooth.variances[at][which]),
            ):
                weights = np.linalg.solve(noisy[np.ix_(used, used)], seen[used] @ target)
                exact = float(target @ target - weights @ (seen[used] @ target))
                assert variance + offset == pytest.approx(exact, rel=2e-3, abs=1e-6)
                assert mean == pytest.approx(
                    weights @ rows[used], rel=2e-3, abs=3e-3 * max(exact, 1e-6) ** 0.5 + 1e-5
                )


@pytest.mark.parametrize(
    "strategy", [Toeplitz("root", 500), Damped(500, 0.99, 0.2, 3.0), Toeplitz("banded", 500, width=30)]
)
def test_compression_keeps_the_matrix(strategy: Toeplitz | Damped) -> None:
    count = 500
    if isinstance(strategy, Damped):
        matrix = strategy.matrix / strategy.denominator
    else:
        a = strategy.coefficients / strategy.denominator
        matrix = np.array([[a[t - b] if b <= t else 0.0 for b in range(count)] for t in range(count)])
    steps = compressed(lambda at: matrix[at, : at + 1], count)
    assert len(steps[0].gain) < 40
    x = np.random.default_rng(5).standard_normal(count)
    x[0] = 1e4
    state, rows = np.zeros(len(steps[0].gain)), []
    for step, change in zip(steps, x, strict=True):
        state = step.transition @ state + step.gain * change
        rows.append(step.seen[0].weights @ state)
    assert np.abs(np.array(rows) - matrix @ x).max() < 2e-3
    assert state[0] == pytest.approx(x.sum())
