"""Numerically optimal measurements for entries that change once or twice, and for up to 1,024 bins.

For weights w on the readings and a law p on the paths, no measurement whose noise is Gaussian beats the nuclear norm of the
two together, and the one that attains it is known in closed form; weights and law then move to where its error and its
sensitivity are largest, until bound and measurement meet.  That takes minutes for a thousand bins, so the result is
kept in a folder, named after the problem and after its own content.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from tidegauge.errors import SpecError
from tidegauge.mechanism import shapes
from tidegauge.mechanism.exposed import most_changes, over_lives, spread, stock_square, upward
from tidegauge.mechanism.triangular import Triangular
from tidegauge.theory.gram_paths import gram_groups, gram_paths

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction
    from pathlib import Path

    from numpy.typing import NDArray

    from tidegauge.mechanism.exposed import Flow
    from tidegauge.mechanism.strategy import Exposure
    from tidegauge.theory.paths import Limits
    from tidegauge.theory.sensitivity import Sensitivity

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int32]

MOST_BINS = 1024


@dataclass(frozen=True)
class Dense(Triangular):
    """A full matrix, known by the digest of its content."""

    name: ClassVar[str] = "dense"

    digest: str
    first: int
    entries: Integers = field(repr=False, compare=False)

    @classmethod
    def of(cls, entries: Integers, first: int) -> Dense:
        """The strategy with this matrix."""
        return cls(_digest(entries), first, entries)

    @classmethod
    def load(cls, folder: Path, digest: str) -> Dense:
        """The one that was kept under this digest."""
        for path in sorted(folder.glob(f"dense-*-{digest}.npz")):
            with np.load(path) as stored:
                found = cls.of(stored["entries"], int(stored["first"]))
            if found.digest == digest:
                return found
        raise SpecError(
            f"the optimised strategy {digest} is not in its folder, or was changed there; plan anew"
        )

    @property
    def parameters(self) -> dict[str, int | float | str]:
        """Its size and digest."""
        return {"bins": len(self.entries) + self.first, "digest": self.digest, "first": self.first}

    @property
    def matrix(self) -> Integers:
        """On changes, in units of 2^-20."""
        return self.entries

    @cached_property
    def gram(self) -> Floats:
        """Inner products of the columns; the integers are small enough for them to be exact."""
        exact = self.entries.astype(np.float64)
        return exact.T @ exact

    def sensitivity(self, exposure: Exposure) -> Sensitivity:
        """From the rounded matrix: exact for at most two changes."""
        _, M = spread(exposure)
        most = upward(float(self.gram.diagonal().max()))

        def stock(limit: Limits) -> tuple[Fraction, Fraction]:
            square = stock_square(
                exposure,
                limit,
                paths=lambda one: gram_paths(self.gram, limits=one),
                groups=lambda one: gram_groups(self.gram, limits=one, loaded=bool(self.first)),
            )
            return self._both(square, 2 * most_changes(limit, len(self.entries)) if exposure.grouped else 1)

        def flow(counts: Flow) -> tuple[Fraction, Fraction]:
            return self._both((M * counts.total) ** 2 * most, counts.total if exposure.grouped else 1)

        return over_lives(exposure, stock=stock, flow=flow)

    def _both(self, square: Fraction, groups: int) -> tuple[Fraction, Fraction]:
        """An L1 for completeness: over so many rows, in as many groups as are touched, it is at most this."""
        return upward(sqrt(square * len(self.entries) * groups)), square


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


def recall(folder: Path, problem: Problem) -> list[Dense]:
    """What was optimised for this problem before."""
    paths = sorted(folder.glob(f"dense-{problem.key}-*.npz"))
    return [Dense.load(folder, path.stem.rpartition("-")[2]) for path in paths]


def optimise(problem: Problem, folder: Path, *, rounds: int = 200, gap: float = 1e-3) -> Dense:
    """The best there is for this problem, from the folder or computed and kept there."""
    if known := recall(folder, problem):
        return known[0]
    gram, _ = optimal_gram(problem, rounds=rounds, gap=gap)
    root = np.linalg.cholesky(gram[::-1, ::-1]).T[::-1, ::-1]
    entries = shapes.rounded(root / np.abs(root).max(), shapes.BITS).astype(np.int32)
    found = Dense.of(entries, problem.first)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"dense-{problem.key}-{found.digest}.npz"
    partial = path.with_suffix(".partial.npz")
    np.savez_compressed(partial, entries=entries, first=problem.first)
    partial.replace(path)
    return found


def optimal_gram(problem: Problem, *, rounds: int, gap: float) -> tuple[Floats, float]:
    """Inner products of the best columns found, and the least error (at rho = 1/2) of any linear Gaussian release."""
    count = problem.bins - problem.first
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


def _digest(entries: Integers) -> str:
    return hashlib.sha256(np.ascontiguousarray(entries, dtype="<i4").tobytes()).hexdigest()[:16]
