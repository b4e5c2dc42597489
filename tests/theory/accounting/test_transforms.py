"""What T8-numeric subtracts for rounding is more than what the transforms of dp-accounting are off."""

from __future__ import annotations

from functools import reduce
from math import log2, sqrt

import numpy as np
import pytest
from dp_accounting.pld import common

from tidegauge.theory.accounting.numeric import _FFT_ERROR


@pytest.mark.parametrize("runs", [2, 3, 8, 31, 99, 100, 128])
@pytest.mark.parametrize("shape", ["two points", "smooth", "rough", "one peak"])
def test_transforms_are_off_by_less_than_is_subtracted(shape: str, runs: int) -> None:
    """Beside sums of products, none of them negative, with 64 digits: they are off by far less."""
    size = 2 if shape == "two points" else 65
    at = np.arange(size)
    weights = {
        "two points": np.array([0.3, 0.7]),
        "smooth": np.exp(-((at - 32) ** 2) / 128),
        "rough": np.random.default_rng(7).random(size) ** 8,
        "one peak": np.where(at == 17, 1.0, 1e-9),
    }[shape]
    masses = weights / weights.sum()
    begin, found = common.self_convolve(masses, runs)
    expected = reduce(np.convolve, [masses.astype(np.longdouble)] * runs)
    assert begin == 0
    off = float(np.abs(np.array(found) - expected).sum())
    points = len(expected)
    allowed = _FFT_ERROR * runs * float(np.linalg.norm(masses)) * log2(points) * sqrt(points)
    assert off <= allowed
    assert off > allowed / 10**5, "a bound that says something"
