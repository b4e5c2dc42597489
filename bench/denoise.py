"""Denoised series against plain readings, on real changelogs, with noise drawn again and again.

    python bench/denoise.py FOLDER                    the numbers to reach, each with its limit
    python bench/denoise.py FOLDER --draws 3          quicker
    python bench/denoise.py --time                    3,650 days and 50 groups

FOLDER holds traffic_fines.csv.gz, congress_committees.csv.gz and oulad.csv.gz.
"""

from __future__ import annotations

import argparse
import csv
import gzip
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
from tidegauge.publish.denoise.estimate import Denoised, past_only, smoothed
from tidegauge.publish.denoise.filter import Span
from tidegauge.publish.denoise.measured import measured
from tidegauge.testing import Script

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.mechanism.encode import ComponentPlan

    Floats = NDArray[np.float64]

Z = NormalDist().inv_cdf(0.975)


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


def compare(folder: Path, draws: int, several: tuple[Series, ...]) -> bool:
    """Print a line for each series and epsilon, and the numbers to reach."""
    ratios: dict[str, list[float]] = {"past": [], "smoothed": []}
    coverages: dict[str, list[float]] = {"past": [], "smoothed": []}
    worst, least = 0.0, 1.0
    for series in several:
        exact, names = truth(folder, series)
        for epsilon in (0.5, 1, 2):
            began = process_time()
            plan = component_plan(series.days, len(names), series.at_most, epsilon)
            found = tried(World.of(plan, series.days), exact, draws, seed=1)
            line = f"{series.file}.{series.column} epsilon {epsilon} {plan.strategy.name}"
            for name, one in found.items():
                ratio = float(np.sqrt(one["square"].mean() / one["plain"].mean()))
                each = np.sqrt(one["square"] / one["plain"])
                covered = one["covered"].mean(axis=1)
                ratios[name].append(ratio)
                coverages[name].append(float(covered.mean()))
                line += (
                    f" | {name} {ratio:.2f} groups {np.sqrt(one['square'].mean(1) / one['plain'].mean(1)).min():.2f}"
                    f"-{np.sqrt(one['square'].mean(1) / one['plain'].mean(1)).max():.2f} worst {each.max():.3f}"
                    f" covered {covered.mean():.3f} least {covered.min():.3f} ({names[int(covered.argmin())]})"
                )
                if name == "smoothed":
                    worst = max(worst, float(each.max()))
                least = min(least, float(covered.min()))
            print(f"{line} | {process_time() - began:.0f} s", flush=True)
    print({name: round(float(np.mean(some)), 3) for name, some in ratios.items()})
    print({name: round(float(np.mean(some)), 3) for name, some in coverages.items()}, least, worst)
    return True


def timed() -> float:
    """Seconds of processor time for ten years of days and 50 groups, both kinds of estimate."""
    days, groups = 3650, 50
    plan = component_plan(days, groups, 10, 1)
    rng = np.random.default_rng(1)
    shape = rng.standard_normal((days, groups)) + np.cumsum(rng.standard_normal((days, groups)) / 10, axis=0)
    began = process_time()
    at = measured(plan.strategy, days, shape)
    spans = [Span(None, day) for day in range(days)]
    known = Denoised(shape, np.full((days, 1), 5.0))
    past_only(at.system, at.rows, spans, known)
    print(f"past only {process_time() - began:.1f} s, width {at.system.width}")
    smoothed(at.system, at.rows, spans, known)
    print(f"both {process_time() - began:.1f} s")
    return process_time() - began


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--others", action="store_true")
    parser.add_argument("--time", action="store_true")
    given = parser.parse_args()
    if given.time:
        timed()
    if given.folder:
        compare(given.folder, given.draws, OTHERS if given.others else SERIES)
    sys.exit(0)
