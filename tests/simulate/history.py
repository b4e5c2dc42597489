"""Small changelogs for simulations."""

from __future__ import annotations

import csv
import random
from typing import TYPE_CHECKING, Any

from tidegauge.model.quantity import HOUR, instant, rfc3339

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = ("time", "key", "person", "after_s", "after_x")


def changes(seed: int, *, rows: int = 30, count: int = 200, days: int = 20) -> list[dict[str, Any]]:
    """Changes of a few rows that people own, in order of time; some rows are deleted and come back."""
    rng = random.Random(seed)
    times = sorted(rng.sample(range(24 * days), count))
    found = []
    for hour in times:
        row = rng.randrange(rows)
        gone = rng.random() < 0.1
        found.append(
            {
                "time": rfc3339(instant("2026-01-01") + hour * HOUR),
                "key": f"k{row}",
                "person": f"p{row % 11}",
                "after_s": None if gone else rng.choice(["a", "b", "c"]),
                "after_x": None if gone else rng.randint(-2, 12),
            }
        )
    return found


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write changes to a csv file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
