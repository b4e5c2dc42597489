"""The estimates are unbiased and vary as they say, and the simulation has the reporter's law.

Thresholds come from ALPHA; a twin of each test is fed noise that is 10 % too small, or a law
that is 10 % off, and must be caught.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import stats

from tidegauge.errors import LocalError
from tidegauge.local import Collector, Reporter, Survey
from tidegauge.local.decode import _Evidence
from tidegauge.local.groups import Response, Tilted
from tidegauge.local.simulate import invent_lives, simulated_tally, true_histogram
from tidegauge.local.survey import PROTOCOLS
from tidegauge.local.tally import Layout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.local.survey import Options

ALPHA = 1e-9
PEOPLE, WINDOWS = 1600, 4
MAPS = ("coordinate", "sign", "pair")
CASES = [
    *((name, "") for name in PROTOCOLS if name != "tilted"),
    *(("tilted", name) for name in MAPS),
    ("snapshots", "oue"),
    ("memoized", "oue"),
]


def make(
    protocol: str,
    name: str = "",
    *,
    answers: int = 2,
    windows: int = WINDOWS,
    changes: int = 2,
    epsilon: float = 3,
) -> Survey:
    options: Options = {} if not name else {"map": name} if protocol == "tilted" else {"oracle": name}
    return Survey(
        answers=[*"abcdefgh"[:answers]], windows=windows, changes=changes, epsilon=epsilon, protocol=protocol,
        options=options, reveals_change_times=protocol == "memoized",
    )  # fmt: skip


def lives_of(
    people: int, *, windows: int = WINDOWS, answers: int = 2, changes: int = 2, seed: int = 1
) -> NDArray[np.int64]:
    lives = invent_lives(
        people=people, windows=windows, answers=answers, changes=changes, random=np.random.default_rng(seed)
    )
    lives[: people // 5] = answers  # some are never there
    lives[people // 5 : people // 3, : windows // 2] = answers  # some come later
    return lives


@cache
def reported(protocol: str, name: str) -> Collector:
    """A collector that was sent what the reporters really say."""
    survey = make(protocol, name)
    collector = Collector(survey)
    collector.add(reports_of(survey, lives_of(PEOPLE)))
    return collector


def reports_of(survey: Survey, lives: NDArray[np.int64]) -> list[bytes]:
    symbols, reports = [*survey.answers, None], []
    for life in lives:
        reporter = Reporter(survey, {})
        reports += [reporter.report(window, symbols[answer]) for window, answer in enumerate(life)]
    return reports


@pytest.mark.parametrize(("protocol", "name"), CASES)
def test_estimates_from_reporters_are_unbiased(protocol: str, name: str) -> None:
    collector, truth = reported(protocol, name), true_histogram(lives_of(PEOPLE), 2)
    found = collector.histogram()
    assert (found.roster == PEOPLE).all()
    scores = np.abs(found.value - truth) / found.stderr
    limit = stats.norm.isf(ALPHA / 2 / scores.size)
    assert scores.max() < limit
    shifted = np.abs(found.value - truth - 3 * limit * found.stderr) / found.stderr
    assert shifted.max() > limit


@pytest.mark.parametrize(("protocol", "name"), CASES)
def test_the_simulation_has_the_law_of_the_reporter(protocol: str, name: str) -> None:
    tally, lives = reported(protocol, name).tally, np.tile(lives_of(PEOPLE), (60, 1))
    expected = simulated_tally(make(protocol, name), lives, np.random.default_rng(2)) / 60
    assert _least_p_value(Layout(make(protocol, name)), tally, expected) > ALPHA


def test_the_simulation_of_another_law_is_detected() -> None:
    tally, lives = reported("tilted", "coordinate").tally, np.tile(lives_of(PEOPLE), (60, 1))
    survey = make("tilted", "coordinate", epsilon=3.6)
    other = simulated_tally(survey, lives, np.random.default_rng(2)) / 60
    assert _least_p_value(Layout(survey), tally, other) < ALPHA


def _least_p_value(layout: Layout, tally: NDArray[np.int64], expected: NDArray[np.float64]) -> float:
    """The least p-value of a chi-squared test, times the number of tests.

    People report independently of each other, but one person's reports in different windows, and a report's
    role and symbol, are not independent.  So each window is tested alone, and in it the roles and the
    symbols.
    """
    least, tests = 1.0, 0
    for columns in (slice(0, 1), slice(1, layout.symbols[0]), slice(layout.symbols[0], layout.width)):
        for seen, mean in zip(tally[:, columns], expected[:, columns], strict=True):
            common = mean >= 5
            distance = ((seen - mean)[common] ** 2 / mean[common]).sum() / (1 + 1 / 60)
            least, tests = min(least, float(stats.chi2.sf(distance, int(common.sum())))), tests + 1
    return least * tests


@pytest.mark.parametrize(
    ("protocol", "name"),
    [("response-dcr", ""), ("snapshots", ""), ("snapshots", "oue"), *(("tilted", name) for name in MAPS)],
)
def test_what_a_window_says_varies_as_it_claims(protocol: str, name: str) -> None:
    """Single windows err independently, so a sum of squared scores has a known law."""
    survey = (
        make(protocol, name, windows=32, answers=3, epsilon=2)
        if name != "pair"
        else make(protocol, name, windows=32, answers=3, epsilon=5)
    )
    lives = lives_of(2000, windows=32, answers=3)
    truth = true_histogram(lives, 3)
    layout, random, repeats = Layout(survey), np.random.default_rng(3), 180
    errors, claims = np.empty((repeats, survey.windows)), np.empty((repeats, survey.windows))
    for repeat in range(repeats):
        evidence = _Evidence(survey, layout, simulated_tally(survey, lives, random))
        head = survey.groups[0]
        changes = np.diff(truth, axis=0, prepend=0)
        if isinstance(head, Response):
            value, covariance = evidence.response(head)[0]
            error, variance = (value - changes)[:, 0], covariance[:, 0, 0]
        elif isinstance(head, Tilted):
            measured = evidence.tilted(head)
            error, variance = (measured.value - changes)[:, 0], measured.spread[:, 0]
        else:
            measured = evidence.states(head)
            error, variance = (measured.value - truth)[:, 0], measured.spread[:, 0]
        errors[repeat], claims[repeat] = error, variance
    scores = errors / np.sqrt(claims.mean(axis=0))
    freedom = scores.size
    low, high = stats.chi2.ppf(ALPHA / 2, freedom), stats.chi2.isf(ALPHA / 2, freedom)
    assert low < (scores**2).sum() < high
    assert not low < ((0.9 * scores) ** 2).sum() < high


def ratios(survey: Survey, *, people: int, repeats: int) -> tuple[float, NDArray[np.float64]]:
    """Claimed over simulated variance, and the difference of the covariances relative to the variances."""
    random = np.random.default_rng(4)
    z = len(survey.answers)
    lives = invent_lives(
        people=people, windows=survey.windows, answers=z, changes=survey.changes, random=random
    )
    truth, collector, errors, claimed = true_histogram(lives, z), Collector(survey), [], []
    for _ in range(repeats):
        collector.tally = simulated_tally(survey, lives, random)
        found = collector.histogram()
        errors.append(found.value - truth)
        claimed.append(found.covariance)
    error, claim = np.array(errors), np.mean(claimed, axis=(0, 1))
    simulated = np.einsum("rta,rtb->ab", error, error) / error.shape[0] / error.shape[1]
    bias = error.mean(axis=0) / (error.std(axis=0) / np.sqrt(repeats))
    assert np.abs(bias).max() < stats.norm.isf(ALPHA / 2 / bias.size)
    return float(np.trace(claim) / np.trace(simulated)), (claim - simulated) / np.trace(simulated) * z


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "epsilon", "repeats"),
    [
        ("snapshots+tilted", 1, 1500),
        ("snapshots+tilted", 2, 1500),
        ("snapshots", 2, 1500),
        ("tilted", 2, 2500),
        ("response-dcr", 2, 4000),
        ("response-hdcr", 2, 4000),
    ],
)
def test_covariance_is_the_simulated_one(protocol: str, epsilon: int, repeats: int) -> None:
    survey = make(protocol, windows=32, answers=3, changes=3, epsilon=epsilon)
    ratio, apart = ratios(survey, people=1500, repeats=repeats)
    assert abs(ratio - 1) < 0.03
    assert np.abs(apart).max() < 0.03


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [4, 8])
def test_covariance_is_not_understated_where_there_is_little_noise(epsilon: int) -> None:
    """The same people report in all windows; tokens hide who, so that what this saves cannot be claimed."""
    survey = make("snapshots+tilted", windows=32, answers=3, changes=3, epsilon=epsilon)
    ratio, _ = ratios(survey, people=1500, repeats=800)
    assert 0.97 < ratio < 1.1


def test_covariance_is_near_the_simulated_one() -> None:
    """The short form of the test above, with a fixed seed."""
    ratio, apart = ratios(
        make("snapshots+tilted", windows=16, answers=2, epsilon=2), people=1500, repeats=200
    )
    assert abs(ratio - 1) < 0.06
    assert np.abs(apart).max() < 0.06


@pytest.mark.parametrize("protocol", ["snapshots+tilted", "tilted", "snapshots"])
def test_the_plan_predicts_the_error(protocol: str) -> None:
    survey, random = make(protocol, windows=16, answers=3, changes=3, epsilon=2), np.random.default_rng(6)
    lives = invent_lives(people=3000, windows=16, answers=3, changes=3, random=random)
    truth, collector, squares = true_histogram(lives, 3), Collector(survey), []
    for _ in range(80):
        collector.tally = simulated_tally(survey, lives, random)
        squares.append(((collector.histogram().value - truth) ** 2).mean() / 3000)
    assert np.mean(squares) == pytest.approx(survey.predicted_variance().mean(), rel=0.1)


def test_a_simplex_has_no_negative_counts() -> None:
    collector = reported("snapshots+tilted", "")
    table = collector.estimate(simplex=True)
    value = np.array(table["value"]).reshape(WINDOWS, 2)
    assert (value >= 0).all()
    assert (value.sum(axis=1) <= PEOPLE + 1e-6).all()
    plain = np.array(collector.estimate()["value"]).reshape(WINDOWS, 2)
    inside = (plain >= 0).all(axis=1) & (plain.sum(axis=1) <= PEOPLE)
    assert value[inside] == pytest.approx(plain[inside])


@pytest.mark.parametrize("protocol", ["response-dcr", "tilted"])
def test_changes_of_single_windows_add_up(protocol: str) -> None:
    collector = reported(protocol, "coordinate" if protocol == "tilted" else "")
    truth = np.diff(true_histogram(lives_of(PEOPLE), 2), axis=0, prepend=0)
    table = collector.changes()
    value, stderr = (np.array(table[name]).reshape(WINDOWS, 2) for name in ("value", "stderr"))
    assert (np.abs(value - truth) / stderr).max() < stats.norm.isf(ALPHA / 16)
    if protocol == "response-dcr":
        assert np.cumsum(value, axis=0) == pytest.approx(collector.histogram().value)


def test_snapshots_know_nothing_of_changes() -> None:
    with pytest.raises(LocalError, match="single window"):
        reported("snapshots", "").changes()


def test_without_noise_the_paper_counts_exactly() -> None:
    """At a huge epsilon every report is true, so the whole path from answer to estimate can be checked."""
    survey = Survey(
        answers=["a", "b"],
        windows=5,
        changes=5,
        epsilon=10**9,
        protocol="response-hdcr",
        options={"branching": 2},
    )
    collector, lives = Collector(survey), lives_of(40, windows=5)
    for life in lives:
        reporter = Reporter(survey, {})
        collector.add(
            [reporter.report(window, ["a", "b", None][answer]) for window, answer in enumerate(life)]
        )
    found = collector.histogram()
    assert found.value == pytest.approx(true_histogram(lives, 2), abs=1e-6)
    assert found.stderr.max() < 1e-6
