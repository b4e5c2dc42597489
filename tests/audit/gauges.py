"""Small plans to audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegauge.audit.worlds.rehearsal import Subject
from tidegauge.run.gauge import Gauge
from tidegauge.testing import Script

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = {"id": "VARCHAR", "s": "VARCHAR", "x": "DOUBLE", "d": "BIGINT"}
DISJOINT = {"strategy": {"name": "disjoint", "base": 0}}
EVERY = {"start": "2024-01-01", "every": "1 day", "for": "3 days"}
COUNT = {"sql": "SELECT COUNT(*) FROM t"} | EVERY | DISJOINT
GROUPED = {"sql": "SELECT s, COUNT(*) FROM t GROUP BY s", "groups": {"s": ["a", "b", "c"]}} | EVERY | DISJOINT


def subject(
    folder: Path,
    *,
    constraint: dict[str, Any] | None = None,
    budget: dict[str, Any] | None = None,
    unit: str | None = None,
    max_rows: int | None = None,
    **releases: dict[str, Any],
) -> Subject:
    gauge = Gauge(
        source=Script(COLUMNS, []),
        constraint=constraint or {"at_most": 2},
        budget=budget or {"rho": "1/2"},
        releases=releases,
        store=folder / "none.db",
        now=lambda: 0,
        unit=unit,
        max_rows=max_rows,
    )
    return Subject(gauge.spec, gauge.plan())
