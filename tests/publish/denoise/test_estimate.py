"""Denoised sums: smaller errors and intervals that cover, for every kind of noise; a jump; the guards.

Noise is seeded here, so nothing depends on chance.  Coverages are means over days and cells.  A broken twin,
which believes in a quarter of the variance, must fail.
"""

from __future__ import annotations

from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tidegauge.mechanism.strategies.autoregressive import Autoregressive
from tidegauge.mechanism.strategies.buffered import Buffered
from tidegauge.mechanism.strategies.disjoint import Disjoint
from tidegauge.mechanism.strategies.hierarchy import Hierarchy
from tidegauge.mechanism.strategies.toeplitz import Toeplitz
from tidegauge.publish.denoise.estimate import Denoised, past_only, smoothed
from tidegauge.publish.denoise.filter import Span
from tidegauge.publish.denoise.measured import measured
from tidegauge.publish.denoise.system import with_rates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.mechanism.strategy import Strategy

    Floats = NDArray[np.float64]

DAYS, CELLS = 120, 40
Z = NormalDist().inv_cdf(0.975)


def plain(strategy: Strategy, rows: Floats, span: int | None) -> Denoised:
    """The plain estimates, in units of the base noise."""
    bins = np.arange(span or 0, DAYS)
    values = []
    for bin_ in bins:
        weights = strategy.weights(int(bin_), span) * strategy.denominator
        values.append(weights @ rows[: len(weights)])
    return Denoised(np.array(values), (strategy.variances(bins, span) * strategy.denominator**2.0)[:, None])


def rows_of(strategy: Strategy, true: Floats, *, laplace: bool, factor: float = 1.0) -> Floats:
    """Measured rows of these running values (days by cells), with noise of scale 1 times `factor`."""
    rng = np.random.default_rng(7)
    changes, found = np.diff(true, axis=0, prepend=0.0), []

    def noise() -> Floats:
        size = true.shape[1]
        drawn = rng.laplace(scale=0.5**0.5, size=(size,)) if laplace else rng.standard_normal((size,))
        return np.asarray(drawn, dtype=np.float64) * factor

    shared = noise()
    for bin_ in range(len(true)):
        for row in strategy.rows(bin_):
            exact = sum(w * changes[a : b + 1].sum(axis=0) for a, b, w in row.ranges) / strategy.denominator
            hidden = row.shared * float(strategy.shared or 0) * shared
            found.append(exact + hidden + float(strategy.scales[row.layer]) * noise())
    return np.array(found)


def series(seed: int = 1) -> Floats:
    """Running values that start high and change slowly, each cell at its own pace."""
    rng = np.random.default_rng(seed)
    pace = 10.0 ** rng.uniform(-3, 0, CELLS)
    return 500 + np.cumsum(pace * rng.standard_normal((DAYS, CELLS)), axis=0)


STRATEGIES: dict[str, tuple[Strategy, bool]] = {
    "buffered": (Buffered(DAYS, "0.2:0.001 0.3:0.05 0.5:1", 1.0), False),
    "root": (Toeplitz("root", DAYS), False),
    "hierarchy": (Hierarchy(3, 5, DAYS), False),
    "hierarchy, Laplace": (Hierarchy(3, 5, DAYS), True),
    "autoregressive, Laplace": (Autoregressive(DAYS, 63000, Fraction(2)), True),
    "disjoint, Laplace": (Disjoint(), True),
}


def tried(name: str, window: int | None, factor: float = 1.0) -> dict[str, tuple[float, float]]:
    """RMSE over that of plain estimates, and coverage, of both kinds of estimate."""
    strategy, laplace = STRATEGIES[name]
    true = series()
    rows = rows_of(strategy, true, laplace=laplace, factor=factor)
    target = true if window is None else true[window:] - true[:-window]
    spans = [Span(None if window is None else end - window, end) for end in range(window or 0, DAYS)]
    known, at = plain(strategy, rows, window), measured(strategy, DAYS, rows)
    found = {}
    for kind, estimate in (("past", past_only), ("all", smoothed)):
        values, variances = estimate(at.system, at.rows, spans, known)
        ratio = np.sqrt(((values - target) ** 2).mean() / ((known.values - target) ** 2).mean())
        found[kind] = float(ratio), float((np.abs(values - target) <= Z * np.sqrt(variances)).mean())
    return found


@pytest.mark.parametrize("window", [None, 7])
@pytest.mark.parametrize("name", STRATEGIES)
def test_errors_are_smaller_and_intervals_cover(name: str, window: int | None) -> None:
    found = tried(name, window)
    assert found["past"][0] < 0.95
    assert found["all"][0] < 0.85
    assert found["past"][1] > 0.9
    assert found["all"][1] > 0.92


def test_the_broken_twin_that_must_fail() -> None:
    found = tried("buffered", None, factor=2.0)
    assert found["all"][1] < 0.9


def test_a_flow_follows_its_rate() -> None:
    strategy, rng = Disjoint(), np.random.default_rng(2)
    true = np.cumsum(200 + 10 * np.sin(np.arange(DAYS) / 30)[:, None] + np.zeros((DAYS, CELLS)), axis=0)
    rows = np.diff(true, axis=0, prepend=0.0) + rng.standard_normal(true.shape)
    at, spans = measured(strategy, DAYS, rows), [Span(end - 1, end) for end in range(1, DAYS)]
    known = Denoised(rows[1:], np.ones((DAYS - 1, 1)))
    values, variances = smoothed(with_rates(at.system), at.rows, spans, known)
    exact = np.diff(true, axis=0)
    assert np.sqrt(((values - exact) ** 2).mean()) < 0.5
    assert (np.abs(values - exact) <= Z * np.sqrt(variances)).mean() > 0.9


def test_a_jump_stays_sharp_and_the_days_around_it_smooth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Student's distribution lets one day jump.  The broken twin is the same without that stage."""
    strategy = STRATEGIES["buffered"][0]
    true = np.full((DAYS, 2), 50.0)
    true[60:] += 40
    rows = rows_of(strategy, true, laplace=False)
    at, spans = measured(strategy, DAYS, rows), [Span(None, end) for end in range(DAYS)]
    known = plain(strategy, rows, None)

    def off() -> tuple[Floats, float]:
        """How far the estimated jump is off, by cell, and how rough the error is from day to day."""
        values, _ = smoothed(at.system, at.rows, spans, known)
        return np.abs(values[60] - values[59] - 40), float(np.abs(np.diff(values - true, axis=0)).mean())

    jump, rough = off()
    assert rough < 0.7 * np.abs(np.diff(known.values - true, axis=0)).mean()
    monkeypatch.setattr("tidegauge.publish.denoise.estimate._jumped", lambda *_: np.empty(0, dtype=np.int64))
    assert jump.max() < 4 < off()[0].min()


def test_no_value_is_far_from_its_reading() -> None:
    """Whatever the series does, a value is within 2.5 standard errors of the plain reading."""
    strategy, rng = STRATEGIES["hierarchy"][0], np.random.default_rng(4)
    true = 30 * rng.standard_normal((DAYS, CELLS)).cumsum(axis=0) * (rng.random((DAYS, CELLS)) < 0.1)
    rows = rows_of(strategy, true, laplace=False)
    at, spans = measured(strategy, DAYS, rows), [Span(None, end) for end in range(DAYS)]
    known = plain(strategy, rows, None)
    for estimate in (past_only, smoothed):
        values, _ = estimate(at.system, at.rows, spans, known)
        assert (np.abs(values - known.values) <= 2.5 * np.sqrt(known.variances) + 1e-9).all()


def test_a_constant_added_to_a_series_is_added_to_its_estimates() -> None:
    strategy, true = STRATEGIES["root"][0], series()[:, :5]
    spans = [Span(None, end) for end in range(DAYS)]
    found = []
    for added in (0.0, 1e5):
        rows = rows_of(strategy, true + added, laplace=False)
        at = measured(strategy, DAYS, rows)
        found.append(smoothed(at.system, at.rows, spans, plain(strategy, rows, None)).values - added)
    assert found[1] == pytest.approx(found[0], abs=1e-4)
