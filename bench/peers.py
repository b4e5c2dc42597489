"""What others do: the paper's releases, and other libraries', with their errors at equal privacy.

Gaussian errors are for rho = 1/2, Laplace errors for epsilon = 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log, sqrt
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.mechanism.strategies import shapes
from tidegauge.mechanism.strategies.hierarchy import Hierarchy
from tidegauge.mechanism.strategy import Exposure
from tidegauge.model.quantity import DAY, Span
from tidegauge.theory import cover, hdcr_folds, swcr_folds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tidegauge.model.constraint import Constraint
    from tidegauge.model.schedule import Schedule

    Floats = NDArray[np.float64]

DAILY = Span(micros=DAY)
BRANCHINGS = [*range(2, 17), 20, 24, 32, 48, 64]


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


def paper_tree(case: Case, branchings: list[int], changes: int | None = None) -> Error:
    """HDCR: one canonical cover a reading; the paper's h k folds for at most k changes, else T4's."""
    found = []
    for branching in branchings:
        for height in heights(branching, case.bins - 1):
            folds = hdcr_folds(
                case.constraint, width="1 day", branching=branching, height=height, count=case.bins - 1
            )
            if changes is not None:
                folds = changes * height
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
    """dpcrpy's Honaker by formula: a binary tree, least squares over the past; libraries.py runs it."""
    order = max(1, ceil(log(case.bins, 2)))
    folds = (order + 1) * changes if case.pure else (order + 1) * changes**2
    variances = Hierarchy(2, order + 1, 2**order, "leaf").variances(np.arange(case.bins), None)
    return case.error(folds, variances, "by formula, as dpcrpy 1.0.0 computes it")


def generic_root(case: Case, changes: int) -> Error:
    """The square root for k participations of any sign: the norm of its first k columns together."""
    a = shapes.power(case.bins, -0.5)
    together = sum(np.concatenate([np.zeros(j), a[: len(a) - j]]) for j in range(min(changes, case.bins)))
    return Error.of(float(np.linalg.norm(together)), np.cumsum(a**2))
