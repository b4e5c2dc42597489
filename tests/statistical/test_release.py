"""Readings of a whole gauge against the exact answer: unbiased, as wide as promised, covered as promised.

alpha = 1e-9 for each test; every one has a twin with noise 10 % too small that must be rejected.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tidegauge.mechanism.encode import scaled
from tidegauge.mechanism.noise.samplers import Noise, SecureSampler
from tidegauge.run.gauge import Gauge
from tidegauge.testing import Clock, Script

ALPHA = 1e-9
WINDOWS, CELLS = 600, 30


@dataclass(frozen=True)
class Weak:
    """Noise that is 10 % too small."""

    simulated: bool = False

    def draw(self, noise: Noise, count: int) -> list[int]:
        return scaled(noise, Fraction(9, 10)).sample(count)


def residuals(
    folder: Path, budget: dict[str, Any], sampler: Any
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], float]:
    """(error / stderr, covered, the plan's half-width) of the change in every window and cell."""
    life = [(n % WINDOWS, f"e{n}", {"g": f"g{n % CELLS}"}) for n in range(3000)]
    one = Gauge(
        source=Script({"g": "VARCHAR"}, sorted(life)),
        constraint={"at_most": 3},
        budget=budget,
        releases={
            "change": {
                "sql": "SELECT g, COUNT(*) FROM t GROUP BY g",
                "groups": {"g": [f"g{c}" for c in range(CELLS)]},
                "start": "1970-01-01",
                "every": "1 microsecond",
                "window": "1 microsecond",
                "for": f"{WINDOWS - 1} microseconds",
            }
        },
        store=folder / "store.db",
        now=Clock(10_000),
        sampler=sampler,
    )
    exact: dict[tuple[int, str], int] = {}
    for time, _, row in life:
        exact[time, row["g"]] = exact.get((time, row["g"]), 0) + 1
    errors, covered = [], []
    for n, reading in enumerate(one.run()):
        assert reading.group is not None
        assert reading.value is not None
        assert reading.stderr is not None
        truth = exact.get((n // CELLS, str(reading.group["g"])), 0)
        low, high = reading.interval(0.95)
        errors.append((reading.value - truth) / reading.stderr)
        covered.append(low <= truth <= high)
    assert len(errors) == WINDOWS * CELLS
    return np.array(errors), np.array(covered), one.plan().releases[0].chosen.half_width_worst


def scale_is_right(errors: np.ndarray[Any, Any], kurtosis: float) -> bool:
    """The mean square is 1: it is normal about 1 with variance (kurtosis - 1) / n."""
    n = len(errors)
    return bool(abs(np.mean(errors**2) - 1) < stats.norm.isf(ALPHA / 2) * sqrt((kurtosis - 1) / n))


@pytest.mark.parametrize(
    ("budget", "kurtosis"), [({"epsilon": 1}, 6.0), ({"epsilon": 1, "delta": "1e-6"}, 3.0)]
)
def test_readings_are_unbiased_and_as_wide_as_promised(
    tmp_path: Path, budget: dict[str, Any], kurtosis: float
) -> None:
    errors, covered, _ = residuals(tmp_path, budget, SecureSampler())
    assert abs(errors.mean()) < stats.norm.isf(ALPHA / 2) / sqrt(len(errors))
    assert scale_is_right(errors, kurtosis)
    assert stats.binomtest(int(covered.sum()), len(covered), 0.95).pvalue > ALPHA


@pytest.mark.parametrize(
    ("budget", "kurtosis"), [({"epsilon": 1}, 6.0), ({"epsilon": 1, "delta": "1e-6"}, 3.0)]
)
def test_weak_noise_is_rejected(tmp_path: Path, budget: dict[str, Any], kurtosis: float) -> None:
    errors, covered, _ = residuals(tmp_path, budget, Weak())
    assert not scale_is_right(errors, kurtosis)
    assert stats.binomtest(int(covered.sum()), len(covered), 0.95).pvalue < ALPHA


def test_the_promised_scale_follows_from_theory(tmp_path: Path) -> None:
    """Laplace at epsilon = 1: of 3 changes the first touches one group, the others two: scale 1 + 2 + 2."""
    _, _, half = residuals(tmp_path, {"epsilon": 1}, SecureSampler())
    assert half == pytest.approx(5 * np.log(20), rel=0.01)
