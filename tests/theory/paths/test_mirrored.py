"""Values that are never above 0 cost as much as the same values with the other sign."""

from __future__ import annotations

import numpy as np
import pytest

from tidegauge.run.gauge import Gauge
from tidegauge.testing import Clock, Script
from tidegauge.theory.paths.path import BinCase, Domain
from tidegauge.theory.paths.toeplitz import toeplitz_paths


@pytest.mark.parametrize("offset", [0.0, 4.0])
@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize(
    "case", [BinCase(1, None), BinCase(2, 9), BinCase(3, 60), BinCase(None, 33), BinCase(40, None)]
)
def test_values_below_0_alone(case: BinCase, loaded: bool, offset: float) -> None:
    coefficients = np.array([0.9**age for age in range(120)])
    below, above = (
        toeplitz_paths(coefficients, case=case, domain=domain, offset=offset, coarse=True)
        for domain in (Domain(0.0, 1.0, loaded=loaded), Domain(1.0, 0.0, loaded=loaded))
    )
    assert below == above > 0


def test_a_sum_of_values_below_0_can_be_planned() -> None:
    release = {
        "sql": "SELECT SUM(x) FROM t",
        "bounds": {"x": [-5, -1]},
        "start": "2025-02-27",
        "every": "30 days",
        "window": "1 day",
        "for": "120 days",
    }
    gauge = Gauge(
        source=Script({"x": "BIGINT"}, []),
        constraint={"within": "59 days", "renews": "30 days"},
        budget={"rho": "1/2"},
        releases={"r": release},
        now=Clock(0),
    )
    assert gauge.plan().needed > 0
