"""Denoised series against plain readings, on real changelogs, with noise drawn again and again.

    python -m bench.denoise FOLDER                    the numbers to reach, each with its limit
    python -m bench.denoise FOLDER --draws 3          quicker
    python -m bench.denoise FOLDER --write            also puts the table into docs/denoised.md
    python -m bench.denoise --time                    3,650 days and 50 groups

FOLDER (or TIDEGAUGE_DATA) holds traffic_fines.csv.gz, congress_committees.csv.gz and oulad.csv.gz.
"""

from __future__ import annotations

import csv
import gzip
import os
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from statistics import NormalDist
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np

import tidegauge as tg
from bench.result import Ratio, Result, Table, options, put, say
from tidegauge.publish.denoise.estimate import Denoised, past_only, smoothed
from tidegauge.publish.denoise.filter import Span
from tidegauge.publish.denoise.measured import measured
from tidegauge.testing import Script

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.mechanism.encode import ComponentPlan

    Floats = NDArray[np.float64]

Z = NormalDist().inv_cdf(0.975)
PAGE = Path(__file__).parents[1] / "docs" / "denoised.md"


@dataclass(frozen=True)
class Series:
    """A column of a changelog, counted by its most frequent values."""

    file: str
    column: str
    at_most: int
    days: int
    groups: int = 10


SERIES = (
    Series("traffic_fines", "status", 10, 1500),
    Series("congress_committees", "committee", 15, 1500),
    Series("oulad", "module", 10, 900),
)
OTHERS = (
    Series("congress_committees", "party", 15, 1500),
    Series("oulad", "region", 10, 900),
    Series("oulad", "age_band", 10, 900),
)


def truth(folder: Path, series: Series) -> tuple[Floats, list[str]]:
    """The exact counts, days by groups, from the first day of the changelog on."""
    with gzip.open(folder / f"{series.file}.csv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = [
            (row["ts"][:10], row[f"before_{series.column}"], row[f"after_{series.column}"])
            for row in csv.DictReader(file)
        ]
    frequent = Counter(after for _, _, after in rows if after).most_common(series.groups)
    names = [name for name, _ in frequent]
    place = {name: at for at, name in enumerate(names)}
    start = date.fromisoformat(rows[0][0])
    found = np.zeros((series.days, len(names)))
    for day, before, after in rows:
        at = (date.fromisoformat(day) - start).days
        if at < series.days:
            for name, sign in ((before, -1), (after, 1)):
                if name in place:
                    found[at, place[name]] += sign
    return np.cumsum(found, axis=0), names


def component_plan(
    days: int, groups: int, at_most: int, epsilon: float, delta: float | None = 1e-6, **release: Any
) -> ComponentPlan:
    """How the planner measures a daily count by group."""
    gauge = tg.Gauge(
        source=Script(columns={"g": "VARCHAR"}, changes=[]),
        constraint={"at_most": at_most},
        budget={"epsilon": epsilon, **({} if delta is None else {"delta": delta})},
        releases={
            "r": {
                "sql": "SELECT g, COUNT(*) FROM t GROUP BY g",
                "groups": {"g": [str(i) for i in range(groups)]},
                "start": "2020-01-01",
                "every": "1 day",
                "for": f"{days - 1} days",
                **release,
            }
        },
    )
    return gauge.plan().releases[0].component_plans[0]


@dataclass(frozen=True, eq=False)
class World:
    """A strategy, as matrices: rows from changes, readings from rows."""

    plan: ComponentPlan
    rows: Floats
    decode: Floats

    @classmethod
    def of(cls, plan: ComponentPlan, days: int) -> World:
        strategy = plan.strategy
        measures = [row for bin_ in range(days) for row in strategy.rows(bin_)]
        rows, decode = np.zeros((len(measures), days)), np.zeros((days, len(measures)))
        for at, row in enumerate(measures):
            for first, last, weight in row.ranges:
                rows[at, first : last + 1] += weight
        for bin_ in range(days):
            weights = strategy.weights(bin_, None)
            decode[bin_, : len(weights)] = weights * strategy.denominator
        return cls(plan, rows / strategy.denominator, decode)

    @property
    def unit(self) -> float:
        """The base noise in rows of the table."""
        return float(self.plan.noise.variance**0.5) / self.plan.refine / self.plan.strategy.denominator


def tried(world: World, exact: Floats, draws: int, seed: int) -> dict[str, dict[str, Floats]]:
    """RMSE over plain, and coverage of 95 % intervals, by group and draw."""
    days, groups = exact.shape
    rng = np.random.default_rng(seed)
    true = np.repeat(exact / world.unit, draws, axis=1)
    changes = np.diff(true, axis=0, prepend=0.0)
    rows = world.rows @ changes + rng.standard_normal((len(world.rows), changes.shape[1]))
    plain = world.decode @ rows
    at = measured(world.plan.strategy, days, rows)
    spans = [Span(None, day) for day in range(days)]
    known = Denoised(plain, (world.decode**2).sum(axis=1)[:, None])
    square = ((plain - true) ** 2).mean(axis=0)
    found = {}
    for name, function in (("past", past_only), ("smoothed", smoothed)):
        values, variances = function(at.system, at.rows, spans, known)
        found[name] = {
            "square": ((values - true) ** 2).mean(axis=0).reshape(groups, draws),
            "covered": (np.abs(values - true) <= Z * np.sqrt(variances)).mean(axis=0).reshape(groups, draws),
            "plain": square.reshape(groups, draws),
        }
    return found


def compared(folder: Path, draws: int, several: tuple[Series, ...]) -> tuple[list[Ratio], Table]:
    """RMSE over that of plain readings with the numbers to reach, and each series and epsilon."""
    results, rows = [], []
    for series in several:
        exact, names = truth(folder, series)
        for epsilon in (0.5, 1, 2):
            plan = component_plan(series.days, len(names), series.at_most, epsilon)
            found = tried(World.of(plan, series.days), exact, draws, seed=1)
            results.append(found)
            for name, one in found.items():
                ratio, worst, covered = summary(one)
                rows.append([f"{series.file} by {series.column}", f"{epsilon:g}", plan.strategy.name, name,
                             f"{ratio:.2f}", f"{worst:.3f}", f"{covered.mean():.3f}",
                             f"{covered.min():.3f}"])  # fmt: skip
    means = {name: np.mean([summary(one[name])[0] for one in results]) for name in ("past", "smoothed")}
    covers = {
        name: np.mean([summary(one[name])[2].mean() for one in results]) for name in ("past", "smoothed")
    }
    rows += [["mean", "", "", name, f"{means[name]:.2f}", "", f"{covers[name]:.3f}", ""] for name in means]
    ratios = []
    for name, limit in (("smoothed", 0.65), ("past", 0.78)):
        every = [summary(found[name]) for found in results]
        mean, worst = float(np.mean([one[0] for one in every])), max(one[1] for one in every)
        average = float(np.mean([one[2].mean() for one in every]))
        least = min(float(one[2].min()) for one in every)
        ratios.append(Ratio(f"{name}, RMSE", mean, "plain readings", 1.0, "", limit))
        ratios += [
            Ratio(f"{name}, coverage", average, "95 %", 0.95, "", 0.93 / 0.95, "higher"),
            Ratio(f"{name}, coverage", average, "95 %", 0.95, "", 0.99 / 0.95),
            Ratio(f"{name}, group with the least coverage", least, "95 %", 0.95, "", 0.88 / 0.95, "higher"),
        ]
        if name == "smoothed":
            ratios.append(
                Ratio("smoothed, worst group and draw, RMSE", worst, "plain readings", 1.0, "", 1.02)
            )
    head = ["changelog", "epsilon", "strategy", "estimate", "RMSE over plain", "worst group and draw",
            "covered by 95 % intervals", "least covered group"]  # fmt: skip
    return ratios, Table("", head, rows)


def summary(one: dict[str, Floats]) -> tuple[float, float, Floats]:
    """RMSE over plain; the same for the worst group and draw; coverage by group."""
    each = np.sqrt(one["square"] / one["plain"])
    whole = float(np.sqrt(one["square"].mean() / one["plain"].mean()))
    return whole, float(each.max()), one["covered"].mean(axis=1)


def timed() -> list[Ratio]:
    """Processor time for ten years of days and 50 groups, beside its limit of 15 s."""
    days, groups = 3650, 50
    plan = component_plan(days, groups, 10, 1)
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((days, groups)) + np.cumsum(rng.standard_normal((days, groups)) / 10, axis=0)
    rows[days // 2 :, ::2] += 20  # half of the groups jump, and need the robust stage
    known = Denoised(rows, np.full((days, 1), 5.0))
    spans = [Span(None, day) for day in range(days)]
    found = []
    for name, function in (("past", past_only), ("smoothed", smoothed)):
        began = process_time()
        at = measured(plan.strategy, days, rows)
        function(at.system, at.rows, spans, known)
        what = f"{name}, {days:,} days and {groups} groups ({plan.strategy.name})"
        found.append(Ratio(what, process_time() - began, "the limit", 15, "s", 1.0))
    return found


def main() -> int:
    parser = options(__doc__, quick="two draws of one series")
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--others", action="store_true", help="other columns of the same changelogs")
    parser.add_argument("--time", action="store_true", help="the time alone")
    parser.add_argument("--write", action="store_true", help="put the table into docs/denoised.md")
    given = parser.parse_args()
    named = os.environ.get("TIDEGAUGE_DATA")
    folder = given.folder or (Path(named) if named else None)
    ratios: list[Ratio] = [] if given.quick else timed()
    tables, absent = [], {}
    if folder is None or given.time:
        absent["real changelogs"] = "TIDEGAUGE_DATA names no folder that holds them."
    else:
        several = OTHERS if given.others else SERIES
        found, table = (
            compared(folder, 2, several[:1]) if given.quick else compared(folder, given.draws, several)
        )
        ratios, tables = [*found, *ratios], [table]
        if given.write:
            PAGE.write_text(put(PAGE.read_text("utf-8"), "measured", table.markdown()), "utf-8")
    about = (
        "Estimates of a model against plain readings on real changelogs, with noise drawn "
        f"{2 if given.quick else given.draws} times: root mean squared error, and how often 95 % intervals "
        "contain the truth."
    )
    return say(Result("Denoised series", about, ratios, tables, absent=absent), as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
