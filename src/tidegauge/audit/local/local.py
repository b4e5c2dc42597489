"""Local surveys: sampled reports of the real reporters against the listed law of all reports of one person.

For small surveys every sequence of reports can be listed, with its exact probability, by running the
reporter's own code and branching at every random choice.  No two inputs may differ by more than e^epsilon in
any sequence, and fresh reporters (Python, and the browser's in node) must follow the listed law.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import product
from math import inf, log
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from scipy import stats

from tidegauge.local.reporter import HEADER, Kept, Reporter, map_rows
from tidegauge.local.survey import Survey
from tidegauge.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tidegauge.model.json import Json

    Life = tuple[str | None, ...]
    Output = tuple[Any, ...]
    Law = dict[Output, float]

PEOPLE: Final = 3000
"""Reporters that are sampled for each input."""
EPSILON: Final = 1.5
_BLANK: Final[Kept] = {
    "window": None,
    "first": 0,
    "used": 0,
    "retired": False,
    "answers": [],
    "report": "",
}
SURVEYS: Final[dict[str, dict[str, Any]]] = {
    "tilted": {"answers": ["a", "b"], "windows": 3, "changes": 2},
    "snapshots": {"answers": ["a", "b", "c"], "windows": 2, "changes": 2},
    "response-dcr": {"answers": ["a", "b"], "windows": 2, "changes": 1},
    "snapshots+tilted": {"answers": ["a", "b"], "windows": 2, "changes": 2},
}
_NODE: Final = """
import { readFileSync, writeFileSync } from "node:fs";
import { Reporter } from "./reporter.mjs";
const { survey, people, lives, first } = JSON.parse(readFileSync("asked.json", "utf8"));
const reports = [];
for (const life of lives) {
  for (let person = 0; person < people; person++) {
    const reporter = await Reporter.open(survey, new Map());
    for (const [n, answer] of life.entries()) reports.push(await reporter.report(first + n, answer));
  }
}
const all = new Uint8Array(reports.length * reports[0].length);
reports.forEach((report, at) => all.set(report, at * report.length));
writeFileSync("reports.bin", all);
"""


@dataclass
class LocalResult:
    """One survey and one reporter."""

    protocol: str
    reporter: str
    reports: int
    epsilon: float
    loss: float
    """The largest log-ratio of the listed law, over all inputs and outputs."""
    epsilon_lower: float
    """From the sampled reports, at 95 % confidence."""
    found: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Json]:
        """What audit --json prints."""
        return {**vars(self), "passed": not self.found}


class _Undecided(Exception):
    def __init__(self, label: str, weights: Sequence[int]) -> None:
        super().__init__(label)
        self.label, self.weights = label, weights


class _Walker(Reporter):
    """A reporter in a given role whose choices are scripted."""

    def __init__(self, survey: Survey, role: int, when: int) -> None:
        self._forced = role, when
        self.script: dict[str, int] = {}
        super().__init__(survey, {}, secret=bytes(32))

    def _assigned(self) -> tuple[int, int]:
        return self._forced

    def _choose(self, label: str, weights: Sequence[int]) -> int:
        if label not in self.script:
            raise _Undecided(label, weights)
        return self.script[label]

    def _pick(self, label: str, total: int) -> int:
        return self._choose(label, [1] * total)

    def begin(self, kept: Kept, script: dict[str, int]) -> None:
        """Go on from a state and the choices made so far."""
        self.script, self._pattern = script, []
        self._state[self._name] = kept

    @property
    def kept(self) -> Kept:
        """The state after the last report."""
        return self._state[self._name]


class _Branch(NamedTuple):
    at: int
    kept: Kept
    script: dict[str, int]
    sent: Output
    chance: float


def _listed(survey: Survey, role: int, when: int, life: Life) -> Law:
    """The exact law of what one reporter sends: flags and payload of every report."""
    walker, law = _Walker(survey, role, when), defaultdict[Any, float](float)
    branches = [_Branch(0, _BLANK.copy(), {}, (), 1.0)]
    while branches:
        one = branches.pop()
        if one.at == len(life):
            law[one.sent] += one.chance
            continue
        walker.begin(one.kept, one.script)
        try:
            report = walker.report(one.at, life[one.at])
        except _Undecided as choice:
            total = sum(choice.weights)
            branches += [
                one._replace(script=one.script | {choice.label: n}, chance=one.chance * (weight / total))
                for n, weight in enumerate(choice.weights)
                if weight
            ]
            continue
        branches.append(one._replace(at=one.at + 1, kept=walker.kept, sent=(*one.sent, _said(report))))
    return law


def _said(report: bytes) -> bytes:
    """Flags and payload: all of a report that can depend on the answers."""
    return report[1:2] + report[HEADER.size :]


def _roles(survey: Survey) -> Iterator[tuple[int, int, float]]:
    """(role, window of a snapshot, probability) of every role that a person can have."""
    spec = survey.spec
    shares = [int(group["share"]) for group in spec.groups]
    for role, (group, _) in enumerate(spec.roles):
        chance = shares[group] / sum(shares) / map_rows(spec.groups[group], spec.absent)
        for when in range(spec.windows):
            yield role, when, chance / spec.windows


def _law(survey: Survey, life: Life) -> Law:
    """The law of role and reports of a person who takes part."""
    law: Law = defaultdict(float)
    for role, when, chance in _roles(survey):
        for sent, part in _listed(survey, role, when, life).items():
            law[role, sent] += chance * part
    return law


def _worst(survey: Survey) -> tuple[float, Life, Life]:
    """The largest log-ratio over all inputs and outputs, and the two inputs."""
    lives = list(product([*survey.answers, None], repeat=survey.windows))
    best = 0.0, lives[0], lives[-1]
    for role, when, _ in _roles(survey):
        laws = [(life, _listed(survey, role, when, life)) for life in lives]
        for output in set().union(*(law for _, law in laws)):
            high, low = (
                pick(((law.get(output, 0.0), n) for n, (_, law) in enumerate(laws))) for pick in (max, min)
            )
            found = log(high[0] / low[0]) if low[0] > 0 else inf
            if found > best[0]:
                best = found, lives[high[1]], lives[low[1]]
    return best


def _sampled(survey: Survey, life: Life, people: int) -> Counter[Output]:
    """Reports of so many fresh reporters of the Python implementation."""
    seen: Counter[Output] = Counter()
    for _ in range(people):
        reporter = Reporter(survey, {})
        sent = tuple(_said(reporter.report(window, answer)) for window, answer in enumerate(life))
        seen[reporter.role, sent] += 1
    return seen


def said_in_node(
    node: str, survey: Survey, lives: Sequence[Life], people: int, *, first: int = 0
) -> list[bytes]:
    """All reports of so many fresh reporters of the browser for each life, which begins in window `first`."""
    with ScratchFolder() as folder:
        here = Path(folder.name)
        (here / "reporter.mjs").write_text(browser_module(), "utf-8")
        (here / "run.mjs").write_text(_NODE, "utf-8")
        asked = {"survey": survey.to_json(), "people": people, "lives": lives, "first": first}
        (here / "asked.json").write_text(json.dumps(asked), "utf-8")
        command = [node, "run.mjs"]
        subprocess.run(command, cwd=here, check=True, capture_output=True, timeout=600)  # noqa: S603
        data = (here / "reports.bin").read_bytes()
    size = HEADER.size + survey.spec.payload
    return [data[at : at + size] for at in range(0, len(data), size)]


def _sampled_in_node(node: str, survey: Survey, lives: Sequence[Life], people: int) -> list[Counter[Output]]:
    """The same from the browser's reporter."""
    windows, reports, found = survey.windows, said_in_node(node, survey, lives, people), []
    for n in range(len(lives)):
        seen: Counter[Output] = Counter()
        for person in range(people):
            first = (n * people + person) * windows
            mine = reports[first : first + windows]
            role = HEADER.unpack_from(mine[0])[3]
            seen[role, tuple(map(_said, mine))] += 1
        found.append(seen)
    return found


def browser_module() -> str:
    """The reporter's code for the browser."""
    return (files("tidegauge.local") / "browser" / "reporter.js").read_text("utf-8")


def _chance(law: Law, seen: Counter[Output]) -> float:
    """The chance of reports as far from the law; 0 for a report that cannot be."""
    people = sum(seen.values())
    if any(law.get(output, 0.0) <= 0 for output in seen):
        return 0.0
    expected, counted, rest, rest_seen = [], [], 0.0, 0
    for output, chance in law.items():
        if people * chance >= 10:
            expected.append(people * chance)
            counted.append(seen.get(output, 0))
        else:
            rest, rest_seen = rest + people * chance, rest_seen + seen.get(output, 0)
    if rest >= 10 or not expected:
        expected.append(rest)
        counted.append(rest_seen)
    else:
        expected[0] += rest
        counted[0] += rest_seen
    statistic = float(((np.array(counted) - expected) ** 2 / np.array(expected)).sum())
    return float(stats.chi2.sf(statistic, max(1, len(expected) - 1)))


def _epsilon_lower(laws: Sequence[Law], seen: Sequence[Counter[Output]], people: int) -> float:
    """A lower bound of epsilon, from how often each input leads to the outputs that favour the first."""
    favoured = {one for one, chance in laws[0].items() if chance > 1.5 * laws[1].get(one, 0.0)}
    hits, false = (sum(count for one, count in each.items() if one in favoured) for each in seen)
    if not hits:
        return 0.0
    least = float(stats.beta.ppf(0.025, hits, people - hits + 1))
    most = float(stats.beta.isf(0.025, false + 1, people - false)) if false < people else 1.0
    return max(0.0, log(least / most))


def check_local(
    alpha: float,
    progress: Callable[[float], None],
    *,
    only: Sequence[str] = tuple(SURVEYS),
    reporters: Sequence[str] = ("python", "browser"),
    people: int = PEOPLE,
) -> tuple[list[LocalResult], list[str]]:
    """Every protocol that hides change times, in Python and, where node is present, in the browser's code.

    `only`: these protocols.  Returns the results, and notes for the report.
    """
    found, notes, results = node(), [], []
    if found is None:
        notes.append("Node 20 or later is not installed: the browser's reporter was not sampled.")
    tests = 2 * len(only) * len(reporters)
    for number, protocol in enumerate(only):
        survey = Survey(epsilon=EPSILON, protocol=protocol, **SURVEYS[protocol])
        loss, first, second = _worst(survey)
        laws = [_law(survey, life) for life in (first, second)]
        runs: dict[str, list[Counter[Output]]] = {}
        if "python" in reporters:
            runs["python"] = [_sampled(survey, life, people) for life in (first, second)]
        if "browser" in reporters and found is not None:
            runs["browser"] = _sampled_in_node(found, survey, (first, second), people)
        for reporter, seen in runs.items():
            result = LocalResult(
                protocol, reporter, 2 * people, EPSILON, loss, _epsilon_lower(laws, seen, people)
            )
            if loss > EPSILON + 1e-9:
                result.found.append(f"local survey '{protocol}': two inputs differ by {loss:.4g}")
            for law, sampled in zip(laws, seen, strict=True):
                chance = _chance(law, sampled)
                if chance < alpha / tests:
                    result.found.append(
                        f"local survey '{protocol}': reports of the {reporter} reporter do not follow "
                        f"their law (p = {chance:.1e})"
                    )
            results.append(result)
        progress((number + 1) / len(only))
    return results, notes


@cache
def node() -> str | None:
    """Node, if it is installed and has WebCrypto as a global."""
    found = shutil.which("node")
    if found is None:
        return None
    answer = subprocess.run(  # noqa: S603  (found on the path, as a shell would)
        [found, "--version"], capture_output=True, text=True, check=False, timeout=60
    )
    major = answer.stdout.strip().removeprefix("v").split(".")[0]
    return found if major.isdigit() and int(major) >= 20 else None
