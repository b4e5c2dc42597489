"""T10: bounds on what an entry's path can do, against every path there is in small worlds."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np
import pytest

import tidegauge.theory.toeplitz_paths as convex
from tidegauge.errors import SpecError
from tidegauge.model.constraint import AtMost, Unconstrained, Within
from tidegauge.model.quantity import DAY, Span
from tidegauge.model.schedule import Schedule
from tidegauge.theory import tree_paths
from tidegauge.theory.gram_paths import gram_groups, gram_paths
from tidegauge.theory.paths import Limits, limits
from tidegauge.theory.toeplitz_paths import falling_paths, toeplitz_groups, toeplitz_paths, toeplitz_signs
from tidegauge.theory.tree_paths import Costs, hierarchy_paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

DAILY = Span(micros=DAY)


def lives(bins: int, limit: Limits) -> Iterator[tuple[int, ...]]:
    """Every set of bins in which an entry may change, straight from the definition."""
    yield ()
    for first in range(bins):
        later = range(first + 1, bins if limit.bins is None else min(first + limit.bins, bins))
        for more in range(len(later) + 1 if limit.jumps is None else limit.jumps):
            yield from ((first, *rest) for rest in combinations(later, more))


def worst_energy(gram: Floats, limit: Limits) -> float:
    best = 0.0
    for changed in lives(len(gram), limit):
        signs = (-1.0) ** np.arange(len(changed))
        best = max(best, float(signs @ gram[np.ix_(changed, changed)] @ signs))
    return best


def worst_in_groups(gram: Floats, limit: Limits, groups: int, *, loaded: bool = False) -> float:
    """Every walk through nothing and so many groups; loaded: the first change may come before the first bin."""
    best, bins = 0.0, len(gram)
    starts = [(0, limit)]
    if loaded and limit.jumps != 1 and limit.bins != 1:
        fewer = Limits(*(None if most is None else most - 1 for most in limit))
        starts.append((1, fewer))
    for start, left in starts:
        for walk in product(range(groups + 1), repeat=bins):
            states = np.array([start, *walk])
            changed = np.flatnonzero(np.diff(states))
            if left.jumps is not None and len(changed) > left.jumps:
                continue
            if len(changed) and left.bins is not None:
                last_allowed = left.bins if start else changed[0] + left.bins
                if changed[-1] >= last_allowed:
                    continue
            inside = np.array([states == group for group in range(1, groups + 1)], dtype=float)
            moves = np.diff(inside, axis=1)
            best = max(best, float(np.einsum("gi,ij,gj->", moves, gram, moves)))
    return best


def whitened_gram(coefficients: Floats, offset: float) -> Floats:
    """Straight from the definition: levels with white noise through the Toeplitz rows, and one draw on all of them."""
    count = len(coefficients)
    matrix = np.array([[coefficients[t - j] if t >= j else 0.0 for j in range(count)] for t in range(count)])
    seen = matrix @ np.eye(count)[:, 0]  # a draw on the level throughout is a change in the first bin
    precision = np.linalg.inv(np.eye(count) + offset * np.outer(seen, seen))
    gram: Floats = matrix.T @ precision @ matrix
    return gram


def convex_series(rng: np.random.Generator, count: int) -> Floats:
    falls = np.sort(rng.exponential(1.0, count - 1) ** rng.uniform(0.5, 3))[::-1]
    series = np.concatenate([np.cumsum(falls[::-1])[::-1], [0.0]]) + rng.choice([0.0, rng.uniform(0, 1)])
    result: Floats = series / series[0]
    return result


def some_limits(rng: np.random.Generator, count: int) -> Limits:
    jumps = int(rng.integers(1, count + 1)) if rng.random() < 0.6 else None
    bins = int(rng.integers(1, count + 1)) if rng.random() < 0.5 else None
    return Limits(jumps, bins)


def test_limits_of_constraints() -> None:
    schedule = Schedule(0, DAILY, 100)
    assert limits(AtMost(3), schedule) == (Limits(3, None),)
    assert limits(Within("30 days"), schedule) == (Limits(None, 31),)
    assert limits(Within("36 hours"), schedule) == (Limits(None, 3),)
    assert limits(AtMost(3) & Within("2 days"), schedule) == (Limits(3, 3),)
    assert set(limits(AtMost(3) | Within("2 days"), schedule)) == {Limits(3, None), Limits(None, 3)}
    assert limits(Unconstrained(), schedule) == (Limits(None, None),)
    assert limits(AtMost(3), Schedule(0, DAILY, None)) == (Limits(3, None),)


def test_limits_of_months() -> None:
    monthly = Span(months=1)
    assert limits(Within("59 days"), Schedule(0, monthly, 24)) == (
        Limits(None, 3),
    )  # January and February 1970
    assert limits(Within("60 days"), Schedule(0, monthly, 24)) == (Limits(None, 4),)
    assert limits(Within("59 days"), Schedule(0, monthly, None)) == (
        Limits(None, 4),
    )  # two Februaries, for all we know


@pytest.mark.parametrize("constraint", [Unconstrained(), AtMost(2) | Unconstrained()])
def test_limits_refuse_what_is_unbounded(constraint: AtMost) -> None:
    with pytest.raises(SpecError, match="nothing bounds the loss"):
        limits(constraint, Schedule(0, DAILY, None))


def test_limits_refuse_plain_numbers() -> None:
    with pytest.raises(SpecError, match="length of time"):
        limits(Within(30), Schedule(0, DAILY, 10))


# --- hierarchies


def worst_in_tree(
    cost: Callable[[int, int], Fraction],
    states: tuple[int, ...],
    *,
    weights: list[Fraction],
    base: Fraction,
    branching: int,
    leaves: int,
    limit: Limits,
) -> Fraction:
    nodes = [
        (weight, index * branching**layer + 1, (index + 1) * branching**layer + 1)
        for layer, weight in enumerate(weights)
        for index in range(leaves // branching**layer)
    ]
    best = Fraction(0)
    for changed in lives(leaves + 1, limit):
        for values in product(states, repeat=len(changed)):
            path = [0] * (leaves + 2)
            for bin_, value in zip(changed, values, strict=True):
                path[bin_ + 1 :] = [value] * (leaves + 1 - bin_)
            total = base * cost(path[0], path[1])
            best = max(best, total + sum(w * cost(path[start], path[end]) for w, start, end in nodes))
    return best


def costs(states: tuple[int, ...], power: int) -> Costs:
    return Costs(tuple(tuple(Fraction(abs(u - v) ** power) for v in states) for u in states))


@pytest.mark.parametrize("states", [(0, 1), (0, -1, 2), (0, -2, 2)])
@pytest.mark.parametrize("power", [1, 2])
def test_hierarchy_paths_are_exact(states: tuple[int, ...], power: int) -> None:
    rng = np.random.default_rng(len(states) + power)
    for _ in range(12):
        branching, height = int(rng.integers(2, 5)), int(rng.integers(1, 4))
        leaves = int(rng.integers(1, 8 if len(states) == 2 else 6))
        weights = [Fraction(int(rng.integers(1, 9)), int(rng.integers(1, 4))) for _ in range(height)]
        base, limit = Fraction(int(rng.integers(0, 4)), 2), some_limits(rng, leaves + 1)
        shape = {"weights": weights, "base": base, "branching": branching, "leaves": leaves}
        worst = worst_in_tree(lambda u, v: Fraction(abs(u - v) ** power), states, limit=limit, **shape)  # type: ignore[arg-type]
        assert hierarchy_paths(costs(states, power), limits=limit, **shape) == worst  # type: ignore[arg-type]


def test_hierarchy_paths_in_groups() -> None:
    rng = np.random.default_rng(0)

    def cost(u: int, v: int) -> Fraction:
        return Fraction(0 if u == v else 2 if 0 in (u, v) else 3)

    table = Costs(((Fraction(0), Fraction(2)), (Fraction(2), Fraction(0))), Fraction(3))
    for _ in range(15):
        branching, height, leaves = int(rng.integers(2, 4)), int(rng.integers(1, 4)), int(rng.integers(1, 5))
        weights = [Fraction(int(rng.integers(1, 9))) for _ in range(height)]
        limit = Limits(
            int(rng.integers(1, 4)), None if rng.random() < 0.5 else int(rng.integers(1, leaves + 2))
        )
        shape = {"weights": weights, "base": Fraction(3), "branching": branching, "leaves": leaves}
        worst = worst_in_tree(cost, (0, 1, 2, 3), limit=limit, **shape)  # type: ignore[arg-type]
        assert hierarchy_paths(table, limits=limit, **shape) == worst  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [Limits(3, None), Limits(None, 3), Limits(2, 4)])
def test_hierarchy_without_end_is_a_long_one(limit: Limits) -> None:
    for branching, height in [(2, 3), (3, 2), (2, 1)]:
        shape = {
            "weights": [Fraction(j + 1) for j in range(height)],
            "base": Fraction(1),
            "branching": branching,
        }
        ever = hierarchy_paths(costs((0, 1), 1), leaves=None, limits=limit, **shape)  # type: ignore[arg-type]
        long = hierarchy_paths(costs((0, 1), 1), leaves=40, limits=limit, **shape)  # type: ignore[arg-type]
        assert ever == long


def test_hierarchy_without_end_needs_a_limit() -> None:
    with pytest.raises(SpecError, match="nothing bounds"):
        hierarchy_paths(
            costs((0, 1), 1),
            weights=[Fraction(1)],
            base=Fraction(1),
            branching=2,
            leaves=None,
            limits=Limits(None, None),
        )


def test_awkward_weights_are_rounded_up() -> None:
    weights = [Fraction(10**12 + 1, 10**12), Fraction(1, 7)]
    shape = {"base": Fraction(0), "branching": 2, "leaves": 8, "limits": Limits(3, None)}
    found = hierarchy_paths(costs((0, 1), 1), weights=weights, **shape)  # type: ignore[arg-type]
    exact = worst_in_tree(
        lambda u, v: Fraction(u != v),
        (0, 1),
        weights=weights,
        base=Fraction(0),
        branching=2,
        leaves=8,
        limit=Limits(3, None),
    )
    assert exact <= found <= exact * (1 + Fraction(1, 2**25))


@pytest.mark.parametrize("kind", ["plain", "signs", "groups"])
def test_many_changes_have_a_price_instead_of_a_count(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never below what counting them finds, and within 3 % of it in length."""
    table = {
        "plain": costs((0, 1), 1),
        "signs": costs((0, -2, 3), 2),
        "groups": Costs(((Fraction(0), Fraction(1)), (Fraction(1), Fraction(0))), Fraction(2)),
    }[kind]
    rng = np.random.default_rng(8)
    monkeypatch.setattr(tree_paths, "_POSITIONS", 2**16)
    for reached in (False, True, True):
        for _ in range(6):
            jumps = int(rng.integers(25, 40)) if reached else int(rng.integers(65, 120))
            reach = int(rng.integers(jumps, 100)) if reached else None
            weights = [Fraction(int(rng.integers(1, 20)), 8) for _ in range(rng.integers(1, 5))]
            shape = {
                "weights": weights,
                "base": Fraction(int(rng.integers(0, 16)), 8),
                "branching": int(rng.integers(2, 6)),
                "leaves": int(rng.integers(reach or jumps, 160)),
                "limits": Limits(jumps, reach),
            }
            found = hierarchy_paths(table, **shape)  # type: ignore[arg-type]
            with monkeypatch.context() as counted:
                counted.setattr(tree_paths, "_COUNTED", 200)
                counted.setattr(tree_paths, "_COUNTED_WITHIN", 200)
                exact = hierarchy_paths(table, **shape)  # type: ignore[arg-type]
            assert exact <= found <= exact * Fraction(103, 100)


def test_a_price_is_never_too_low_for_few_changes_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bound against every path there is."""
    monkeypatch.setattr(tree_paths, "_COUNTED", 0)
    monkeypatch.setattr(tree_paths, "_COUNTED_WITHIN", 0)
    rng = np.random.default_rng(9)
    for _ in range(12):
        leaves = int(rng.integers(2, 8))
        limit = Limits(int(rng.integers(1, leaves)), some_limits(rng, leaves).bins)
        shape = {
            "weights": [Fraction(int(rng.integers(1, 9))) for _ in range(rng.integers(1, 4))],
            "base": Fraction(int(rng.integers(0, 4)), 2),
            "branching": int(rng.integers(2, 4)),
            "leaves": leaves,
        }
        worst = worst_in_tree(lambda u, v: Fraction(u != v), (0, 1), limit=limit, **shape)  # type: ignore[arg-type]
        assert worst <= hierarchy_paths(costs((0, 1), 1), limits=limit, **shape)  # type: ignore[arg-type]


# --- matrices


def test_toeplitz_paths_match_every_path() -> None:
    rng = np.random.default_rng(1)
    for _ in range(80):
        count = int(rng.integers(2, 10))
        series, offset = convex_series(rng, count), float(rng.choice([0.0, rng.uniform(0.01, 1)]))
        limit = some_limits(rng, count)
        worst = worst_energy(whitened_gram(series, offset), limit)
        found = toeplitz_paths(series, limits=limit, offset=offset)
        assert worst <= found <= worst * 1.001


def test_certified_bound_is_never_below(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is used where there are too many paths to try them all."""
    monkeypatch.setattr(convex, "affordable", lambda **_: False)
    rng = np.random.default_rng(2)
    for coarse in (False, True):
        for _ in range(60):
            count = int(rng.integers(3, 10))
            series, offset = convex_series(rng, count), float(rng.choice([0.0, rng.uniform(0.01, 1)]))
            limit = some_limits(rng, count)
            worst = worst_energy(whitened_gram(series, offset), limit)
            assert worst <= toeplitz_paths(series, limits=limit, offset=offset, coarse=coarse)


@pytest.mark.parametrize(
    ("beta", "offset", "limit"),
    [
        (0.9, 0.15, Limits(4, None)),
        (0.95, 0.2, Limits(3, None)),
        (1.0, 0.0, Limits(4, None)),
        (0.98, 0.1, Limits(4, 20)),
        (1.0, 0.1, Limits(None, 7)),
    ],
)
def test_certified_bound_is_tight(
    beta: float, offset: float, limit: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within 3 % of the worst path, for the shapes that are used."""
    monkeypatch.setattr(convex, "affordable", lambda **_: False)
    count = 26
    steps = np.arange(1, count)
    series = np.cumsum(np.concatenate([[1.0], np.cumprod((steps - 1.5) / steps * beta)]))
    worst = worst_energy(whitened_gram(series, offset), limit)
    found = toeplitz_paths(series, limits=limit, offset=offset)
    assert worst <= found <= worst * 1.03**2


@pytest.mark.parametrize("limit", [Limits(80, None), Limits(61, 90), Limits(200, 300)])
@pytest.mark.parametrize(("beta", "offset"), [(0.8, 0.1), (0.999, 0.0)])
def test_many_stretches_need_not_be_chained_one_by_one(
    limit: Limits, beta: float, offset: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = np.arange(1, 400)
    series = np.cumsum(np.concatenate([[1.0], np.cumprod((steps - 1.5) / steps * beta)]))
    found = toeplitz_paths(series, limits=limit, offset=offset)
    monkeypatch.setattr(convex, "_CHAINED", 10**6)
    chained = toeplitz_paths(series, limits=limit, offset=offset)
    assert chained * 0.9999 <= found <= chained * 1.001


def test_any_toeplitz_and_any_matrix() -> None:
    rng = np.random.default_rng(3)
    for _ in range(40):
        count = int(rng.integers(2, 8))
        series, limit = rng.normal(size=count), some_limits(rng, count)
        worst = worst_energy(whitened_gram(series, 0.0), limit)
        assert worst <= toeplitz_paths(series, limits=limit) <= worst * 1.001
        matrix = np.tril(rng.normal(size=(count, count)))
        worst = worst_energy(matrix.T @ matrix, limit)
        assert worst <= gram_paths(matrix.T @ matrix, limits=limit) <= worst * 1.001


def test_bounds_for_many_changes_of_any_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convex, "affordable", lambda **_: False)
    monkeypatch.setattr("tidegauge.theory.gram_paths.affordable", lambda **_: False)
    rng = np.random.default_rng(4)
    for falling in (False, True):
        for _ in range(25):
            count = int(rng.integers(3, 8))
            series = np.sort(rng.exponential(size=count))[::-1] if falling else rng.normal(size=count)
            limit, gram = some_limits(rng, count), whitened_gram(series, 0.0)
            worst = worst_energy(gram, limit)
            assert worst <= toeplitz_paths(series, limits=limit)
            assert worst <= gram_paths(gram, limits=limit)
            if falling:
                jumps, _ = limit.within(count)
                assert worst <= falling_paths(series, jumps=jumps)


@pytest.mark.parametrize("loaded", [False, True])
def test_groups(loaded: bool) -> None:
    rng = np.random.default_rng(5)
    for _ in range(10):
        count = 4
        series, offset = convex_series(rng, count), float(rng.choice([0.0, rng.uniform(0.01, 1)]))
        limit, gram = some_limits(rng, count), whitened_gram(series, offset)
        worst = worst_in_groups(gram, limit, 3, loaded=loaded)
        assert worst <= toeplitz_groups(series, limits=limit, offset=offset, loaded=loaded)
        rough = rng.normal(size=count)
        gram = whitened_gram(rough, 0.0)
        worst = worst_in_groups(gram, limit, 3, loaded=loaded)
        assert worst <= toeplitz_groups(rough, limits=limit, loaded=loaded)
        assert worst <= gram_groups(gram, limits=limit, loaded=loaded)
        falling = np.sort(rng.exponential(size=count))[::-1]
        worst = worst_in_groups(whitened_gram(falling, 0.0), limit, 3, loaded=loaded)
        assert worst <= toeplitz_groups(falling, limits=limit, loaded=loaded)


def test_values_of_both_signs() -> None:
    """Every path through nothing, `high` and `-low`; and for few changes of a measurement that forgets, nearly that much."""
    rng = np.random.default_rng(11)
    for _ in range(40):
        count = int(rng.integers(2, 7))
        series, offset = convex_series(rng, count), float(rng.choice([0.0, rng.uniform(0.01, 1)]))
        high, low = float(rng.uniform(0.2, 2)), float(rng.uniform(0.2, 2))
        limit, gram, worst = some_limits(rng, count), whitened_gram(series, offset), 0.0
        for changed in lives(count, limit):
            for values in product((0.0, high, -low), repeat=len(changed)):
                moves = np.zeros(count)
                moves[list(changed)] = np.diff([0.0, *values])
                worst = max(worst, float(moves @ gram @ moves))
        assert worst <= toeplitz_signs(series, limits=limit, high=high, low=low, offset=offset)
    series = np.cumsum(np.concatenate([[1.0], np.cumprod((np.arange(1, 8) - 1.5) / np.arange(1, 8) * 0.5)]))
    gram, worst = whitened_gram(series, 0.0), 0.0
    for changed in lives(8, Limits(3, None)):
        moves = np.zeros(8)
        moves[list(changed)] = [1.0, -2.0, 2.0][: len(changed)]
        worst = max(worst, float(moves @ gram @ moves))
    assert worst <= toeplitz_signs(series, limits=Limits(3, None), high=1, low=1) <= worst * 1.03**2


def test_refusals() -> None:
    with pytest.raises(SpecError, match="must not rise"):
        falling_paths(np.array([1.0, 2.0]), jumps=1)
    with pytest.raises(SpecError, match="shared offset"):
        toeplitz_paths(np.array([1.0, 0.9, 0.0]), limits=Limits(1, None), offset=0.1)
