"""How at_most matters on real changelogs, and how good its private choice is.

    python -m bench.usefulness [FOLDER] [--draws 2000] [--all] [--write]
    python -m bench.usefulness --series "points" "chairs"
    python -m bench.usefulness --kept --write
    python -m bench.usefulness --invented [--series NAME ...] [--write]

FOLDER (or TIDEGAUGE_DATA) holds traffic_fines, oulad and congress_committees (csv.gz).  Prints for every
series the whole error (noise and bias) by at_most and on_excess, and the whole error of the private choice
over the best of its grid with hindsight.  --all takes every series of bench/series.py; those that were held
out while the mechanism was made are also summed up apart.  --write puts the tables into docs/choosing-k.md;
with --kept those of bench/results/usefulness.json, which bench.all keeps, and nothing is run.  --invented
takes the changelogs of bench/invented.py, which need no folder.

Each series is kept in .bench/usefulness until the code changes, so that a run that was interrupted goes on
where it was.  Every series has a generator of its own: its draws are the same, whichever others are tried.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from math import hypot, sqrt
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.all import ROOT, code, keep
from bench.invented import family, written
from bench.looks import EPSILONS, NOW, errors, unclipped, with_budget
from bench.result import Chart, Ratio, Series, Table, not_here, options, put, result_from, say
from bench.result import Result as Found
from bench.series import CASES, MORE, Case
from tidegauge.mechanism.search.candidates import candidates
from tidegauge.model.kinds import SOURCES
from tidegauge.model.source import Location
from tidegauge.plan import choose
from tidegauge.plan.spec.auto import SHARE
from tidegauge.plan.spec.declaration import GaugeSpec
from tidegauge.scratch import ScratchFolder
from tidegauge.simulate.choice import CANDIDATES, biases, open_choice, scores
from tidegauge.simulate.grid import Bounds, Grid
from tidegauge.simulate.simulation import Task, simulate

if TYPE_CHECKING:
    from collections.abc import Sequence


PAGE = Path(__file__).parents[1] / "docs" / "choosing-k.md"
KEPT = Path(__file__).parent / "results" / "usefulness.json"
SHOWN = (1, 2, 4, 8, 16, 32, 64, 128)
MEDIAN, OFTEN = 1.25, 0.15
"""For a single series: the highest median of the ratios, and the largest share of draws above 1.5."""


def spec_of(case: Case, folder: Path, epsilon: Fraction) -> GaugeSpec:
    source = {
        "kind": "files", "path": str(folder / f"{case.file}.csv{'' if case.invented else '.gz'}"),
        "table": "t", "time": "ts", "key": "entry", "after": "after_", **case.source,
        **({"types": {"x": "integer"}} if case.invented else {"op": "op", "before": "before_"}),
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
    mostly: dict[Fraction, tuple[int, float]] = field(default_factory=dict)
    """For an invented changelog: the candidate that is drawn most often, and the part of its bias that the
    score sees."""


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


def resumed(case: Case, folder: Path, draws: int) -> Result:
    """The series as it was kept, or measured now and kept."""
    path = ROOT / ".bench" / "usefulness" / f"{code('usefulness')}-{draws}-{case.name.replace(' ', '-')}.json"
    if not path.exists():
        found = measured(case, folder, draws)
        parts = {name: _written(getattr(found, name)) for name in ("whole", "noise", "ratios")}
        keep(path, {**parts, "seconds": found.seconds})
    known = json.loads(path.read_text("utf-8"))
    whole, noise, ratios = (_read(known[name]) for name in ("whole", "noise", "ratios"))
    return Result(case, whole, noise, ratios, known["seconds"])


def _written(found: dict[Fraction, list[float]]) -> dict[str, list[float]]:
    return {str(epsilon): values for epsilon, values in found.items()}


def _read(found: dict[str, list[float]]) -> dict[Fraction, list[float]]:
    return {Fraction(epsilon): values for epsilon, values in found.items()}


def search_once() -> None:
    """Keep the strategies that the planner finds:
    the simulation and the choice of a series ask for the same."""
    vars(choose)["candidates"] = cache(candidates)


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
            wanted=MEDIAN,
        )
        for one in results
    ]
    every = pooled(results)
    over = max(_over(pooled([one])) for one in results)
    ratios += [
        Ratio("median of all draws", float(np.median(every)), "the best with hindsight", 1.0, wanted=1.1),
        Ratio("draws above 1.5 times the best", _over(every), "all draws", 1.0, wanted=0.05),
        Ratio("the same, worst series", over, "its draws", 1.0, wanted=OFTEN),
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


def on_page(found: Found) -> dict[str, Table]:
    """The tables of docs/choosing-k.md, by their marks; those over all series only where all were tried."""
    errors, choices, series = (replace(table, title="") for table in found.tables)
    names = {case.name for case in CASES}
    tables = {
        "errors": replace(errors, rows=[row for row in errors.rows if row[0] in names]),
        "choices": replace(choices, rows=[row for row in choices.rows if row[0] in names]),
    }
    if {case.name for case in MORE} <= {row[0] for row in series.rows}:
        beyond = [row for row in choices.rows if row[0] != "all" and _beyond(row)]
        tables |= {"series": series, "beyond": replace(choices, rows=beyond)}
    return tables


def _beyond(row: Sequence[str]) -> bool:
    """Whether a row of the table of choices is beyond the bounds for a single series."""
    return float(row[2]) > MEDIAN or float(row[4].removesuffix(" %")) > 100 * OFTEN


def looked_at(case: Case, folder: Path, draws: int) -> Result:
    """The private choice on an invented changelog.

    Errors are those of the readings that the choice looks at, without a clip, in largest contributions of a
    row: no simulation is needed, and planning is done once.
    """
    begin = time.perf_counter()
    rng = np.random.default_rng(22)
    found = Result(case, {}, {}, {}, 0.0)
    with ScratchFolder() as scratch:
        spec = spec_of(case, folder, EPSILONS[0])
        where = Location(folder, Path(scratch.name) / "store.db")
        source = SOURCES.named("files").open(spec.source, where)
        opened = open_choice(spec, source, now=NOW)
        (counted,) = biases(opened, source, now=NOW)
        (whole,) = unclipped(opened, source)
    for epsilon in EPSILONS:
        choice = with_budget(opened.choice, spec_of(case, folder, epsilon))
        made = scores(choice, [counted])
        law = made.law(choice, pure=False)
        left = dict(choice.noise)["series"]
        bias = [sqrt(one / whole.readings / whole.cells) for one in whole.squares]
        found.noise[epsilon] = [one * sqrt(1 - SHARE) for one in left]
        found.whole[epsilon] = list(map(hypot, found.noise[epsilon], bias))
        chosen = [law.simulate(made.values, rng) for _ in range(draws)]
        best = min(found.whole[epsilon])
        found.ratios[epsilon] = [hypot(left[one], bias[one]) / best for one in chosen]
        often = int(np.bincount(chosen).argmax())
        seen = sqrt(counted.squares[often] / whole.squares[often]) if whole.squares[often] else 1.0
        found.mostly[epsilon] = often, seen
    return replace(found, seconds=time.perf_counter() - begin)


def invented(names: Sequence[str] | None, draws: int) -> list[Result]:
    """The private choice on invented changelogs, each made as it is needed."""
    results = []
    for one in family():
        if names and one.name not in names:
            continue
        with ScratchFolder() as scratch:
            folder = Path(scratch.name)
            written(one, folder)
            results.append(looked_at(one.case, folder, draws))
        print(f"{one.name}: {' '.join(summary(pooled(results[-1:])))}", flush=True)
    return results


def invented_tables(results: list[Result]) -> dict[str, Table]:
    """The private choice on invented changelogs, by series and by value of epsilon."""
    beyond = []
    for one in results:
        for epsilon, ratios in one.ratios.items():
            row = [one.case.name, f"{float(epsilon):g}", *summary(ratios)]
            if _beyond(row):
                drawn, seen = one.mostly[epsilon]
                best = one.whole[epsilon].index(min(one.whole[epsilon]))
                names = [f"{most}, {mode}" for most, mode in (CANDIDATES[best], CANDIDATES[drawn])]
                beyond.append([*row, *names, f"{100 * seen:.0f} %"])
    head = ["series", "epsilon", "median", "95th percentile", "above 1.5", "best", "drawn most", "bias seen"]
    return {"invented": series_table(results), "invented beyond": Table("", head, beyond)}


def write(tables: dict[str, Table]) -> None:
    """Put the tables into the page."""
    text = PAGE.read_text("utf-8")
    for name, table in tables.items():
        text = put(text, name, table.markdown())
    PAGE.write_text(text, "utf-8")


def main() -> int:
    parser = options(__doc__, quick="one series, 20 draws")
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/choosing-k.md")
    parser.add_argument("--kept", action="store_true", help="run nothing, take what is kept")
    parser.add_argument("--all", action="store_true", help="every series of bench/series.py")
    parser.add_argument("--series", nargs="+", metavar="NAME", help="these series alone")
    parser.add_argument("--invented", action="store_true", help="the changelogs of bench/invented.py")
    asked = parser.parse_args()
    if asked.kept:
        found = result_from(json.loads(KEPT.read_text("utf-8"))["result"])
        if asked.write:
            write(on_page(found))
        return say(found, as_json=asked.json)
    if asked.invented:
        search_once()
        tables = invented_tables(invented(asked.series, asked.draws))
        for name, table in tables.items():
            print(f"{name}\n{table.markdown()}")
        if asked.write:
            write(tables)
        return 0
    named = asked.folder or os.environ.get("TIDEGAUGE_DATA")
    if not named:
        reason = "Name the folder that holds them, or set TIDEGAUGE_DATA to it."
        return say(not_here("Usefulness", "real changelogs", reason), as_json=asked.json)
    search_once()
    results, draws = [], 20 if asked.quick else asked.draws
    cases = CASES[3:4] if asked.quick else (*CASES, *MORE) if asked.all or asked.series else CASES
    for case in cases:
        if asked.series and case.name not in asked.series:
            continue
        results.append(resumed(case, Path(named), draws))
        median, _, over = summary(pooled(results[-1:]))
        print(f"{case.name}: {results[-1].seconds:.0f} s, median {median}, above 1.5 in {over}", flush=True)
    found = found_in(results, draws)
    if asked.write:
        write(on_page(found))
    return say(found, as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main())
