"""Errors at equal privacy, compared in one run: the paper's releases, other libraries, ours, and the limit.

    python -m bench.accuracy              some cells, in under three minutes
    python -m bench.accuracy --numbers    the numbers to reach, each with its limit; fails if one is missed
    python -m bench.accuracy --full       every cell; writes docs/accuracy.md

Gaussian errors are for rho = 1/2, Laplace errors for epsilon = 1; rows contribute 0 or 1; worst / mean over
the readings.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from math import ceil, log, sqrt
from pathlib import Path
from time import perf_counter, thread_time
from typing import TYPE_CHECKING

import numpy as np

from bench.page import filled
from bench.peers import (
    BRANCHINGS,
    DAILY,
    Case,
    Error,
    cover_sizes,
    dpcrpy_honaker,
    generic_root,
    opendp_tree,
    paper_sliding,
    paper_sliding_tree,
    paper_tree,
)
from bench.result import Chart, Ratio, Result, Series, say
from tidegauge.mechanism.search.candidates import candidates
from tidegauge.mechanism.search.optimum import Problem, dense_problem, optimal_gram, optimise
from tidegauge.mechanism.search.task import Search
from tidegauge.mechanism.search.tune import Target, error
from tidegauge.model.constraint import AtMost, Constraint, Within
from tidegauge.model.quantity import DAY, Span
from tidegauge.model.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tidegauge.mechanism.strategy import Strategy

    Floats = NDArray[np.float64]

_ASKED = 256
"""Bins up to which the optimum is found here; it takes less than a minute each."""
PAGE = Path(__file__).parents[1] / "docs" / "accuracy.md"
# Dual bounds, computed once: no release with additive Gaussian noise has a smaller worst error.
KNOWN_LIMITS: dict[str, dict[tuple[int, int], float]] = {
    "at most": {
        (256, 1): 2.5327,
        (256, 2): 3.0722,
        (256, 4): 3.9787,
        (256, 8): 4.9089,
        (256, 16): 5.9197,
        (1024, 1): 2.9615,
        (1024, 2): 3.6676,
        (1024, 4): 4.8201,
        (1024, 8): 6.1021,
        (1024, 16): 7.6167,
    },
    "within": {
        (365, 1): 2.6418,
        (365, 7): 3.1626,
        (365, 30): 4.2922,
        (365, 90): 6.0577,
        (1024, 1): 2.954,
        (1024, 7): 3.454,
        (1024, 30): 4.5775,
        (1024, 90): 6.321,
    },
    "sliding": {
        (7, 1): 1.778,
        (14, 1): 2.058,
        (30, 1): 2.361,
        (90, 1): 2.741,
        (7, 4): 3.4973,
        (14, 4): 4.0106,
        (30, 4): 4.5074,
        (90, 4): 4.7734,
        (7, 16): 6.8058,
        (14, 16): 7.4341,
        (30, 16): 7.3145,
        (90, 16): 7.0458,
    },
}


# With Laplace noise: the better of a tree with exact sensitivity and least squares, and noise that forgets.
KNOWN_PURE = {
    (256, 1): 15.1563, (256, 2): 30.3127, (256, 4): 51.9548, (256, 8): 69.7071, (256, 16): 94.2678,
    (1024, 1): 21.2095, (1024, 2): 42.4189, (1024, 4): 82.2681, (1024, 8): 137.4894, (1024, 16): 189.1316,
}  # fmt: skip


# --- ours, and the limit


def ours(case: Case, *, without: str | None = None) -> tuple[Error, Strategy]:
    """The candidate with the least worst error, as the planner would choose; `without`: leave one out."""
    target, found = Target.of(case.schedule), []
    for strategy in candidates(Search(case.schedule, case.exposure, pure=case.pure)):
        if strategy.name == without:
            continue
        sensitivity = strategy.sensitivity(case.exposure)
        size = float(sensitivity.l1) * sqrt(2) if case.pure else sqrt(sensitivity.l2_squared)
        error = Error.of(size, strategy.variances(target.bins, target.span), strategy.name)
        found.append((error, strategy))
    return min(found, key=lambda pair: pair[0].worst)


def asked_for(case: Case) -> str:
    """The numerical optimum, as `plan --optimise` finds it."""
    problem = dense_problem(Search(case.schedule, case.exposure, pure=False))
    assert problem is not None
    found = optimise(problem, None)
    target = Target.of(case.schedule)
    size = sqrt(found.sensitivity(case.exposure).l2_squared)
    return str(Error.of(size, found.variances(target.bins, target.span), found.name))


def simulated(case: Case, strategy: Strategy, draws: int = 40_000, batch: int = 4_000) -> Error:
    """Errors from noise that was drawn, over those predicted: at the worst reading, and at some of all."""
    rng = np.random.default_rng(5)
    target = Target.of(case.schedule)
    variances = strategy.variances(target.bins, target.span)
    some = slice(None, None, max(1, len(variances) // 8))
    at = [int(target.bins[variances.argmax()]), *target.bins[some].tolist()]
    expected = np.array([variances.max(), *variances[some]]) * (2 if case.pure else 1)
    layers, last = strategy.layers(max(at)), max(at)
    scales = np.array([float(scale) for scale in strategy.scales])[layers]
    weights = [strategy.weights(bin_, target.span) for bin_ in at]
    shared = (
        np.array([row.shared for row in strategy.measured(last)]) if strategy.shared is not None else None
    )
    squares = np.zeros(len(at))
    for _ in range(draws // batch):
        noise = (rng.laplace if case.pure else rng.normal)(size=(batch, len(layers))) * scales
        if shared is not None and strategy.shared is not None:
            noise += rng.laplace(size=(batch, 1)) * float(strategy.shared) * shared
        squares += [float(np.square(noise[:, : len(each)] @ each).sum()) for each in weights]
    squares /= draws
    return Error(sqrt(squares[0] / expected[0]), sqrt(squares[1:].sum() / expected[1:].sum()))


def ensemble_limit(bins: int, changes: int) -> float:
    """No linear Gaussian release has a smaller mean error: k changes at independent, uniform times.

    For any law on the paths with second moments M, error times sensitivity is at least tr M^(1/2) / sqrt(n).
    """
    at = np.arange(1, bins + 1) / (bins + 1)
    even = (1 - 2 * at) ** changes
    together = (1 - 2 * np.abs(np.subtract.outer(at, at))) ** changes
    moments = (1 - even[:, None] - even[None, :] + together) / 4
    values = np.linalg.eigvalsh(moments)
    return float(np.sqrt(np.maximum(values, 0)).sum() / sqrt(bins))


def short_life_limit(bins: int, bound: int) -> float:
    """The same for lives of `bound` bins: on and off at random in them, then off or on for good.

    Any law on allowed paths gives a bound; this one is uniform over so many that were drawn.
    """
    rng = np.random.default_rng(6)
    paths, often = (20_000, (0.15, 0.3, 0.5)) if bins <= 1024 else (8_000, (0.3,))
    found = 0.0
    for turn in often:
        turns = rng.random((paths, bound + 1)) < turn
        free = (np.cumsum(turns, axis=1) + rng.integers(0, 2, (paths, 1))) % 2
        levels, starts = np.zeros((paths, bins)), rng.integers(0, bins, paths)
        for path, start in enumerate(starts):
            end = min(start + bound + 1, bins)
            levels[path, start:end] = free[path, : end - start]
            levels[path, end:] = free[path, -1]
        values = np.linalg.eigvalsh(levels.T @ levels / paths)
        found = max(found, float(np.sqrt(np.maximum(values, 0)).sum() / sqrt(bins)))
    return found


def limit(kind: str, bins: int, parameter: int) -> str:
    """Of the worst error: dual bound where it was computed, else by optimising or by an ensemble of paths."""
    if known := KNOWN_LIMITS[kind].get((bins, parameter)):
        return f"{known:.3g}"
    if kind == "within":
        return f"{short_life_limit(bins, parameter):.3g}"
    found = ensemble_limit(bins, parameter)
    if parameter <= 2 and bins <= 512:
        _, optimal = optimal_gram(Problem(bins, 0, None, 1, parameter, bins, True), rounds=60, gap=3e-3)
        found = max(found, optimal)
    return f"{found:.3g}"


# --- tables


@dataclass
class Report:
    """What is printed, and written to the page in the full run."""

    lines: list[str]

    def say(self, text: str = "") -> None:
        print(text, flush=True)
        self.lines.append(text)

    def table(self, title: str, columns: list[str], rows: dict[str, list[str]]) -> None:
        self.say(f"\n### {title}\n")
        self.say(f"| worst / mean | {' | '.join(columns)} |")
        self.say(f"|---|{'---|' * len(columns)}")
        for name, cells in rows.items():
            self.say(f"| {name} | {' | '.join(cells)} |")


def running(report: Report, bins: int, changes: list[int], *, pure: bool) -> None:
    cases = [Case(Schedule(0, DAILY, bins), AtMost(k), pure=pure) for k in changes]
    chosen = [ours(case) for case in cases]
    pairs = list(zip(cases, changes, strict=True))
    rows: dict[str, list[str]] = {
        "paper, c = 2": [str(paper_tree(case, [2], k)) for case, k in pairs],
        "paper, best c": [str(paper_tree(case, BRANCHINGS, k)) for case, k in pairs],
        "paper, best c, with the folds of T4": [str(paper_tree(case, BRANCHINGS)) for case in cases],
        "OpenDP b-ary tree, consistent (all of it at the end)": [
            str(opendp_tree(case, k)) for case, k in pairs
        ],
        "dpcrpy Honaker": [str(dpcrpy_honaker(case, k)) for case, k in pairs],
    }
    if not pure:
        rows["square root, generic k participations"] = [str(generic_root(case, k)) for case, k in pairs]
    rows["**Tidegauge**"] = [str(error) for error, _ in chosen]
    if not pure and bins <= _ASKED:
        rows["**Tidegauge**, asked to optimise"] = [asked_for(case) for case in cases]
    if not pure:
        rows["limit"] = [limit("at most", bins, k) for k in changes]
    rows["simulated over predicted"] = checks(cases, chosen)
    noise = "Laplace" if pure else "Gaussian"
    report.table(
        f"{noise}, running value, n = {bins}, at most k changes", [f"k = {k}" for k in changes], rows
    )


def checks(cases: list[Case], chosen: list[tuple[Error, Strategy]]) -> list[str]:
    found = [simulated(case, strategy) for case, (_, strategy) in zip(cases, chosen, strict=True)]
    return [f"{check.worst:.3f} / {check.mean:.3f}" for check in found]


def short_lives(report: Report, bins: int, bounds: list[int], *, pure: bool) -> None:
    cases = [Case(Schedule(0, DAILY, bins), Within(f"{bound} days"), pure=pure) for bound in bounds]
    chosen = [ours(case) for case in cases]
    rows = {
        "paper, c = 2": [str(paper_tree(case, [2])) for case in cases],
        "paper, best c": [str(paper_tree(case, BRANCHINGS)) for case in cases],
        "**Tidegauge**": [str(error) for error, _ in chosen],
    }
    if not pure:
        rows["limit"] = [limit("within", bins, bound) for bound in bounds]
    rows["simulated over predicted"] = checks(cases, chosen)
    noise = "Laplace" if pure else "Gaussian"
    report.table(
        f"{noise}, running value, n = {bins}, changes within B", [f"B = {bound}" for bound in bounds], rows
    )


def sliding_case(bins: int, window: int, changes: int) -> Case:
    return Case(Schedule(0, DAILY, bins - window + 1, Span(micros=window * DAY)), AtMost(changes))


def sliding(report: Report, bins: int, windows: list[int], changes: int) -> None:
    cases = [sliding_case(bins, window, changes) for window in windows]
    chosen = [ours(case) for case in cases]
    rows = {
        "paper, SWCR": [str(paper_sliding(case)) for case in cases],
        "paper, from HDCR, c = 2": [str(paper_sliding_tree(case)) for case in cases],
        "**Tidegauge**": [str(error) for error, _ in chosen],
        "simulated over predicted": checks(cases, chosen),
    }
    title = f"Gaussian, sliding windows, n = {bins}, at most {changes} changes"
    report.table(title, [f"W = {window}" for window in windows], rows)


def histograms(report: Report, bins: int, changes: list[int]) -> None:
    cases = [Case(Schedule(0, DAILY, bins), AtMost(k), grouped=True) for k in changes]
    height = ceil(log(bins, 2)) + 1
    sizes = cover_sizes(np.arange(1, bins + 1), 2, height) - 1
    rows = {
        "tree, (2k - 1) h folds": [str(Error.of(sqrt((2 * k - 1) * height), sizes)) for k in changes],
        "**Tidegauge**": [str(ours(case)[0]) for case in cases],
    }
    if bins <= _ASKED:
        rows["**Tidegauge**, asked to optimise"] = [asked_for(case) for case in cases]
    report.table(f"Gaussian, histogram, n = {bins}, at most k changes", [f"k = {k}" for k in changes], rows)


def memories(report: Report) -> None:
    """Worst errors, and how many exact numbers are kept of each cell at the end, by strategy."""
    cells = [(bins, k) for bins in (365, 1024, 3650, 17_520) for k in (4, 16)]
    rows: dict[str, list[str]] = {name: [] for name in ("toeplitz", "damped", "buffered")}
    for bins, k in cells:
        case = Case(Schedule(0, DAILY, bins), AtMost(k))
        offered = candidates(Search(case.schedule, case.exposure, pure=False))
        for name, row in rows.items():
            found = next((one for one in offered if one.name == name), None)
            if found is None:
                row.append("-")
                continue
            width = 0 if found.stream is None else found.stream.width
            numbers = bins - found.needed_from(bins - 2) + width
            size = error(found, case.exposure, Target.of(case.schedule), pure=False)
            row.append(f"{size:.3f}, {numbers:,} kept")
    columns = [f"n = {bins:,}, k = {k}" for bins, k in cells]
    report.table("Gaussian, running value: worst error, and exact numbers kept of a cell", columns, rows)


# --- the numbers to reach


def compared(what: str, against: str, ours: float, other: float, wanted: float) -> Ratio:
    """Ours is at most so many times a limit, or at least so many times below a peer."""
    return Ratio(what, ours, against, other, "", wanted)


def numbers(sizes: tuple[int, ...] = (256, 1024)) -> Iterator[Ratio]:
    for n in sizes:
        for k in (1, 2, 4, 8, 16):
            case = Case(Schedule(0, DAILY, n), AtMost(k))
            found, what = ours(case)[0].worst, f"running value, k = {k}, n = {n}"
            yield compared(what, "limit", found, KNOWN_LIMITS["at most"][n, k], 1.12)
            yield compared(what, "paper, c = 2", found, paper_tree(case, [2], k).worst, 1 / 3)
            yield compared(what, "paper, best c", found, paper_tree(case, BRANCHINGS, k).worst, 1 / 2.4)
            case, what = Case(case.schedule, AtMost(k), pure=True), f"Laplace, k = {k}, n = {n}"
            found = ours(case)[0].worst
            yield compared(what, "exact tree or noise that forgets", found, KNOWN_PURE[n, k], 1.0)
            if (n, k) == (1024, 16):
                yield compared(what, "paper, best c", found, paper_tree(case, BRANCHINGS, k).worst, 1 / 1.8)
    yield from drawn_ahead(sizes if 1024 not in sizes else (256, 365, 512, 1024, 2048, 3650))
    if 1024 not in sizes:
        return
    for (n, bound), least in KNOWN_LIMITS["within"].items():
        found = ours(Case(Schedule(0, DAILY, n), Within(f"{bound} days")))[0].worst
        yield compared(f"running value, within {bound}, n = {n}", "limit", found, least, 1.16)
    for (window, k), least in KNOWN_LIMITS["sliding"].items():
        case = sliding_case(365, window, k)
        found, what = ours(case)[0].worst, f"sliding window {window}, k = {k}, n = 365"
        yield compared(what, "limit", found, least, 1.03 if k == 1 else 1.25)
        better = min(paper_sliding(case).worst, paper_sliding_tree(case).worst)
        yield compared(what, "better of SWCR and HDCR", found, better, 1 / 1.4)
    case = Case(Schedule(0, DAILY, 1024), AtMost(16), grouped=True)
    height = 11
    folds = Error.of(sqrt(31 * height), cover_sizes(np.arange(1, 1025), 2, height) - 1).worst
    yield compared(
        "histogram, k = 16, n = 1024", "tree, (2k - 1) h folds", ours(case)[0].worst, folds, 1 / 4.5
    )


def drawn_ahead(sizes: tuple[int, ...]) -> Iterator[Ratio]:
    """Pure epsilon: what the planner chooses against the best strategy that draws no noise ahead (T20)."""
    for n in sizes:
        for k in (1, 2, 4):
            case = Case(Schedule(0, DAILY, n), AtMost(k), pure=True)
            found, other = ours(case)[0], ours(case, without="ahead")[0]
            what, against = f"Laplace, k = {k}, n = {n}", "best strategy without noise drawn ahead"
            yield compared(what, against, found.worst, other.worst, 0.68 if k <= 2 else 0.7)


def reached(report: Report) -> bool:
    """Every number, whether it is reached."""
    found = list(numbers())
    report.say("\n### The numbers to reach: worst errors of what the planner chooses by default\n")
    report.say("| what | against | ours | theirs | ours / theirs | wanted | |")
    report.say("|---|---|---|---|---|---|---|")
    for one in found:
        cells = (
            one.what,
            one.against,
            f"{one.ours:.4g}",
            f"{one.theirs:.4g}",
            f"{one.value:.3f}",
            f"{one.wanted:.3f}",
        )
        report.say(f"| {' | '.join(cells)} | {'reached' if one.reached else '**missed**'} |")
    return all(one.reached for one in found)


def result(sizes: tuple[int, ...]) -> Result:
    """The numbers to reach, and the worst error by k of the longest release."""
    found = list(numbers(sizes))
    lines: dict[str, list[tuple[float, float]]] = {}
    for k in (1, 2, 4, 8, 16):
        for one in found:
            if one.what == f"running value, k = {k}, n = {sizes[-1]}":
                lines.setdefault(one.against, []).append((k, one.theirs))
                if one.against == "limit":
                    lines.setdefault("Tidegauge", []).append((k, one.ours))
    return Result(
        "Accuracy",
        "Worst root mean squared error of what the planner chooses by default, at equal privacy: Gaussian "
        "noise at rho = 1/2, Laplace noise at epsilon = 1. A limit holds for every release with additive "
        "Gaussian noise of this kind. [Accuracy](accuracy.md) has all settings.",
        ratios=found,
        charts=[Chart(f"Running count, {sizes[-1]:,} readings, rho = 1/2", "changes of a unit (k)",
                      "worst root mean squared error",
                      [Series(name, points) for name, points in lines.items()], log_x=True, log_y=True)],
    )  # fmt: skip


def planning(report: Report) -> None:
    """How long it takes to find, tune and certify every strategy for ten years of days."""
    rows: dict[str, list[str]] = {}
    cases: list[tuple[Constraint, int | None]] = [
        (AtMost(4), 3650),
        (AtMost(16), 3650),
        (AtMost(1000), 3650),
        (Within("30 days"), 3650),
        (Within("900 days"), 3650),
        (AtMost(16) & Within("90 days"), 3650),
        (AtMost(8) & Within("30 days"), None),
    ]
    for pure in (False, True):
        times = []
        for constraint, count in cases:
            begun = thread_time()
            ours(Case(Schedule(0, DAILY, count), constraint, pure=pure))
            times.append(f"{thread_time() - begun:.1f} s")
        rows["Laplace" if pure else "Gaussian"] = times
    columns = [f"{one}{'' if count else ', ever'}" for one, count in cases]
    report.table("Planning 3,650 windows, all strategies (processor time)", columns, rows)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--full", action="store_true", help="every cell; writes docs/accuracy.md")
    which.add_argument(
        "--numbers", action="store_true", help="the numbers to reach; fails where one is missed"
    )
    which.add_argument("--json", action="store_true", help="the numbers to reach, as JSON")
    parser.add_argument("--quick", action="store_true", help="with --json: 256 readings alone")
    chosen = parser.parse_args(arguments)
    if chosen.json:
        return say(result((256,) if chosen.quick else (256, 1024)), as_json=True)
    report = Report([])
    begun = perf_counter()
    report.say("# Accuracy\n")
    report.say(
        "Root mean squared errors at equal privacy: Gaussian at rho = 1/2, Laplace at epsilon = 1, rows "
        "contribute 0 or 1, "
        "worst / mean over the readings. Written by `python -m bench.accuracy --full`. The limit holds for "
        "every release "
        "with additive Gaussian noise (a dual bound, or below it the bound of one family of paths). For at "
        "most k changes the paper's releases are "
        "shown with its own h k folds, and once with the sharper folds of T4. Other libraries do not know "
        "that the "
        "changes of a stock alternate and pay for k changes of any sign."
    )
    good = reached(report) if chosen.full or chosen.numbers else True
    if chosen.numbers:
        return int(not good)
    planning(report)  # first: what was tuned once is remembered
    sizes = [64, 256, 365, 1024, 3650] if chosen.full else [64, 365]
    changes = [1, 2, 4, 8, 16] if chosen.full else [1, 4, 16]
    for bins in sizes:
        long = bins > 90
        for pure in (False, True):
            running(report, bins, changes, pure=pure)
            short_lives(report, bins, [1, 7, 30, 90] if long else [1, 7, 30], pure=pure)
        for k in (1, 4, 16):
            sliding(report, bins, [7, 28, 90] if long else [7, 28], k)
        histograms(report, bins, changes)
    memories(report)
    print(f"\n{perf_counter() - begun:.0f} s")
    if chosen.full:
        PAGE.write_text(filled("\n".join(report.lines) + "\n"), encoding="utf-8")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
