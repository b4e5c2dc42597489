"""The browser's reporter and Python's send the same bytes for the same secret, survey and answers."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidegauge.audit.findings import require
from tidegauge.audit.local import local
from tidegauge.audit.worlds.world import Random
from tidegauge.local.reporter import Reporter, ReporterError, acceptance, pattern_weights
from tidegauge.local.survey import Survey
from tidegauge.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegauge.local.reporter import Kept

_LETTERS: Final = "abcdefghij"
_SURVEYS: Final[tuple[dict[str, Any], ...]] = (
    {"protocol": "snapshots", "options": {"oracle": "oue"}, "count": 9},
    {"protocol": "snapshots", "options": {"oracle": "grr"}, "count": 3},
    {"protocol": "tilted", "options": {"map": "coordinate"}, "count": 3},
    {"protocol": "tilted", "options": {"map": "sign"}, "count": 3},
    {"protocol": "tilted", "options": {"map": "pair"}, "count": 2},
    {"protocol": "tilted", "options": {"levels": 3}, "count": 2},
    {"protocol": "snapshots+tilted", "options": {}, "count": 2},
    {"protocol": "response-dcr", "options": {}, "count": 2},
    {"protocol": "response-hdcr", "options": {"branching": 2}, "count": 3},
    {"protocol": "memoized", "options": {"oracle": "grr"}, "count": 3},
    {"protocol": "memoized", "options": {"oracle": "oue"}, "count": 9},
)
_WINDOWS: Final = 8
_PEOPLE: Final = 24
_START: Final = datetime(2026, 3, 1, tzinfo=UTC)
_EVERY: Final = timedelta(hours=6)
_EPSILONS: Final = ("1/1000", "1/3", "1", "7/2", "12", "44", "45", "50")
_PATTERNS: Final[tuple[tuple[int, int, list[list[int]]], ...]] = (
    (1, 2, [[1, 0]]), (3, 2, [[3, 0], [2, 0], [2, 1]]), (4, 6, [[4, 0], [1, 1]]),
)  # fmt: skip
"""Changes, signals, and the patterns that are favoured."""
_NODE: Final = """
import { readFileSync, writeFileSync } from "node:fs";
import { Reporter, ReporterError, acceptance, patternWeights } from "./reporter.mjs";
const { cases, epsilons, patterns } = JSON.parse(readFileSync("asked.json", "utf8"));
const hex = (bytes) => Buffer.from(bytes).toString("hex");
const said = [];
for (const { survey, secret, first, vouched, asked } of cases) {
  const state = new Map();
  for (const [window, answer, now] of asked) {
    const how = { firstWindow: first, stateIsCurrent: vouched, clock: () => now,
                  secret: new Uint8Array(Buffer.from(secret, "hex")) };
    try {
      said.push(hex(await (await Reporter.open(survey, state, how)).report(window, answer)));
    } catch (problem) {
      if (!(problem instanceof ReporterError)) throw problem;
      said.push("refused");
    }
    for (const [name, kept] of state) state.set(name, JSON.parse(JSON.stringify(kept)));
  }
}
const fraction = (text) => [...text.split("/"), "1"].slice(0, 2).map(BigInt);
const weights = epsilons.map((one) => String(acceptance(fraction(one))));
const laws = patterns.map(([changes, signals, good]) =>
  patternWeights(changes, signals, 1n << 61n, good, 1n << 60n).map(String));
writeFileSync("said.json", JSON.stringify({ said, weights, laws }));
"""


def _lives(rng: Random, answers: list[str], *, timed: bool) -> Iterator[tuple[int, str | None, int]]:
    """Windows and answers as a host may ask for them: (window, answer, milliseconds since 1970).

    Windows are missed, asked for again with another answer, or past; a clock is sometimes wrong.
    """
    window = rng.choice((0, 0, 0, 1, 2))
    while window < _WINDOWS + 1:
        for at in (window, *rng.choice(((), (), (window,), (window - 1,)))):
            off = timedelta() if not timed or rng.random() < 0.9 else _EVERY
            now = _START + at * _EVERY + _EVERY / 3 + off
            yield at, rng.choice([*answers, None]), round(now.timestamp() * 1000)
        window += rng.choice((1, 1, 1, 1, 1, 2, 3))


def _cases() -> Iterator[dict[str, Any]]:
    rng = Random(5)
    for number, one in enumerate(_SURVEYS):
        answers = list(_LETTERS[: one["count"]])
        timed = number % 2 == 1
        survey = Survey(
            answers=answers, windows=_WINDOWS, changes=2 + number % 2, epsilon=Fraction(3, 2),
            protocol=one["protocol"], options=one["options"], start=_START if timed else None,
            every=_EVERY if timed else None, reveals_change_times=one["protocol"] == "memoized",
        )  # fmt: skip
        for _ in range(_PEOPLE):
            yield {
                "survey": survey.to_json(),
                "secret": rng.randbytes(32).hex(),
                "first": rng.choice((0, 0, 1, 3)),
                "vouched": rng.random() < 0.4,
                "asked": list(_lives(rng, answers, timed=timed)),
            }


def _said(case: dict[str, Any]) -> Iterator[str]:
    """What Python's reporter says; it is opened again for every window."""
    state: dict[str, Kept] = {}
    for window, answer, now in case["asked"]:
        try:
            reporter = Reporter(
                case["survey"],
                state,
                secret=bytes.fromhex(case["secret"]),
                first_window=case["first"],
                state_is_current=case["vouched"],
                clock=lambda now=now: now / 1000,  # type: ignore[misc]
            )
            yield reporter.report(window, answer).hex()
        except ReporterError:
            yield "refused"


def check_same_bytes(node: str) -> None:
    """The browser's reporter says what Python's says, whatever it is asked.  Raises Discrepancy."""
    cases = list(_cases())
    with ScratchFolder() as folder:
        here = Path(folder.name)
        (here / "reporter.mjs").write_text(local.browser_module(), "utf-8")
        (here / "run.mjs").write_text(_NODE, "utf-8")
        asked = {"cases": cases, "epsilons": _EPSILONS, "patterns": _PATTERNS}
        (here / "asked.json").write_text(json.dumps(asked), "utf-8")
        command = [node, "run.mjs"]
        subprocess.run(command, cwd=here, check=True, capture_output=True, timeout=600)  # noqa: S603
        found = json.loads((here / "said.json").read_text("utf-8"))
    right = [one for case in cases for one in _said(case)]
    require(0 < right.count("refused") < len(right) / 2, "too few windows are reported, or none is refused")
    require(found["said"] == right, "the browser's reporter sends other bytes than Python's")
    weights = [str(acceptance(Fraction(one))) for one in _EPSILONS]
    require(found["weights"] == weights, "the browser's reporter lies with another probability than Python's")
    laws = [
        [f"{match},{mismatch},{weight}" for (match, mismatch), weight in pattern_weights(
            changes=changes, signals=signals, nu=1 << 61, good=good, accept=1 << 60).items()]
        for changes, signals, good in _PATTERNS
    ]  # fmt: skip
    require(found["laws"] == laws, "the browser's patterns have other weights than Python's")
