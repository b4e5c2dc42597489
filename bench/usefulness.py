"""How at_most matters on real changelogs, and how good its private choice is.

    python -m bench.usefulness [FOLDER] [--draws 200] [--all] [--write]

FOLDER (or TIDEGAUGE_DATA) holds traffic_fines, oulad and congress_committees (csv.gz).  Prints for every
series the whole error (noise and bias) by at_most and on_excess, and the whole error of the private choice
over the best of its grid with hindsight.  --all takes every series of bench/series.py; those that were held
out while the mechanism was made are also summed up apart.  --write puts the tables into docs/choosing-k.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt
from pathlib import Path

import numpy as np

from bench.result import Chart, Ratio, Series, Table, not_here, put, say
from bench.result import Result as Found
from bench.series import CASES, MORE, Case
from tidegauge.model.kinds import SOURCES
from tidegauge.model.quantity import instant
from tidegauge.model.source import Location
from tidegauge.plan.certify import accounted
from tidegauge.plan.choice import Choice
from tidegauge.plan.spec.auto import SHARE
from tidegauge.plan.spec.declaration import GaugeSpec
from tidegauge.scratch import ScratchFolder
from tidegauge.simulate.choice import CANDIDATES, biases, open_choice, scores
from tidegauge.simulate.grid import Bounds, Grid
from tidegauge.simulate.simulation import Simulation, Task, simulate

NOW = instant("2026-11-01")
EPSILONS = (Fraction(1, 2), Fraction(1), Fraction(2))
PAGE = Path(__file__).parents[1] / "docs" / "choosing-k.md"
SHOWN = (1, 2, 4, 8, 16, 32, 64, 128)


def spec_of(case: Case, folder: Path, epsilon: Fraction) -> GaugeSpec:
    source = {
        "kind": "files", "path": str(folder / f"{case.file}.csv.gz"), "table": "t", "time": "ts",
        "key": "entry", "op": "op", "before": "before_", "after": "after_", **case.source,
    }  # fmt: skip
    return GaugeSpec.parse(
        {
            "source": source,
            "constraint": {"at_most": "auto"},
            "budget": {"epsilon": str(epsilon), "delta": "1e-6"},
            "release": {"series": case.release},
        }
    )


@dataclass(frozen=True)
class Result:
    """Whole errors of every candidate by epsilon, and the ratios of the draws."""

    case: Case
    whole: dict[Fraction, list[float]]
    noise: dict[Fraction, list[float]]
    ratios: dict[Fraction, list[float]]
    seconds: float


def measured(case: Case, folder: Path, draws: int) -> Result:
    begin = time.perf_counter()
    grid = Grid(tuple(Bounds(most, None, mode) for most, mode in CANDIDATES), EPSILONS, (None,))
    rng = np.random.default_rng(22)
    with ScratchFolder() as scratch:
        where = Location(folder, Path(scratch.name) / "store.db")
        spec = spec_of(case, folder, EPSILONS[0])
        source = SOURCES.named("files").open(spec.source, where)
        found = simulate(Task(spec, source, grid, now=NOW))
        full, noise, left = errors(found)
        ratios: dict[Fraction, list[float]] = {}
        opened = open_choice(spec, source, now=NOW)
        counted = biases(opened, source, now=NOW)
        for epsilon in EPSILONS:
            choice = with_budget(opened.choice, spec_of(case, folder, epsilon))
            made = scores(choice, counted)
            law = made.law(choice, pure=False)
            chosen = [law.simulate(made.values, rng) for _ in range(draws)]
            best = min(full[epsilon])
            ratios[epsilon] = [left[epsilon][one] / best for one in chosen]
    return Result(case, full, noise, ratios, time.perf_counter() - begin)


def with_budget(choice: Choice, spec: GaugeSpec) -> Choice:
    """The choice under another budget: strategies stay, noise is inversely proportional to the root of rho."""
    cost = SHARE * accounted(spec.budget.budget)
    factor = sqrt(choice.cost / cost)
    noise = tuple((name, tuple(factor * one for one in found)) for name, found in choice.noise)
    return replace(choice, cost=cost, noise=noise)


def errors(found: Simulation) -> tuple[dict[Fraction, list[float]], ...]:
    """By epsilon and candidate: whole error, noise, and whole error with 95 % of the budget."""
    full: dict[Fraction, list[float]] = {one: [] for one in EPSILONS}
    noise: dict[Fraction, list[float]] = {one: [] for one in EPSILONS}
    left: dict[Fraction, list[float]] = {one: [] for one in EPSILONS}
    for most, mode in CANDIDATES:
        for one in found.releases["series"]:
            if one.group is None and (one.bounds.at_most, one.bounds.on_excess) == (most, mode):
                assert one.epsilon is not None
                full[one.epsilon].append(one.errors.whole)
                noise[one.epsilon].append(one.errors.noise)
                left[one.epsilon].append(sqrt(one.errors.noise**2 / 0.95 + one.errors.bias**2))
    return full, noise, left


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def error_table(results: list[Result]) -> Table:
    """Whole error at epsilon 1 by at_most, freeze / retire."""
    head = ["series", "unit and groups", *(f"k = {most}" for most in SHOWN), "best"]
    rows = []
    for one in results:
        whole = dict(zip(CANDIDATES, one.whole[Fraction(1)], strict=True))
        cells = []
        for most in SHOWN:
            both = [whole[most, mode] for mode in ("freeze", "retire") if (most, mode) in whole]
            cells.append(" / ".join(map(number, both)))
        most, mode = min(whole, key=lambda key: whole[key])
        rows.append([one.case.name, one.case.what, *cells, f"{most}, {mode}: {number(whole[most, mode])}"])
    return Table("", head, rows)


def choice_table(results: list[Result]) -> Table:
    """The private choice: whole error over the best with hindsight."""
    rows = []
    for one in results:
        for epsilon, ratios in one.ratios.items():
            rows.append([one.case.name, f"{float(epsilon):g}", *summary(ratios)])
    rows.append(["all", "all", *summary(pooled(results))])
    return Table("", ["series", "epsilon", "median", "95th percentile", "above 1.5"], rows)


def series_table(results: list[Result]) -> Table:
    """The private choice by series, all values of epsilon together."""
    rows = [
        [one.case.name, one.case.what, "yes" if one.case.held_out else "", *summary(pooled([one]))]
        for one in results
    ]
    parts = {
        "all": results,
        "all that were not held out": [one for one in results if not one.case.held_out],
        "all that were held out": [one for one in results if one.case.held_out],
    }
    for name, some in parts.items():
        if some:
            rows.append([name, "", "", *summary(pooled(some))])
    head = ["series", "unit and groups", "held out", "median", "95th percentile", "above 1.5"]
    return Table("", head, rows)


def pooled(results: list[Result]) -> list[float]:
    """The ratios of all draws, for all values of epsilon."""
    return [ratio for one in results for each in one.ratios.values() for ratio in each]


def _over(ratios: list[float]) -> float:
    """The share of draws whose error is above 1.5 times the best."""
    return sum(one > 1.5 for one in ratios) / len(ratios)


def summary(ratios: list[float]) -> list[str]:
    over = _over(ratios)
    return [f"{np.median(ratios):.3f}", f"{np.quantile(ratios, 0.95):.2f}", f"{100 * over:.1f} %"]


def found_in(results: list[Result], draws: int) -> Found:
    """The medians of the private choice over the best, and the error by k of every series."""
    ratios = [
        Ratio(
            f"{one.case.name}, median",
            float(np.median(pooled([one]))),
            "the best with hindsight",
            1.0,
            wanted=1.25,
        )
        for one in results
    ]
    every = pooled(results)
    over = max(_over(pooled([one])) for one in results)
    ratios += [
        Ratio("median of all draws", float(np.median(every)), "the best with hindsight", 1.0, wanted=1.1),
        Ratio("draws above 1.5 times the best", _over(every), "all draws", 1.0, wanted=0.05),
        Ratio("the same, worst series", over, "its draws", 1.0, wanted=0.15),
    ]
    lines = []
    for one in results:
        whole = dict(zip(CANDIDATES, one.whole[Fraction(1)], strict=True))
        best = min(whole.values())
        points = [(float(most), whole[most, "freeze"] / best) for most in SHOWN if (most, "freeze") in whole]
        lines.append(Series(one.case.name, points))
    return Found(
        "Usefulness",
        "Noise and bias together on real changelogs, by the number of changes that a unit may make. The "
        f"private choice of at_most (`at_most = \"auto\"`, {draws} draws) is compared with the best choice "
        "of its grid, which only hindsight knows; the ratio is the median over the draws.",
        ratios=ratios,
        tables=[
            replace(error_table(results), title="Whole error at epsilon 1, freeze / retire"),
            replace(choice_table(results), title="Error of the private choice over the best with hindsight"),
            replace(series_table(results), title="The same, all values of epsilon together"),
        ],
        charts=[Chart("Error by at_most, epsilon = 1, freeze", "at_most (k)",
                      "whole error over the best of the grid", lines, log_x=True, log_y=True)],
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--quick", action="store_true", help="one series, 20 draws")
    parser.add_argument("--all", action="store_true", help="every series of bench/series.py")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    named = asked.folder or os.environ.get("TIDEGAUGE_DATA")
    if not named:
        reason = "Name the folder that holds them, or set TIDEGAUGE_DATA to it."
        return say(not_here("Usefulness", "real changelogs", reason), as_json=asked.json)
    results, draws = [], 20 if asked.quick else asked.draws
    cases = (*CASES, *MORE) if asked.all else CASES[3:4] if asked.quick else CASES
    for case in cases:
        results.append(measured(case, Path(named), draws))
        median, _, over = summary(pooled(results[-1:]))
        print(f"{case.name}: {results[-1].seconds:.0f} s, median {median}, above 1.5 in {over}", flush=True)
    if asked.write:
        text = PAGE.read_text("utf-8")
        shown = [one for one in results if one.case in CASES]
        tables = {"errors": error_table(shown), "choices": choice_table(shown)}
        for name, table in tables.items():
            text = put(text, name, table.markdown())
        PAGE.write_text(text, "utf-8")
    return say(found_in(results, draws), as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main())
