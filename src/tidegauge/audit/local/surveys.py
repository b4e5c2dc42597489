"""Local surveys from the state of one reporter to the published estimates, in small worlds."""

from __future__ import annotations

from collections import Counter, defaultdict
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial
from itertools import accumulate, product
from math import inf, log
from operator import ne
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from tidegauge.audit.findings import Discrepancy, require
from tidegauge.audit.local import local
from tidegauge.audit.local.browser import check_same_bytes
from tidegauge.audit.worlds.world import Random
from tidegauge.local.collector import Collector
from tidegauge.local.decode import histogram
from tidegauge.local.reporter import HEADER, IDLE, ONE, VERSION, Reporter, acceptance
from tidegauge.local.survey import Survey
from tidegauge.local.tally import Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from tidegauge.audit.local.local import Life

_PEOPLE: Final = 10**9
_SOME: Final = 1500
_RUNS: Final = 200
_SAMPLED: Final = 1200


def _silent(done: float) -> None:
    del done


def check_reports(alpha: float, reporter: str) -> None:
    """Fresh reporters follow the listed law of a small survey.  Raises Discrepancy."""
    found, _ = local.check_local(
        alpha, _silent, only=("snapshots+tilted",), reporters=(reporter,), people=_SAMPLED
    )
    for problem in (problem for one in found for problem in one.found):
        raise Discrepancy(problem)


def check_state() -> None:
    """A reporter answers once, and after a loss of its state not at all.  Raises Discrepancy."""
    survey = Survey(epsilon=1, protocol="tilted", answers=["a", "b"], windows=4, changes=2)
    state: dict[str, Any] = {}
    sent = Reporter(survey, state).report(0, "a")
    require(Reporter(survey, state).report(0, "b") == sent, "a window was reported twice, in two ways")
    later = Reporter(survey, state).report(3, "b")
    require(later[1] & IDLE, "a reporter goes on after windows that it may have spent elsewhere")
    others = [Reporter(survey, {}).report(0, "a") for _ in range(4)]
    tokens = {HEADER.unpack_from(one)[-1] for one in (sent, later, *others)}
    require(len(tokens) == 6, "reports of one person, or of several, have one token")
    collector = Collector(survey)
    receipt = collector.add([sent, *others, *others, later])
    require((receipt.accepted, receipt.duplicate) == (6, 4), "a report counts more than once, or not at all")
    receipt = collector.add([sent, Reporter(survey, {}).report(0, "a")])
    require((receipt.accepted, receipt.duplicate) == (1, 1), "a report counts again when it is sent later")


_LOST: Final = 100
"""One in three would report again, so none of them does with a probability below 1e-17."""


def check_lost_states(node: str | None = None) -> None:
    """A reporter whose state is empty after the first window says nothing any more.  Raises Discrepancy.

    It may have reported in any window before.  `node`: ask the browser's reporter.
    """
    survey = Survey(epsilon=1, protocol="snapshots", answers=["a", "b"], windows=3, changes=2)
    if node is None:
        sent = [Reporter(survey, {}).report(2, "a") for _ in range(_LOST)]
    else:
        sent = local.said_in_node(node, survey, [("a",)], _LOST, first=2)
    require(len(sent) == _LOST, "another number of reports was sent")
    require(all(one[1] & IDLE for one in sent), "a reporter goes on after it lost its state")


_LISTED: Final[tuple[dict[str, Any], ...]] = (
    {"protocol": "snapshots", "answers": ["a", "b"], "windows": 2, "options": {"oracle": "oue"}},
    {"protocol": "snapshots", "answers": ["a", "b"], "windows": 2, "options": {"oracle": "grr"}},
    {"protocol": "response-hdcr", "answers": ["a"], "windows": 2, "options": {"branching": 2}},
    {"protocol": "tilted", "answers": ["a", "b", "c"], "windows": 3},
    {"protocol": "memoized", "answers": ["a", "b"], "windows": 4, "options": {"oracle": "grr"}},
    {"protocol": "memoized", "answers": ["a", "b"], "windows": 3, "options": {"oracle": "oue"}},
)
"""Surveys whose sequences of reports are listed."""


def check_losses() -> None:
    """No two lives differ by more than epsilon in the probability of any sequence.  Raises Discrepancy.

    A memoized response protects answers, and neither when they change nor when an earlier one returns.
    """
    for number, arguments in enumerate(_LISTED):
        memoized = arguments["protocol"] == "memoized"
        changes = 3 if memoized else 1 + number % 2
        survey = Survey(epsilon=local.EPSILON, changes=changes, reveals_change_times=memoized, **arguments)
        groups = defaultdict[Any, list[Any]](list)
        for life in product([*survey.answers, None], repeat=survey.windows):
            if not memoized or sum(map(ne, (None, *life), life)) <= changes:
                groups[_pattern(life) if memoized else None].append(life)
        worst = max(_loss(survey, lives) for lives in groups.values())
        name = arguments["protocol"]
        require(worst <= local.EPSILON + 1e-9, f"two lives in a survey '{name}' differ by {worst:.4g}")
        require(worst >= local.EPSILON / 2, f"reports of a survey '{name}' say less than they may")


def check_acceptance() -> None:
    """A false answer is at most e^epsilon times less likely than a true one, to the last bit, and nearly so.

    Raises Discrepancy.
    """
    with localcontext(prec=80):
        for epsilon in (Fraction(number, 7) for number in range(1, 7 * 44, 11)):
            least = ONE * (-Decimal(epsilon.numerator) / epsilon.denominator).exp()
            near = least <= acceptance(epsilon) <= least + 1
            require(near, "a false answer is too unlikely, or too likely")


def _pattern(life: Life) -> tuple[int, ...]:
    """For each window, the one in which its answer was given first."""
    return tuple(life.index(answer) for answer in life)


def _loss(survey: Survey, lives: Sequence[Life]) -> float:
    """The largest log-ratio of any sequence of reports between two of these lives."""
    worst = 0.0
    for role, when, _ in local._roles(survey):
        laws = [local._listed(survey, role, when, life) for life in lives]
        for sent in set().union(*laws):
            chances = [law.get(sent, 0.0) for law in laws]
            worst = max(worst, log(max(chances) / min(chances)) if min(chances) else inf)
    return worst


class Outcome(NamedTuple):
    """What the collector counts of one person, and how likely."""

    tally: NDArray[np.int64]
    probability: float


class _World:
    """A survey, two lives, and every sequence of reports with its tally and its probability."""

    def __init__(self, survey: Survey) -> None:
        self.survey = survey
        self.layout = Layout(self.survey)
        answers, windows = self.survey.answers, self.survey.windows
        last = answers[0] if self.survey.changes > 1 else answers[1]
        self.lives: tuple[Life, Life] = (answers[0],) * windows, (*(answers[1],) * (windows - 1), last)
        self.outcomes = [self._outcomes(life) for life in self.lives]

    def _outcomes(self, life: Life) -> list[Outcome]:
        found = []
        for role, when, chance in local._roles(self.survey):
            for sent, part in local._listed(self.survey, role, when, life).items():
                found.append(Outcome(self._tally(role, sent), chance * part))
        return found

    def _tally(self, role: int, sent: tuple[bytes, ...]) -> NDArray[np.int64]:
        """What the collector counts of one person."""
        spec, tally = self.survey.spec, np.zeros((self.survey.windows, self.layout.width), np.int64)
        blob = b"".join(
            HEADER.pack(VERSION, said[0], spec.hash, role, window, bytes(8)) + said[1:]
            for window, said in enumerate(sent)
        )
        batch, other, malformed = self.layout.read(blob)
        require(not other + malformed, "a report that can be sent is refused")
        self.layout.count(tally, batch, batch.window)
        return tally

    def truth(self, people: int) -> NDArray[np.float64]:
        """The exact counts, windows by answers, if half of the people live one life each."""
        names = self.survey.answers
        return np.array([
            [people / 2 * sum(life[window] == name for life in self.lives) for name in names]
            for window in range(self.survey.windows)
        ])  # fmt: skip


def check_estimates() -> None:
    """The estimates of a survey are right on average, and so are their errors.  Raises Discrepancy."""
    for number, (protocol, arguments) in enumerate(local.SURVEYS.items()):
        survey = Survey(epsilon=local.EPSILON, protocol=protocol, **arguments)
        world, rng = _World(survey), Random(number)
        expected = sum(tally * chance for each in world.outcomes for tally, chance in each) * (_PEOPLE / 2)
        found = histogram(world.survey, world.layout, np.rint(expected).astype(np.int64))
        off = np.abs(found.value - world.truth(_PEOPLE)).max() / _PEOPLE
        require(off < 1e-5, f"estimates of '{protocol}' are biased")
        squares = []
        for _ in range(_RUNS):
            tally = np.zeros_like(world.outcomes[0][0][0])
            for each in world.outcomes:
                sums = list(accumulate(chance for _, chance in each))
                for n, times in Counter(
                    rng.choices(range(len(each)), cum_weights=sums, k=_SOME // 2)
                ).items():
                    tally = tally + times * each[n][0]
            found = histogram(world.survey, world.layout, tally)
            squares.append(((found.value - world.truth(_SOME)) / found.stderr) ** 2)
        spread = float(np.mean(squares))
        require(0.75 < spread < 1.3, f"standard errors of '{protocol}' are not those of its estimates")


def survey_checks(alpha: float) -> dict[str, Callable[[], object]]:
    """All of them, by name; `alpha`: the chance of a false alarm that they may have together."""
    found: dict[str, Callable[[], object]] = {
        "the state of a reporter": check_state,
        "losses of surveys": check_losses,
        "the probability of a false answer": check_acceptance,
        "estimates of surveys": check_estimates,
        "lost states of reporters": check_lost_states,
        "reports of a small survey": lambda: check_reports(alpha / 2, "python"),
    }
    if (node := local.node()) is not None:
        found["lost states of reporters, browser"] = partial(check_lost_states, node)
        found["reports of a small survey, browser"] = lambda: check_reports(alpha / 2, "browser")
        found["the same bytes from the browser"] = partial(check_same_bytes, node)
    return found
