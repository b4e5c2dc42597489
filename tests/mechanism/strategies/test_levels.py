"""Running values measured directly: exact rows, plain decoding,
and every path of a unit inside of its term."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tests.mechanism.oracle import measurement_matrix
from tidegauge.errors import SpecError
from tidegauge.mechanism.registry import build
from tidegauge.mechanism.strategies.levels import Levels
from tidegauge.mechanism.strategy import Exposure
from tidegauge.model.constraint import AtMost, Within
from tidegauge.model.quantity import DAY, Span
from tidegauge.model.schedule import Schedule

BINS, IN_TERM = 6, 3
DAILY = Schedule(0, Span(micros=DAY))
RENEWED = AtMost(9) & Within("3 days")


def exposed(**changes: object) -> Exposure:
    declared = {"constraint": RENEWED, "schedule": DAILY, "kind": "stock", "lower": 0, "upper": 1}
    return Exposure(**(declared | {"returns_after": IN_TERM} | changes))  # type: ignore[arg-type]


def test_the_stream_gives_the_rows() -> None:
    strategy, rng = Levels(), np.random.default_rng(3)
    changes = rng.integers(-5, 6, (BINS, 2)).astype(object)
    state = np.zeros((1, 2), dtype=object)
    for bin_ in range(BINS):
        state, rows = strategy.stream.advance(bin_, state, changes[bin_])
        assert rows.tolist() == [changes[: bin_ + 1].sum(axis=0).tolist()]
        assert strategy.rows(bin_)[0].ranges == ((0, bin_, 1),)
        assert strategy.needed_from(bin_) == bin_ + 1


@pytest.mark.parametrize("span", [None, 1, 3, BINS])
def test_readings_are_decoded_from_one_row_or_two(span: int | None) -> None:
    strategy = Levels()
    matrix = measurement_matrix(strategy, BINS - 1)
    for bin_ in range(BINS):
        weights = strategy.weights(bin_, span)
        wanted = np.zeros(BINS)
        wanted[max(0, bin_ + 1 - (span or BINS)) : bin_ + 1] = 1
        assert weights @ matrix[: len(weights)] == pytest.approx(wanted)
        assert strategy.variances(np.array([bin_]), span)[0] == weights @ weights
    assert build("levels", {}) == strategy


@pytest.mark.parametrize(("lower", "upper", "rows"), [(0, 1, 1), (-2, 1, 1), (0, 3, 2)])
def test_no_path_inside_of_a_term_moves_more(lower: int, upper: int, rows: int) -> None:
    found = Levels().sensitivity(exposed(lower=lower, upper=upper, rows=rows))
    values = range(min(lower, 0), max(upper, 0) + 1)
    paths = product(values, repeat=IN_TERM)
    worst = max((sum(map(abs, path)), sum(one**2 for one in path)) for path in paths)
    assert found.l1 == Fraction(rows * worst[0])
    assert found.l2_squared == Fraction(rows**2 * max(abs(lower), abs(upper)) ** 2 * IN_TERM)


def test_without_renewal_and_for_flows_nothing_bounds_them() -> None:
    for changes in ({"returns_after": None}, {"kind": "flow"}):
        with pytest.raises(SpecError, match="renews"):
            Levels().sensitivity(exposed(**changes))
