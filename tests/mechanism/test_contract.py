"""What every strategy promises, whatever it measures."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.mechanism.oracle import hidden, least_squares, measurement_matrix
from tidegauge.errors import SpecError
from tidegauge.mechanism.encode import ComponentPlan, measure
from tidegauge.mechanism.noise.samplers import DiscreteGaussian, SimulationSampler
from tidegauge.mechanism.registry import build
from tidegauge.mechanism.strategies.ahead import Ahead
from tidegauge.mechanism.strategies.autoregressive import Autoregressive
from tidegauge.mechanism.strategies.buffered import Buffered
from tidegauge.mechanism.strategies.damped import Damped
from tidegauge.mechanism.strategies.dense import Dense
from tidegauge.mechanism.strategies.epochs import Epochs
from tidegauge.mechanism.strategies.hierarchy import Hierarchy
from tidegauge.mechanism.strategies.sliding import Sliding
from tidegauge.mechanism.strategies.toeplitz import Toeplitz
from tidegauge.mechanism.strategy import Exposure, Strategy
from tidegauge.model.constraint import AtMost, Constraint, Within
from tidegauge.model.quantity import DAY, Span
from tidegauge.model.schedule import Schedule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

BINS = 12
DAILY = Span(micros=DAY)
HALVES = (Fraction(1), Fraction(1, 2), Fraction(3, 4), Fraction(2))


def a_dense(first: int) -> Dense:
    rng = np.random.default_rng(7)
    entries = np.tril(rng.integers(-(2**10), 2**10, (BINS - first, BINS - first))) + 2**18 * np.eye(
        BINS - first
    )
    return Dense.of(entries.astype(np.int32), first)


LEVELS: list[Strategy] = [
    Hierarchy(2, 3, BINS),
    Hierarchy(3, 3, BINS, "leaf", HALVES),
    Hierarchy(2, 4, None, "apart"),
    Toeplitz("root", BINS),
    Toeplitz("root", BINS, beta=0.9),
    Toeplitz("root", BINS, beta=0.99, white=2.0),
    Damped(BINS, 0.9, 0.0, 0.15),
    Damped(BINS, 0.999, 1.3, 0.1),
    Buffered(BINS, "0.3:1 0.4:0.5 0.2:0.07 0.1:0", 0.15),
    Buffered(BINS, "0.9:0.6 0.1:0.001", 0.0),
    Autoregressive(BINS, 60000, Fraction(1, 2)),
    Autoregressive(BINS, 65536, Fraction(0)),
    Epochs(4),
    Epochs(2, branching=2),
    Epochs(4, branching=3, pure=True),
    a_dense(0),
    Ahead(2, 4, BINS),
    Ahead(3, 3, BINS, 0, HALVES[:3]),
    Ahead(4, 2, BINS, 0, HALVES[:2]),
]
CHANGES: list[Strategy] = [
    Hierarchy(2, 3, BINS, "none"),
    Toeplitz("window", BINS, 1, width=4),
    Toeplitz("banded", BINS, 1, width=4),
    Toeplitz("banded", None, 1, width=4),
    Damped(BINS, 0.95, 0.0, 1.2, 1),
    Buffered(BINS, "0.3:1 0.45:0.5 0.25:0.07", 1.2, 1),
    Autoregressive(BINS, 60000, Fraction(3), 1),
    Sliding(4, 1, BINS - 4),
    Sliding(4, 3, None),
    a_dense(1),
    Ahead(2, 3, BINS, 1),
    Ahead(5, 2, BINS, 1, HALVES[2:]),
]


def named(strategies: list[Strategy]) -> list[object]:
    return [pytest.param(one, id=f"{one.name}-{i}") for i, one in enumerate(strategies)]


def schedule_for(strategy: Strategy) -> Schedule:
    ever = strategy.parameters.get("bins", strategy.parameters.get("readings", "ever")) == "ever"
    if strategy in LEVELS:
        return Schedule(0, DAILY, None if ever else BINS)
    stride = strategy.stride if isinstance(strategy, Sliding) else 1
    return Schedule(0, Span(micros=stride * DAY), None if ever else BINS - 4, Span(micros=4 * DAY))


def near(strategy: Strategy, exact: float) -> float:
    """The rows of a stream tell its linear map to the nearest integers, and it is decoded as what it is."""
    return exact if strategy.stream is None else 1e-6


def spans(strategy: Strategy) -> list[tuple[int, int | None]]:
    """(bin, span) of every sum that the strategy can tell."""
    if isinstance(strategy, Sliding):
        return [(bin_, 4) for bin_ in range(4, BINS, strategy.stride)]
    if strategy in LEVELS:
        return [(bin_, span) for bin_ in range(BINS) for span in (None, 1, 3, 4, BINS)]
    return [(bin_, span) for bin_ in range(1, BINS) for span in (1, 4, 5) if span <= bin_]


@pytest.mark.parametrize("strategy", named(LEVELS + CHANGES))
def test_rows_speak_of_ended_bins_alone(strategy: Strategy) -> None:
    for bin_ in range(BINS):
        for row in strategy.rows(bin_):
            assert all(0 <= first <= last <= bin_ and weight for first, last, weight in row.ranges)
            assert row.ranges
            assert strategy.scales[row.layer] > 0
            assert all(type(weight) is int for *_, weight in row.ranges)


@pytest.mark.parametrize("strategy", named(LEVELS + CHANGES))
def test_what_is_forgotten_is_not_needed(strategy: Strategy) -> None:
    for bin_ in range(-1, BINS - 1):
        later = [row for after in range(bin_ + 1, BINS) for row in strategy.rows(after)]
        first = min((first for row in later for first, *_ in row.ranges), default=BINS)
        if strategy.stream is None:
            assert 0 <= strategy.needed_from(bin_) <= first
        else:
            assert strategy.needed_from(bin_) == bin_ + 1


@pytest.mark.parametrize("strategy", named(LEVELS + CHANGES))
def test_what_is_measured_are_the_rows(strategy: Strategy) -> None:
    """Whether from the bins or, as a stream, from a state; bin by bin, with forgotten bins gone."""
    changes = [3, -1, 4, 1, -5, 9, -2, 6, -5, 3, 5, -8]
    matrix = measurement_matrix(strategy, BINS - 1) * strategy.denominator
    component_plan = ComponentPlan(strategy, 1, DiscreteGaussian(Fraction(1, 2**18)))
    state = None if strategy.stream is None else np.zeros((strategy.stream.width, 1), dtype=object)
    found = []
    for bin_ in range(BINS):
        kept = {(at, 0): changes[at] for at in range(strategy.needed_from(bin_ - 1), bin_ + 1)}
        found += measure(
            component_plan,
            kept,
            bins=range(bin_, bin_ + 1),
            shared_noise=[0],
            sampler=SimulationSampler(1),
            stream_state=state,
            noise_ahead=None
            if strategy.ahead is None
            else np.zeros((len(strategy.rows(bin_)), 1), dtype=object),
        )
    slack = 0 if strategy.stream is None else sum(map(abs, changes))
    assert [value for *_, value in found] == pytest.approx((matrix @ changes).tolist(), abs=0.01 + slack / 2)


@pytest.mark.parametrize("strategy", named(LEVELS + CHANGES))
def test_layers_are_those_of_the_rows(strategy: Strategy) -> None:
    for through in (0, 1, 5, BINS - 1):
        assert strategy.layers(through).tolist() == [row.layer for row in strategy.measured(through)]


@pytest.mark.parametrize("strategy", named(LEVELS + CHANGES))
def test_decoding_is_unbiased(strategy: Strategy) -> None:
    for bin_, span in spans(strategy):
        weights = strategy.weights(bin_, span) * strategy.denominator
        wanted = np.zeros(bin_ + 1)
        wanted[0 if span is None else max(bin_ - span + 1, 0) :] = 1
        assert weights @ measurement_matrix(strategy, bin_) == pytest.approx(wanted, abs=near(strategy, 1e-9))


@pytest.mark.parametrize("strategy", named(LEVELS + CHANGES))
def test_decoding_is_least_squares(strategy: Strategy) -> None:
    for bin_, span in spans(strategy):
        best = least_squares(strategy, bin_, span, through=bin_)
        assert strategy.weights(bin_, span) * strategy.denominator == pytest.approx(
            best * strategy.denominator, abs=near(strategy, 1e-7)
        )


@pytest.mark.parametrize("strategy", named(LEVELS + CHANGES))
def test_smoothing_is_least_squares_over_later_rows(strategy: Strategy) -> None:
    for bin_, span in spans(strategy)[::3]:
        best = least_squares(strategy, bin_, span, through=BINS - 1)
        found = strategy.smoothed(bin_, span, through=BINS - 1)
        assert found * strategy.denominator == pytest.approx(
            best * strategy.denominator, abs=near(strategy, 1e-7)
        )


def variance(strategy: Strategy, bin_: int, span: int | None) -> float:
    """From the weights of all rows."""
    weights, rows = strategy.weights(bin_, span), hidden(strategy, bin_)
    if strategy.ahead is not None:
        weights = strategy.ahead.reach(weights)
    noise = weights * np.array([float(strategy.scales[row.layer]) for row in rows])
    shared = weights @ np.array([row.shared for row in rows]) * float(strategy.shared or 0)
    return float(noise @ noise + shared**2)


@pytest.mark.parametrize("strategy", named(LEVELS + CHANGES))
def test_variances_are_those_of_the_weights(strategy: Strategy) -> None:
    by_span: dict[int | None, list[int]] = {}
    for bin_, span in spans(strategy):
        by_span.setdefault(span, []).append(bin_)
    for span, bins in by_span.items():
        at = np.array(bins)
        one_by_one = [variance(strategy, bin_, span) for bin_ in bins]
        assert strategy.variances(at, span) == pytest.approx(one_by_one, rel=1e-4)


@pytest.mark.parametrize("strategy", named([one for one in LEVELS + CHANGES if not isinstance(one, Dense)]))
def test_parameters_are_enough_to_build_it(strategy: Strategy) -> None:
    written = json.loads(json.dumps(strategy.parameters))
    assert build(strategy.name, written) == strategy


def test_unknown_strategy() -> None:
    with pytest.raises(SpecError, match="no strategy called 'magic'"):
        build("magic", {})


def worst_paths(strategy: Strategy, changes: int, reach: int) -> tuple[float, float]:
    """The most that alternating changes add up to in L1 and squared L2,
    each row in units of its scale; by trial.

    A strategy with a shared draw is measured by the shift of the draw that suits all paths: half a level.
    """
    rows = hidden(strategy, BINS - 1)
    scales = np.array([float(strategy.scales[row.layer]) for row in rows])
    matrix = measurement_matrix(strategy, BINS - 1, rows) * strategy.denominator / scales[:, None]
    shared = np.array([row.shared for row in rows]) / scales
    l1 = square = 0.0
    for count in range(1, changes + 1):
        for changed in combinations(range(BINS), count):
            if changed[-1] - changed[0] >= reach:
                continue
            for sign in (1.0, -1.0):
                moved = matrix[:, changed] @ (sign * (-1.0) ** np.arange(count))
                one, two = np.abs(moved).sum(), moved @ moved
                if strategy.shared is not None:
                    shift = sign * 128  # half a grid unit, in 256ths
                    moved = moved - shared * shift
                    drawn = abs(shift) / float(strategy.shared)
                    one, two = min(one, np.abs(moved).sum() + drawn), min(two, moved @ moved + drawn**2)
                l1, square = max(l1, one), max(square, two)
    return l1, square


SOME = [
    (AtMost(1), 1, BINS),
    (AtMost(3), 3, BINS),
    (Within("2 days"), 3, 3),
    (AtMost(2) & Within("4 days"), 2, 5),
]


@pytest.mark.parametrize("strategy", named(LEVELS + CHANGES))
@pytest.mark.parametrize(("constraint", "changes", "reach"), SOME, ids=[str(one[0]) for one in SOME])
def test_sensitivity_covers_every_path(
    strategy: Strategy, constraint: Constraint, changes: int, reach: int
) -> None:
    exposure = Exposure(constraint, schedule_for(strategy), "stock", 0, 1)
    found = strategy.sensitivity(exposure)
    l1, square = worst_paths(strategy, changes, reach)
    assert l1 <= float(found.l1) * (1 + 1e-9)
    assert square <= float(found.l2_squared) * (1 + 1e-9)


EXACT: list[Strategy] = [
    one
    for one in LEVELS + CHANGES
    if isinstance(one, Hierarchy | Toeplitz | Damped | Dense | Buffered) and one.parameters["bins"] != "ever"
]


@pytest.mark.parametrize("strategy", named(EXACT))
@pytest.mark.parametrize(("constraint", "changes", "reach"), SOME, ids=[str(one[0]) for one in SOME])
def test_sensitivity_is_within_three_percent(
    strategy: Strategy, constraint: Constraint, changes: int, reach: int
) -> None:
    found = strategy.sensitivity(Exposure(constraint, schedule_for(strategy), "stock", 0, 1))
    _, square = worst_paths(strategy, changes, reach)
    assert float(found.l2_squared) <= square * 1.03**2


FEW = 5
SMALL: list[Strategy] = [
    Hierarchy(2, 2, FEW),
    Hierarchy(2, 3, FEW, "leaf"),
    Hierarchy(2, 2, FEW, "none"),
    Toeplitz("root", FEW),
    Toeplitz("banded", FEW, 1, width=2),
    Toeplitz("window", FEW, 1, width=2),
    Damped(FEW, 0.9, 0.0, 0.2),
    Damped(FEW, 0.9, 0.5, 0.2, 1),
    Buffered(FEW, "0.3:1 0.4:0.5 0.2:0.07 0.1:0", 0.2),
    Buffered(FEW, "0.9:0.6 0.1:0.001", 1.1, 1),
    Autoregressive(FEW, 50000, Fraction(0)),
    Autoregressive(FEW, 50000, Fraction(1), 1),
    Sliding(2, 1, FEW - 2),
    Epochs(2),
    Epochs(2, branching=2),
    Ahead(2, 4, FEW),
    Ahead(2, 3, FEW, 0, HALVES[:3]),
    Ahead(3, 2, FEW, 1),
]


@pytest.mark.parametrize("strategy", named(SMALL))
@pytest.mark.parametrize("changes", [1, 2, 3])
@pytest.mark.parametrize("lower", [0, -1])
def test_groups_cover_every_walk(strategy: Strategy, changes: int, lower: int) -> None:
    """A row walks through nothing, group 1 and group 2; in a group it counts `lower` or 1."""
    tells_levels = strategy.parameters.get("first", 0) == 0 and strategy.parameters.get("load") != "none"
    tells_levels &= not isinstance(strategy, Sliding)
    window = None if tells_levels else Span(micros=2 * DAY)
    ever = isinstance(strategy, Epochs)
    schedule = Schedule(0, DAILY, None if ever else FEW if tells_levels else FEW - 2, window)
    found = strategy.sensitivity(Exposure(AtMost(changes), schedule, "stock", lower, 1, grouped=True))
    rows = hidden(strategy, FEW - 1)
    scales = np.array([float(strategy.scales[row.layer]) for row in rows])
    matrix = measurement_matrix(strategy, FEW - 1, rows) * strategy.denominator / scales[:, None]
    places = [(0, 0), (1, 0), (0, 1)] + ([(-1, 0), (0, -1)] if lower else [])
    l1 = square = 0.0
    for walk in product(range(len(places)), repeat=FEW):
        if sum(a != b for a, b in pairwise((0, *walk))) <= changes:
            moves = np.diff(np.array([(0, 0), *(places[at] for at in walk)], dtype=float), axis=0)
            moved = matrix @ moves
            l1, square = max(l1, np.abs(moved).sum()), max(square, (moved**2).sum())
    assert l1 <= float(found.l1) * (1 + 1e-9)
    assert square <= float(found.l2_squared) * (1 + 1e-9)


@pytest.mark.parametrize("strategy", named(LEVELS + CHANGES))
def test_sensitivity_grows_with_what_a_unit_may_do(strategy: Strategy) -> None:
    schedule = schedule_for(strategy)
    plain = strategy.sensitivity(Exposure(AtMost(3), schedule, "stock", 0, 1))
    double = strategy.sensitivity(Exposure(AtMost(3), schedule, "stock", 0, 2))
    rows = strategy.sensitivity(Exposure(AtMost(3), schedule, "stock", 0, 1, rows=2))
    grouped = strategy.sensitivity(Exposure(AtMost(3), schedule, "stock", 0, 1, grouped=True))
    either = strategy.sensitivity(Exposure(AtMost(1) | AtMost(3), schedule, "stock", 0, 1))
    assert (rows.l1, rows.l2_squared) == (2 * plain.l1, 4 * plain.l2_squared)
    assert float(double.l1) == pytest.approx(2 * float(plain.l1), rel=1e-6)
    assert float(double.l2_squared) == pytest.approx(4 * float(plain.l2_squared), rel=1e-4)
    assert grouped.l2_squared >= plain.l2_squared * Fraction(999, 1000)
    assert (either.l1, either.l2_squared) == (plain.l1, plain.l2_squared)


@pytest.mark.parametrize("strategy", named(LEVELS + CHANGES))
def test_values_of_both_signs(strategy: Strategy) -> None:
    """From nothing to one end of the range is less far than from end to end."""
    schedule = schedule_for(strategy)
    once = strategy.sensitivity(Exposure(AtMost(1), schedule, "stock", -1, 1))
    plain = strategy.sensitivity(Exposure(AtMost(1), schedule, "stock", 0, 1))
    wide = strategy.sensitivity(Exposure(AtMost(3), schedule, "stock", 0, 2))
    both = strategy.sensitivity(Exposure(AtMost(3), schedule, "stock", -1, 1))
    assert both.l2_squared <= wide.l2_squared * Fraction(1001, 1000)
    if isinstance(strategy, Hierarchy | Toeplitz | Damped | Dense | Buffered):
        assert float(once.l2_squared) == pytest.approx(float(plain.l2_squared), rel=1e-4)


@pytest.mark.parametrize("strategy", named(LEVELS + CHANGES))
def test_flows_add_up_in_one_bin(strategy: Strategy) -> None:
    schedule = schedule_for(strategy)
    found = strategy.sensitivity(Exposure(AtMost(3), schedule, "flow", 0, 2))
    rows = hidden(strategy, BINS - 1)
    matrix = measurement_matrix(strategy, BINS - 1, rows) * strategy.denominator
    scales = np.array([float(strategy.scales[row.layer]) for row in rows])
    columns = matrix / scales[:, None]
    assert float(found.l1) >= 3 * 2 * np.abs(columns).sum(axis=0).max() * (1 - 1e-9)
    assert float(found.l2_squared) >= 36 * (columns**2).sum(axis=0).max() * (1 - 1e-9)
    with pytest.raises(SpecError, match="flow"):
        strategy.sensitivity(Exposure(Within("2 days"), schedule, "flow", 0, 1))
    clipped = strategy.sensitivity(Exposure(Within("2 days"), schedule, "flow", 0, 1, clip=2))
    assert clipped.l1 > 0


@pytest.mark.parametrize("strategy", named([one for one in CHANGES if not isinstance(one, Sliding)]))
def test_levels_are_refused_without_the_load(strategy: Strategy) -> None:
    with pytest.raises(SpecError, match="measures changes alone"):
        strategy.weights(5, None)


@pytest.mark.parametrize("strategy", named(LEVELS + CHANGES))
def test_all_promise_for_data_that_react(strategy: Strategy) -> None:
    assert strategy.adaptive
