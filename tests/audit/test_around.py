"""The checks around the engine pass on right code, and fail on wrong code.  alpha = 1e-9."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tidegauge.audit.audit import seedable
from tidegauge.audit.controls.bugs import BUGS
from tidegauge.audit.findings import Discrepancy
from tidegauge.audit.installed import random_gauges
from tidegauge.audit.installed.checks import checks
from tidegauge.audit.installed.chosen import check_draw
from tidegauge.audit.installed.published import check_intervals, check_without_noise
from tidegauge.audit.installed.random_gauges import RandomGauge, check_random
from tidegauge.audit.local.surveys import check_estimates
from tidegauge.audit.readers import wal
from tidegauge.local import decode
from tidegauge.local.decode import Histogram
from tidegauge.mechanism.noise.samplers import SecureSampler
from tidegauge.mechanism.noise.selection import NoisyMinimum

if TYPE_CHECKING:
    from tidegauge.mechanism.noise.samplers import Noise


def test_bugs_whose_reader_is_not_installed_are_not_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {bug.name for bug in BUGS if "PostgreSQL" in bug.name} <= {bug.name for bug in seedable()}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(wal, "find_spec", lambda name: None)
    known = checks(1e-6)
    assert not any("PostgreSQL" in name for name in known)
    assert "values of change events" in known


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


def test_estimates_of_surveys_are_as_far_off_as_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    check_estimates()
    from tidegauge.audit.local import surveys

    histogram = decode.histogram

    def bolder(*arguments: object) -> Histogram:
        found = histogram(*arguments)  # type: ignore[arg-type]
        return replace(found, covariance=found.covariance / 2)

    monkeypatch.setattr(surveys, "histogram", bolder)
    with pytest.raises(Discrepancy, match="standard errors"):
        check_estimates()
