"""How much of the claimed mu the canaries certify: 500 and 5,000 cells a world.

Every run is a whole gauge with real noise.  The targets are those of an ideal observer of two normal worlds,
at 95 % confidence: 90 % (shift) and 77 % (exact) of mu with 500 cells, 96 % and 92 % with 5,000.

    python -m bench.audit            prints a table; exit code 1 where a target is missed
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.result import Chart, Ratio, Result, Table, options, say
from tidegauge.audit.findings import Discrepancy
from tidegauge.audit.noise.canaries import run_canaries
from tidegauge.audit.worlds.palette import palette
from tidegauge.audit.worlds.rehearsal import Subject
from tidegauge.run.gauge import Gauge
from tidegauge.testing import Script

EVERY = {"start": "2024-01-01", "every": "1 day", "for": "3 days"}
PLANS: dict[str, dict[str, Any]] = {
    "count, disjoint": {"sql": "SELECT COUNT(*) FROM t", "strategy": {"name": "disjoint", "base": 0}},
    "count, planned": {"sql": "SELECT COUNT(*) FROM t"},
    "grouped, disjoint": {
        "sql": "SELECT s, COUNT(*) FROM t GROUP BY s",
        "groups": {"s": ["a", "b", "c"]},
        "strategy": {"name": "disjoint", "base": 0},
    },
}
TARGETS = {500: (0.90, 0.77), 5000: (0.96, 0.92)}
IN_A_ROW = 100
ALPHA = 4e-7
"""The chance of a false alarm that the canaries of an audit may have."""


@dataclass(frozen=True)
class Power:
    """What runs of one plan certified, as parts of the claimed mu."""

    plan: str
    cells: int
    runs: int
    shift: float
    exact: float
    error: float
    """Standard error of both means over the runs, the larger one."""
    seconds: float

    @property
    def reached(self) -> bool:
        """Whether both targets are within two standard errors and a hundredth."""
        shift, exact = TARGETS[self.cells]
        slack = 2 * self.error + 0.01
        return self.shift >= shift - slack and self.exact >= exact - slack


def _subject(name: str) -> Subject:
    """A plan with mu = 1."""
    with tempfile.TemporaryDirectory() as folder:
        gauge = Gauge(
            source=Script({"id": "VARCHAR", "s": "VARCHAR"}, []),
            constraint={"at_most": 2},
            budget={"rho": "1/2"},
            releases={"r": EVERY | PLANS[name]},
            store=Path(folder) / "none.db",
            now=lambda: 0,
        )
        return Subject(gauge.spec, gauge.plan())


def in_a_row(name: str, runs: int) -> tuple[int, float]:
    """How many of so many runs of the canaries on right code raised an alarm, and the seconds of a run."""
    subject, alarms, started = _subject(name), 0, time.monotonic()
    rows = palette(subject.plan)
    for seed in range(runs):
        try:
            run_canaries(subject, "r", rows, cells=500, seed=seed, alpha=ALPHA)
        except Discrepancy:
            alarms += 1
    return alarms, (time.monotonic() - started) / runs


def power(name: str, cells: int, runs: int) -> Power:
    """Run the canaries of a plan with mu = 1 so many times."""
    subject = _subject(name)
    rows, found, started = palette(subject.plan), [], time.monotonic()
    for seed in range(runs):
        one = run_canaries(subject, "r", rows, cells=cells, seed=seed, alpha=1e-9)
        assert one is not None
        found.append((one.bounds.shift / one.claimed, one.bounds.exact / one.claimed))
    shift, exact = np.array(found).T
    error = max(part.std(ddof=1) for part in (shift, exact)) / runs**0.5 if runs > 1 else 0.1
    each = (time.monotonic() - started) / runs
    return Power(name, cells, runs, float(shift.mean()), float(exact.mean()), float(error), each)


def result(runs: int, sizes: list[int], repeated: int = IN_A_ROW) -> Result:
    """The certified parts of mu, beside those of an ideal observer, with so many cells a world.

    `repeated`: how often the canaries of one plan are run in a row on right code.
    """
    alarms, each = in_a_row("grouped, disjoint", repeated)
    found = [
        power(name, cells, runs if cells == 500 else max(3, runs // 5)) for cells in sizes for name in PLANS
    ]
    ratios = []
    for one in found:
        slack = 2 * one.error + 0.01
        for way, value, target in zip(
            ("shift", "exact"), (one.shift, one.exact), TARGETS[one.cells], strict=True
        ):
            ratios.append(
                Ratio(f"{one.plan}, {one.cells:,} cells a world, {way}", value, "an ideal observer", target,
                      "of mu", 1 - slack / target, "higher")
            )  # fmt: skip
    rows = [[one.plan, f"{one.cells:,}", str(one.runs), f"{one.seconds:.1f}"] for one in found]
    return Result(
        "Power of the audit",
        "Part of the claimed mu that the audit's canaries certify as a lower bound, in whole gauges with "
        "real noise. An ideal observer of two normal worlds certifies 90 % (shift) and 77 % (exact, "
        "without assumptions) with 500 cells a world, 96 % and 92 % with 5,000. A ratio may fall short of "
        "1 by a hundredth of mu and two standard errors of the mean over the runs.",
        ratios=ratios,
        tables=[Table("Seconds of a run", ["plan (mu = 1)", "cells a world", "runs", "seconds a run"], rows),
                Table(f"Canaries in a row on right code, with alpha = {ALPHA:g} a run",
                      ["plan (mu = 1)", "cells a world", "runs", "false alarms", "seconds a run"],
                      [["grouped, disjoint", "500", str(repeated), str(alarms), f"{each:.1f}"]])],
        charts=[Chart("Power of the audit's canaries", "certified part of mu, over that of an ideal observer",
                      bars=[(ratio.what, ratio.value) for ratio in ratios])],
    )  # fmt: skip


def main() -> int:
    parser = options("Power of the audit's canaries.", quick="three runs, with 500 cells alone")
    parser.add_argument("--runs", type=int, default=10, help="runs with 500 cells; a fifth with 5,000")
    asked = parser.parse_args()
    found = result(3, [500], 5) if asked.quick else result(asked.runs, list(TARGETS))
    return say(found, as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main())
