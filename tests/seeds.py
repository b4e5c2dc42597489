"""Seeds of random worlds: a few in every run, all of them among the long tests."""

from __future__ import annotations

from typing import Any

import pytest


def seeds(first: int, count: int, *, quick: int) -> list[Any]:
    """`count` seeds from `first` on; all but the first `quick` are marked slow."""
    return [*range(first, first + quick), *_slow(first + quick, first + count)]


def _slow(first: int, last: int) -> list[Any]:
    return [pytest.param(seed, marks=pytest.mark.slow) for seed in range(first, last)]
