"""The checks of the installed code pass on correct code, and fail on wrong code.  alpha = 1e-9."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidegauge.audit.findings import Discrepancy
from tidegauge.audit.installed import random_gauges
from tidegauge.audit.installed.choice import check_draw
from tidegauge.audit.installed.published import check_intervals, check_without_noise
from tidegauge.audit.installed.random_gauges import RandomGauge, check_random
from tidegauge.mechanism.noise.samplers import SecureSampler
from tidegauge.mechanism.noise.selection import NoisyMinimum

if TYPE_CHECKING:
    from tidegauge.mechanism.noise.samplers import Noise


@pytest.mark.parametrize("kind", list(random_gauges._KINDS))
def test_random_gauges_equal_the_oracle(kind: str) -> None:
    check_random([7001, 7002], kind)


def test_a_change_that_the_oracle_does_not_know_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    gauge = RandomGauge(0)
    expected = random_gauges._expected

    def wrong(*arguments: object) -> object:
        return {spot: amount + 1 for spot, amount in expected(*arguments).items()}  # type: ignore[arg-type]

    monkeypatch.setattr(random_gauges, "_expected", wrong)
    with pytest.raises(Discrepancy, match="oracle"):
        gauge.check(0)


def test_the_choice_is_drawn_as_it_should_be_and_half_its_noise_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for pure in (False, True):
        check_draw(1e-9, pure=pure)
    draw = NoisyMinimum.draw
    monkeypatch.setattr(
        NoisyMinimum, "draw", lambda self, scores, sampler: draw(self, [2 * one for one in scores], sampler)
    )
    for pure in (False, True):
        with pytest.raises(Discrepancy, match="other probabilities"):
            check_draw(1e-9, pure=pure)


def test_readings_are_exact_without_noise_and_noise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    check_without_noise()
    monkeypatch.setattr(
        "tidegauge.audit.installed.published.Silent.draw", lambda self, noise, count: [10**6] * count
    )
    with pytest.raises(Discrepancy, match="another value"):
        check_without_noise()


def test_intervals_cover_and_those_of_larger_noise_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    check_intervals(1e-9)

    def louder(self: SecureSampler, noise: Noise, count: int) -> list[int]:
        return [round(1.2 * one) for one in noise.sample(count)]

    monkeypatch.setattr(SecureSampler, "draw", louder)
    with pytest.raises(Discrepancy, match="do not cover"):
        check_intervals(1e-9)
