"""A survey: the public description that reporters and collectors share, and the choice of its protocol."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypedDict

from tidegauge.errors import LocalError
from tidegauge.local import design
from tidegauge.local.groups import (
    Group,
    Memoized,
    Response,
    Setting,
    Snapshot,
    Tilted,
    best_oracle,
    group_from_dict,
    oracle,
)
from tidegauge.local.reporter import VERSION, ReporterError, Spec

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from tidegauge.local.law import TiltedLaw
    from tidegauge.model.json import Json

DEFAULT: Final = "snapshots+tilted"
PROTOCOLS: Final = {  # and the options that each of them takes
    "snapshots+tilted": {"map", "levels"},
    "snapshots": {"oracle"},
    "tilted": {"map", "levels"},
    "response-dcr": set(),
    "response-hdcr": {"branching"},
    "memoized": {"oracle"},
}
_Z95: Final = 1.959963984540054


class Options(TypedDict, total=False):
    """Choices of a protocol in place of the planner's; PROTOCOLS says which protocol has which."""

    map: str
    levels: int
    oracle: str
    branching: int


@dataclass(frozen=True, init=False)
class Survey:
    """The question, its windows, and the protocol that protects every person's answers.

    answers:   the possible answers; "not there" (None) is always one more.
    windows:   the number of windows; start and every say when they are.
    changes:   K, the most windows in which one person's answer differs from the window before.  The first
               answer, after "not there", counts as a change.  A person who changes more often is protected as
               well, but counted with bias.
    epsilon:   the privacy loss of all reports of one person together, about the answers and their times.
    protocol:  one of PROTOCOLS; None chooses the one with the least predicted error.
    options:   map, levels, oracle or branching of the protocol, instead of the planner's choice.
    seed:      public; decides, with a person's random number, which role the person has.
    reveals_change_times: must be True for "memoized", which shows when answers change and when one returns.
    Raises LocalError for arguments that no survey can have.
    """

    answers: tuple[str, ...]
    windows: int
    changes: int
    epsilon: Fraction
    protocol: str
    seed: str
    start: datetime | None
    every: timedelta | None
    reveals_change_times: bool
    groups: tuple[Group, ...]

    def __init__(
        self,
        *,
        answers: Sequence[str],
        windows: int,
        changes: int,
        epsilon: float | Decimal | Fraction | str,
        protocol: str | None = DEFAULT,
        options: Options | None = None,
        seed: str = "",
        start: datetime | None = None,
        every: timedelta | None = None,
        reveals_change_times: bool = False,
        groups: tuple[Group, ...] = (),
    ) -> None:
        setting = _checked(answers=answers, windows=windows, changes=changes, epsilon=epsilon)
        if (start is None) != (every is None) or (every is not None and every <= timedelta(0)):
            raise LocalError("give both start and every, or neither; every must be positive")
        if start is not None:
            start = start.replace(tzinfo=UTC) if start.tzinfo is None else start.astimezone(UTC)
        if protocol is None:
            chosen = Survey.plan(
                answers=answers,
                windows=windows,
                changes=changes,
                epsilon=epsilon,
                reveals_change_times=reveals_change_times,
            ).survey
            protocol, groups = chosen.protocol, chosen.groups
        if protocol not in PROTOCOLS:
            raise LocalError(f"there is no protocol {protocol!r}; there are {', '.join(PROTOCOLS)}")
        if protocol == "memoized" and not reveals_change_times:
            raise LocalError(
                "'memoized' reveals when a person's answer changes or returns. Set reveals_change_times=True "
                "if neither is secret, or choose another protocol: all others hide both"
            )
        values = {
            "windows": windows,
            "changes": changes,
            "epsilon": setting.epsilon,
            "answers": tuple(answers),
            "protocol": protocol,
            "seed": seed,
            "start": start,
            "every": every,
            "reveals_change_times": reveals_change_times,
            "groups": groups or _groups(protocol, options or {}, setting),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        try:
            _ = self.spec
        except ReporterError as problem:
            raise LocalError(f"no device would take part: {problem}") from None

    @classmethod
    def plan(cls, *, people: int = 10_000, **arguments: Any) -> SurveyPlan:
        """Every protocol with its predicted error for this many people.  Takes the arguments of Survey."""
        arguments.pop("protocol", None)
        open_about_times = arguments.get("reveals_change_times", False)
        names = [name for name in PROTOCOLS if name != "memoized" or open_about_times]
        surveys = [cls(protocol=name, **arguments) for name in names]
        candidates = tuple(Candidate(survey, people) for survey in surveys)
        return SurveyPlan(candidates=candidates, people=people)

    def to_json(self) -> str:
        """The canonical JSON text; the hash is computed from it."""
        return self._json

    @cached_property
    def _json(self) -> str:
        data = {
            "version": VERSION,
            "answers": list(self.answers),
            "windows": self.windows,
            "changes": self.changes,
            "epsilon": str(self.epsilon),
            "protocol": self.protocol,
            "seed": self.seed,
            "start": None if self.start is None else self.start.isoformat(),
            "every": None if self.every is None else self.every / timedelta(seconds=1),
            "reveals_change_times": self.reveals_change_times,
            "groups": [group.to_dict() for group in self.groups],
        }
        return json.dumps(data, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Survey:
        """The survey that to_json wrote, with the same groups.  Raises LocalError for any other text."""
        try:
            Spec(text)  # what a device would refuse is refused here
            data = json.loads(text)
            del data["version"]
            epsilon = Fraction(data["epsilon"])
            groups = (
                group_from_dict(each, epsilon=epsilon, answers=len(data["answers"]))
                for each in data["groups"]
            )
            data["groups"] = tuple(groups)
            data["start"] = None if data["start"] is None else datetime.fromisoformat(data["start"])
            data["every"] = None if data["every"] is None else timedelta(seconds=data["every"])
            survey = cls(**data)
        except (ReporterError, KeyError, TypeError, ValueError) as problem:
            raise LocalError(f"this is not the JSON of a survey, as to_json writes it: {problem}") from None
        if survey.to_json() != text.strip():
            raise LocalError(
                "this JSON is not what to_json wrote, so its hash differs from the one in the reports; "
                "use the "
                "file as it was written"
            )
        return survey

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the JSON, in hex; every report carries its first 16 digits."""
        return hashlib.sha256(self._json.encode()).hexdigest()

    @property
    def setting(self) -> Setting:
        """What it asks of any protocol."""
        return Setting(self.windows, self.changes, self.epsilon, len(self.answers))

    @cached_property
    def spec(self) -> Spec:
        """The survey as a device reads it."""
        return Spec(self._json)

    @property
    def laws(self) -> dict[int, TiltedLaw]:
        """The tilted law of every level in use."""
        return {group.level: group.law for group in self.groups if isinstance(group, Tilted)}

    @property
    def law(self) -> TiltedLaw:
        """The tilted law of the lowest level in use."""
        if not self.laws:
            raise LocalError(f"protocol {self.protocol!r} has no tilted law; use one of the tilted protocols")
        return self.laws[min(self.laws)]

    @property
    def parameters(self) -> list[dict[str, Json]]:
        """The parameters of every group, for JSON."""
        return [self._parameters(group) for group in self.groups]

    def _parameters(self, group: Group) -> dict[str, Json]:
        share = group.share / sum(each.share for each in self.groups)
        shown: dict[str, Json] = {"kind": group.kind, "share": share}
        loss = self.loss(group)
        if isinstance(group, Tilted):
            law = group.law
            numbers = {"nu": law.nu, "c": law.c, "gap": law.gap, "match": law.match, "mismatch": law.mismatch}
            shown |= {
                "level": group.level,
                "map": group.map,
                "changes": law.changes,
                "signals": law.signals,
                "good": [list(pair) for pair in sorted(law.good)],
                **{name: float(number) for name, number in numbers.items()},
            }
        elif isinstance(group, Response):
            cells = (len(self.answers) + 1) ** 2
            p, q = design.response_law(cells=cells, loss=loss)
            shown |= {"branching": group.branching, "layers": group.layers, "cells": cells, "p": p, "q": q}
        else:
            law_of_state = oracle(group.oracle, epsilon=loss, answers=len(self.answers))
            shown |= {"oracle": group.oracle, "p": law_of_state.p, "q": law_of_state.q}
        return shown | {"epsilon_per_report": str(loss)}

    def loss(self, group: Group) -> Fraction:
        """The privacy loss of one randomized response of a group; those of one person add up to epsilon."""
        return self.spec.loss(group.to_dict())

    def predicted_variance(self) -> NDArray[np.float64]:
        """Variance of a count in every window, per person and averaged over the answers."""
        return design.predicted(self.groups, self.setting)

    def window_at(self, moment: datetime) -> int:
        """The window of a moment; raises LocalError outside the survey."""
        if self.start is None or self.every is None:
            raise LocalError("the survey does not say when its windows are: give it start and every")
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        window = (moment - self.start) // self.every
        if not 0 <= window < self.windows:
            raise LocalError(
                "the survey does not run at that time; "
                "it begins at `start` and has `windows` windows of `every`"
            )
        return window


def _checked(*, answers: Sequence[str], windows: int, changes: int, epsilon: Any) -> Setting:
    """The setting, in exact numbers; raises LocalError where it is none."""
    if isinstance(answers, str) or not 1 <= len(answers) <= 254:
        raise LocalError("answers: give a list of 1 to 254 texts")
    if len(set(answers)) != len(answers) or not all(isinstance(each, str) and each for each in answers):
        raise LocalError("answers: give texts that are all different, and none of them empty")
    if not 1 <= windows <= 1 << 16:
        raise LocalError("windows: give a number from 1 to 65536")
    if changes < 1:
        raise LocalError("changes: give at least 1, since taking part at all is the first change")
    try:
        exact = epsilon if isinstance(epsilon, Fraction) else Fraction(str(epsilon))
    except (ValueError, ZeroDivisionError):
        exact = Fraction(0)
    if exact <= 0:
        raise LocalError("epsilon: give a finite number above 0, such as 1")
    return Setting(windows, changes, exact, len(answers))


def _groups(protocol: str, options: Options, setting: Setting) -> tuple[Group, ...]:
    """The groups of a protocol; missing `options` are those of least predicted error."""
    if unknown := set(options) - PROTOCOLS[protocol]:
        takes = ", ".join(sorted(PROTOCOLS[protocol])) or "none"
        raise LocalError(f"protocol {protocol!r} has no option {sorted(unknown)[0]!r}; it takes {takes}")
    if protocol in {"tilted", DEFAULT}:
        only, levels = options.get("map", ""), options.get("levels", 0)
        return design.tilted_groups(setting, only=only, levels=levels, snapshots=protocol == DEFAULT)
    if protocol in {"response-dcr", "response-hdcr"}:
        return design.response_groups(
            setting, branching=options.get("branching", 0), hierarchy=protocol == "response-hdcr"
        )
    kind = "memoized" if protocol == "memoized" else "snapshot"
    each = setting.each({"kind": kind})
    name = options.get("oracle") or best_oracle(epsilon=each, answers=setting.answers).name
    return (Memoized(share=1, oracle=name) if kind == "memoized" else Snapshot(share=1, oracle=name),)


@dataclass(frozen=True)
class Candidate:
    """A protocol and its predicted error: half the width of a count's 95 % noise interval."""

    survey: Survey
    people: int

    @cached_property
    def half_widths(self) -> tuple[float, float]:
        """(mean, worst) over the windows."""
        each = _Z95 * (self.survey.predicted_variance() * self.people) ** 0.5
        return float(each.mean()), float(each.max())

    def to_dict(self) -> dict[str, Json]:
        """As `plan --json` shows it."""
        mean, worst = self.half_widths
        return {
            "strategy": self.survey.protocol,
            "parameters": self.survey.parameters,
            "epsilon": str(self.survey.epsilon),
            "half_width_mean": mean,
            "half_width_worst": worst,
        }


@dataclass(frozen=True)
class SurveyPlan:
    """The protocols that were considered; the one of least predicted error is chosen."""

    candidates: tuple[Candidate, ...]
    people: int

    @property
    def chosen(self) -> Candidate:
        """The candidate with the smallest mean half-width."""
        return min(self.candidates, key=lambda each: each.half_widths[0])

    @property
    def survey(self) -> Survey:
        """The chosen survey."""
        return self.chosen.survey

    @property
    def promise(self) -> str:
        """The privacy guarantee for a person who takes part."""
        survey = self.survey
        covered = (
            "This covers the answers, but not when they changed."
            if survey.reveals_change_times
            else "This covers the answers and when they changed."
        )
        return (
            f"All reports of one person together reveal at most epsilon = {survey.epsilon}: they change the "
            f"odds between any two histories of answers by at most a factor of {_readable(survey.epsilon)}. "
            f"{covered} No server is trusted with an answer."
        )

    def to_dict(self) -> dict[str, Json]:
        """As `plan --json` shows it."""
        return {
            "budget": {"epsilon": str(self.survey.epsilon)},
            "people": self.people,
            "chosen": self.chosen.to_dict(),
            "candidates": [each.to_dict() for each in self.candidates],
            "promise": self.promise,
        }

    def __str__(self) -> str:
        survey, width = self.survey, max(len(each.survey.protocol) for each in self.candidates)
        answers = "1 answer" if len(survey.answers) == 1 else f"{len(survey.answers)} answers"
        lines = [
            f"{answers}, {survey.windows} windows, at most {survey.changes} changes per "
            f"person, epsilon = {survey.epsilon} for all reports of one person; {self.people} people.",
            "",
            f"  {'protocol':<{width}}  {'± mean':>10}  {'± worst':>10}",
        ]
        for each in sorted(self.candidates, key=lambda each: each.half_widths[0]):
            mean, worst = each.half_widths
            mark = "*" if each is self.chosen else " "
            lines.append(f"{mark} {each.survey.protocol:<{width}}  {mean:>10.4g}  {worst:>10.4g}")
        lines += ["", "± is half the width of a count's 95 % noise interval.  * is chosen.", self.promise]
        return "\n".join(lines)


def _readable(epsilon: Fraction) -> str:
    return f"{math.exp(epsilon):.4g}" if epsilon < 100 else "more than 10^43"
