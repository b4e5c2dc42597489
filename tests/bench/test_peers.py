"""Protocols of others that the benchmarks compare with: their laws, by enumeration where that is possible."""

from __future__ import annotations

from itertools import product
from math import exp, log
from pathlib import Path

import numpy as np
import pytest

from bench.growing import FIRST, World, part, published, result, scheduled
from bench.local_peers import Bits, Setting, fresh_bits, kept_bits, updates
from bench.thresholds import means, printed, rmse, thresh, tuned
from tidegauge.local.simulate import invent_lives


def law_of_a_bit(law: Bits, answer: int, asked: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """The chance of every report of one person."""
    p, q = law.chances
    found = {}
    for bits in product((0, 1), repeat=law.drawn):
        chance = 1.0
        for bit, about in zip(bits, asked, strict=True):
            one = p if about == answer else q
            chance *= one if bit else 1 - one
        found[bits] = chance
    return found


@pytest.mark.parametrize("drawn", [1, 2, 3])
def test_bits_lose_what_they_state_and_are_unbiased(drawn: int) -> None:
    law = Bits(3, drawn, 0.7)
    every = [asked for asked in product(range(3), repeat=drawn) if len(set(asked)) == drawn]
    for asked in every:
        laws = [law_of_a_bit(law, answer, asked) for answer in range(3)]
        loss = max(log(a[bits] / b[bits]) for a in laws for b in laws for bits in a)
        assert loss == pytest.approx(0.7 * min(drawn, 2), abs=1e-12)
    for answer in range(3):
        mean, square = np.zeros(3), np.zeros(3)
        for asked in every:
            for bits, chance in law_of_a_bit(law, answer, asked).items():
                one = law.estimate(np.array([asked]), np.array([bits]))
                mean += chance / len(every) * one
                square += chance / len(every) * one**2
        assert mean == pytest.approx(np.eye(3)[answer], abs=1e-12)
        spread = square - mean**2
        evenly = (spread[answer] + 2 * spread[(answer + 1) % 3]) / 3
        assert evenly == pytest.approx(law.variance, rel=1e-12)


def test_simulated_errors_are_those_of_the_formulas() -> None:
    """Over many runs; the seed is fixed, and a law with a third less noise is outside of the range."""
    setting, random = Setting(4, 2, 16, 4), np.random.default_rng(5)
    lives = invent_lives(people=2000, windows=16, answers=4, changes=3, random=random)
    truth = np.stack([(lives == answer).sum(axis=0) for answer in range(4)], axis=1)
    for peer in (fresh_bits(setting), kept_bits(setting), updates(setting, lives)):
        exact, simulate = peer
        found = np.mean([((simulate(lives, random) - truth) ** 2).mean() / 2000 for _ in range(40)])
        assert found / exact == pytest.approx(1, abs=0.2)


def test_the_scheduler_spends_its_budget() -> None:
    for gamma in (0.1, 0.5, 1.0):
        spent = sum(part(gamma, turn) for turn in range(800))
        assert spent == pytest.approx(1, abs=1e-6)


def test_the_scheduler_without_noise_follows_the_share() -> None:
    class Silent:
        def laplace(self, *, scale: float, size: int) -> np.ndarray:
            assert scale > 0
            return np.zeros(size)

    sizes = np.array([FIRST, FIRST * 2, FIRST * 4])
    world = World(sizes, sizes // 4)
    found = scheduled(world, 0.5, 2, Silent())  # type: ignore[arg-type]
    assert found == pytest.approx(np.array([sizes / 4] * 2))


def test_the_gauges_count_the_rows_of_the_world(tmp_path: Path) -> None:
    world = World.invent(40, tmp_path / "t.csv", np.random.default_rng(1))
    found = published(tmp_path / "t.csv", 40, tmp_path, 1, epsilon=10**9)
    assert np.abs(found[0] - world.counted).max() < 0.5


def test_the_experiment_has_every_part() -> None:
    found = result(60, 1)
    assert [one.against for one in found.ratios[:2]] == ["the first month"] * 2
    assert found.ratios[1].value > 1
    assert [len(line.points) for line in found.charts[0].lines] == [2, 2, 2]


def test_thresh_with_a_large_budget_follows_the_share_and_with_none_it_cannot() -> None:
    random, truth = np.random.default_rng(2), means(16)
    local = random.binomial(400, truth[:, None], (16, 2000)) / 400
    rich, poor = (thresh(local, e, tuned(e, 4, 0.1, 16), random) for e in (100.0, 0.01))
    assert rmse([rich], truth) < 0.05
    assert rmse([poor], truth) > 0.2


def test_the_constants_of_the_theorem() -> None:
    assert printed(40, 64) is None
    constants = printed(10_000, 64)
    assert constants
    assert constants.vote == pytest.approx(0.1879, abs=1e-3)
    assert len(constants.margins) == 7
    assert exp(constants.estimate) > 1
