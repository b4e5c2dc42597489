"""A small gauge over two wards, with publishers; its clock is the test's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tidegauge.mechanism.noise.samplers import SimulationSampler
from tidegauge.model.quantity import DAY, instant
from tidegauge.run.gauge import Gauge
from tidegauge.testing import Clock, Script

START = instant("2026-01-01")
RELEASES: dict[str, dict[str, Any]] = {
    "by_ward": {
        "sql": "SELECT ward, COUNT(*) FROM t GROUP BY ward",
        "groups": {"ward": ["a", "b"]},
        "start": "2026-01-01",
        "every": "1 day",
        "for": "60 days",
    },
    "week": {"of": "by_ward", "window": "7 days"},
    "weekly": {"sql": "SELECT COUNT(*) FROM t", "start": "2026-01-03", "every": "7 days", "for": "60 days"},
}


def people(count: int = 40) -> list[tuple[int, str, dict[str, str] | None]]:
    """Patients who come on one day and leave on a later one."""
    life: list[tuple[int, str, dict[str, str] | None]] = []
    for n in range(count):
        came = START + (n % 30) * DAY + n
        life += [(came, f"p{n}", {"ward": "ab"[n % 2]}), (came + (1 + n % 9) * DAY, f"p{n}", None)]
    return sorted(life, key=lambda change: change[0])


class Ward:
    """The gauge, and the clock that it reads."""

    def __init__(self, folder: Path, publish: dict[str, dict[str, Any]], **more: Any) -> None:
        self.folder, self.publish, self.clock = folder, publish, Clock(START)
        self.changes = more.pop("changes", None) or people()
        self.sampler = more.pop("sampler", None) or SimulationSampler(seed=7)
        self.more: dict[str, Any] = {"releases": RELEASES} | more

    def gauge(self) -> Gauge:
        return Gauge(
            source=Script(columns={"ward": "VARCHAR"}, changes=self.changes),
            constraint={"at_most": 2},
            budget={"epsilon": 2, "delta": "1e-6"},
            store=self.folder / "store.db",
            base=self.folder,
            publish=self.publish,
            now=self.clock,
            sleep=self.clock.sleep,
            sampler=self.sampler,
            **self.more,
        )

    def run(self, day: int) -> Gauge:
        """Publish everything that is due on this day, counted from 0."""
        self.clock.now = START + day * DAY
        gauge = self.gauge()
        list(gauge.run())
        return gauge
