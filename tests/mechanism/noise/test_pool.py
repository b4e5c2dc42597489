"""Draws of one law are made together, and each is handed out once."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import count
from typing import TYPE_CHECKING

import pytest

from tidegauge.mechanism.noise.pool import Pool
from tidegauge.mechanism.noise.samplers import DiscreteGaussian, DiscreteLaplace

if TYPE_CHECKING:
    from tidegauge.mechanism.noise.samplers import Noise

WIDE, NARROW = DiscreteGaussian(Fraction(100)), DiscreteLaplace(Fraction(3))


class Numbered:
    """A sampler whose draws are 0, 1, 2, ..., and that counts its calls."""

    simulated = False

    def __init__(self) -> None:
        self._numbers = count()
        self.calls: list[tuple[Noise, int]] = []

    def draw(self, noise: Noise, count: int) -> list[int]:
        self.calls.append((noise, count))
        return [next(self._numbers) for _ in range(count)]


@pytest.mark.parametrize("wanted", [10, 9, 3, 0, 25])
def test_every_draw_is_handed_out_once(wanted: int) -> None:
    sampler = Numbered()
    pool = Pool(sampler, {WIDE: wanted})
    asked = [3, 4, 0, 2, 1]
    found = [pool.draw(WIDE, size) for size in asked]
    assert [len(one) for one in found] == asked
    drawn = [draw for one in found for draw in one]
    assert len(set(drawn)) == len(drawn) == 10
    other = pool.draw(NARROW, 2)
    assert not set(other) & set(drawn)
    assert sum(size for law, size in sampler.calls if law == WIDE) == max(wanted, 10)


def test_one_call_for_each_law() -> None:
    sampler = Numbered()
    pool = Pool(sampler, Counter({WIDE: 6, NARROW: 4}))
    for _ in range(2):
        pool.draw(WIDE, 3)
        pool.draw(NARROW, 2)
    assert sampler.calls == [(WIDE, 6), (NARROW, 4)]
