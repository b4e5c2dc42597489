"""What `on_excess` costs: the bias of running counts with freeze and with retire,
on the demo and on real data.

    python -m bench.excess [NAME ...]

Every gauge runs without noise (epsilon = 1e9), so that its readings differ from the truth by bias alone.
TIDEGAUGE_DATA names the folder of the real changelogs; without it, only the demo is measured.
"""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.result import Ratio, Result, Table, options, say
from tidegauge.demo.town import KINDS, changelog, write
from tidegauge.run.gauge import Gauge

UNLIMITED = 10_000
SIDES = {"before": "before_", "after": "after_"}


@dataclass(frozen=True)
class World:
    """A changelog and one running count of it."""

    name: str
    source: dict[str, Any]
    release: dict[str, Any]
    limits: tuple[int, ...]


def worlds(folder: Path, people: int) -> list[World]:
    """The demo, and the real changelogs if they are there."""
    write(folder / "care.csv.gz", changelog(people))
    demo = World(
        "demo town, by kind of care, daily",
        {"path": str(folder / "care.csv.gz"), "table": "t", "time": "time", "key": "person", **SIDES},
        {
            "sql": "SELECT care, COUNT(*) FROM t GROUP BY care",
            "groups": {"care": list(KINDS)},
            "start": "2025-01-01",
            "every": "1 day",
            "for": "364 days",
        },
        (4, 6, 8),
    )
    named = os.environ.get("TIDEGAUGE_DATA")
    if not named:
        return [demo]
    data = Path(named)

    def real(file: str, sql: str, groups: dict[str, list[str]], start: str, years: int) -> dict[str, Any]:
        source = {
            "path": str(data / f"{file}.csv.gz"),
            "table": "t",
            "time": "ts",
            "key": "entry",
            "op": "op",
        }
        timing = {"start": start, "every": "1 month", "for": f"{years} years"}
        return {"source": {**source, **SIDES}, "release": {"sql": sql, "groups": groups, **timing}}

    return [
        demo,
        World(
            "congress_committees, seats by party, monthly",
            limits=(4, 8, 16),
            **real(
                "congress_committees",
                "SELECT party, COUNT(*) FROM t GROUP BY party",
                {"party": ["majority", "minority"]},
                "2013-01-01",
                13,
            ),
        ),
        World(
            "oulad, enrolments by module, monthly",
            limits=(2, 3, 4),
            **real(
                "oulad",
                "SELECT module, COUNT(*) FROM t GROUP BY module",
                {"module": ["AAA", "BBB", "CCC", "DDD", "EEE", "FFF", "GGG"]},
                "2012-06-01",
                3,
            ),
        ),
        World(
            "traffic_fines, open fines by status, monthly",
            limits=(3, 5, 8),
            **real(
                "traffic_fines",
                "SELECT status, COUNT(*) FROM t GROUP BY status",
                {"status": ["Create Fine", "Send Fine", "Insert Fine Notification", "Add penalty", "Payment",
                            "Send for Credit Collection"]},
                "2001-01-01",
                13,
            ),
        ),
    ]  # fmt: skip


def published(world: World, constraint: dict[str, Any], folder: Path, number: int) -> list[float]:
    """Every reading of a gauge without noise under this constraint."""
    gauge = Gauge(
        source={"kind": "files", **world.source},
        constraint=constraint,
        budget={"epsilon": 10**9},
        releases={"now": {**world.release, "strategy": "disjoint"}},
        store=folder / f"{number}.db",
    )
    return [reading.value or 0.0 for reading in gauge.run()]


def result(names: list[str], people: int) -> Result:
    """The bias of each world, constraint and policy."""
    number, rows, ratios, skipped = 0, [], [], {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for world in worlds(folder, people):
            if names and not any(name in world.name for name in names):
                continue
            truth = published(world, {"at_most": UNLIMITED}, folder, number := number + 1)
            typical = sum(truth) / len(truth)
            tail = len(truth) // 10
            for limit in world.limits:
                sizes = {}
                for policy in ("freeze", "retire"):
                    constraint = {"at_most": limit, "on_excess": policy}
                    found = published(world, constraint, folder, number := number + 1)
                    errors = [one - exact for one, exact in zip(found, truth, strict=True)]
                    mean = sum(errors) / len(errors) / typical
                    rms = (sum(error**2 for error in errors) / len(errors)) ** 0.5 / typical
                    last = sum(errors[-tail:]) / tail / (sum(truth[-tail:]) / tail or 1)
                    sizes[policy] = rms
                    rows.append(
                        [world.name, str(limit), policy, f"{mean:+.2%}", f"{rms:.2%}", f"{last:+.2%}"]
                    )
                if min(sizes.values()) > 0:
                    what = f"freeze, {world.name}, at most {limit}"
                    ratios.append(Ratio(what, 100 * sizes["freeze"], "retire", 100 * sizes["retire"], "%"))
    if not os.environ.get("TIDEGAUGE_DATA"):
        skipped["real changelogs"] = "TIDEGAUGE_DATA names no folder that holds them."
    head = ["changelog", "at_most", "on_excess", "mean bias", "rms bias", "last readings"]
    return Result(
        "Bias of freeze and retire",
        "Readings without noise against the truth: what the constraint alone costs, as part of a typical "
        "reading (rms bias).",
        ratios=ratios,
        tables=[Table("", head, rows)],
        absent=skipped,
    )


def main() -> int:
    parser = options("What on_excess costs.", quick="the demo alone, with a tenth of the people")
    parser.add_argument("names", nargs="*", metavar="NAME")
    asked = parser.parse_args()
    found = result(["demo"], 10_000) if asked.quick else result(asked.names, 100_000)
    return say(found, as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main())
