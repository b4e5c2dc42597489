"""Optimised matrices: how near the lower bound they come, and that nothing but their content is trusted."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tidegauge.errors import SpecError, StoreCorrupt
from tidegauge.mechanism.search import tune
from tidegauge.mechanism.search.optimum import (
    Problem,
    dense_problem,
    offered,
    optimal_gram,
    optimise,
    recall,
    rounded,
)
from tidegauge.mechanism.search.task import Search
from tidegauge.mechanism.search.tune import Target, error
from tidegauge.mechanism.strategies.damped import Damped
from tidegauge.mechanism.strategies.dense import Dense
from tidegauge.mechanism.strategy import MANY, Exposure
from tidegauge.model.constraint import AtMost, Unconstrained, Within
from tidegauge.model.quantity import DAY, Span
from tidegauge.model.schedule import Schedule
from tidegauge.theory.paths.path import BinCase, Domain, bin_cases

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from tidegauge.model.constraint import Constraint

DAILY = Span(micros=DAY)


def test_dense_meets_its_bound_and_is_kept(tmp_path: Path) -> None:
    problem = Problem.of([BinCase(1, None)], bins=32, first=0, span=None, stride=1, worst=True)
    assert problem is not None
    found = optimise(problem, tmp_path)
    schedule = Schedule(0, DAILY, 32)
    reached = error(found, Exposure(AtMost(1), schedule, "stock", 0, 1), Target.of(schedule), pure=False)
    _, bound = optimal_gram(problem, rounds=200, gap=1e-3)
    assert bound <= reached <= bound * 1.002
    known = recall(tmp_path, problem)
    assert known == found
    assert known.matrix.tolist() == found.matrix.tolist()
    assert known.parameters == {"bins": 32, "digest": found.digest, "first": 0}
    assert recall(tmp_path, problem._replace(worst=False)) is None


def test_dense_for_pairs_and_windows(tmp_path: Path) -> None:
    for first, span, allowed in [
        (0, None, BinCase(2, None)),
        (1, 5, BinCase(1, None)),
        (0, None, BinCase(None, 2)),
    ]:
        problem = Problem.of([allowed], bins=24, first=first, span=span, stride=1, worst=True)
        assert problem is not None
        gram, bound = optimal_gram(problem, rounds=150, gap=2e-3)
        assert bound > 1
        assert np.linalg.eigvalsh(gram)[0] > 0


def problem_of(case: BinCase, bins: int, *, grouped: bool = False) -> Problem | None:
    return Problem.of([case], bins=bins, first=0, span=None, stride=1, worst=True, grouped=grouped)


def test_what_there_is_an_optimum_for() -> None:
    for allowed, bins, grouped in [
        (BinCase(16, None), 1024, False),
        (BinCase(16, None), 1024, True),
        (BinCase(None, 100), 365, False),
        (BinCase(None, 30), 365, True),
        (BinCase(40, None), 30, True),
    ]:
        assert problem_of(allowed, bins, grouped=grouped) is not None
    for allowed, bins, grouped in [
        (BinCase(1, None), 2000, False),
        (BinCase(17, None), 1024, False),
        (BinCase(None, 200), 365, False),
        (BinCase(None, 60), 365, True),
    ]:
        assert problem_of(allowed, bins, grouped=grouped) is None
    assert problem_of(BinCase(1, None), 9, grouped=True) == problem_of(BinCase(1, None), 9)
    assert len({problem_of(BinCase(2, None), 9, grouped=one) for one in (False, True)}) == 2


@pytest.mark.parametrize(
    ("constraint", "bins", "grouped", "better"),
    [
        (AtMost(4), 64, False, 0.96),
        (AtMost(3), 48, False, 0.99),
        (AtMost(2), 64, True, 0.97),
        (AtMost(4), 48, True, 0.98),
        (Within("4 days"), 48, False, 0.95),
        (Within("15 days"), 48, False, 0.97),
        (AtMost(4) & Within("20 days"), 48, False, 0.97),
        (AtMost(4) & Within("6 days"), 48, True, 0.97),
    ],
    ids=str,
)
def test_the_optimum_for_many_changes_is_near_its_limit_and_better_than_damped(
    tmp_path: Path, constraint: Constraint, bins: int, grouped: bool, better: float
) -> None:
    """Its certified error is never below the lower bound,
    and far enough below that of the next best strategy."""
    schedule = Schedule(0, DAILY, bins)
    exposure = Exposure(constraint, schedule, "stock", 0, 1, grouped=grouped)
    problem = dense_problem(Search(schedule, exposure, pure=False))
    assert problem is not None
    assert not problem.quick
    assert offered(problem, tmp_path, ask=False) is None
    gram, bound = optimal_gram(problem, rounds=80, gap=1e-3)
    found, target = rounded(problem, gram), Target.of(schedule)
    reached = error(found, exposure, target, pure=False)
    level = tune.running_noise(
        target, bin_cases(constraint, schedule), bins=bins, domain=Domain(groups=MANY if grouped else 1)
    )
    damped = Damped(bins, *level)
    assert bound < reached < bound * 1.05
    assert reached < better * error(damped, exposure, target, pure=False)


def test_sliding_windows_have_an_optimum_for_many_changes_too() -> None:
    schedule = Schedule(0, DAILY, 30, Span(micros=5 * DAY))
    for grouped in (False, True):
        exposure = Exposure(AtMost(3), schedule, "stock", 0, 1, grouped=grouped)
        problem = dense_problem(Search(schedule, exposure, pure=False))
        assert problem is not None
        gram, bound = optimal_gram(problem, rounds=40, gap=1e-3)
        found = rounded(problem, gram)
        assert error(found, exposure, Target.of(schedule), pure=False) > bound


def test_a_kept_matrix_that_was_changed_is_passed_over(tmp_path: Path) -> None:
    problem = Problem.of([BinCase(1, None)], bins=8, first=0, span=None, stride=1, worst=False)
    assert problem is not None
    found = optimise(problem, tmp_path)
    (path,) = tmp_path.iterdir()
    np.savez_compressed(path, entries=found.matrix // 2, first=0)
    assert recall(tmp_path, problem) is None
    path.write_bytes(b"PK")
    assert recall(tmp_path, problem) is None
    assert offered(problem, tmp_path, ask=True) == found
    assert recall(tmp_path, problem) == found


def test_a_packed_matrix_is_the_one_that_was_packed() -> None:
    rng = np.random.default_rng(3)
    for bins in (1, 2, 7, 40):
        found = Dense.of(np.tril(rng.integers(-(2**20), 2**20 + 1, size=(bins, bins))), 1)
        again = Dense.unpacked(found.packed, digest=found.digest, first=1)
        assert again == found
        assert again.matrix.tolist() == found.matrix.tolist()
        other = Dense.of(found.matrix // 2, 1)
        for text, first in ((other.packed, 1), (found.packed, 0), ("no", 1), (found.packed[:-8], 1)):
            with pytest.raises(StoreCorrupt, match="was changed"):
                Dense.unpacked(text, digest=found.digest, first=first)


@pytest.mark.parametrize(
    "entries",
    [
        np.ones((3, 3), dtype=np.int64),  # knows the future
        np.eye(3, dtype=np.int64) * (2**20 + 1),  # too large to be certified
        np.eye(3),  # no integers
        np.eye(3, 4, dtype=np.int64),
        np.eye(1025, dtype=np.int64),
        np.zeros((0, 0), dtype=np.int64),
    ],
    ids=["future", "large", "floats", "oblong", "long", "empty"],
)
def test_a_matrix_that_cannot_be_certified_is_refused(entries: NDArray[np.int64]) -> None:
    with pytest.raises(SpecError, match="lower-triangular"):
        Dense.of(entries, 0)


def test_inner_products_of_the_largest_matrix_are_exact() -> None:
    largest = Dense.of(np.tril(np.full((1024, 1024), 2**20, dtype=np.int64)), 0)
    assert largest.gram[0, 0] == 2**50
    exact = largest.sensitivity(Exposure(AtMost(1), Schedule(0, DAILY, 1024), "stock", 0, 1)).l2_squared
    assert 2**50 <= exact <= 2**50 * Fraction(1_000_001, 1_000_000)


def test_a_matrix_that_cannot_be_decoded() -> None:
    broken = Dense.of(np.zeros((3, 3), dtype=np.int32), 0)
    with pytest.raises(SpecError, match="cannot be decoded"):
        broken.weights(2, None)


@pytest.mark.parametrize("most", [3, 4, None], ids=["fewer changes than bins", "one more", "any"])
def test_an_entry_that_was_there_before_may_change_in_every_bin(most: int | None) -> None:
    """Its first change lies before the bins that are measured,
    and does not count there: to and fro by the whole range."""
    matrix = np.array([[339, 0, 0], [-1381, 1417, 0], [754, -699, -457]])
    exposure = Exposure(
        AtMost(most) if most else Unconstrained(), Schedule(0, DAILY, 4), "stock", -1, 1, cells=1
    )
    certified = Dense.of(matrix, 1).sensitivity(exposure).l2_squared
    paths = [[2 * a, 2 * b, 2 * c] for a, b, c in ((1, -1, 1), (1, -1, 0), (0, 1, -1), (1, 0, -1))]
    allowed = [path for path in paths if most is None or sum(map(bool, path)) < most]
    worst = max(int((matrix @ path) @ (matrix @ path)) for path in allowed)
    assert worst <= certified <= worst * Fraction(105, 100)
