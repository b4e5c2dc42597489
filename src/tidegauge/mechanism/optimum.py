"""Numerically optimal measurements for entries that change once or twice, and for up to 1,024 bins.

For weights w on the readings and a law p on the paths, no measurement whose noise is Gaussian beats the nuclear norm of the
two together, and the one that attains it is known in closed form; weights and law then move to where its error and its
sensitivity are largest, until bound and measurement meet.  That takes a moment for a hundred bins and minutes for a
thousand, so what was asked for is kept in a folder, named after the problem and after its own content.
"""

from __future__ import annotations

import hashlib
import json
from math import sqrt
from typing import TYPE_CHECKING, Final, NamedTuple
from zipfile import BadZipFile

import numpy as np

from tidegauge.errors import SpecError
from tidegauge.mechanism import shapes
from tidegauge.mechanism.dense import MOST_BINS, Dense

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from tidegauge.theory.paths import Limits

    Floats = NDArray[np.float64]

_QUICK: Final = 256
"""Bins up to which the best is found in a second, and so without being asked for ..."""
_QUICK_GAP: Final = 3e-3
"""... to this much of the least error there is."""


class Problem(NamedTuple):
    """What a dense strategy is optimal for: one or two changes `reach` bins apart, and readings every `stride` bins."""

    bins: int
    first: int
    span: int | None
    stride: int
    jumps: int
    reach: int
    worst: bool

    @property
    def size(self) -> int:
        """Bins that are measured."""
        return self.bins - self.first

    @property
    def key(self) -> str:
        """Its name in the folder."""
        return hashlib.sha256(json.dumps(self._asdict(), sort_keys=True).encode()).hexdigest()[:16]

    @classmethod
    def of(
        cls, limits: Sequence[Limits], *, bins: int, first: int, span: int | None, stride: int, worst: bool
    ) -> Problem | None:
        """None where entries may change more than twice, or there are too many bins."""
        known = [limit.within(bins - first) for limit in limits]
        jumps, reach = (max(each) for each in zip(*known, strict=True))
        if jumps > 2 or not 1 < bins - first <= MOST_BINS:
            return None
        return cls(bins, first, span, stride, jumps, reach, worst)


def recall(folder: Path, problem: Problem) -> Dense | None:
    """What was optimised for this problem before; a file that is not what its name says is passed over."""
    for path in sorted(folder.glob(f"dense-{problem.key}-*.npz")):
        try:
            with np.load(path) as stored:
                found = Dense.of(stored["entries"], int(stored["first"]))
        except (OSError, ValueError, KeyError, EOFError, BadZipFile, SpecError):
            continue
        if path.stem.endswith(found.digest) and (len(found.entries), found.first) == (
            problem.size,
            problem.first,
        ):
            return found
    return None


def offered(problem: Problem, folder: Path | None, *, ask: bool) -> Dense | None:
    """What the planner may choose: what was kept; else, where that takes a moment or it was asked for, found now.

    What was asked for is kept in the folder.
    """
    if folder is not None and (known := recall(folder, problem)):
        return known
    try:
        if ask:
            return optimise(problem, folder)
        return optimise(problem, None, gap=_QUICK_GAP) if problem.size <= _QUICK else None
    except np.linalg.LinAlgError:  # too many readings at once for double precision
        return None


def optimise(problem: Problem, folder: Path | None, *, rounds: int = 200, gap: float = 1e-3) -> Dense:
    """The best there is for this problem, kept in the folder if there is one."""
    gram, _ = optimal_gram(problem, rounds=rounds, gap=gap)
    root = np.linalg.cholesky(gram[::-1, ::-1]).T[::-1, ::-1]
    found = Dense.of(shapes.rounded(root / np.abs(root).max(), shapes.BITS), problem.first)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"dense-{problem.key}-{found.digest}.npz"
        partial = path.with_suffix(".partial.npz")
        np.savez_compressed(partial, entries=found.entries, first=problem.first)
        partial.replace(path)
    return found


def optimal_gram(problem: Problem, *, rounds: int, gap: float) -> tuple[Floats, float]:
    """Inner products of the best columns found, and the least error (at rho = 1/2) of any linear Gaussian release."""
    count = problem.size
    ends = np.arange(count) if problem.span is None else np.arange(problem.span - 1, count)
    ends = ends[:: problem.stride]
    weights, paths = np.full(len(ends), 1 / len(ends)), _Paths(count, problem)
    best, least, limit = np.inf, np.eye(count), 0.0
    for _ in range(rounds):
        demand = _demand(weights, ends, problem.span, count)
        root, back = paths.roots()
        middle, _ = _roots(root @ demand @ root)
        gram = back @ middle @ back
        limit = max(limit, float(np.trace(middle)))
        covariance: Floats = np.linalg.inv(gram).astype(np.float64)
        errors = _errors(covariance, ends, problem.span)
        energies = paths.energies(gram)
        value = sqrt(paths.most(energies) * (errors.max() if problem.worst else errors.mean()))
        if value < best:
            best, least = value, gram
        if best <= limit * (1 + gap):
            break
        if problem.worst:
            weights = weights * errors
            weights /= weights.sum()
        paths.shift(energies)
    return least, limit


class _Paths:
    """A law on single changes and on pairs of them."""

    def __init__(self, count: int, problem: Problem) -> None:
        lags = np.subtract.outer(np.arange(count), np.arange(count)).T
        self.near = (lags > 0) & (lags < (problem.reach if problem.jumps > 1 else 0))
        self.one = np.full(count, 0.3 / count if self.near.any() else 1 / count)
        self.two = 0.7 * self.near / max(self.near.sum(), 1)

    def roots(self) -> tuple[Floats, Floats]:
        """Of its second moments, and of their inverse."""
        if not self.near.any():
            return np.diag(np.sqrt(self.one)), np.diag(1 / np.sqrt(self.one))
        return _roots(np.diag(self.one + self.two.sum(axis=0) + self.two.sum(axis=1)) - self.two - self.two.T)

    def energies(self, gram: Floats) -> tuple[Floats, Floats]:
        """Of single changes and of pairs."""
        squares = gram.diagonal()
        return squares, np.where(self.near, np.add.outer(squares, squares) - 2 * gram, 0.0)

    @staticmethod
    def most(energies: tuple[Floats, Floats]) -> float:
        """The worst path's."""
        return float(max(energies[0].max(), energies[1].max()))

    def shift(self, energies: tuple[Floats, Floats]) -> None:
        """Towards the paths with most energy."""
        self.one, self.two = self.one * energies[0] ** 2, self.two * energies[1] ** 2
        total = self.one.sum() + self.two.sum()
        self.one, self.two = np.maximum(self.one / total, 1e-12), self.two / total


def _roots(matrix: Floats) -> tuple[Floats, Floats]:
    values, vectors = np.linalg.eigh(matrix)
    values = np.sqrt(np.maximum(values, values[-1] * 1e-15))
    return (vectors * values) @ vectors.T, (vectors / values) @ vectors.T


def _demand(weights: Floats, ends: NDArray[np.int64], span: int | None, count: int) -> Floats:
    """The weighted sum of the readings' outer products."""
    later = np.zeros(count + 1)
    later[ends] = weights
    later = np.cumsum(later[::-1])[::-1]
    first, last = (
        np.minimum.outer(np.arange(count), np.arange(count)),
        np.maximum.outer(np.arange(count), np.arange(count)),
    )
    demand: Floats = later[last]
    if span is not None:
        demand = np.maximum(demand - later[np.minimum(first + span, count)], 0.0)
    return demand + 1e-12 * np.eye(count)


def _errors(covariance: Floats, ends: NDArray[np.int64], span: int | None) -> Floats:
    sums = np.zeros((len(covariance) + 1, len(covariance) + 1))
    sums[1:, 1:] = covariance.cumsum(axis=0).cumsum(axis=1)
    start = np.zeros_like(ends) if span is None else ends + 1 - span
    errors: Floats = sums[ends + 1, ends + 1] - 2 * sums[start, ends + 1] + sums[start, start]
    return errors
