"""zCDP and (epsilon, delta) against mpmath, against the Gaussian mechanism itself, and at the extremes."""

from __future__ import annotations

from fractions import Fraction
from importlib import import_module
from math import erfc, exp, sqrt
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegauge.errors import SpecError
from tidegauge.theory.accounting.conversion import LEAST_DELTA, epsilon_to_rho, rho_to_delta, rho_to_epsilon

mp = import_module("mpmath").mp.clone()
mp.dps = 100

RHOS = ["1e-30", "1e-9", "1e-4", "0.01", "0.81", "7", "1e3", "1e9"]
DELTAS = ["0.9", "0.1", "1e-6", "1e-10", "1e-100", "1e-300"]

positive = st.fractions(min_value=Fraction(1, 10**6), max_value=Fraction(50), max_denominator=10**6)
chance = st.fractions(min_value=Fraction(1, 10**9), max_value=Fraction(99, 100), max_denominator=10**9)


def oracle_epsilon(rho: str, delta: str) -> Any:
    """The least epsilon over a lattice of alpha that is refined repeatedly: no closed form."""
    r, d = mp.mpf(rho), mp.mpf(delta)

    def at(t: Any) -> Any:
        alpha = 1 + mp.exp(t)
        return alpha * r + (-mp.log(d) - mp.log(alpha)) / (alpha - 1) + mp.log(1 - 1 / alpha)

    low, high = mp.mpf(-60), 40 - mp.log(d)
    for _ in range(16):
        points = [low + (high - low) * i / 20 for i in range(21)]
        best = min(range(21), key=lambda i: at(points[i]))
        low, high = points[max(best - 1, 0)], points[min(best + 1, 20)]
    return max(mp.zero, at((low + high) / 2))


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("rho", RHOS)
def test_epsilon_is_the_least_that_any_order_gives_rounded_up(rho: str, delta: str) -> None:
    found, least = rho_to_epsilon(rho, delta=delta), oracle_epsilon(rho, delta)
    value = mp.mpf(found.numerator) / found.denominator
    assert least * (1 - mp.mpf("1e-24")) <= value <= least * (1 + mp.mpf("1e-16"))


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("rho", RHOS)
def test_delta_and_rho_invert_epsilon(rho: str, delta: str) -> None:
    epsilon = rho_to_epsilon(rho, delta=delta)
    if epsilon:
        assert rho_to_delta(rho, epsilon=epsilon) <= Fraction(delta)
        assert rho_to_delta(rho, epsilon=epsilon * (1 - Fraction(1, 10**9))) > Fraction(delta)
        back = epsilon_to_rho(epsilon, delta=delta)
        assert Fraction(rho) * (1 - Fraction(1, 10**11)) < back < Fraction(rho) * (1 + Fraction(1, 10**11))


@pytest.mark.parametrize("epsilon", ["0", "1e-9", "0.01", "1", "20", "1e9"])
@pytest.mark.parametrize("delta", DELTAS)
def test_the_rho_of_a_budget_stays_within_it(epsilon: str, delta: str) -> None:
    rho = epsilon_to_rho(epsilon, delta=delta)
    assert rho > 0
    assert rho_to_epsilon(rho, delta=delta) <= Fraction(epsilon)
    assert rho_to_delta(rho, epsilon=epsilon) <= Fraction(delta)
    assert rho_to_delta(rho * Fraction(1001, 1000), epsilon=epsilon) > Fraction(delta)


@given(rho=positive, epsilon=positive)
@settings(max_examples=60, deadline=None)
def test_the_gaussian_mechanism_itself_loses_no_more(rho: Fraction, epsilon: Fraction) -> None:
    mu, e = sqrt(2 * rho), float(epsilon)
    tail, other = erfc((e / mu - mu / 2) / sqrt(2)) / 2, erfc((e / mu + mu / 2) / sqrt(2)) / 2
    exact = tail - (exp(e) * other if other else 0.0)
    assert exact <= float(rho_to_delta(rho, epsilon=epsilon)) * (1 + 1e-9) + 1e-14


@given(rhos=st.tuples(positive, positive), deltas=st.tuples(chance, chance))
@settings(max_examples=20, deadline=None)
def test_more_loss_or_less_delta_never_means_less_epsilon(
    rhos: tuple[Fraction, Fraction], deltas: tuple[Fraction, Fraction]
) -> None:
    (little, much), (tiny, large) = sorted(rhos), sorted(deltas)
    assert rho_to_epsilon(little, delta=large) <= rho_to_epsilon(much, delta=large)
    assert rho_to_epsilon(little, delta=large) <= rho_to_epsilon(little, delta=tiny)
    assert rho_to_delta(little, epsilon=1) <= rho_to_delta(much, epsilon=1)
    assert epsilon_to_rho(little, delta=tiny) <= epsilon_to_rho(much, delta=tiny)
    assert epsilon_to_rho(little, delta=tiny) <= epsilon_to_rho(little, delta=large)


def test_a_value_published_by_others() -> None:
    assert round(float(rho_to_epsilon("0.81", delta="1e-10")), 2) == 8.92


def test_nothing_lost_is_nothing() -> None:
    assert rho_to_epsilon(0, delta="1e-6") == 0
    assert rho_to_delta(0, epsilon=0) == 0


def test_what_cannot_matter_is_cut_off() -> None:
    assert rho_to_delta(1, epsilon="1e9") == LEAST_DELTA
    assert rho_to_delta("1e9", epsilon=0) == 1


@pytest.mark.parametrize("delta", [0, 1, -1, "1.5"])
def test_delta_must_leave_something_to_chance(delta: str | int) -> None:
    with pytest.raises(SpecError, match="delta"):
        rho_to_epsilon(1, delta=delta)
    with pytest.raises(SpecError, match="delta"):
        epsilon_to_rho(1, delta=delta)


def test_a_loss_is_not_negative() -> None:
    with pytest.raises(SpecError, match="rho"):
        rho_to_epsilon(-1, delta="0.1")
    with pytest.raises(SpecError, match="epsilon"):
        rho_to_delta(1, epsilon=-1)
