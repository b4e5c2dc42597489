"""T22 against units and sets of other units in small worlds, and against the exact probabilities."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import exp, floor, log, sqrt
from typing import TYPE_CHECKING

import pytest

from tidegauge.errors import SpecError
from tidegauge.theory.choice import (
    choice_clip,
    choice_rate,
    choice_sensitivity,
    choice_spread_squared,
    choice_steps,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

PARTS = 8
"""Parts of once that a unit can count; the engine has more."""


def scaled(own: Sequence[int], clip: int) -> list[int]:
    """A unit's part in b, in parts, as the definition has it: the largest weight that its clip allows."""
    norm = sum(one * one for one in own)
    weight = max(n for n in range(PARTS + 1) if n * n * norm <= PARTS**2 * clip)
    return [weight * one for one in own]


def steps_of(b: Sequence[int], weight: Fraction, readings: int, cells: int) -> int:
    squares = Fraction(sum(one * one for one in b), PARTS**2)
    found = choice_steps(squares, readings=readings, cells=cells, weight=weight)
    assert found == floor(float(weight) * sqrt(squares / (readings * cells)) + 1e-9)
    return found


def test_one_unit_moves_a_score_by_at_most_the_sensitivity_in_either_direction() -> None:
    readings, cells = 2, 2
    own = list(product(range(-2, 3), repeat=readings * cells))
    clip = choice_clip(readings=readings, cells=cells, contribution=4, spread=Fraction(1))
    assert clip == readings * cells  # so that D = 1
    spread = choice_spread_squared(clip, readings=readings, cells=cells)
    raised = lowered = clipped = False
    for weight in (Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(40)):
        limit = choice_sensitivity(spread, weight=weight)
        assert limit == floor(float(weight) * sqrt(spread) + 1e-9) + 1
        for others in product((-3, 0, 1), repeat=readings * cells):
            there = [PARTS * one for one in others]
            before = steps_of(there, weight, readings, cells)
            for unit in own[:: 1 if not any(others) else 5]:
                part = scaled(unit, clip)
                clipped = clipped or part != [PARTS * one for one in unit]
                both = [one + other for one, other in zip(there, part, strict=True)]
                move = steps_of(both, weight, readings, cells) - before
                assert -limit <= move <= limit
                raised, lowered = raised or move >= limit - 1, lowered or move <= 1 - limit
    assert raised  # to one step, which is rounding
    assert lowered
    assert clipped


@pytest.mark.parametrize("renews", [False, True])
def test_a_clip_is_the_largest_that_keeps_the_spread_but_within_what_a_unit_can_do(renews: bool) -> None:
    for readings, cells, contribution in product((1, 5, 40), (1, 2, 9), (1, 3, 50)):
        whole = readings * min(2, cells) * contribution**2
        for spread in (Fraction(0), Fraction(1, 9), Fraction(2, 3), Fraction(7), Fraction(1000)):
            clip = choice_clip(
                readings=readings, cells=cells, contribution=contribution, spread=spread, renews=renews
            )
            assert 1 <= clip <= whole
            assert clip >= whole // 64
            sizes = readings, cells
            if clip > max(1, whole // 64):
                assert _spread(clip, *sizes, renews=renews) <= spread**2
            if clip < whole:
                assert _spread(clip + 1, *sizes, renews=renews) > spread**2


def _spread(clip: int, readings: int, cells: int, *, renews: bool) -> Fraction:
    return choice_spread_squared(clip, readings=readings, cells=cells, renews=renews)


def test_a_unit_that_is_not_there_in_one_term_moves_a_score_by_twice_as_much_at_most() -> None:
    """Its weight changes, so its part changes in all terms."""
    readings, cells = 4, 1
    clip = choice_clip(readings=readings, cells=cells, contribution=4, spread=Fraction(2), renews=True)
    assert clip == readings * cells
    spread = choice_spread_squared(clip, readings=readings, cells=cells, renews=True)
    weight = Fraction(40)
    limit = choice_sensitivity(spread, weight=weight)
    alone = choice_sensitivity(choice_spread_squared(clip, readings=readings, cells=cells), weight=weight)
    most = 0
    for unit in product(range(-2, 3), repeat=readings):
        for term in product(range(-2, 3), repeat=2):  # what the first two readings are without the term
            one, other = scaled(unit, clip), scaled((*term, *unit[2:]), clip)
            for there in ([0] * readings, [-one for one in other], [5 * PARTS] * readings):
                ours = [a + b for a, b in zip(there, one, strict=True)]
                theirs = [a + b for a, b in zip(there, other, strict=True)]
                move = steps_of(ours, weight, readings, cells) - steps_of(theirs, weight, readings, cells)
                assert abs(move) <= limit
                most = max(most, abs(move))
    assert most > alone  # so that the factor is needed


@pytest.mark.parametrize("rate", [0.1, 1.0, 3.0])
def test_the_loss_of_a_draw_holds_for_every_move_of_the_scores(rate: float) -> None:
    """Probabilities and Renyi divergences, computed exactly, for scores that move by up to 1 either way."""
    worst = 0.0
    for scores in product((0.0, 0.5, 1.0, 3.0), repeat=3):
        for moves in product((-1.0, 0.0, 1.0), repeat=3):
            p = _probabilities([rate / 2 * one for one in scores])
            q = _probabilities([rate / 2 * (one + more) for one, more in zip(scores, moves, strict=True)])
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
        choice_clip(readings=0, cells=1, contribution=1, spread=Fraction(1))
    with pytest.raises(SpecError):
        choice_clip(readings=1, cells=1, contribution=1, spread=Fraction(-1))
    with pytest.raises(SpecError):
        choice_spread_squared(0, readings=1, cells=1)
    with pytest.raises(SpecError):
        choice_steps(Fraction(-1), readings=1, cells=1, weight=Fraction(1))
