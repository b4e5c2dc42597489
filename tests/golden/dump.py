"""Run a gauge with randomness that repeats, and dump what it publishes, reserves and counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tests.golden.compare import plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidegauge import Gauge


class Seeded:
    """A sampler whose draws follow from a seed."""

    simulated = True

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def draw(self, noise: Any, count: int) -> list[int]:
        draws: list[int] = noise.simulate(count, self._rng)
        return draws


class Exact:
    """A sampler without noise: readings are what is decoded from exact sums."""

    simulated = True

    def draw(self, noise: Any, count: int) -> list[int]:
        del noise
        return [0] * count


def planned(gauge: Gauge) -> dict[str, Any]:
    """What plan --json prints, without the plan's hash, which the last digit of any float would change."""
    found: dict[str, Any] = plain(gauge.plan().as_json())
    del found["hash"]
    return found


def readings(gauge: Gauge) -> list[list[Any]]:
    """Every published reading as a short row."""
    said = [reading.as_json() for reading in gauge.published()]
    names = ("release", "time", "group", "value", "stderr", "low", "high")
    return [[one[name] for name in names] for one in said]


def dumped(gauge: Gauge) -> dict[str, Any]:
    """Readings (as published and smoothed), reserved losses and operator's counts of a gauge that has run."""
    status = gauge.status().as_json()
    del status["plan"], status["whole_error"]
    ledger = []
    for entry in gauge.ledger():
        body = entry.body.as_json()
        del body["plan"]
        ledger.append({"time": entry.time, "kind": entry.kind, "body": body})
    smoothed = [reading.as_json()["value"] for reading in gauge.published(smoothed=True)]
    verified = gauge.verify().as_json()
    found: dict[str, Any] = plain(
        {
            "readings": readings(gauge),
            "smoothed": smoothed,
            "ledger": ledger,
            "status": status,
            "verified": verified,
        }
    )
    return found


def values(rows: Iterable[list[Any]]) -> list[Any]:
    """The values of readings alone."""
    return [row[3] for row in rows]
