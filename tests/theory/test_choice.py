"""T22 against every unit and every set of other units in small worlds, and against the exact probabilities."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import exp, floor, log, sqrt

import pytest

from tidegauge.errors import SpecError
from tidegauge.theory.choice import choice_rate, choice_sensitivity, choice_spread_squared, choice_steps

Contribution = tuple[int, ...]


def states(cells: int, rows: int) -> list[Contribution]:
    """What a unit with up to so many rows can contribute to the cells."""
    return [one for one in product(range(rows + 1), repeat=cells) if sum(one) <= rows]


def differing(true: tuple[int, ...], accepted: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(one != other) for one, other in zip(true, accepted, strict=True))


def change(now: Contribution, before: Contribution) -> Contribution:
    return tuple(one - other for one, other in zip(now, before, strict=True))


@pytest.mark.parametrize(("cells", "rows"), [(1, 1), (2, 1), (3, 1), (5, 1), (3, 2), (5, 2)])
@pytest.mark.parametrize("windows", [False, True])
def test_the_spread_is_the_most_cells_in_which_a_unit_can_differ(
    cells: int, rows: int, windows: bool
) -> None:
    found = states(cells, rows)
    held = {change(now, before) for now, before in product(found, repeat=2)} if windows else set(found)
    most = max(sum(differing(true, accepted)) for true, accepted in product(held, repeat=2))
    assert choice_spread_squared(cells=cells, rows=rows, windows=windows) == Fraction(most, cells)


def test_a_unit_never_lowers_a_score_and_raises_it_by_at_most_the_sensitivity() -> None:
    readings, cells = 2, 3
    parts = [one for one in product((0, 1), repeat=cells) if sum(one) <= 2]
    own = [sum(pair, ()) for pair in product(parts, repeat=readings)]
    spread = choice_spread_squared(cells=cells)
    tight = False
    for weight in (Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(40)):
        limit = choice_sensitivity(spread, weight=weight)
        assert limit == floor(float(weight) * sqrt(spread)) + 1
        for others in product(range(4), repeat=readings * cells):
            before = choice_steps(sum(n * n for n in others), readings=readings, cells=cells, weight=weight)
            assert before == floor(
                float(weight) * sqrt(sum(n * n for n in others) / (readings * cells)) + 1e-9
            )
            for unit in own[:: 1 if max(others) < 2 else 7]:
                both = sum((n + m) ** 2 for n, m in zip(others, unit, strict=True))
                after = choice_steps(both, readings=readings, cells=cells, weight=weight)
                assert 0 <= after - before <= limit
                tight = tight or after - before == limit
    assert tight


@pytest.mark.parametrize("rate", [0.1, 1.0, 3.0])
def test_the_loss_of_a_draw_holds_for_every_rise_of_the_scores(rate: float) -> None:
    """Probabilities and Renyi divergences, computed exactly, for scores that rise by 0, half or all of it."""
    worst = 0.0
    for scores in product((0.0, 0.5, 1.0, 3.0), repeat=3):
        for rises in product((0.0, 0.5, 1.0), repeat=3):
            p = _probabilities([rate * one for one in scores])
            q = _probabilities([rate * (one + more) for one, more in zip(scores, rises, strict=True)])
            ratios = [log(one / other) for one, other in zip(p, q, strict=True)]
            assert max(map(abs, ratios)) <= rate * (1 + 1e-12)
            for order in (1.01, 1.5, 2.0, 8.0, 64.0):
                for one, other in ((p, q), (q, p)):
                    moment = sum(exp(order * log(a / b) + log(b)) for a, b in zip(one, other, strict=True))
                    divergence = log(moment) / (order - 1)
                    assert divergence <= order * rate**2 / 8 * (1 + 1e-9)
                    worst = max(worst, divergence / (order * rate**2 / 8))
    assert worst > (0.6 if rate <= 1 else 0.2)  # the bound is not far from what happens


def _probabilities(costs: list[float]) -> list[float]:
    weights = [exp(-one) for one in costs]
    return [one / sum(weights) for one in weights]


def test_the_rate_is_rounded_down() -> None:
    assert choice_rate(Fraction(1, 7), pure=True) == Fraction(1, 7)
    for cost in (Fraction(1, 1000), Fraction(1, 8), Fraction(22, 7)):
        rate = choice_rate(cost, pure=False)
        assert rate**2 / 8 <= cost < (rate + Fraction(1, 2**39)) ** 2 / 8
    with pytest.raises(SpecError):
        choice_rate(Fraction(0), pure=False)
    with pytest.raises(SpecError):
        choice_spread_squared(cells=0)
    with pytest.raises(SpecError):
        choice_steps(-1, readings=1, cells=1, weight=Fraction(1))
