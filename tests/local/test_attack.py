"""Memoized reports tell when an answer changed; tilted ones do not: the best possible attack on both."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest
from scipy import stats

from tidegauge.errors import LocalError
from tidegauge.local import Reporter, Survey
from tidegauge.local.attack import change_posterior, guess_change

WINDOWS, WITHIN, ALPHA = 128, 4, 1e-9
CHANCE = (2 * WITHIN + 1) / (WINDOWS - 1)


def found(protocol: str, epsilon: int, people: int) -> int:
    """How many people's changes are found."""
    survey = Survey(
        answers=["a", "b", "c"],
        windows=WINDOWS,
        changes=2,
        epsilon=epsilon,
        protocol=protocol,
        reveals_change_times=protocol == "memoized",
    )
    random, hits = np.random.default_rng(8), 0
    for _ in range(people):
        reporter, at = Reporter(survey, {}), int(random.integers(1, WINDOWS))
        before, after = random.choice(["a", "b", "c"], 2, replace=False)
        reports = [reporter.report(window, before if window < at else after) for window in range(WINDOWS)]
        hits += abs(guess_change(survey, reports, within=WITHIN) - at) <= WITHIN
    return hits


def test_memoized_change_times_are_found() -> None:
    assert found("memoized", 1, 60) > stats.binom.isf(ALPHA, 60, 0.2)


@pytest.mark.parametrize("protocol", ["tilted", "snapshots+tilted", "response-dcr"])
def test_change_times_are_hidden(protocol: str) -> None:
    """No attack can beat chance by more than e^epsilon."""
    hits = found(protocol, 1, 60)
    assert hits <= stats.binom.isf(ALPHA, 60, exp(1) * CHANCE)
    assert hits < stats.binom.isf(ALPHA, 60, 0.2)


def test_the_posterior_moves_by_at_most_epsilon() -> None:
    survey = Survey(answers=["a", "b"], windows=16, changes=2, epsilon=1, protocol="tilted")
    for _ in range(20):
        reporter = Reporter(survey, {})
        posterior = change_posterior(survey, [reporter.report(w, "a" if w < 5 else "b") for w in range(16)])
        assert posterior[0] == 0
        assert posterior[1:].max() / posterior[1:].min() <= exp(1) * (1 + 1e-9)


def test_the_attack_wants_a_whole_life() -> None:
    survey = Survey(answers=["a", "b"], windows=4, changes=2, epsilon=1)
    with pytest.raises(LocalError, match="one for each window"):
        change_posterior(survey, [Reporter(survey, {}).report(0, "a")])
