"""Proof by enumeration: the exact distribution of all reports of one person, for all pairs of inputs.

It runs the reporter's own code, whose every choice goes through `_choose` or `_pick`.  The walker below
answers a choice from a script.  Where the script has no answer, it branches into every outcome with its exact
weight.  Labels are the memory of the pseudo-random function: a label that was decided once stays decided.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import product
from math import inf, log
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tidegauge.local import Reporter, Survey
from tidegauge.local.groups import Memoized, Response, Snapshot, Tilted
from tidegauge.local.law import tilted_law
from tidegauge.local.reporter import HEADER, Kept, map_rows, map_signals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

EPSILON = Fraction(3, 2)
Script = dict[str, int]
Law = dict[tuple[bytes, ...], float]


class Undecided(Exception):
    def __init__(self, label: str, weights: Sequence[int]) -> None:
        self.label, self.weights = label, weights


class Walker(Reporter):
    """A reporter in a given role whose choices are scripted."""

    def __init__(
        self, survey: Survey, state: dict[str, Any], role: int, *, when: int = 0, **how: Any
    ) -> None:
        self._forced, self.life = (role, when), 0
        self.script: Script = {}
        super().__init__(survey, state, secret=bytes(32), **how)

    def _assigned(self) -> tuple[int, int]:
        return self._forced

    def _choose(self, label: str, weights: Sequence[int]) -> int:
        label = f"{self.life}/{label}"
        if label not in self.script:
            raise Undecided(label, weights)
        return self.script[label]

    def _pick(self, label: str, total: int) -> int:
        return self._choose(label, [1] * total)


# A step is either (window, input position) or a change of the state: "save", "restore", "lose".
Step = tuple[str, int]


BLANK: Kept = {"window": None, "first": 0, "used": 0, "retired": False, "answers": [], "report": ""}


class Path(NamedTuple):
    at: int
    kept: Kept
    saved: Kept
    script: Script
    life: int = 0
    sent: tuple[bytes, ...] = ()
    chance: float = 1.0


def law_of(walker: Walker, life: Sequence[str | None], steps: Sequence[Step]) -> Law:
    """The exact law of everything that is sent."""
    law: Law = defaultdict(float)
    paths = [Path(at=0, kept=BLANK, saved={}, script={})]
    while paths:
        path = paths.pop()
        if path.at == len(steps):
            law[path.sent] += path.chance
            continue
        what, window = steps[path.at]
        done = path._replace(at=path.at + 1)
        if what == "save":
            paths.append(done._replace(saved=path.kept))
        elif what == "restore":
            paths.append(done._replace(kept=path.saved))
        elif what == "lose":
            paths.append(done._replace(kept=BLANK, life=path.life + 1))
        else:
            walker.script, walker.life, walker._pattern = path.script, path.life, []
            walker._state[walker._name] = path.kept
            try:
                report = walker.report(window, life[window])
            except Undecided as choice:
                total = sum(choice.weights)
                for outcome, weight in enumerate(choice.weights):
                    if weight:
                        decided = path.script | {choice.label: outcome}
                        paths.append(path._replace(script=decided, chance=path.chance * (weight / total)))
                continue
            body = report[1:2] + report[HEADER.size :]  # flags and payload: all that can depend on the life
            paths.append(done._replace(kept=walker._state[walker._name], sent=(*path.sent, body)))
    return law


def worst_loss(laws: Sequence[Law]) -> float:
    """The largest log-ratio over all pairs of lives and all outputs."""
    worst = 0.0
    for output in set().union(*laws):
        chances = [law.get(output, 0.0) for law in laws]
        worst = max(worst, log(max(chances) / min(chances)) if min(chances) > 0 else inf)
    return worst


def lives(answers: int, windows: int) -> list[tuple[str | None, ...]]:
    """All of them, also those that change more often than allowed: the promise is for any input."""
    return list(product([*"abc"[:answers], None], repeat=windows))


def loss_of(
    survey: Survey, role: int, steps: Sequence[Step] | None = None, *, when: int = 0, **how: Any
) -> float:
    steps = steps or [("report", window) for window in range(survey.windows)]
    laws = []
    for life in lives(len(survey.answers), survey.windows):
        law = law_of(Walker(survey, {}, role, when=when, **how), life, steps)
        assert sum(law.values()) == pytest.approx(1, abs=1e-12)
        laws.append(law)
    return worst_loss(laws)


def survey_of(group: Any, *, answers: int, windows: int, changes: int, protocol: str = "tilted") -> Survey:
    open_about = protocol == "memoized"
    groups = () if group is None else (group,)
    return Survey(
        answers=[*"abc"[:answers]],
        windows=windows,
        changes=changes,
        epsilon=EPSILON,
        protocol=protocol,
        groups=groups,
        reveals_change_times=open_about,
    )


def tilted(name: str, *, answers: int, changes: int, level: int = 0, nu: Fraction | None = None) -> Tilted:
    d = map_signals({"map": name}, answers)
    law = tilted_law(changes=changes, epsilon=EPSILON, signals=d, nu=nu or Fraction(1, 3 * d))
    return Tilted(share=1, level=level, map=name, law=law)


@pytest.mark.parametrize("changes", [1, 2, 3])
@pytest.mark.parametrize(
    ("answers", "name"), [(2, "coordinate"), (3, "coordinate"), (2, "sign"), (3, "sign"), (2, "pair")]
)
def test_tilted(answers: int, name: str, changes: int) -> None:
    survey = survey_of(
        tilted(name, answers=answers, changes=changes), answers=answers, windows=3, changes=changes
    )
    for role in range(map_rows({"map": name}, answers) if answers == 2 else 1):
        assert EPSILON - 1e-6 <= loss_of(survey, role) <= EPSILON + 1e-12


@pytest.mark.parametrize("changes", [1, 2, 3])
def test_tilted_pairs_of_three_answers(changes: int) -> None:
    survey = survey_of(tilted("pair", answers=3, changes=changes), answers=3, windows=2, changes=changes)
    loss = loss_of(survey, 0)
    assert loss <= EPSILON + 1e-12
    if (
        changes <= 2
    ):  # two windows cannot use up three entries, so the worst pattern of three is never seen whole
        assert loss >= EPSILON - 1e-6


@pytest.mark.parametrize("nu", [Fraction(1, 2), Fraction(1, 50)])
def test_tilted_with_any_base_law(nu: Fraction) -> None:
    survey = survey_of(tilted("sign", answers=2, changes=2, nu=nu), answers=2, windows=4, changes=2)
    assert EPSILON - 1e-6 <= loss_of(survey, 1) <= EPSILON + 1e-12


def test_tilted_on_a_higher_level() -> None:
    survey = survey_of(tilted("coordinate", answers=2, changes=2, level=1), answers=2, windows=4, changes=2)
    assert EPSILON - 1e-6 <= loss_of(survey, 0) <= EPSILON + 1e-12


@pytest.mark.parametrize("oracle", ["grr", "oue"])
@pytest.mark.parametrize("answers", [2, 3])
def test_snapshots(answers: int, oracle: str) -> None:
    survey = survey_of(Snapshot(1, oracle), answers=answers, windows=3, changes=3, protocol="snapshots")
    for when in range(3):
        assert EPSILON - 1e-6 <= loss_of(survey, 0, when=when) <= EPSILON + 1e-12


@pytest.mark.parametrize("changes", [1, 2, 3])
@pytest.mark.parametrize("answers", [2, 3])
def test_every_role_of_the_default(answers: int, changes: int) -> None:
    survey = survey_of(None, answers=answers, windows=2, changes=changes, protocol="snapshots+tilted")
    for role in range(len(survey.spec.roles)):
        assert loss_of(survey, role) <= EPSILON + 1e-12


@pytest.mark.parametrize(
    ("answers", "windows", "changes"), [(2, 3, 1), (2, 3, 2), (2, 3, 3), (3, 2, 1), (3, 2, 2), (3, 2, 3)]
)
def test_response_dcr(answers: int, windows: int, changes: int) -> None:
    survey = survey_of(None, answers=answers, windows=windows, changes=changes, protocol="response-dcr")
    assert EPSILON - 1e-6 <= loss_of(survey, 0) <= EPSILON + 1e-12


LONGER = [
    pytest.param(*case, marks=pytest.mark.slow) for case in ((2, 3, 1), (2, 3, 2), (2, 3, 3), (3, 2, 2))
]


@pytest.mark.parametrize(
    ("answers", "windows", "changes"), [(2, 2, 1), (2, 2, 2), (2, 2, 3), (3, 2, 1), (3, 2, 3), *LONGER]
)
def test_response_hdcr(answers: int, windows: int, changes: int) -> None:
    group = Response(share=1, branching=2, layers=2)
    survey = survey_of(group, answers=answers, windows=windows, changes=changes, protocol="response-hdcr")
    assert EPSILON - 1e-6 <= loss_of(survey, 0) <= EPSILON + 1e-12


@pytest.mark.parametrize("oracle", ["grr", "oue"])
def test_memoized_hides_answers_but_not_change_times(oracle: str) -> None:
    survey = survey_of(Memoized(1, oracle), answers=2, windows=3, changes=2, protocol="memoized")
    steps = [("report", window) for window in range(3)]
    by_times: dict[tuple[bool, ...], list[Law]] = defaultdict(list)
    for life in lives(2, 3):
        changed = tuple(now != before for before, now in zip((None, *life), life, strict=False))
        if sum(changed) <= 2 and len(set(life)) == 1 + sum(
            changed[1:]
        ):  # no way back to an answer given before
            by_times[changed[1:]].append(law_of(Walker(survey, {}, 0), life, steps))
    for laws in by_times.values():
        assert worst_loss(laws) <= EPSILON + 1e-12
    assert worst_loss([law for laws in by_times.values() for law in laws]) == inf


def test_memoized_shows_that_an_answer_returns() -> None:
    """The changes are in the same windows: the documentation says that this is not hidden."""
    survey = survey_of(Memoized(1, "grr"), answers=2, windows=3, changes=3, protocol="memoized")
    steps = [("report", window) for window in range(3)]
    first, second = (
        law_of(Walker(survey, {}, 0), life, steps) for life in (("a", "b", "a"), ("a", "b", None))
    )
    assert worst_loss([first, second]) == inf


# -- missed windows, lost and restored states ----------------------------------------------------------

MISSED: list[Step] = [("report", 0), ("report", 2), ("report", 3)]
RESTORED: list[Step] = [
    ("report", 0),
    ("save", 0),
    ("report", 1),
    ("restore", 0),
    ("report", 2),
    ("report", 3),
]
LOST: list[Step] = [("report", 0), ("report", 1), ("lose", 0), ("report", 2), ("report", 3)]
ASKED_AGAIN: list[Step] = [
    ("report", 0),
    ("save", 0),
    ("report", 1),
    ("restore", 0),
    ("report", 1),
    ("report", 2),
]

GROUPS: dict[str, Callable[[], Any]] = {
    "tilted": lambda: tilted("coordinate", answers=1, changes=1),
    "two-changes": lambda: tilted("coordinate", answers=1, changes=2),
    "response-dcr": lambda: None,
}


def small(name: str) -> Survey:
    protocol = name if name == "response-dcr" else "tilted"
    return survey_of(
        GROUPS[name](), answers=1, windows=4, changes=2 if name == "two-changes" else 1, protocol=protocol
    )


@pytest.mark.parametrize("steps", [MISSED, RESTORED, LOST, ASKED_AGAIN])
@pytest.mark.parametrize("name", GROUPS)
def test_no_history_of_the_state_costs_more(name: str, steps: list[Step]) -> None:
    assert loss_of(small(name), 0, steps) <= EPSILON + 1e-12


@pytest.mark.parametrize("name", GROUPS)
def test_missed_windows_of_a_state_that_is_vouched_for(name: str) -> None:
    assert loss_of(small(name), 0, MISSED, state_is_current=True) <= EPSILON + 1e-12


@pytest.mark.parametrize("steps", [RESTORED, LOST])
def test_vouching_for_a_state_that_was_restored_or_lost_is_caught(steps: list[Step]) -> None:
    """The twin: with the guard off, the same enumeration finds the second use of the pattern."""
    assert loss_of(small("tilted"), 0, steps, state_is_current=True) > EPSILON + 0.1


@pytest.mark.parametrize("when", [1, 2])
@pytest.mark.parametrize("steps", [MISSED, RESTORED, LOST, ASKED_AGAIN])
def test_a_snapshot_is_taken_once(steps: list[Step], when: int) -> None:
    survey = survey_of(Snapshot(1, "grr"), answers=1, windows=4, changes=1, protocol="snapshots")
    assert loss_of(survey, 0, steps, when=when) <= EPSILON + 1e-12
