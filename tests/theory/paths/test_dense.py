"""Bounds for full matrices, against all paths of small worlds and the worst path found in large ones."""

from __future__ import annotations

from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tidegauge.mechanism.search.path_samples import Crowd, Switches
from tidegauge.mechanism.strategies.dense import most_energy
from tidegauge.theory.paths.dense import dense_groups, dense_paths, levels, on_changes, shared_level
from tidegauge.theory.paths.dense_windows import any_changes
from tidegauge.theory.paths.path import BinCase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Rng = np.random.Generator


def any_gram(rng: Rng, bins: int) -> Floats:
    """Of a matrix without any structure."""
    matrix = np.tril(rng.normal(size=(bins, bins)))
    return matrix.T @ matrix


def formed_gram(rng: Rng, bins: int, noise: float = 0.0) -> Floats:
    """Neighbours less a shared level, as an optimum has it, and some noise."""
    apart = np.abs(np.subtract.outer(np.arange(bins), np.arange(bins)))
    between = -np.where(apart > 0, rng.uniform(0.2, 0.3) * 0.4**apart, 0.0)
    level = rng.uniform(0.01, 0.3) / np.sqrt(bins) * np.ones(bins)
    rough = rng.normal(size=(bins, bins)) * noise
    found = between - np.outer(level, level) + rough + rough.T
    np.fill_diagonal(found, 0.0)
    found += np.diag(np.abs(found).sum(axis=1) + rng.uniform(0.001, 0.1))
    return on_changes(found)


def paths(bins: int, case: BinCase) -> Iterator[Floats]:
    """Every alternating path of changes."""
    changes, span = case.within(bins)
    for count in range(1, changes + 1):
        for at in combinations(range(bins), count):
            if at[-1] - at[0] < span:
                path = np.zeros(bins)
                path[list(at)] = (-1.0) ** np.arange(count)
                yield path


def grouped_paths(bins: int, case: BinCase, *, loaded: bool) -> Iterator[Floats]:
    """Every path between as many groups as can differ: changes by group and bin."""
    for before in (False, True) if loaded else (False,):
        changes, span = case.after_load(bins) if before else case.within(bins)
        for count in range(changes + 1):
            for at in combinations(range(bins), count):
                if count and at[-1] - at[0] >= span:
                    continue
                for groups in product(range(-1, min(changes + before, 4)), repeat=count):
                    path = np.zeros((changes + 1, bins))
                    now = 0 if before else -1
                    for change, group in zip(at, groups, strict=True):
                        if now >= 0:
                            path[now, change] -= 1
                        if group >= 0:
                            path[group, change] += 1
                        now = group
                    yield path


CASES = [
    BinCase(1, None),
    BinCase(2, None),
    BinCase(3, None),
    BinCase(4, None),
    BinCase(5, None),
    BinCase(None, 3),
    BinCase(None, 5),
    BinCase(3, 5),
    BinCase(4, 6),
    BinCase(None, None),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_path_adds_up_to_more(case: BinCase) -> None:
    rng = np.random.default_rng(1)
    for bins in (2, 5, 9, 12):
        for gram in (any_gram(rng, bins), *(formed_gram(rng, bins, noise) for noise in (0, 1e-7, 0.02))):
            most = max(path @ gram @ path for path in paths(bins, case))
            assert most <= dense_paths(gram, case=case)


@pytest.mark.parametrize("case", [BinCase(3, None), BinCase(4, None), BinCase(7, None)], ids=str)
def test_the_bound_is_not_far_off_for_the_form_of_an_optimum(case: BinCase) -> None:
    rng = np.random.default_rng(2)
    for _ in range(4):
        gram = formed_gram(rng, 12)
        most = max(path @ gram @ path for path in paths(12, case))
        assert dense_paths(gram, case=case) <= 1.1 * most
        assert most <= most_energy(gram, case) <= 1.03**2 * most  # what a strategy takes


@pytest.mark.parametrize("loaded", [False, True], ids=["from nothing", "loaded"])
@pytest.mark.parametrize(
    "case",
    [BinCase(1, None), BinCase(2, None), BinCase(3, None), BinCase(4, None), BinCase(None, 2), BinCase(3, 3)],
    ids=str,
)
def test_no_life_in_groups_adds_up_to_more(case: BinCase, loaded: bool) -> None:
    rng = np.random.default_rng(3)
    for bins in (2, 4, 5):
        for gram in (any_gram(rng, bins), formed_gram(rng, bins), formed_gram(rng, bins, 0.05)):
            most = max(
                float(((path @ gram) * path).sum()) for path in grouped_paths(bins, case, loaded=loaded)
            )
            assert most <= dense_groups(gram, case=case, loaded=loaded)
            if not loaded and (levels(gram)[~np.eye(bins, dtype=bool)] <= 0).all():
                assert dense_groups(gram, case=case) == pytest.approx(most, rel=2e-6)


@pytest.mark.parametrize(
    "case", [BinCase(3, None), BinCase(4, 3), BinCase(None, 3), BinCase(None, None)], ids=str
)
def test_an_entry_that_was_there_goes_and_comes_back(case: BinCase) -> None:
    """Columns that point away from each other: an interval that ends weighs more than one that does not."""
    rng = np.random.default_rng(8)
    for bins in (2, 3, 4):
        for _ in range(25):
            matrix = np.tril(rng.integers(-1, 2, size=(bins, bins))).astype(np.float64)
            gram = matrix.T @ matrix
            most = max(float(((path @ gram) * path).sum()) for path in grouped_paths(bins, case, loaded=True))
            assert most <= dense_groups(gram, case=case, loaded=True)


def test_bins_that_no_reading_sees() -> None:
    """A window in which no change is measured bounds nothing, and is no reason to stop."""
    gram = np.diag([1.0, 0, 0, 0, 0, 1])
    assert dense_paths(gram, case=BinCase(None, 2)) == pytest.approx(1, rel=1e-3)


def test_windows_as_a_whole_and_one_by_one() -> None:
    """A span of few bins is nearly exact; for all bins at once it is the relaxation of all signs."""
    rng = np.random.default_rng(4)
    for bins, span in ((12, 4), (14, 8), (10, 10)):
        for gram in (any_gram(rng, bins), formed_gram(rng, bins)):
            most = max(path @ gram @ path for path in paths(bins, BinCase(None, span)))
            assert most <= any_changes(gram, span) <= 1.15 * most


@pytest.mark.parametrize(
    ("bins", "changes", "span"), [(64, 4, 64), (128, 8, 128), (64, 12, 12), (96, 24, 24)]
)
def test_the_worst_path_found_is_nearly_as_bad(bins: int, changes: int, span: int) -> None:
    rng = np.random.default_rng(5)
    gram = formed_gram(rng, bins)
    crowd = Switches(bins, span) if changes == span else Crowd(bins, changes, span)
    found = max(crowd.most(gram) for _ in range(3))
    assert found <= dense_paths(gram, case=BinCase(changes, span)) <= found * 1.03**2


def test_a_wrong_bound_would_be_noticed() -> None:
    """With one change fewer, or one bin less in the span, the bound is too small."""
    gram = formed_gram(np.random.default_rng(6), 12)
    for right, wrong in ((BinCase(4, None), BinCase(3, None)), (BinCase(None, 5), BinCase(None, 4))):
        most = max(path @ gram @ path for path in paths(12, right))
        assert most > dense_paths(gram, case=wrong)


def test_levels_and_changes() -> None:
    rng = np.random.default_rng(7)
    gram = any_gram(rng, 9)
    assert on_changes(levels(gram)) == pytest.approx(gram)
    path = np.array([0, 1, 0, -1, 0, 1, 0, 0, 0.0])
    assert path.cumsum() @ levels(gram) @ path.cumsum() == pytest.approx(path @ gram @ path)
    level = rng.uniform(0.5, 1, size=30)
    assert shared_level(-np.outer(level, level), 8) == pytest.approx(level, rel=1e-3)
    assert not shared_level(gram, 9).any()


def test_measurements_of_nothing() -> None:
    nothing = np.zeros((4, 4))
    assert dense_paths(nothing, case=BinCase(3, None)) == 0
    assert dense_groups(nothing, case=BinCase(3, None)) == 0
