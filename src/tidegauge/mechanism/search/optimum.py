"""Numerically optimal measurements for rows that change a few times or within few bins; up to 1,024 bins.

For weights w on the readings and a distribution p on the paths, a nuclear norm of both is a lower bound on
the error of every measurement with Gaussian noise.  The measurement that attains this bound has a closed
form.  The search then shifts w and p to the readings and paths where this measurement has the largest error
and sensitivity, until the bound and the error meet.  A search takes a moment for a hundred bins and two
changes, and minutes for a thousand bins or many changes.  Results of long searches are therefore kept in a
folder; the name of a file contains a hash of the problem and a hash of the result.
"""

from __future__ import annotations

import hashlib
import json
from math import sqrt
from typing import TYPE_CHECKING, Final, NamedTuple
from zipfile import BadZipFile

import numpy as np

from tidegauge.errors import SpecError
from tidegauge.mechanism.search.path_distributions import path_distribution
from tidegauge.mechanism.search.shaping import shaped
from tidegauge.mechanism.strategies import shapes
from tidegauge.mechanism.strategies.dense import MOST_BINS, Dense, most_energy
from tidegauge.mechanism.strategy import MANY
from tidegauge.theory.paths.path import ON_OFF, BinCase

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from tidegauge.mechanism.search.task import Search

    Floats = NDArray[np.float64]

_QUICK: Final = 256
"""Bins up to which the optimum for two changes is found in a second, and so without --optimise ..."""
_QUICK_GAP: Final = 3e-3
"""... to within this relative distance of the lower bound."""
_MOST_CHANGES: Final = 16
"""Most changes for which an optimum is searched; or any number of changes ..."""
_MOST_BITS: Final = 128
"""... within this many bins ..."""
_MOST_GROUP_CHANGES: Final = 32
"""... or, with groups, within this many bins."""
_LOOKED: Final = 10
"""Rounds between two searches for the worst path, where such a search takes as long as a round."""


class Problem(NamedTuple):
    """The setting of an optimum: `changes` changes within `within` bins, readings every `stride` bins."""

    bins: int
    first: int
    span: int | None
    stride: int
    changes: int
    within: int
    worst: bool
    grouped: bool = False

    @property
    def size(self) -> int:
        """The number of measured bins."""
        return self.bins - self.first

    @property
    def ends(self) -> NDArray[np.int64]:
        """The last measured bin of every reading."""
        first = 0 if self.span is None else self.span - 1
        return np.arange(first, self.size)[:: self.stride]

    @property
    def key(self) -> str:
        """The name of the problem in the folder."""
        named = self._asdict()
        # The names that files were written under: what was optimised before must be found again.
        named |= {"jumps": named.pop("changes"), "reach": named.pop("within")}
        return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def quick(self) -> bool:
        """Whether the search takes less than a second."""
        return self.changes <= 2 and not self.grouped and self.size <= _QUICK

    @classmethod
    def of(
        cls,
        cases: Sequence[BinCase],
        *,
        bins: int,
        first: int,
        span: int | None,
        stride: int,
        worst: bool,
        grouped: bool = False,
    ) -> Problem | None:
        """The problem of a release; None if units may change too often, or if there are too many bins."""
        known = [case.within(bins - first) for case in cases]
        changes, within = (max(each) for each in zip(*known, strict=True))
        most = _MOST_GROUP_CHANGES if grouped and within < bins - first else _MOST_BITS
        if not 1 < bins - first <= MOST_BINS or (changes > _MOST_CHANGES and within > most):
            return None
        return cls(bins, first, span, stride, changes, within, worst, grouped and changes > 1)


def dense_problem(search: Search) -> Problem | None:
    """The problem that a dense strategy solves for this search; None if there is none.

    There is none for a flow with a clip, because its changes may be in one bin or in many.
    """
    schedule, exposure = search.schedule, search.exposure
    if schedule.bins is None or (exposure.kind == "flow" and exposure.clip is not None):
        return None
    return Problem.of(
        search.task.cases,
        bins=schedule.bins,
        first=schedule.base,
        span=schedule.span,
        stride=schedule.stride,
        worst=search.worst,
        grouped=exposure.grouped,
    )


def recall(folder: Path, problem: Problem) -> Dense | None:
    """The stored optimum of this problem, or None.  Files that do not match their name are ignored."""
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
    """The stored optimum, or one that is searched now if the search is quick or `ask` is set; else None.

    A result of `ask` is stored in the folder.
    """
    if folder is not None and (known := recall(folder, problem)):
        return known
    try:
        if ask:
            return optimise(problem, folder)
        return optimise(problem, None, gap=_QUICK_GAP) if problem.quick else None
    except np.linalg.LinAlgError:  # too many readings at once for double precision
        return None


def optimise(problem: Problem, folder: Path | None, *, rounds: int | None = None, gap: float = 1e-3) -> Dense:
    """The optimum of this problem, stored in the folder if one is given."""
    found = rounded(problem, optimal_gram(problem, rounds=rounds, gap=gap)[0])
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"dense-{problem.key}-{found.digest}.npz"
        partial = path.with_suffix(".partial.npz")
        np.savez_compressed(partial, entries=found.entries, first=problem.first)
        partial.replace(path)
    return found


def rounded(problem: Problem, gram: Floats) -> Dense:
    """The strategy whose columns have these inner products, in the form with the least certified error."""
    forms = [gram]
    if (problem.changes > 2 or problem.grouped) and problem.span is None and problem.worst:
        forms += shaped(gram, symmetric=problem.changes % 2 == 0 and problem.within == problem.size)
    best = min(forms, key=lambda form: _certified(problem, form))
    root = np.linalg.cholesky(best[::-1, ::-1]).T[::-1, ::-1]
    return Dense.of(shapes.rounded(root / np.abs(root).max(), shapes.BITS), problem.first)


def optimal_gram(problem: Problem, *, rounds: int | None = None, gap: float) -> tuple[Floats, float]:
    """Inner products of the best columns found, and a lower bound on the error (rho = 1/2) of all columns."""
    count, ends = problem.size, problem.ends
    weights = np.full(len(ends), 1 / len(ends))
    paths = path_distribution(count, changes=problem.changes, within=problem.within, grouped=problem.grouped)
    best, least, lowest, mean = np.inf, np.eye(count), 0.0, np.eye(count)
    for round_ in range(1, (rounds or paths.rounds) + 1):
        demand = _demand(weights, ends, problem.span, count)
        moments = paths.moments()
        root, back = _roots(moments)
        middle, _ = _roots(root @ demand @ root)
        gram = back @ middle @ back
        lowest = max(lowest, float(np.trace(middle)))
        errors = _errors(gram, ends, problem.span)
        if paths.noisy:  # energies and errors are convex, so the mean of several is better than each
            mean += min(2 / round_, 1.0) * (gram / (gram * moments).sum() - mean)
        if not paths.noisy or round_ % _LOOKED == 0:
            seen, spread = (mean, _errors(mean, ends, problem.span)) if paths.noisy else (gram, errors)
            value = sqrt(paths.most(seen) * (spread.max() if problem.worst else spread.mean()))
            if value < best:
                best, least = value, seen.copy()
            if best <= lowest * (1 + gap):
                break
        if problem.worst:
            weights = weights * errors
            weights /= weights.sum()
        paths.shift(gram)
    return least, lowest


def _certified(problem: Problem, gram: Floats) -> float:
    errors = _errors(gram, problem.ends, problem.span)
    domain = ON_OFF._replace(groups=MANY if problem.grouped else 1)
    energy = most_energy(gram, BinCase(problem.changes, problem.within), domain)
    return energy * float(errors.max() if problem.worst else errors.mean())


def _roots(matrix: Floats) -> tuple[Floats, Floats]:
    values, vectors = np.linalg.eigh(matrix)
    values = np.sqrt(np.maximum(values, values[-1] * 1e-15))
    return (vectors * values) @ vectors.T, (vectors / values) @ vectors.T


def _demand(weights: Floats, ends: NDArray[np.int64], span: int | None, count: int) -> Floats:
    """The weighted sum of the outer products of the readings."""
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


def _errors(gram: Floats, ends: NDArray[np.int64], span: int | None) -> Floats:
    covariance = np.linalg.inv(gram)
    sums = np.zeros((len(covariance) + 1, len(covariance) + 1))
    sums[1:, 1:] = covariance.cumsum(axis=0).cumsum(axis=1)
    start = np.zeros_like(ends) if span is None else ends + 1 - span
    errors: Floats = sums[ends + 1, ends + 1] - 2 * sums[start, ends + 1] + sums[start, start]
    return errors
