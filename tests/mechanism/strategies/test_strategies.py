"""What is particular to each strategy."""

from __future__ import annotations

import random
from fractions import Fraction
from math import pi, sqrt

import numpy as np
import pytest

from tidegauge.errors import SpecError
from tidegauge.mechanism.estimate import add_up, not_negative
from tidegauge.mechanism.search.tune import Target, error
from tidegauge.mechanism.strategies import shapes
from tidegauge.mechanism.strategies.ahead import Ahead
from tidegauge.mechanism.strategies.autoregressive import Autoregressive
from tidegauge.mechanism.strategies.damped import Damped
from tidegauge.mechanism.strategies.epochs import Epochs
from tidegauge.mechanism.strategies.hierarchy import Hierarchy
from tidegauge.mechanism.strategies.sliding import Sliding
from tidegauge.mechanism.strategies.toeplitz import Toeplitz
from tidegauge.mechanism.strategy import Exposure
from tidegauge.model.constraint import AtMost, Within
from tidegauge.model.quantity import DAY, Span
from tidegauge.model.schedule import Schedule
from tidegauge.theory import cover, hdcr_folds, swcr_folds

DAILY = Span(micros=DAY)


def days(count: int) -> Span:
    return Span(micros=count * DAY)


# --- hierarchies


@pytest.mark.parametrize(("branching", "height"), [(2, 4), (3, 2), (5, 1)])
def test_decoding_is_never_worse_than_the_papers_cover(branching: int, height: int) -> None:
    """T5: the fewest nodes that make up a sum, each taken as it is, have one unit of variance a node."""
    tree = Hierarchy(branching, height, 40)
    for bin_ in (1, 7, 26, 39):
        for span in (None, 1, 6, 40):
            whole = span is None or span > bin_
            first = 0 if whole or span is None else bin_ - span
            nodes = cover(first, bin_, branching=branching, height=height)
            covered = [leaf for layer, index in nodes
                       for leaf in range(index * branching**layer,
                                         (index + 1) * branching**layer)]  # fmt: skip
            assert sorted(covered) == list(range(first, bin_))
            assert tree.variances(np.array([bin_]), span)[0] <= len(nodes) + whole + 1e-12


@pytest.mark.parametrize("constraint", [AtMost(1), AtMost(4), Within("7 days"), AtMost(2) & Within("3 days")])
@pytest.mark.parametrize("count", [None, 33])
def test_hierarchy_never_costs_more_than_its_folds(constraint: AtMost, count: int | None) -> None:
    tree = Hierarchy(2, 4, count)
    found = tree.sensitivity(Exposure(constraint, Schedule(0, DAILY, count), "stock", 0, 1))
    leaves = None if count is None else count - 1
    folds = hdcr_folds(constraint, width="1 day", branching=2, height=4, count=leaves)
    assert found.l1 == found.l2_squared
    assert found.l1 <= folds


def test_layers_have_their_own_noise() -> None:
    scales = (Fraction(1), Fraction(2), Fraction(1, 2))
    tree = Hierarchy(4, 2, 20, "apart", scales)
    exposure = Exposure(AtMost(1), Schedule(0, DAILY, 20), "stock", 0, 1)
    assert tree.sensitivity(exposure).l1 == max(1 + Fraction(1, 2), Fraction(2))
    assert tree.sensitivity(exposure).l2_squared == max(1 + Fraction(1, 4), Fraction(4))
    with pytest.raises(SpecError, match="numbers above 0"):
        Hierarchy(4, 2, 20, "apart", scales[:2])
    with pytest.raises(SpecError, match="branching must be 2"):
        Hierarchy(1, 2, 20)
    with pytest.raises(SpecError, match="apart"):
        Hierarchy(2, 2, 20, "somewhere")  # type: ignore[arg-type]


def test_clipped_flows_gather_in_higher_nodes() -> None:
    """Two in a bin at most: a node of four bins can count all five, its bins 2, 2 and 1."""
    tree = Hierarchy(4, 2, 20, "none")
    found = tree.sensitivity(Exposure(AtMost(5), Schedule(0, DAILY, 12, days(8)), "flow", 0, 1, clip=2))
    assert found.l1 == 10
    assert found.l2_squared == 25 + 4 + 4 + 1


@pytest.mark.parametrize("offset", [0.0, 1.0, 1e12])
@pytest.mark.parametrize("white", [0.0, 1.0, 1e300])
def test_extreme_noise_does_not_leave_the_integers(white: float, offset: float) -> None:
    strategy = Damped(6, 1.0, white, offset)
    found = strategy.sensitivity(Exposure(AtMost(1), Schedule(0, DAILY, 6), "stock", 0, 1))
    squares = (strategy.matrix.astype(np.float64) ** 2).sum(axis=0)
    assert 0 < squares.max() <= float(found.l2_squared) <= 1.001 * squares.max()
    for wrong in ((1e308, 0.0), (0.0, 1.7e308)):
        with pytest.raises(SpecError, match="offset between 0 and"):
            Damped(6, 1.0, *wrong)
    with pytest.raises(SpecError, match="white between 0 and"):
        Toeplitz("root", 6, white=1e308)
    with pytest.raises(SpecError, match="each between 1/"):
        Ahead(2, 2, 6, relative=(Fraction(1, 10**200), Fraction(1)))


@pytest.mark.parametrize("seed", range(40))
def test_a_flow_may_be_loaded_with_any_number_of_its_changes(seed: int) -> None:
    rng = random.Random(seed)
    height, branching, changes = rng.randint(1, 4), rng.choice([2, 3, 5]), rng.randint(1, 60)
    clip = rng.choice([None, 1, 2, 7, 50])
    scales = [Fraction(rng.randint(1, 40), rng.choice([1, 8])) for _ in range(height + 1)]
    tree = Hierarchy(branching, height, 90, "apart", tuple(scales))
    found = tree.sensitivity(Exposure(AtMost(changes), Schedule(0, DAILY, 90), "flow", 0, 1, clip=clip))
    each = min(changes, clip or changes)
    ones, squares = [], []
    for loaded in range(each + 1):
        one, square = loaded / scales[-1], (loaded / scales[-1]) ** 2
        for layer in range(height):
            left = changes - loaded
            while left:  # one node after the other is filled
                inside = min(left, changes, each * branching**layer)
                one += inside / scales[layer]
                square += (inside / scales[layer]) ** 2
                left -= inside
        ones.append(one)
        squares.append(square)
    assert (found.l1, found.l2_squared) == (max(ones), max(squares))


def test_a_flow_may_count_many_changes_of_a_unit() -> None:
    flow = Exposure(AtMost(10**12), Schedule(0, DAILY, None), "flow", 0, 1)
    found = Hierarchy(2, 3, None).sensitivity(flow)
    assert found.l1 == 3 * 10**12
    assert found.l2_squared == 3 * 10**24


# --- sliding windows


@pytest.mark.parametrize("constraint", [AtMost(2), Within("5 days"), AtMost(9) & Within("1 day")])
@pytest.mark.parametrize("count", [None, 6, 60])
def test_sliding_costs_its_folds(constraint: AtMost, count: int | None) -> None:
    schedule = Schedule(0, days(2), count, days(7))
    found = Sliding.of(schedule).sensitivity(Exposure(constraint, schedule, "stock", 0, 1))
    assert found.l1 == swcr_folds(constraint, window="7 days", period="2 days", count=count)


def test_sliding_knows_its_own_windows() -> None:
    strategy = Sliding.of(Schedule(0, days(2), 5, days(7)))
    assert strategy == Sliding(7, 2, 5)
    assert [bin_ for bin_ in range(30) if strategy.rows(bin_)] == [7, 9, 11, 13, 15]
    with pytest.raises(SpecError, match="windows of its own release"):
        strategy.weights(8, 7)
    with pytest.raises(SpecError, match="windows of its own release"):
        strategy.weights(9, None)
    with pytest.raises(SpecError, match="no sliding window"):
        Sliding.of(Schedule(0, DAILY, 5))
    with pytest.raises(SpecError, match="span and stride"):
        Sliding(0, 1, 1)


# --- series


def test_square_root_errors_are_known() -> None:
    """The sum of the squared coefficients, at both ends: docs of every square-root mechanism."""
    for count, known in [(64, 2.389), (256, 2.831)]:
        schedule = Schedule(0, DAILY, count)
        exposure = Exposure(AtMost(1), schedule, "stock", 0, 1)
        assert error(Toeplitz("root", count), exposure, Target.of(schedule), pure=False) == pytest.approx(
            known, abs=5e-4
        )


def test_roots_and_inverses() -> None:
    root = shapes.power(50, -0.5)
    assert np.convolve(root, root)[:50] == pytest.approx(np.ones(50))
    window = shapes.window_root(50, 7)
    assert np.convolve(window, window)[:50] == pytest.approx(np.r_[np.ones(7), np.zeros(43)], abs=1e-12)
    series = np.random.default_rng(0).normal(size=33) + 5 * np.eye(33)[0]
    assert np.convolve(series, shapes.inverse(series))[:33] == pytest.approx(np.eye(33)[0], abs=1e-12)


@pytest.mark.parametrize(("beta", "white"), [(1.0, 0.0), (0.9, 0.0), (0.999, 3.0), (1.0, 7.0)])
def test_damped_roots_fall_and_are_convex(beta: float, white: float) -> None:
    series = shapes.damped_root(400, beta, white)
    assert series[0] == 1
    assert (np.diff(series) <= 0).all()
    assert (np.diff(series, 2) > -1e-15).all()
    angles = np.linspace(pi / 2, pi, 50)
    whitened = np.diff(series, prepend=0.0) @ np.exp(1j * np.outer(np.arange(400), angles))
    noise = 1 / np.abs(1 - beta * np.exp(1j * angles)) + white
    flat = np.abs(whitened) ** 2 * noise
    assert flat == pytest.approx(np.full(50, flat[-1]), rel=1e-3)


@pytest.mark.parametrize(("beta", "white", "offset"), [(0.95, 0.0, 0.15), (1.0, 3.0, 0.1), (0.9, 0.0, 0.0)])
def test_rows_made_one_by_one_are_the_dense_factor(beta: float, white: float, offset: float) -> None:
    """The matrix whitens the covariance of the published level, as its Cholesky factor would."""
    count = 120
    strategy = Damped(count, beta, white, offset)
    noise = shapes.inverse(np.diff(shapes.damped_root(count, beta, white), prepend=0.0))
    lags = np.subtract.outer(np.arange(count), np.arange(count))
    root = np.where(lags >= 0, noise[np.abs(lags)], 0.0)
    factor = np.linalg.cholesky(root @ root.T + offset)
    levels = np.tril(np.ones((count, count)))
    assert strategy.matrix / 2**20 == pytest.approx(np.linalg.solve(factor, levels), abs=2**-20)


def test_rounding_keeps_the_shape() -> None:
    rounded = shapes.rounded_convex(shapes.damped_root(3000, 1.0, 0.0), 20)
    assert (np.diff(rounded) <= 0).all()
    assert (np.diff(rounded, 2) >= 0).all()
    assert rounded[-1] >= 0
    assert shapes.rounded_convex(np.array([1.0, 0.4, 0.0]), 1).tolist() == [2, 1, 0]


def test_series_refusals() -> None:
    with pytest.raises(SpecError, match="shape must be 'root'"):
        Toeplitz("triangle", 10)
    with pytest.raises(SpecError, match="shape must be 'root'"):
        Toeplitz("root", None)
    with pytest.raises(SpecError, match="width of a window"):
        Toeplitz("window", 10)
    with pytest.raises(SpecError, match="at most 4096"):
        Damped(10_000, 0.9, 0.0, 0.1)
    with pytest.raises(SpecError, match="memory"):
        Autoregressive(10, 70_000, Fraction(1))
    with pytest.raises(SpecError, match="power of two"):
        Epochs(3)


def test_banded_series_go_on_for_ever() -> None:
    """Sliding windows without an end, at a bounded error."""
    schedule = Schedule(0, DAILY, None, days(7))
    strategy = Toeplitz("banded", None, 1, width=7)
    bins = np.array([7, 50, 1000, 5000])
    variances = strategy.variances(bins, 7)
    assert variances[-1] == pytest.approx(variances[1], rel=1e-6)
    for constraint in (AtMost(4), Within("30 days")):
        assert strategy.sensitivity(Exposure(constraint, schedule, "stock", 0, 1)).l2_squared > 0


# --- noise that forgets


def test_autoregressive_is_the_known_formula() -> None:
    count, changes, memory, shared = 1024, 16, 63424, Fraction(5, 8)
    strategy = Autoregressive(count, memory, shared)
    found = strategy.sensitivity(Exposure(AtMost(changes), Schedule(0, DAILY, count), "stock", 0, 1))
    b = Fraction(memory, 2**16)
    known = Fraction(1, 2) + (1 - b) * (count - 1 - changes) / 2 + (1 + b) * changes / 2 + 1 / (2 * shared)
    assert float(found.l1) == pytest.approx(float(known * 2**24), rel=1e-9)
    centred = strategy.sensitivity(Exposure(AtMost(changes), Schedule(0, DAILY, count), "stock", -1, 1))
    plain = (
        1 + (changes - 1) * (1 + b) + (count - changes) * (1 - b)
    )  # nothing to shift: the range lies around 0
    assert float(centred.l1) == pytest.approx(float(plain * 2**24), rel=1e-9)


def test_the_shared_draw_stays_out_of_differences() -> None:
    bare, hidden = Autoregressive(40, 60000, Fraction(0)), Autoregressive(40, 60000, Fraction(5))
    at = np.array([39])
    assert hidden.shared is not None
    assert bare.shared is None
    assert hidden.variances(at, 7) == pytest.approx(bare.variances(at, 7))
    assert hidden.variances(at, None)[0] * 2**48 == pytest.approx(bare.variances(at, None)[0] * 2**48 + 25)


# --- without an end


def test_epochs_grow_slowly() -> None:
    strategy = Epochs(64)
    schedule = Schedule(0, DAILY, None)
    exposure = Exposure(AtMost(1), schedule, "stock", 0, 1)
    square = float(strategy.sensitivity(exposure).l2_squared)
    errors = [sqrt(square * strategy.variances(np.array([n - 1]), None)[0]) for n in (64, 256, 1024)]
    assert errors == sorted(errors)
    assert errors[-1] < 7.02  # the reference's doubling epochs
    assert (
        strategy.sensitivity(Exposure(AtMost(4), schedule, "stock", 0, 1)).l2_squared
        == 4 * strategy.sensitivity(exposure).l2_squared
    )


def test_a_hierarchy_for_ever_has_a_bounded_loss() -> None:
    tree = Hierarchy(8, 4, None)
    schedule = Schedule(0, DAILY, None)
    for constraint in (AtMost(3), Within("30 days"), AtMost(3) & Within("30 days")):
        found = tree.sensitivity(Exposure(constraint, schedule, "stock", 0, 1))
        assert 0 < found.l1 <= hdcr_folds(constraint, width="1 day", branching=8, height=4)


# --- after decoding


def test_parts_add_up() -> None:
    found = add_up(np.array([10.0, 20.0]), 36.0, np.array([1.0, 2.0]), 3.0)
    assert found.parts.sum() == pytest.approx(found.whole)
    assert found.parts.tolist() == [11.0, 22.0]
    assert found.part_variances.sum() < 3
    assert found.whole_variance == pytest.approx(1.5)


def test_cutting_off_at_zero_reports_its_bias() -> None:
    assert not_negative(100.0, 1.0).value == 100.0
    assert not_negative(100.0, 1.0).bias == pytest.approx(0.0, abs=1e-12)
    low = not_negative(-3.0, 2.0)
    assert low.value == 0
    assert low.bias == pytest.approx(2 / sqrt(2 * pi))
    assert not_negative(5.0, 0.0).bias == 0.0
    rng = np.random.default_rng(0)
    simulated = np.maximum(1.0 + 2 * rng.normal(size=400_000), 0).mean() - 1.0
    assert not_negative(1.0, 2.0).bias == pytest.approx(simulated, abs=0.02)
