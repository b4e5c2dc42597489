"""Composition against the definition: every outcome of small compositions, enumerated."""

from __future__ import annotations

from fractions import Fraction
from importlib import import_module
from itertools import product
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegauge.errors import SpecError
from tidegauge.theory.accounting.composition import Composition, compose, flatten, worst
from tidegauge.theory.accounting.conversion import rho_to_epsilon
from tidegauge.theory.accounting.events import Approximate, Concentrated, Event, Gaussian, Laplace, Repeated

mp = import_module("mpmath").mp.clone()
mp.dps = 50

epsilons = st.fractions(min_value=Fraction(1, 50), max_value=Fraction(3), max_denominator=50)
deltas = st.sampled_from([Fraction(1, 10), Fraction(1, 1000), Fraction(1, 10**6), Fraction(1, 10**9)])


def exactly(value: Fraction) -> Any:
    return mp.mpf(value.numerator) / value.denominator


def randomized_responses(runs: list[Fraction], epsilon: Fraction, delta: Fraction = Fraction(0)) -> Any:
    """Delta at epsilon of (e, delta) mechanisms at their worst, one for each run: all 4^k outcomes."""
    bound, d = mp.exp(exactly(epsilon)), exactly(delta)
    answers = []
    for run in runs:
        likely = (1 - d) / (1 + mp.exp(-exactly(run)))
        answers.append([(d, mp.zero), (likely, 1 - d - likely), (1 - d - likely, likely), (mp.zero, d)])
    outcomes = ([mp.fprod(side) for side in zip(*outcome, strict=True)] for outcome in product(*answers))
    return mp.fsum(max(mp.zero, here - bound * there) for here, there in outcomes)


def binomial_delta(epsilon: Fraction, runs: int, at: Fraction) -> Any:
    """The same for many equal pure runs: by the number of answers against the odds."""
    e, bound = exactly(epsilon), exactly(at)
    every = (1 + mp.exp(-e)) ** runs
    return mp.fsum(
        comb(runs, wrong) * mp.exp(-wrong * e) / every * -mp.expm1(bound - (runs - 2 * wrong) * e)
        for wrong in range(runs + 1)
        if (runs - 2 * wrong) * e > bound
    )


@given(
    epsilon=epsilons,
    delta=st.sampled_from([Fraction(0), Fraction(1, 100)]),
    runs=st.integers(1, 4),
    spare=deltas,
)
@settings(max_examples=15, deadline=None)
def test_optimal_is_exact_and_every_candidate_is_valid(
    epsilon: Fraction, delta: Fraction, runs: int, spare: Fraction
) -> None:
    target = 1 - (1 - delta) ** runs * (1 - spare)
    found = compose(epsilon=epsilon, delta=delta, folds=runs, target_delta=target)
    for value in found.candidates.values():
        assert randomized_responses([epsilon] * runs, value, delta) <= exactly(target)
    optimal = found.candidates["optimal"]
    assert optimal == min(found.candidates.values())
    if optimal:
        smaller = optimal * (1 - Fraction(1, 10**12))
        assert randomized_responses([epsilon] * runs, smaller, delta) > exactly(target)


@given(first=epsilons, second=epsilons, spare=deltas)
@settings(max_examples=12, deadline=None)
def test_unequal_losses_are_never_understated(first: Fraction, second: Fraction, spare: Fraction) -> None:
    found = compose(Approximate(first, times=2), Approximate(second, times=2), target_delta=spare)
    assert ("optimal" in found.candidates) == (first == second)
    assert set(found.candidates) >= {"basic", "advanced", "renyi", "numeric"}
    for value in found.candidates.values():
        assert randomized_responses([first] * 2 + [second] * 2, value) <= exactly(spare)


@pytest.mark.parametrize("runs", [1, 7, 60, 900])
@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "1"])
@pytest.mark.parametrize("delta", ["1e-3", "1e-6", "1e-10"])
def test_many_runs_against_the_binomial_law(epsilon: str, runs: int, delta: str) -> None:
    found = compose(epsilon=epsilon, folds=runs, target_delta=delta)
    optimal = found.candidates["optimal"]
    assert binomial_delta(Fraction(epsilon), runs, optimal) <= exactly(Fraction(delta))
    if optimal:
        assert binomial_delta(Fraction(epsilon), runs, optimal * (1 - Fraction(1, 10**12))) > exactly(
            Fraction(delta)
        )
    assert found.method == ("optimal" if optimal < runs * Fraction(epsilon) else "basic")
    assert all(value >= optimal for value in found.candidates.values())


@pytest.mark.parametrize(
    ("epsilon", "runs", "delta"), [("0.1", 100, "1e-6"), ("0.5", 20, "1e-5"), ("0.02", 900, "1e-8")]
)
def test_advanced_is_within_its_published_form(epsilon: str, runs: int, delta: str) -> None:
    e, d = mp.mpf(epsilon), exactly(Fraction(delta))
    published = mp.sqrt(2 * runs * mp.log(1 / d)) * e + runs * e * mp.expm1(e)
    tight = mp.sqrt(2 * runs * mp.log(1 / d)) * e + runs * e * mp.tanh(e / 2)
    value = mp.mpf(float(compose(epsilon=epsilon, folds=runs, target_delta=delta).candidates["advanced"]))
    assert value <= published
    assert mp.almosteq(value, tight, rel_eps=mp.mpf("1e-14"))


@pytest.mark.parametrize(("epsilon", "runs"), [("0.1", 100), ("1", 12), ("0.01", 5000)])
def test_renyi_is_the_least_over_orders(epsilon: str, runs: int) -> None:
    e, L = mp.mpf(epsilon), mp.log(mp.mpf(10) ** 6)

    def at(alpha: Any) -> Any:
        each = mp.log((mp.exp(alpha * e) + mp.exp((1 - alpha) * e)) / (1 + mp.exp(e))) / (alpha - 1)
        return runs * each + (L - mp.log(alpha)) / (alpha - 1) + mp.log(1 - 1 / alpha)

    least = min(at(1 + mp.mpf(10) ** (mp.mpf(i) / 300)) for i in range(-600, 1200))
    value = float(compose(epsilon=epsilon, folds=runs, target_delta="1e-6").candidates["renyi"])
    assert float(least) * (1 - 1e-4) < value <= float(least)


def gaussian_delta(sigma_squared: float, shift: int, runs: int, epsilon: float) -> float:
    """Exact: the sum of the runs is sufficient, and its law is a plain convolution."""
    reach = int(40 * sigma_squared**0.5) + 1
    one = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma_squared))
    one /= one.sum()
    law = one
    for _ in range(runs - 1):
        law = np.convolve(law, one)
    here = np.concatenate([np.zeros(runs * shift), law])
    x = np.arange(-reach * runs - runs * shift, reach * runs + 1)
    loss = (2 * x * shift + runs * shift**2) / (2 * sigma_squared)
    return float((here * np.maximum(0, -np.expm1(epsilon - loss))).sum())


def laplace_delta(scale: float, shift: int, runs: int, epsilon: float) -> float:
    """Exact: the losses of one run lie on a lattice of 2 shift + 1 points."""
    p = np.exp(-1 / scale)
    x = np.arange(-400, 400 + shift + 1)
    mass = (1 - p) / (1 + p) * p ** np.abs(x)
    one = np.bincount(np.abs(x - shift) - np.abs(x) + shift, weights=mass)
    law = one
    for _ in range(runs - 1):
        law = np.convolve(law, one)
    loss = (np.arange(len(law)) - runs * shift) / scale
    return float((law * np.maximum(0, -np.expm1(epsilon - loss))).sum())


@pytest.mark.parametrize(
    ("sigma_squared", "shift", "runs"),
    [("0.25", 1, 1), ("0.5", 1, 3), (4, 1, 1), (4, 3, 2), (30, 1, 8), (500, 20, 2)],
)
@pytest.mark.parametrize("delta", ["1e-2", "1e-6", "1e-10"])
def test_discrete_gaussian_noise_is_accounted_tightly(
    sigma_squared: str, shift: int, runs: int, delta: str
) -> None:
    found = compose(Gaussian(sigma_squared, shift, runs), target_delta=delta)
    assert found.method == "numeric"
    assert set(found.candidates) == {"renyi", "numeric"}
    value, square = float(found.epsilon), float(Fraction(sigma_squared))
    assert gaussian_delta(square, shift, runs, value) <= float(delta)
    assert gaussian_delta(square, shift, runs, value * 0.995) > float(delta)


@pytest.mark.parametrize(("scale", "shift", "runs"), [("0.5", 1, 3), (3, 1, 10), (10, 4, 20), (12, 7, 5)])
@pytest.mark.parametrize("delta", ["1e-2", "1e-6", "1e-10"])
def test_discrete_laplace_noise_is_accounted_tightly(scale: str, shift: int, runs: int, delta: str) -> None:
    found = compose(Laplace(scale, shift, runs), target_delta=delta)
    for value in found.candidates.values():
        assert laplace_delta(float(Fraction(scale)), shift, runs, float(value)) <= float(delta) + 1e-14
    tight = float(found.candidates["numeric"]) * 0.9995
    assert laplace_delta(float(Fraction(scale)), shift, runs, tight) > float(delta)


def test_coarse_and_smooth_accounting_lose_little() -> None:
    fine = compose(Laplace(3000, 500, 20), target_delta="1e-6").candidates["numeric"]
    coarse = compose(Laplace(30001, 5000, 20), target_delta="1e-6").candidates["numeric"]
    assert fine * Fraction(998, 1000) < coarse < fine * Fraction(1002, 1000)
    exact = compose(Gaussian(64**2 - Fraction(1, 100), 16, 2), target_delta="1e-6").epsilon
    smooth = compose(Gaussian(64**2, 16, 2), target_delta="1e-6").epsilon
    assert exact < smooth < exact * Fraction(1002, 1000)
    assert gaussian_delta(64**2, 16, 2, float(smooth)) <= 1e-6


def test_kinds_of_noise_compose_together() -> None:
    events = (Approximate("0.3", "1e-8", 3), Laplace(10, 2, 5), Gaussian(900, 3, 10), Gaussian(10**6, 10, 10))
    found = compose(*events, target_delta="1e-6")
    assert set(found.candidates) == {"renyi", "numeric"}
    assert found.method == "numeric"
    parts = [compose(event, target_delta="1e-7").epsilon for event in events]
    assert max(parts) < found.epsilon < sum(parts)
    with_zcdp = compose(*events, Concentrated("0.01"), target_delta="1e-6")
    assert set(with_zcdp.candidates) == {"renyi"}
    assert with_zcdp.epsilon > found.candidates["renyi"]


def test_concentrated_losses_add_up() -> None:
    found = compose(Concentrated("0.3", 2), Gaussian(50, 1, 21), target_delta="1e-10")
    assert found.candidates["renyi"] == rho_to_epsilon("0.81", delta="1e-10")


def test_compositions_of_compositions_flatten() -> None:
    once = Approximate("0.3", "1e-9")
    nested = Repeated(Approximate("0.3", "1e-9", 3), Repeated(once, Laplace(4), times=2), times=4)
    assert set(flatten(nested, once)) == {Approximate("0.3", "1e-9", 21), Laplace(4, 1, 8)}
    assert flatten(Approximate(1, times=0)) == ()
    direct = compose(epsilon="0.3", delta="1e-9", folds=21, target_delta="1e-6")
    assert compose(Repeated(once, times=20), once, target_delta="1e-6") == direct


def test_target_defaults_to_what_the_events_force() -> None:
    found = compose(epsilon="0.5", delta="0.01", folds=3)
    assert (found.epsilon, found.delta, found.method) == (Fraction(3, 2), 1 - Fraction(99, 100) ** 3, "basic")
    assert compose(epsilon=1, folds=4) == compose(Approximate(1, times=4), target_delta=0)
    assert compose(Approximate(1, times=0)).epsilon == 0
    assert compose(epsilon="1e-9", delta="1e-20", folds=10**6).delta == Fraction(1, 10**14)


def test_a_pure_winner_spends_no_delta() -> None:
    found = compose(epsilon="0.5", folds=2, target_delta="1e-300", methods=["basic", "advanced"])
    assert found.method == "basic"
    assert (found.epsilon, found.delta) == (Fraction(1), Fraction(0))


def test_methods_narrow_the_choice() -> None:
    found = compose(epsilon="0.1", folds=100, target_delta="1e-6", methods=["basic", "renyi"])
    assert set(found.candidates) == {"basic", "renyi"}
    assert found.method == "renyi"


@pytest.mark.parametrize("epsilon", ["1e18", "1e9", "1e-12", "1e-400"])
def test_extreme_losses_have_an_answer(epsilon: str) -> None:
    found = compose(epsilon=epsilon, folds=100, target_delta="1e-6")
    assert 0 <= found.epsilon <= 100 * Fraction(epsilon)
    mixed = compose(Approximate(epsilon), Approximate(1), target_delta="1e-6")
    assert Fraction("0.999") < mixed.epsilon <= 1 + Fraction(epsilon)


@pytest.mark.parametrize(
    "sigma_squared", [Fraction(1, 10**400), Fraction(1, 10**18), Fraction(10**60), Fraction(10**400)]
)
def test_extreme_noise_has_an_answer(sigma_squared: Fraction) -> None:
    found = compose(Gaussian(sigma_squared), target_delta="1e-6")
    assert found.epsilon <= found.candidates["renyi"]
    assert (found.epsilon == 0) == (sigma_squared > 1)


def test_nothing_composed_is_nothing_lost() -> None:
    assert compose(Gaussian(5, 0), Laplace(5, 0), Approximate(0), target_delta="1e-6").epsilon == 0


def test_too_many_runs_leave_the_closed_forms() -> None:
    found = compose(epsilon="1e-5", folds=2**21, target_delta="1e-6")
    assert set(found.candidates) == {"basic", "advanced", "renyi"}


def test_the_worst_of_several_is_the_larger_of_every_number() -> None:
    short = compose(epsilon=1, folds=2)
    long = compose(epsilon="0.1", folds=100, target_delta="1e-6")
    either = worst(short, long)
    assert (either.epsilon, either.delta, either.method) == (long.epsilon, long.delta, long.method)
    assert either.candidates["basic"] == 10
    assert set(either.candidates) == {"basic", "optimal"}
    assert hash(either) != hash(short)
    with pytest.raises(SpecError):
        worst()


@pytest.mark.parametrize(
    "call",
    [
        compose,
        lambda: compose(Approximate(1), epsilon=1),
        lambda: compose(epsilon=1, delta="0.1", folds=3, target_delta="0.1"),
        lambda: compose(epsilon=1, target_delta=1),
        lambda: compose(Gaussian(4)),
        lambda: compose(Gaussian(4), target_delta="1e-6", methods=["basic"]),
        lambda: Approximate(1, 2),
        lambda: Approximate(-1),
        lambda: Approximate(1, times=-1),
        lambda: Laplace(0),
        lambda: Gaussian(0),
        lambda: Laplace(1, sensitivity=-1),
    ],
)
def test_what_cannot_be_composed_is_refused(call: Any) -> None:
    with pytest.raises(SpecError):
        call()


def test_events_are_values() -> None:
    assert Approximate("0.1") == Approximate(Fraction(1, 10), 0, 1)
    assert isinstance(Laplace(2, 3), Event)
    assert Laplace(2, 3).epsilon == Fraction(3, 2)
    assert Gaussian(8, 4).rho == 1
    assert isinstance(compose(epsilon=1), Composition)
