"""Errors at equal privacy, side by side in one run: the paper's releases, other libraries, ours, and the limit.

    python bench/accuracy.py            some cells, in under three minutes
    python bench/accuracy.py --full     every cell; writes docs/accuracy.md

Gaussian errors are for rho = 1/2, Laplace errors for epsilon = 1; entries contribute 0 or 1; worst / mean over the readings.
"""

from __future__ import annotations

import argparse
import importlib.util
from dataclasses import dataclass
from math import ceil, log, pi, sqrt
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.mechanism import shapes
from tidegauge.mechanism.candidates import candidates
from tidegauge.mechanism.hierarchy import Hierarchy
from tidegauge.mechanism.strategy import Exposure
from tidegauge.mechanism.tune import Target
from tidegauge.model.constraint import AtMost, Constraint, Within
from tidegauge.model.quantity import DAY, Span
from tidegauge.model.schedule import Schedule
from tidegauge.theory import cover, hdcr_folds, swcr_folds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tidegauge.mechanism.strategy import Strategy

    Floats = NDArray[np.float64]

DAILY = Span(micros=DAY)
PAGE = Path(__file__).parents[1] / "docs" / "accuracy.md"
BRANCHINGS = [*range(2, 17), 20, 24, 32, 48, 64]
# Dual bounds, computed once: no release with additive Gaussian noise has a smaller worst error.
KNOWN_LIMITS = {
    "at most": {
        (256, 1): 2.5327, (256, 2): 3.0722, (256, 4): 3.9787, (256, 8): 4.9089, (256, 16): 5.9197,
        (1024, 1): 2.9615, (1024, 2): 3.6676, (1024, 4): 4.8201, (1024, 8): 6.1021, (1024, 16): 7.6167,
    },
    "within": {
        (365, 1): 2.6418, (365, 7): 3.1626, (365, 30): 4.2922, (365, 90): 6.0577,
        (1024, 1): 2.954, (1024, 7): 3.454, (1024, 30): 4.5775, (1024, 90): 6.321,
    },
}  # fmt: skip


@dataclass(frozen=True)
class Error:
    """Root mean squared errors: of the worst reading, and over all of them."""

    worst: float
    mean: float
    what: str = ""

    @classmethod
    def of(cls, sensitivity: float, variances: Floats, what: str = "") -> Error:
        return cls(sensitivity * sqrt(variances.max()), sensitivity * sqrt(variances.mean()), what)

    def __str__(self) -> str:
        return f"{self.worst:.3g} / {self.mean:.3g}" + (f" ({self.what})" if self.what else "")


@dataclass(frozen=True)
class Case:
    """What is released, and how an entry may change."""

    schedule: Schedule
    constraint: Constraint
    pure: bool = False
    grouped: bool = False

    @property
    def exposure(self) -> Exposure:
        return Exposure(self.constraint, self.schedule, "stock", 0, 1, grouped=self.grouped)

    @property
    def bins(self) -> int:
        assert self.schedule.bins is not None
        return self.schedule.bins

    def error(self, folds: float, variances: Floats, what: str = "") -> Error:
        """For measurements of which one entry changes so many by 1, each with the same noise."""
        return Error.of(folds * sqrt(2) if self.pure else sqrt(folds), variances, what)


# --- the paper


def cover_sizes(bins: NDArray[np.int64], branching: int, height: int) -> Floats:
    """Nodes of the canonical cover of bins 1..b, and the initial load."""
    digits = [bins // branching**layer % branching for layer in range(height - 1)]
    sizes: Floats = (1 + sum(digits) + bins // branching ** (height - 1)).astype(float)
    return sizes


def heights(branching: int, leaves: int) -> Iterator[int]:
    yield from range(1, max(1, ceil(log(max(leaves, 2), branching))) + 1)


def paper_tree(case: Case, branchings: list[int]) -> Error:
    """HDCR: folds by layers, one canonical cover a reading."""
    found = []
    for branching in branchings:
        for height in heights(branching, case.bins - 1):
            folds = hdcr_folds(
                case.constraint, width="1 day", branching=branching, height=height, count=case.bins - 1
            )
            sizes = cover_sizes(np.arange(case.bins), branching, height)
            found.append(case.error(folds, sizes, f"c = {branching}, h = {height}"))
    return min(found, key=lambda one: one.worst)


def paper_sliding(case: Case) -> Error:
    """SWCR: every window by itself."""
    window, count = case.schedule.window, case.schedule.count
    assert window is not None
    return case.error(swcr_folds(case.constraint, window=window, period=DAILY, count=count), np.ones(1))


def paper_sliding_tree(case: Case) -> Error:
    """SWCR from HDCR with two branches: windows as canonical covers."""
    span = case.schedule.span
    assert span is not None
    height = max(1, ceil(log(span, 2)))
    folds = hdcr_folds(
        case.constraint, width="1 day", branching=2, height=height, count=case.bins - 1, initial=False
    )
    sizes = [float(len(cover(end - span, end, branching=2, height=height))) for end in range(span, case.bins)]
    return case.error(folds, np.array(sizes), f"h = {height}")


# --- other libraries, for entries that change k times: nothing in them knows that a stock's changes alternate


def opendp_tree(case: Case, changes: int) -> Error:
    """OpenDP's b-ary tree made consistent afterwards: all nodes, least squares over the past and the future.

    Its own map gives h k for the L2 norm too; k sqrt(h), which is right, is used here.
    """
    found = []
    for branching in (2, 4, 8, 16):
        height = max(1, ceil(log(case.bins, branching))) + 1
        leaves = branching ** (height - 1)
        tree = Hierarchy(branching, height, leaves, "leaf")
        some = np.unique(np.linspace(0, case.bins - 1, 48).astype(int))
        variances = np.array(
            [float(np.square(tree.smoothed(int(b), None, through=leaves - 1)).sum()) for b in some]
        )
        folds = height * changes if case.pure else height * changes**2
        found.append(case.error(folds, variances, f"b = {branching}"))
    return min(found, key=lambda one: one.worst)


def dpcrpy_honaker(case: Case, changes: int) -> Error:
    """dpcrpy's Honaker: a binary tree with least squares over the past; its own code where it is installed."""
    order = max(1, ceil(log(case.bins, 2)))
    folds = (order + 1) * changes if case.pure else (order + 1) * changes**2
    if importlib.util.find_spec("dpcrpy") is None:
        variances = Hierarchy(2, order + 1, 2**order, "leaf").variances(np.arange(case.bins), None)
        return case.error(folds, variances, "by formula")
    from dpcrpy.framework.noiMech import GaussNoiMech  # type: ignore[import-not-found]  # noqa: PLC0415
    from dpcrpy.treeMethods.honaker import Honaker  # type: ignore[import-not-found]  # noqa: PLC0415

    release = Honaker(kOrder=order, noiMech=GaussNoiMech(sigma0=1 / sqrt(order + 1)))
    return case.error(folds, np.array([release.dpRelease(0)[1] for _ in range(case.bins)]))


def generic_root(case: Case, changes: int) -> Error:
    """The square root for k participations of any sign: the norm of its first k columns together."""
    a = shapes.power(case.bins, -0.5)
    together = sum(np.concatenate([np.zeros(j), a[: len(a) - j]]) for j in range(min(changes, case.bins)))
    return Error.of(float(np.linalg.norm(together)), np.cumsum(a**2))


# --- ours, and the limit


def ours(case: Case) -> tuple[Error, Strategy]:
    """The candidate with the least worst error, as the planner would choose."""
    target, found = Target.of(case.schedule), []
    for strategy in candidates(case.schedule, case.exposure, pure=case.pure):
        sensitivity = strategy.sensitivity(case.exposure)
        size = float(sensitivity.l1) * sqrt(2) if case.pure else sqrt(sensitivity.l2_squared)
        error = Error.of(size, strategy.variances(target.bins, target.span), strategy.name)
        found.append((error, strategy))
    return min(found, key=lambda pair: pair[0].worst)


def simulated(case: Case, strategy: Strategy, draws: int = 30_000) -> Error:
    """The same errors from noise that was drawn, at the worst reading and at some of all."""
    rng = np.random.default_rng(5)
    target = Target.of(case.schedule)
    variances = strategy.variances(target.bins, target.span)
    at = [int(target.bins[variances.argmax()]), *target.bins[:: max(1, len(variances) // 8)].tolist()]
    sensitivity = strategy.sensitivity(case.exposure)
    size = float(sensitivity.l1) if case.pure else sqrt(sensitivity.l2_squared)
    layers, shared = strategy.layers(max(at)), np.zeros(0)
    noise = (rng.laplace if case.pure else rng.normal)(size=(draws, len(layers)))
    noise *= np.array([float(scale) for scale in strategy.scales])[layers]
    if strategy.shared is not None:
        shared = np.array([row.shared for row in strategy.measured(max(at))])
        noise += rng.laplace(size=(draws, 1)) * float(strategy.shared) * shared
    squares = []
    for bin_ in at:
        weights = strategy.weights(bin_, target.span)
        squares.append(float(np.square(noise[:, : len(weights)] @ weights).mean()) * size**2)
    expected = np.array([strategy.variances(np.array([bin_]), target.span)[0] for bin_ in at])
    expected *= size**2 * (2 if case.pure else 1)
    return Error(sqrt(squares[0] / expected[0]), sqrt(sum(squares[1:]) / expected[1:].sum()))


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


def limit(kind: str, bins: int, parameter: int) -> str:
    """Of the worst error: dual bound where it was computed, else the nuclear norm or an ensemble of paths."""
    if known := KNOWN_LIMITS[kind].get((bins, parameter)):
        return f"{known:.3g}"
    if kind == "within":
        return "-"
    found = ensemble_limit(bins, parameter)
    if parameter == 1:
        found = max(
            found, sum(1 / (2 * np.sin((2 * j - 1) * pi / (4 * bins + 2))) for j in range(1, bins + 1)) / bins
        )
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


def running(report: Report, bins: int, changes: list[int], *, pure: bool, simulate: bool) -> None:
    cases = [Case(Schedule(0, DAILY, bins), AtMost(k), pure=pure) for k in changes]
    chosen = [ours(case) for case in cases]
    pairs = list(zip(cases, changes, strict=True))
    rows: dict[str, list[str]] = {
        "paper, c = 2": [str(paper_tree(case, [2])) for case in cases],
        "paper, best c": [str(paper_tree(case, BRANCHINGS)) for case in cases],
        "OpenDP b-ary tree, consistent (all of it at the end)": [
            str(opendp_tree(case, k)) for case, k in pairs
        ],
        "dpcrpy Honaker": [str(dpcrpy_honaker(case, k)) for case, k in pairs],
    }
    if not pure:
        rows["square root, generic k participations"] = [str(generic_root(case, k)) for case, k in pairs]
    rows["**Tidegauge**"] = [str(error) for error, _ in chosen]
    if not pure:
        rows["limit"] = [limit("at most", bins, k) for k in changes]
    if simulate:
        checks = [simulated(case, strategy) for case, (_, strategy) in zip(cases, chosen, strict=True)]
        rows["simulated over predicted"] = [f"{check.worst:.3f} / {check.mean:.3f}" for check in checks]
    noise = "Laplace" if pure else "Gaussian"
    report.table(
        f"{noise}, running value, n = {bins}, at most k changes", [f"k = {k}" for k in changes], rows
    )


def short_lives(report: Report, bins: int, bounds: list[int], *, pure: bool) -> None:
    cases = [Case(Schedule(0, DAILY, bins), Within(f"{bound} days"), pure=pure) for bound in bounds]
    rows = {
        "paper, c = 2": [str(paper_tree(case, [2])) for case in cases],
        "paper, best c": [str(paper_tree(case, BRANCHINGS)) for case in cases],
        "**Tidegauge**": [str(ours(case)[0]) for case in cases],
    }
    if not pure:
        rows["limit"] = [limit("within", bins, bound) for bound in bounds]
    noise = "Laplace" if pure else "Gaussian"
    report.table(
        f"{noise}, running value, n = {bins}, changes within B", [f"B = {bound}" for bound in bounds], rows
    )


def sliding(report: Report, bins: int, windows: list[int], changes: int) -> None:
    cases = [
        Case(Schedule(0, DAILY, bins - window + 1, Span(micros=window * DAY)), AtMost(changes))
        for window in windows
    ]
    rows = {
        "paper, SWCR": [str(paper_sliding(case)) for case in cases],
        "paper, from HDCR, c = 2": [str(paper_sliding_tree(case)) for case in cases],
        "**Tidegauge**": [str(ours(case)[0]) for case in cases],
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
    report.table(f"Gaussian, histogram, n = {bins}, at most k changes", [f"k = {k}" for k in changes], rows)


def planning(report: Report) -> None:
    """How long it takes to find, tune and certify every strategy for ten years of days."""
    rows: dict[str, list[str]] = {}
    constraints: list[Constraint] = [AtMost(4), AtMost(16), Within("30 days"), Within("90 days")]
    for pure in (False, True):
        times = []
        for constraint in constraints:
            begun = perf_counter()
            ours(Case(Schedule(0, DAILY, 3650), constraint, pure=pure))
            times.append(f"{perf_counter() - begun:.1f} s")
        rows["Laplace" if pure else "Gaussian"] = times
    report.table("Planning 3,650 windows, all strategies", [str(one) for one in constraints], rows)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--full", action="store_true", help="every cell; writes docs/accuracy.md")
    full = parser.parse_args(arguments).full
    report = Report([])
    begun = perf_counter()
    report.say("# Accuracy\n")
    report.say(
        "Root mean squared errors at equal privacy: Gaussian at rho = 1/2, Laplace at epsilon = 1, entries contribute 0 or 1, "
        "worst / mean over the readings. Written by `python bench/accuracy.py --full`. The limit holds for every release "
        "with additive Gaussian noise (a dual bound, or below it the bound of one family of paths). Other libraries do not know that the "
        "changes of a stock alternate and pay for k changes of any sign."
    )
    sizes = [64, 365, 1024, 3650] if full else [64, 365]
    changes = [1, 2, 4, 8, 16] if full else [1, 4, 16]
    for bins in sizes:
        long = bins > 90
        for pure in (False, True):
            running(report, bins, changes, pure=pure, simulate=bins <= 1024)
            short_lives(report, bins, [7, 30, 90] if long else [7, 30], pure=pure)
        for k in (1, 4, 16):
            sliding(report, bins, [7, 28, 90] if long else [7, 28], k)
        histograms(report, bins, changes)
    planning(report)
    print(f"\n{perf_counter() - begun:.0f} s")
    if full:
        PAGE.write_text("\n".join(report.lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
