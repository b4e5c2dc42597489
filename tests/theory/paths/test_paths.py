"""T10: bounds on the path of one unit, against every path in small worlds."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np
import pytest

import tidegauge.theory.paths.toeplitz as convex
from tidegauge.errors import SpecError
from tidegauge.mechanism.strategies.shapes import damped_root, rounded_convex
from tidegauge.model.constraint import AtMost, Unconstrained, Within
from tidegauge.model.quantity import DAY, Exact, Span
from tidegauge.model.schedule import Schedule
from tidegauge.theory.paths import on_intervals
from tidegauge.theory.paths import tree as tree_paths
from tidegauge.theory.paths.autoregressive import (
    AutoregressiveRows,
    _from,
    _most,
    _Paths,
    autoregressive_paths,
)
from tidegauge.theory.paths.enumeration import every_path
from tidegauge.theory.paths.gram import gram_paths, row_paths
from tidegauge.theory.paths.path import BinCase, Domain, bin_cases, bins_ending
from tidegauge.theory.paths.toeplitz import falling_paths, toeplitz_paths
from tidegauge.theory.paths.tree import Costs, hierarchy_paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

DAILY = Span(micros=DAY)


def changed_bins(bins: int, case: BinCase) -> Iterator[tuple[int, ...]]:
    """Every set of bins in which a unit may change, straight from the definition."""
    yield ()
    for first in range(bins):
        later = range(first + 1, bins if case.bins is None else min(first + case.bins, bins))
        for more in range(len(later) + 1 if case.changes is None else case.changes):
            yield from ((first, *rest) for rest in combinations(later, more))


def worst_energy(gram: Floats, case: BinCase) -> float:
    best = 0.0
    for changed in changed_bins(len(gram), case):
        signs = (-1.0) ** np.arange(len(changed))
        best = max(best, float(signs @ gram[np.ix_(changed, changed)] @ signs))
    return best


def walks(bins: int, case: BinCase, domain: Domain) -> Iterator[Floats]:
    """Every path, as its changes by group and bin; loaded: the first may come before the first bin."""
    nothing = np.zeros(domain.groups)
    places = [nothing]
    for group, value in product(range(domain.groups), {domain.high, -domain.low} - {0.0}):
        places.append(value * np.eye(domain.groups)[group])
    starts = [(nothing, case)]
    if domain.loaded and case.changes != 1 and case.bins != 1:
        fewer = BinCase(*(None if most is None else most - 1 for most in case))
        starts += [(place, fewer) for place in places[1:]]
    for start, left in starts:
        for walk in product(range(len(places)), repeat=bins):
            moved = np.diff([start, *(places[place] for place in walk)], axis=0).T
            changed = np.flatnonzero(moved.any(axis=0))
            if left.changes is not None and len(changed) > left.changes:
                continue
            if len(changed) and left.bins is not None:
                first = changed[0] if start is nothing else 0
                if changed[-1] >= first + left.bins:
                    continue
            yield moved


def worst_walk(gram: Floats, case: BinCase, domain: Domain) -> float:
    return max(float(np.einsum("gi,ij,gj->", moved, gram, moved)) for moved in walks(len(gram), case, domain))


def best_found(gram: Floats, weights: list[float], span: int | None, rng: np.random.Generator) -> float:
    """The worst path found with these changes, by shifting one change after the other, from many starts."""
    bins, count, weight = len(gram), len(weights), np.array(weights)
    room, best = min(span or bins, bins), 0.0
    for _ in range(40):
        first = int(rng.integers(0, bins - room + 1))
        at = first + np.sort(rng.choice(room, count, replace=False))
        before, found = -1.0, 0.0
        while found > before + 1e-12:
            before = found
            for p in range(count):
                low = max(at[p - 1] + 1 if p else 0, 0 if p == count - 1 else at[-1] - room + 1)
                high = min(at[p + 1] if p < count - 1 else bins, bins if p == 0 else at[0] + room)
                others = np.arange(count) != p
                gains = weight[p] ** 2 * gram.diagonal() + 2 * weight[p] * (
                    gram[:, at[others]] @ weight[others]
                )
                at[p] = low + np.argmax(gains[low:high])
            found = float(weight @ gram[np.ix_(at, at)] @ weight)
        best = max(best, found)
    return best


def whitened_gram(coefficients: Floats, offset: float) -> Floats:
    """From the definition: levels with white noise through the Toeplitz rows, and one shared draw."""
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


def some_case(rng: np.random.Generator, count: int) -> BinCase:
    changes = int(rng.integers(1, count + 1)) if rng.random() < 0.6 else None
    bins = int(rng.integers(1, count + 1)) if rng.random() < 0.5 else None
    return BinCase(changes, bins)


def test_limits_of_constraints() -> None:
    schedule = Schedule(0, DAILY, 100)
    assert bin_cases(AtMost(3), schedule) == (BinCase(3, None),)
    assert bin_cases(Within("30 days"), schedule) == (BinCase(None, 31),)
    assert bin_cases(Within("36 hours"), schedule) == (BinCase(None, 3),)
    assert bin_cases(AtMost(3) & Within("2 days"), schedule) == (BinCase(3, 3),)
    assert set(bin_cases(AtMost(3) | Within("2 days"), schedule)) == {BinCase(3, None), BinCase(None, 3)}
    assert bin_cases(Unconstrained(), schedule) == (BinCase(None, None),)
    assert bin_cases(AtMost(3), Schedule(0, DAILY, None)) == (BinCase(3, None),)


def test_limits_of_months() -> None:
    monthly = Span(months=1)
    assert bin_cases(Within("59 days"), Schedule(0, monthly, 24)) == (
        BinCase(None, 3),
    )  # January and February 1970
    assert bin_cases(Within("60 days"), Schedule(0, monthly, 24)) == (BinCase(None, 4),)
    assert bin_cases(Within("59 days"), Schedule(0, monthly, None)) == (
        BinCase(None, 4),
    )  # two Februaries, for all we know


@pytest.mark.parametrize("every", [Span(months=1), Span(months=3), DAILY])
@pytest.mark.parametrize("count", [1, 2, 12, 13, 30])
@pytest.mark.parametrize("days", [1, 59, 365, 366])
def test_bins_that_end_in_a_term(every: Span, count: int, days: int) -> None:
    schedule, length = Schedule(0, every, count), days * DAY
    ends = [schedule.bin_end(index) for index in range(count)]
    begins = {end + early for end in ends for early in (0, 1 - length)}
    most = max(sum(begin <= end < begin + length for end in ends) for begin in begins)
    found = bins_ending(Exact(Fraction(length), temporal=True), schedule)
    assert found == most if every.months else min(found, count) == most
    assert most <= bins_ending(Exact(Fraction(length), temporal=True), Schedule(0, every, None))


@pytest.mark.parametrize("constraint", [Unconstrained(), AtMost(2) | Unconstrained()])
def test_limits_refuse_what_is_unbounded(constraint: AtMost) -> None:
    with pytest.raises(SpecError, match="nothing bounds the loss"):
        bin_cases(constraint, Schedule(0, DAILY, None))


def test_limits_refuse_plain_numbers() -> None:
    with pytest.raises(SpecError, match="length of time"):
        bin_cases(Within(30), Schedule(0, DAILY, 10))


# --- hierarchies


def worst_in_tree(
    cost: Callable[[int, int], Fraction],
    states: tuple[int, ...],
    *,
    weights: list[Fraction],
    base: Fraction,
    branching: int,
    leaves: int,
    case: BinCase,
) -> Fraction:
    nodes = [
        (weight, index * branching**layer + 1, (index + 1) * branching**layer + 1)
        for layer, weight in enumerate(weights)
        for index in range(leaves // branching**layer)
    ]
    best = Fraction(0)
    for changed in changed_bins(leaves + 1, case):
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
        base, case = Fraction(int(rng.integers(0, 4)), 2), some_case(rng, leaves + 1)
        shape = {"weights": weights, "base": base, "branching": branching, "leaves": leaves}
        worst = worst_in_tree(
            lambda u, v: Fraction(abs(u - v) ** power),
            states,
            case=case,
            **shape,  # type: ignore[arg-type]
        )
        assert hierarchy_paths(costs(states, power), case=case, **shape) == worst  # type: ignore[arg-type]


def test_hierarchy_paths_in_groups() -> None:
    rng = np.random.default_rng(0)

    def cost(u: int, v: int) -> Fraction:
        return Fraction(0 if u == v else 2 if 0 in (u, v) else 3)

    table = Costs(((Fraction(0), Fraction(2)), (Fraction(2), Fraction(0))), Fraction(3))
    for _ in range(15):
        branching, height, leaves = int(rng.integers(2, 4)), int(rng.integers(1, 4)), int(rng.integers(1, 5))
        weights = [Fraction(int(rng.integers(1, 9))) for _ in range(height)]
        case = BinCase(
            int(rng.integers(1, 4)), None if rng.random() < 0.5 else int(rng.integers(1, leaves + 2))
        )
        shape = {"weights": weights, "base": Fraction(3), "branching": branching, "leaves": leaves}
        worst = worst_in_tree(cost, (0, 1, 2, 3), case=case, **shape)  # type: ignore[arg-type]
        assert hierarchy_paths(table, case=case, **shape) == worst  # type: ignore[arg-type]


@pytest.mark.parametrize("case", [BinCase(3, None), BinCase(None, 3), BinCase(2, 4)])
def test_hierarchy_without_end_is_a_long_one(case: BinCase) -> None:
    for branching, height in [(2, 3), (3, 2), (2, 1)]:
        shape = {
            "weights": [Fraction(j + 1) for j in range(height)],
            "base": Fraction(1),
            "branching": branching,
        }
        ever = hierarchy_paths(costs((0, 1), 1), leaves=None, case=case, **shape)  # type: ignore[arg-type]
        long = hierarchy_paths(costs((0, 1), 1), leaves=40, case=case, **shape)  # type: ignore[arg-type]
        assert ever == long


@pytest.mark.parametrize("seed", range(6))
def test_where_going_straight_costs_more_every_start_without_end_is_tried(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(6):
        low, high = int(rng.integers(1, 4)), int(rng.integers(1, 6))
        states = [(0, 0), *product((0, 1), (-low, high))]
        table = Costs(tuple(
            tuple(Fraction((v - u) ** 2 if one == other else u * u + v * v) for other, v in states)
            for one, u in states
        ))  # fmt: skip
        branching, height = [(2, 3), (2, 4), (3, 3)][rng.integers(3)]
        shape = {
            "weights": [Fraction(int(rng.integers(0, 9))) for _ in range(height)],
            "base": None,
            "branching": branching,
        }
        case = BinCase(int(rng.integers(2, 5)), int(rng.integers(2, branching ** (height - 1) + 2)))
        ever = hierarchy_paths(table, leaves=None, case=case, **shape)  # type: ignore[arg-type]
        long = hierarchy_paths(
            table,
            leaves=4 * branching ** (height - 1),
            case=case,
            **shape,  # type: ignore[arg-type]
        )
        assert ever == long


def test_hierarchy_without_end_needs_a_limit() -> None:
    with pytest.raises(SpecError, match="nothing bounds"):
        hierarchy_paths(
            costs((0, 1), 1),
            weights=[Fraction(1)],
            base=Fraction(1),
            branching=2,
            leaves=None,
            case=BinCase(None, None),
        )


def test_awkward_weights_are_rounded_up() -> None:
    weights = [Fraction(10**12 + 1, 10**12), Fraction(1, 7)]
    shape = {"base": Fraction(0), "branching": 2, "leaves": 8, "case": BinCase(3, None)}
    found = hierarchy_paths(costs((0, 1), 1), weights=weights, **shape)  # type: ignore[arg-type]
    exact = worst_in_tree(
        lambda u, v: Fraction(u != v),
        (0, 1),
        weights=weights,
        base=Fraction(0),
        branching=2,
        leaves=8,
        case=BinCase(3, None),
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
            changes = int(rng.integers(25, 40)) if reached else int(rng.integers(65, 120))
            span = int(rng.integers(changes, 100)) if reached else None
            weights = [Fraction(int(rng.integers(1, 20)), 8) for _ in range(rng.integers(1, 5))]
            shape = {
                "weights": weights,
                "base": Fraction(int(rng.integers(0, 16)), 8),
                "branching": int(rng.integers(2, 6)),
                "leaves": int(rng.integers(span or changes, 160)),
                "case": BinCase(changes, span),
            }
            found = hierarchy_paths(table, **shape)  # type: ignore[arg-type]
            with monkeypatch.context() as counted:
                counted.setattr(tree_paths, "_COUNTED", 200)
                counted.setattr(tree_paths, "_COUNTED_WITHIN", 200)
                exact = hierarchy_paths(table, **shape)  # type: ignore[arg-type]
            assert exact <= found <= exact * Fraction(103, 100)


@pytest.mark.parametrize("height", [5, 20, 36, 40])
@pytest.mark.parametrize("changes", [65, 10**6, 10**9, 10**12])
def test_sums_do_not_leave_the_64_bit_integers(height: int, changes: int) -> None:
    """Without end changes can be far apart, and each changes a node of every layer."""
    found = hierarchy_paths(
        costs((0, 1), 1),
        weights=[Fraction(1)] * height,
        base=None,
        branching=2,
        leaves=None,
        case=BinCase(changes, None),
    )
    assert changes * height <= found <= changes * height * (1 + Fraction(1, 10**6))


def test_a_span_may_be_of_any_length() -> None:
    """Three changes are as far apart as they can usefully be."""
    shape = {"weights": [Fraction(1, 2), Fraction(3)], "base": Fraction(2), "branching": 2, "leaves": None}
    for groups in (1, 3):
        far, ever = (
            hierarchy_paths(costs((0, 1), groups), case=BinCase(3, span), **shape)  # type: ignore[arg-type]
            for span in (10**12, None)
        )
        assert far == ever


def test_where_no_sum_is_exact_every_change_costs_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_paths, "_LARGEST", 1)
    shape = {"weights": [Fraction(1, 2), Fraction(3)], "base": Fraction(2), "branching": 2}
    for case, leaves, most in [
        (BinCase(3, None), None, 3),
        (BinCase(None, 4), None, 4),
        (BinCase(None, None), 7, 7),
        (BinCase(90, None), None, 90),
        (BinCase(90, 200), 150, 90),
    ]:
        found = hierarchy_paths(costs((0, 1), 1), leaves=leaves, case=case, **shape)  # type: ignore[arg-type]
        assert most * Fraction(7, 2) <= found <= most * Fraction(7, 2) + 2


@pytest.mark.parametrize("changes", [10**6, 1 << 20, 10**12])
def test_a_falling_measurement_of_any_number_of_changes(changes: int) -> None:
    found = falling_paths(np.array([1.0, 0.5]), changes=changes)
    assert changes * 1.25 <= found <= changes * 1.26


def test_a_price_is_never_too_low_for_few_changes_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bound against every path there is."""
    monkeypatch.setattr(tree_paths, "_COUNTED", 0)
    monkeypatch.setattr(tree_paths, "_COUNTED_WITHIN", 0)
    rng = np.random.default_rng(9)
    for _ in range(12):
        leaves = int(rng.integers(2, 8))
        case = BinCase(int(rng.integers(1, leaves)), some_case(rng, leaves).bins)
        shape = {
            "weights": [Fraction(int(rng.integers(1, 9))) for _ in range(rng.integers(1, 4))],
            "base": Fraction(int(rng.integers(0, 4)), 2),
            "branching": int(rng.integers(2, 4)),
            "leaves": leaves,
        }
        worst = worst_in_tree(
            lambda u, v: Fraction(u != v),
            (0, 1),
            case=case,
            **shape,  # type: ignore[arg-type]
        )
        assert worst <= hierarchy_paths(costs((0, 1), 1), case=case, **shape)  # type: ignore[arg-type]


# --- matrices


def test_toeplitz_paths_match_every_path() -> None:
    rng = np.random.default_rng(1)
    for _ in range(80):
        count = int(rng.integers(2, 10))
        series, offset = convex_series(rng, count), float(rng.choice([0.0, rng.uniform(0.01, 1)]))
        case = some_case(rng, count)
        worst = worst_energy(whitened_gram(series, offset), case)
        found = toeplitz_paths(series, case=case, offset=offset)
        assert worst <= found <= worst * 1.001


def test_certified_bound_is_never_below(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is used where there are too many paths to try them all."""
    monkeypatch.setattr(convex, "affordable", lambda **_: False)
    rng = np.random.default_rng(2)
    for coarse in (False, True):
        for _ in range(60):
            count = int(rng.integers(3, 10))
            series, offset = convex_series(rng, count), float(rng.choice([0.0, rng.uniform(0.01, 1)]))
            case = some_case(rng, count)
            worst = worst_energy(whitened_gram(series, offset), case)
            assert worst <= toeplitz_paths(series, case=case, offset=offset, coarse=coarse)


@pytest.mark.parametrize(
    ("beta", "offset", "case"),
    [
        (0.9, 0.15, BinCase(4, None)),
        (0.95, 0.2, BinCase(3, None)),
        (1.0, 0.0, BinCase(4, None)),
        (0.98, 0.1, BinCase(4, 20)),
        (1.0, 0.1, BinCase(None, 7)),
    ],
)
def test_certified_bound_is_tight(
    beta: float, offset: float, case: BinCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within 3 % of the worst path, for the shapes that are used."""
    monkeypatch.setattr(convex, "affordable", lambda **_: False)
    count = 26
    steps = np.arange(1, count)
    series = np.cumsum(np.concatenate([[1.0], np.cumprod((steps - 1.5) / steps * beta)]))
    worst = worst_energy(whitened_gram(series, offset), case)
    found = toeplitz_paths(series, case=case, offset=offset)
    assert worst <= found <= worst * 1.03**2


@pytest.mark.parametrize("case", [BinCase(80, None), BinCase(61, 90), BinCase(200, 300)])
@pytest.mark.parametrize(("beta", "offset"), [(0.8, 0.1), (0.999, 0.0)])
def test_many_intervals_need_not_be_chained_one_by_one(
    case: BinCase, beta: float, offset: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = np.arange(1, 400)
    series = np.cumsum(np.concatenate([[1.0], np.cumprod((steps - 1.5) / steps * beta)]))
    found = toeplitz_paths(series, case=case, offset=offset)
    monkeypatch.setattr(on_intervals, "_CHAINED", 10**6)
    chained = toeplitz_paths(series, case=case, offset=offset)
    assert chained * 0.9999 <= found <= chained * 1.001


def test_any_toeplitz_and_any_matrix() -> None:
    rng = np.random.default_rng(3)
    for _ in range(40):
        count = int(rng.integers(2, 8))
        series, case = rng.normal(size=count), some_case(rng, count)
        worst = worst_energy(whitened_gram(series, 0.0), case)
        assert worst <= toeplitz_paths(series, case=case) <= worst * 1.001
        matrix = np.tril(rng.normal(size=(count, count)))
        worst = worst_energy(matrix.T @ matrix, case)
        assert worst <= gram_paths(matrix.T @ matrix, case=case) <= worst * 1.001


def test_bounds_for_many_changes_of_any_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convex, "affordable", lambda **_: False)
    monkeypatch.setattr("tidegauge.theory.paths.gram.affordable", lambda **_: False)
    rng = np.random.default_rng(4)
    for falling in (False, True):
        for _ in range(25):
            count = int(rng.integers(3, 8))
            series = np.sort(rng.exponential(size=count))[::-1] if falling else rng.normal(size=count)
            case, gram = some_case(rng, count), whitened_gram(series, 0.0)
            worst = worst_energy(gram, case)
            assert worst <= toeplitz_paths(series, case=case)
            assert worst <= gram_paths(gram, case=case)
            if falling:
                changes, _ = case.within(count)
                assert worst <= falling_paths(series, changes=changes)


DOMAINS = {
    "signs": Domain(1.0, 1.0),
    "signs, uneven": Domain(0.3, 1.0),
    "signs, loaded": Domain(1.0, 0.4, loaded=True),
    "groups": Domain(groups=3),
    "two groups": Domain(groups=2),
    "groups, loaded": Domain(groups=3, loaded=True),
    "signs in groups": Domain(1.0, 0.5, groups=2),
    "signs in groups, loaded": Domain(1.0, 1.0, groups=2, loaded=True),
}
"""Beyond on and off; the walks through them are few enough to be written out for four bins."""


def some_measurements(rng: np.random.Generator, count: int) -> Iterator[tuple[Floats, Callable[..., float]]]:
    """One of each kind: the inner products of its columns, and the bound for it."""
    series, offset = convex_series(rng, count), float(rng.choice([0.0, rng.uniform(0.01, 1), 5.0]))
    yield whitened_gram(series, offset), partial(toeplitz_paths, series, offset=offset)
    yield whitened_gram(series, offset), partial(toeplitz_paths, series, offset=offset, coarse=True)
    for rough in (rng.normal(size=count), np.sort(rng.exponential(size=count))[::-1]):
        yield whitened_gram(rough, 0.0), partial(toeplitz_paths, rough)
    matrix = np.tril(rng.normal(size=(count, count)))
    yield matrix.T @ matrix, partial(gram_paths, matrix.T @ matrix)


@pytest.mark.parametrize("kind", DOMAINS)
def test_every_walk_is_tried(kind: str) -> None:
    rng = np.random.default_rng(len(kind))
    for _ in range(4):
        case = some_case(rng, 4)
        for gram, bound in some_measurements(rng, 4):
            worst = worst_walk(gram, case, DOMAINS[kind])
            assert worst <= bound(case=case, domain=DOMAINS[kind]) <= worst * 1.001


@pytest.mark.parametrize("kind", DOMAINS)
def test_where_walks_are_too_many_no_bound_is_below(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convex, "affordable", lambda **_: False)
    monkeypatch.setattr("tidegauge.theory.paths.gram.affordable", lambda **_: False)
    rng = np.random.default_rng(len(kind) + 1)
    for count in (2, 3, 4, 4, 4, 4):
        case = some_case(rng, count)
        for gram, bound in some_measurements(rng, count):
            assert worst_walk(gram, case, DOMAINS[kind]) <= bound(case=case, domain=DOMAINS[kind])


@pytest.mark.parametrize("case", [BinCase(2, None), BinCase(3, None), BinCase(4, 8), BinCase(None, 6)])
@pytest.mark.parametrize("kind", [kind for kind in DOMAINS if "groups" not in kind])
def test_longer_ones_as_well(kind: str, case: BinCase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the enumeration, which the tests above hold to the definition."""
    rng = np.random.default_rng(len(kind) + 2)
    for _ in range(3):
        count = int(rng.integers(9, 13))
        for gram, bound in some_measurements(rng, count):
            band = np.array([np.append(np.diagonal(gram, lag), np.zeros(lag)) for lag in range(count)]).T
            worst = every_path(band[:, : case.within(count)[1]], case=case, domain=DOMAINS[kind])
            with monkeypatch.context() as certified:
                certified.setattr(convex, "affordable", lambda **_: False)
                certified.setattr("tidegauge.theory.paths.gram.affordable", lambda **_: False)
                assert worst <= bound(case=case, domain=DOMAINS[kind])


@pytest.mark.parametrize(
    ("case", "noise"),
    [
        (BinCase(3, None), (0.95, 0.0, 0.12)),
        (BinCase(4, None), (0.93, 0.0, 0.16)),
        (BinCase(8, None), (0.75, 0.0, 0.15)),
        (BinCase(4, 12), (0.9, 0.0, 0.1)),
        (BinCase(None, 20), (0.999, 2.0, 0.03)),
    ],
)
@pytest.mark.parametrize("low", [1.0, 0.4])
def test_values_of_both_signs_are_bounded_tightly(
    case: BinCase, noise: tuple[float, float, float], low: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within 3 % of the worst path that is found, for shapes that are used."""
    monkeypatch.setattr(convex, "affordable", lambda **_: False)
    rng, count, (beta, white, offset) = np.random.default_rng(12), 60, noise
    series = rounded_convex(damped_root(count, beta, white), 40) / 2**40
    gram, apart, found = whitened_gram(series, offset), 1.0 + low, 0.0
    most, _ = case.within(count)
    for changes in range(max(most - 2, 1), most + 1):
        for first in (1.0, low):
            later = [apart * (-1.0) ** (change + 1) for change in range(changes - 1)]
            found = max(found, best_found(gram, [first, *later], case.bins, rng))
    bound = toeplitz_paths(series, case=case, domain=Domain(1.0, low), offset=offset)
    assert found <= bound <= found * 1.03**2


@pytest.mark.parametrize("tried", [True, False])
def test_a_single_bin_that_an_entry_comes_to_from_before(
    tried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convex, "affordable", lambda **_: tried)
    monkeypatch.setattr("tidegauge.theory.paths.gram.affordable", lambda **_: tried)
    domain = Domain(groups=3, loaded=True)
    for case, most in (
        (BinCase(1, None), 1),
        (BinCase(3, None), 2),
        (BinCase(3, 1), 1),
        (BinCase(None, 2), 2),
    ):
        assert toeplitz_paths(np.ones(1), case=case, domain=domain) == pytest.approx(most, rel=1e-5)
        assert gram_paths(np.eye(1), case=case, domain=domain) == pytest.approx(most, rel=1e-5)


def test_rows_of_their_own() -> None:
    rng = np.random.default_rng(13)
    for kind, domain in DOMAINS.items():
        rows, case = rng.normal(size=(3, 4)), some_case(rng, 4)
        found = row_paths(rows, case=case, domain=domain)
        assert found is not None, kind
        sums = max(float(np.abs(moved @ rows.T).sum()) for moved in walks(4, case, domain))
        assert sums <= found[0] <= sums * 1.001
        worst = worst_walk(rows.T @ rows, case, domain)
        assert worst <= found[1] <= worst * 1.001
    assert row_paths(np.ones((3, 60)), case=BinCase(3, None), domain=Domain()) is None


@pytest.mark.parametrize("loaded", [False, True])
def test_what_is_remembered(loaded: bool) -> None:
    """One possible shift for all paths: the least, over those shifts, of the worst path; exactly."""
    rng, bins = np.random.default_rng(14), 4
    finer = 0
    for _ in range(48):
        memory, case = Fraction(int(rng.integers(0, 17)), 16), some_case(rng, bins)
        veil = None if rng.random() < 0.3 else Fraction(int(rng.integers(1, 48)), 16)
        step = Fraction(1, int(rng.choice([1, 2, 8])))
        groups = 1 if veil is not None or rng.random() < 0.3 else int(rng.integers(2, 4))
        domain = Domain(1.0, float(rng.choice([0.0, 0.5, 1.0])) if groups < 3 else 0.0, groups, loaded)
        levels = np.cumsum(np.array(list(walks(bins, case, domain))), axis=2)
        before = np.concatenate([np.zeros((*levels.shape[:2], 1)), levels[:, :, :-1]], axis=2)
        rows = levels - float(memory) * before
        pull = np.array([1.0] + [float(1 - memory)] * (bins - 1))

        def cost(
            shift: Fraction, rows: Floats = rows, pull: Floats = pull, veil: Fraction | None = veil
        ) -> Fraction:
            moved = np.abs(rows - float(shift) * pull).sum(axis=(1, 2)).max()  # exact: binary fractions
            return Fraction(float(moved)) + abs(shift) * (veil or 0)

        shifts = [step * n for n in range(-int(2 / step), int(2 / step) + 1)] if veil else [Fraction(0)]
        worst = min(map(cost, shifts))
        found = autoregressive_paths(AutoregressiveRows(memory, veil, bins, step), case=case, domain=domain)
        assert found == worst if groups == 1 else worst <= found <= worst * Fraction(1001, 1000)
        if veil:  # a finer draw would have a better shift: to state that one would be too little
            finer += min(cost(Fraction(n, 64)) for n in range(-128, 129)) < worst
    assert finer


def test_corners_are_enough_for_what_is_remembered() -> None:
    """Against every bin of first change, for more of them than paths can be tried."""
    rng = np.random.default_rng(15)
    for _ in range(100):
        bins = int(rng.integers(1, 60))
        span = int(rng.integers(1, bins + 1))
        changes, anchored = int(rng.integers(1, span + 1)), bool(rng.integers(2))
        ends = Fraction(int(rng.integers(1, 9)), 4), -Fraction(int(rng.integers(0, 9)), 4)
        paths = _Paths(changes, span, ends, anchored)
        rows = AutoregressiveRows(Fraction(int(rng.integers(0, 17)), 16), Fraction(1), bins)
        shift = Fraction(int(rng.integers(-24, 25)), 8)
        every = [
            total
            for start in range(span if anchored else bins)
            for turned in (paths, paths._replace(ends=ends[::-1]))
            if turned.ends[0]
            for total in _from(rows, shift, turned, start)
        ]
        idle = abs(shift) * (1 + (bins - 1) * (1 - rows.memory))
        assert _most(rows, shift, paths) == max([idle, *every])


def test_refusals() -> None:
    with pytest.raises(SpecError, match="none larger than the one before"):
        falling_paths(np.array([1.0, 2.0]), changes=1)
    with pytest.raises(SpecError, match="shared offset"):
        toeplitz_paths(np.array([1.0, 0.9, 0.0]), case=BinCase(1, None), offset=0.1)
