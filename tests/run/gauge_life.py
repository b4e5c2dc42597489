"""A small world for tests of the whole gauge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegauge.run.gauge import Gauge
from tidegauge.testing import Clock, Crash, Script

if TYPE_CHECKING:
    from pathlib import Path

EXACT = {"epsilon": 10**9}
"""So much that the noise is 0."""
COLUMNS = {"ward": "VARCHAR", "age": "BIGINT"}


def life(seed: int = 0, days: int = 30) -> list[tuple[Any, ...] | Crash]:
    """Patients who come, move and go; one mutation a microsecond-day or several."""
    wards, log = ["a", "b", None], []
    for n in range(days * 4):
        time, entry = n // 4 + 1, f"p{(n * 7 + seed) % 13}"
        ward = wards[(n * 5 + seed) % 3]
        log.append((time, entry, None if n % 5 == 4 else {"ward": ward, "age": (n * 31) % 90}))
    return list(log)


def gauge(folder: Path, source: Script, **changes: Any) -> Gauge:
    """Three releases over thirty instants, and two that are derived."""
    every = {"start": "1970-01-01T00:00:00.000005Z", "every": "5 microseconds", "for": "25 microseconds"}
    declared: dict[str, Any] = {
        "source": source,
        "constraint": {"at_most": 4},
        "budget": EXACT,
        "releases": {
            "by_ward": {
                "sql": "SELECT ward, COUNT(*) FROM t GROUP BY ward",
                "groups": {"ward": ["a", "b"]},
                **every,
            },
            "age": {"sql": "SELECT AVG(age) FROM t", "bounds": {"age": [0, 90]}, **every},
            "moved": {
                "sql": "SELECT COUNT(*) FROM changes(t) WHERE before.ward = 'a' AND after.ward = 'b'",
                **every,
            },
            "ward_change": {"of": "by_ward", "window": "10 microseconds"},
            "moved_so_far": {"of": "moved"},
        },
        "store": folder / "store.db",
        "now": Clock(1000),
    }
    return Gauge(**(declared | changes))
