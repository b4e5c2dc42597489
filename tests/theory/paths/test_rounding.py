"""Bounds are never below the exact value, and above it by roundings alone; wrong roundings are found."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tidegauge.mechanism.exposure import root_above
from tidegauge.mechanism.strategies import shapes
from tidegauge.mechanism.strategies.dense import most_energy
from tidegauge.theory.paths import rounding as _rounding
from tidegauge.theory.paths.dense import dense_groups, dense_paths
from tidegauge.theory.paths.gram import gram_paths, row_paths
from tidegauge.theory.paths.path import BinCase, Domain
from tidegauge.theory.paths.rounding import Grid, correlated, least_eigenvalue
from tidegauge.theory.paths.stationary import Stationary
from tidegauge.theory.paths.toeplitz import falling_paths, toeplitz_paths
from tidegauge.theory.paths.windows import _largest_eigenvalue

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Exact = list[list[Fraction]]

CLOSE = Fraction(1, 10**9)
ROUNDED_DOWN = pytest.mark.parametrize("wrong", [False, True], ids=["as it is", "the wrong way"])


def shape(bins: int, beta: float, white: float) -> Floats:
    return shapes.rounded_convex(shapes.damped_root(bins, beta, white), 40) / 2**40


def exactly(values: Floats) -> list[Fraction]:
    return [Fraction(float(value)) for value in values]


def covers(stated: Sequence[float] | Floats, exact: Sequence[Fraction], size: Fraction = Fraction(1)) -> bool:
    """Never below, and above by no more than a billionth of the size."""
    found = [Fraction(float(one)) - other for one, other in zip(stated, exact, strict=True)]
    return all(0 <= one <= CLOSE * size for one in found)


def rounded_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Round the wrong way."""
    up, down = Grid.up, Grid.down
    monkeypatch.setattr(Grid, "up", down)
    monkeypatch.setattr(Grid, "down", up)
    monkeypatch.setattr(_rounding, "nextafter", lambda value, _: value)
    monkeypatch.setattr(_rounding, "U", 0.0)
    monkeypatch.setattr(Stationary, "error", 0.0)


@ROUNDED_DOWN
def test_energies_of_intervals(monkeypatch: pytest.MonkeyPatch, wrong: bool) -> None:
    """Every table of the bounds for convex coefficients, against the definition in fractions."""
    if wrong:
        rounded_wrongly(monkeypatch)
    fine = True
    for bins, beta, white in ((1, 0.5, 0.0), (7, 0.9, 0.3), (24, 0.999, 0.0), (40, 1.0, 2.0)):
        coefficients = shape(bins, beta, white)
        found, a = Stationary(coefficients, changes=6), exactly(coefficients)
        d = [a[0], *(later - earlier for earlier, later in pairwise(a))]
        lag = [sum((d[u] * d[u + at] for u in range(bins - at)), Fraction(0)) for at in range(bins)]
        lag += [Fraction(0)] * (3 * bins)

        def between(first: range, second: range, lag: list[Fraction] = lag) -> Fraction:
            return sum((lag[abs(i - j)] for i in first for j in second), Fraction(0))

        size = sum((one * one for one in a), Fraction(0))
        fine &= covers(found.closed, [between(range(n), range(n)) for n in range(bins + 1)], size)
        fine &= covers(found.open, [sum((x * x for x in a[:n]), Fraction(0)) for n in range(bins + 1)], size)
        last = [sum((a[i] * a[bins - n + i] for i in range(n)), Fraction(0)) for n in range(bins + 1)]
        fine &= covers(-found.level_of_last, [-one for one in last], size)
        fine &= covers(found.most_level_of_last, last, size)
        felt = [later - earlier for earlier, later in pairwise(last)][::-1]
        fine &= covers(-found.level, [-one for one in felt], size)
        for first, gap, second in ((1, 1, 1), (1, bins, 2), (bins, 1, bins)):
            places = range(first), range(first + gap, first + gap + second)
            cross = found.cross(*(np.array([part]) for part in (first, gap, second)))
            fine &= covers(cross, [2 * between(*places)], size)
    assert fine is not wrong


def energies(gram: Exact, case: BinCase, ends: tuple[Fraction, Fraction]) -> Iterator[Fraction]:
    """Of every path between the ends, from nothing, by the definition."""
    bins = len(gram)
    most, span = case.within(bins)
    for count in range(1, most + 1):
        for changed in combinations(range(bins), count):
            if changed[-1] - changed[0] < span:
                for values in product({*ends, Fraction(0)}, repeat=count):
                    steps = [
                        now - before for before, now in zip((Fraction(0), *values), values, strict=False)
                    ]
                    path = list(zip(steps, changed, strict=True))
                    yield sum((x * y * gram[i][j] for x, i in path for y, j in path), Fraction(0))


def whitened(a: list[Fraction], offset: Fraction) -> Exact:
    """Inner products of the columns of a Toeplitz measurement, less what a shared draw hides."""
    count = len(a)
    plain = [
        [sum((a[t - i] * a[t - j] for t in range(max(i, j), count)), Fraction(0)) for j in range(count)]
        for i in range(count)
    ]
    levels = [sum((a[t - i] * a[t] for t in range(i, count)), Fraction(0)) for i in range(count)]
    hidden = offset / (1 + offset * sum(one * one for one in a))
    return [[plain[i][j] - hidden * levels[i] * levels[j] for j in range(count)] for i in range(count)]


CASES = [
    (6, 1, None, 0.0, 0.0),
    (6, 2, None, 0.05, 0.0),
    (5, 3, 4, 0.3, 0.0),
    (5, 3, None, 0.0, 0.3),
    (6, 2, 3, 0.7, 1.0),
    (1, 1, None, 0.1, 0.7),
]


@ROUNDED_DOWN
def test_toeplitz_bounds_that_try_every_path(monkeypatch: pytest.MonkeyPatch, wrong: bool) -> None:
    fine = True
    for bins, changes, span, offset, low in CASES:
        coefficients, case = shape(bins, 0.95, 0.1), BinCase(changes, span)
        gram = whitened(exactly(coefficients), Fraction(offset))
        worst = max(energies(gram, case, (Fraction(1), -Fraction(low))))
        with monkeypatch.context() as changed:
            if wrong:
                rounded_wrongly(changed)
                changed.setattr("tidegauge.theory.paths.toeplitz._off", lambda *_: -(2.0**-45))
                changed.setattr("tidegauge.theory.paths.enumeration.dot_error", lambda *_: -(2.0**-45))
            found = toeplitz_paths(coefficients, case=case, domain=Domain(1.0, low), offset=offset)
        fine &= covers([found], [worst], worst)
    assert fine is not wrong


@pytest.mark.parametrize("seed", range(6))
def test_bounds_of_longer_paths_are_never_below_the_worst(seed: int) -> None:
    """Bounds that do not try every path, each against all paths in fractions."""
    rng = np.random.default_rng(seed)
    bins, changes = 7, int(rng.integers(2, 6))
    span = None if rng.random() < 0.4 else int(rng.integers(changes, bins + 1))
    coefficients = shape(bins, float(rng.uniform(0.5, 1)), float(rng.choice([0.0, 0.4])))
    offset = float(rng.choice([0.0, 0.2]))
    low, case = float(rng.choice([0.0, 0.3, 1.0])), BinCase(changes, span)
    gram = whitened(exactly(coefficients), Fraction(offset))
    worst = max(energies(gram, case, (Fraction(1), -Fraction(low))))
    floats = np.array([[float(one) for one in row] for row in gram])
    with pytest.MonkeyPatch.context() as few:
        for module in ("toeplitz", "gram"):
            few.setattr(f"tidegauge.theory.paths.{module}.affordable", lambda **_: False)
        found = [toeplitz_paths(coefficients, case=case, domain=Domain(1.0, low), offset=offset)]
        found.append(most_energy(floats, case, Domain(1.0, low)) * (1 + 1e-15))
    assert all(Fraction(one) >= worst for one in found)


@ROUNDED_DOWN
def test_any_matrix(monkeypatch: pytest.MonkeyPatch, wrong: bool) -> None:
    """Two changes, and few enough paths, of a matrix of whole numbers."""
    rng, fine = np.random.default_rng(3), True
    for _ in range(6):
        rows = np.tril(rng.integers(-(2**20), 2**20, (5, 5)))
        whole = (rows.T @ rows).tolist()
        gram = [[Fraction(one, 3) for one in row] for row in whole]
        floats = np.array([[float(one) for one in row] for row in gram])
        exact = [exactly(row) for row in floats]
        for case, low in ((BinCase(2, None), 0.0), (BinCase(3, 4), 0.0), (BinCase(3, None), 0.3)):
            worst = max(energies(exact, case, (Fraction(1), -Fraction(low))))
            with monkeypatch.context() as changed:
                if wrong:
                    rounded_wrongly(changed)
                    for module in ("paths.bounds", "paths.enumeration"):
                        changed.setattr(f"tidegauge.theory.{module}.U", -(2.0**-50), raising=False)
                        changed.setattr(
                            f"tidegauge.theory.{module}.dot_error",
                            lambda terms, size: -(2.0**-50) * size * terms,
                        )
                found = gram_paths(floats, case=case, domain=Domain(1.0, low))
            fine &= covers([found], [worst], worst)
    assert fine is not wrong


def test_full_matrices_are_never_below_the_worst_path() -> None:
    rng = np.random.default_rng(4)
    for _ in range(10):
        root = np.tril(rng.integers(0, 2**10, (6, 6))) + 2**10 * np.eye(6, dtype=np.int64)
        gram = (root.T @ root).astype(np.float64)
        exact = [exactly(row) for row in gram]
        for case in (BinCase(3, None), BinCase(4, 5), BinCase(None, 3)):
            on_off = max(energies(exact, case, (Fraction(1), Fraction(0))))
            assert Fraction(dense_paths(gram, case=case)) >= on_off
            assert Fraction(dense_groups(gram, case=case)) >= on_off


def test_sums_and_lengths_of_given_rows() -> None:
    rows = np.array([[1.0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]])
    found = row_paths(rows, case=BinCase(2, None), domain=Domain(1.0, 0.3))
    assert found is not None
    assert covers([found[0]], [2 * (1 + Fraction(0.3))], Fraction(3)) or found[0] >= 2.6
    gram = [exactly(row) for row in rows.T @ rows]
    worst = max(energies(gram, BinCase(2, None), (Fraction(1), -Fraction(0.3))))
    assert covers([found[1]], [worst], worst)


def test_many_changes_of_a_falling_measurement() -> None:
    a = shape(50, 0.99, 0.1)
    exact = 5 * sum((one * one for one in exactly(a)), Fraction(0))
    assert covers([falling_paths(a, changes=5)], [exact], exact)


@ROUNDED_DOWN
def test_correlations_by_either_way(wrong: bool) -> None:
    """Off by no more than is said; with a twin that says a ten-thousandth of it."""
    fine = True
    for quick in (False, True):
        a = shape(300, 0.999, 0.2) * (1 + 1e-9)
        found, error = correlated(a, a, quick=quick)
        if wrong:
            error /= 10**4
        b = exactly(a)
        exact = [sum((b[u] * b[u + at] for u in range(300 - at)), Fraction(0)) for at in (0, 1, 17, 299)]
        off = [abs(Fraction(float(found[at])) - one) for at, one in zip((0, 1, 17, 299), exact, strict=True)]
        fine &= max(off) <= Fraction(error) <= CLOSE * exact[0]
    assert fine is not wrong


def semidefinite(matrix: Exact) -> bool:
    """Whether no eigenvalue is negative, by elimination in fractions."""
    rows = [row[:] for row in matrix]
    for at in range(len(rows)):
        if rows[at][at] < 0 or (rows[at][at] == 0 and any(rows[at][at:])):
            return False
        for below in range(at + 1, len(rows)):
            if rows[at][at]:
                factor = rows[below][at] / rows[at][at]
                rows[below] = [one - factor * other for one, other in zip(rows[below], rows[at], strict=True)]
    return True


def test_least_eigenvalues_are_proved() -> None:
    rng = np.random.default_rng(5)
    for count in (1, 2, 6, 9):
        for flat in (False, True):
            half = rng.normal(size=(count, 1 if flat else count))
            matrix = half @ half.T
            matrix = (matrix + matrix.T) / 2
            found = least_eigenvalue(matrix)
            exact = [exactly(row) for row in matrix]

            def less(by: float, exact: Exact = exact) -> Exact:
                return [
                    [one - (Fraction(by) if i == j else 0) for j, one in enumerate(row)]
                    for i, row in enumerate(exact)
                ]

            assert semidefinite(less(found))
            assert not semidefinite(less(found + 1e-9 * float(np.abs(matrix).max()) * count**2))


def test_the_largest_eigenvalue_is_not_below_that_of_any_part() -> None:
    for bins in (3, 12, 30):
        found = Stationary(shape(bins, 0.97, 0.2))
        lag = exactly(found.lagged)
        bound = Fraction(_largest_eigenvalue(found))
        part = [[(bound if i == j else 0) - lag[abs(i - j)] / 4 for j in range(bins)] for i in range(bins)]
        assert semidefinite([[Fraction(one) for one in row] for row in part])


def test_roots_are_rounded_up() -> None:
    for square in (Fraction(0), Fraction(2), Fraction(1, 3), Fraction(10**40 + 1, 7), Fraction(1, 10**50)):
        found = root_above(square)
        assert square <= found**2 <= square * (1 + Fraction(1, 2**58))
