"""A gauge that grows: its first releases, those that are added, and what an independent count gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegauge.run.gauge import Gauge
from tidegauge.testing import Clock, Script

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

COLUMNS = {"ward": "VARCHAR", "age": "BIGINT"}
RESERVE = {"epsilon": 10**9, "reserve": "0.3"}
"""Without noise, and with a part held back."""
BY_WARD = {"sql": "SELECT ward, COUNT(*) FROM t GROUP BY ward", "groups": {"ward": ["a", "b"]}}
OLD = {"sql": "SELECT COUNT(*) FROM t WHERE age >= 50"}


def at(start: int, every: int = 5, lasting: int | None = None) -> dict[str, str]:
    """A schedule in microseconds."""
    found = {"start": f"1970-01-01T00:00:00.{start:06}Z", "every": f"{every} microseconds"}
    return found if lasting is None else {**found, "for": f"{lasting} microseconds"}


FIRST = {"wards": {**BY_WARD, **at(5, lasting=45)}}
"""Ten readings from 5 to 50."""
ADDED = {"old": {**OLD, **at(25, lasting=25)}}
"""Six readings from 25 to 50."""


def growing(folder: Path, log: Sequence[tuple[Any, ...]], now: int, **changes: Any) -> Gauge:
    """The gauge at this time of day, with the first releases unless others are given."""
    declared: dict[str, Any] = {
        "source": Script(COLUMNS, log),
        "constraint": {"at_most": 3},
        "budget": RESERVE,
        "releases": FIRST,
        "store": folder / "store.db",
        "now": Clock(now),
    }
    return Gauge(**(declared | changes))


def moves(days: int = 50, people: int = 12) -> list[tuple[Any, ...]]:
    """People who come, move, grow older and go."""
    log: list[tuple[Any, ...]] = []
    for n in range(days * 2):
        row = {"ward": ["a", "b", None][(n * 5) % 3], "age": (n * 37) % 100}
        log.append((n // 2 + 1, f"p{(n * 7) % people}", None if n % 6 == 5 else row))
    return log


def old_people(
    log: Sequence[tuple[Any, ...]], times: Sequence[int], *, since: int, most: int = 3
) -> list[int]:
    """How many rows with age >= 50 an added release counts that begins at `since`, by hand.

    A row's state just before `since` is its first change, at `since` itself together with what happens then.
    """
    found = []
    for time in times:
        total = 0
        for name in {one[1] for one in log}:
            path: dict[int, int] = {}
            for when, entry, row, *_ in log:
                if entry == name and when <= time:
                    path[max(when, since)] = int(row is not None and (row["age"] or 0) >= 50)
            accepted, value, counted = 0, 0, 0
            for when in sorted(path):
                if path[when] != value:
                    value, counted = path[when], counted + 1
                    accepted = value if counted <= most else accepted
            total += accepted
        found.append(total)
    return found
