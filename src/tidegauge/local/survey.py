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
from typing import TYPE_CHECKING, Any, Final

from tidegauge.errors import LocalError
from tidegauge.local import design
from tidegauge.local.groups import (
    Group,
    Memoized,
    Response,
    Snapshot,
    Tilted,
    best_oracle,
    group_from_dict,
    oracle,
)
from tidegauge.local.reporter import VERSION, ReporterError, Spec, responses_of_a_life

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from tidegauge.local.law import TiltedLaw

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


@dataclass(frozen=True, init=False)
class Survey:
    """What is asked, for how long, and how every person's answers are protected.

    answers:   the possible answers; "not there" (None) is always one more.
    windows:   how many windows there are; start and every say when they are.
    changes:   K, the windows of a life in which the answer may differ from the window before; the first one, from not
               there to there, counts.  A person who changes more often is protected all the same, and counted with bias.
    epsilon:   bounds what all reports of a life reveal together, about the answers and about when they changed.
    protocol:  one of PROTOCOLS; None takes the one with the least predicted error.
    options:   of the protocol: map, levels, oracle or branching, where the planner's choice is not wanted.
    seed:      public; decides with a person's random number which role the person has.
    reveals_change_times: must be True for "memoized", which hides the answers but not when they change.
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
        options: Mapping[str, Any] | None = None,
        seed: str = "",
        start: datetime | None = None,
        every: timedelta | None = None,
        reveals_change_times: bool = False,
        groups: tuple[Group, ...] = (),
    ) -> None:
        setting = _checked(answers=answers, windows=windows, changes=changes, epsilon=epsilon)
        if (start is None) != (every is None) or (every is not None and every <= timedelta(0)):
            raise LocalError("start and every go together, and every is longer than nothing")
        if start is not None:
            start = start.replace(tzinfo=UTC) if start.tzinfo is None else start.astimezone(UTC)
        if protocol is None:
            chosen = Survey.plan(
                answers=answers, windows=windows, changes=changes, epsilon=epsilon, reveals_change_times=reveals_change_times
            ).survey  # fmt: skip
            protocol, groups = chosen.protocol, chosen.groups
        if protocol not in PROTOCOLS:
            raise LocalError(f"there is no protocol {protocol!r}; there are {', '.join(PROTOCOLS)}")
        if protocol == "memoized" and not reveals_change_times:
            raise LocalError(
                "'memoized' reveals when a person's answer changes.  If that is no secret, say so with "
                "reveals_change_times=True; every other protocol hides it"
            )
        values = {
            **setting,
            "answers": tuple(answers),
            "protocol": protocol,
            "seed": seed,
            "start": start,
            "every": every,
            "reveals_change_times": reveals_change_times,
            "groups": groups
            or _groups(protocol, dict(options or {}), **(setting | {"answers": len(answers)})),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        try:
            _ = self.spec
        except ReporterError as problem:
            raise LocalError(f"no device would take part: {problem}") from None

    @classmethod
    def plan(cls, *, people: int = 10_000, **arguments: Any) -> SurveyPlan:
        """Every protocol with its predicted error for so many people; print it.  Takes what Survey takes."""
        arguments.pop("protocol", None)
        open_about_times = arguments.get("reveals_change_times", False)
        names = [name for name in PROTOCOLS if name != "memoized" or open_about_times]
        surveys = [cls(protocol=name, **arguments) for name in names]
        candidates = tuple(Candidate(survey, people) for survey in surveys)
        return SurveyPlan(candidates=candidates, people=people)

    def to_json(self) -> str:
        """The canonical text, which the hash is taken of."""
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
        """The survey that to_json wrote; nothing is planned anew."""
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
            raise LocalError(f"this is not the JSON of a survey: {problem}") from None
        if survey.to_json() != text.strip():
            raise LocalError(
                "this JSON is not what to_json wrote: its hash would not be the one in the reports"
            )
        return survey

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the JSON, in hex; the first 16 digits of it are in every report."""
        return hashlib.sha256(self._json.encode()).hexdigest()

    @cached_property
    def spec(self) -> Spec:
        """The survey as a device reads it."""
        return Spec(self._json)

    @property
    def laws(self) -> dict[int, TiltedLaw]:
        """The tilted law of every level in use: nu, good (G), gap, c; and the signal map is in groups."""
        return {group.level: group.law for group in self.groups if isinstance(group, Tilted)}

    @property
    def law(self) -> TiltedLaw:
        """The tilted law of the lowest level in use."""
        if not self.laws:
            raise LocalError(f"protocol {self.protocol!r} has no tilted law")
        return self.laws[min(self.laws)]

    @property
    def parameters(self) -> list[dict[str, Any]]:
        """What every group does, with the numbers that its estimates divide by."""
        return [self._parameters(group) for group in self.groups]

    def _parameters(self, group: Group) -> dict[str, Any]:
        share = group.share / sum(each.share for each in self.groups)
        shown: dict[str, Any] = {"kind": group.kind, "share": share}
        loss = self.loss(group)
        if isinstance(group, Tilted):
            law = group.law
            shown |= {"level": group.level, "map": group.map, "changes": law.changes, "signals": law.signals,
                      "good": [list(pair) for pair in sorted(law.good)], "nu": float(law.nu), "c": float(law.c),
                      "gap": float(law.gap), "match": float(law.match), "mismatch": float(law.mismatch)}  # fmt: skip
        elif isinstance(group, Response):
            cells = (len(self.answers) + 1) ** 2
            p, q = design.response_law(cells=cells, loss=loss)
            shown |= {"branching": group.branching, "layers": group.layers, "cells": cells, "p": p, "q": q}
        else:
            law_of_state = oracle(group.oracle, epsilon=loss, answers=len(self.answers))
            shown |= {"oracle": group.oracle, "p": law_of_state.p, "q": law_of_state.q}
        return shown | {"epsilon_per_report": str(loss)}

    def loss(self, group: Group) -> Fraction:
        """The loss of one randomized response of a group; a whole life's sum to epsilon."""
        return self.spec.loss(group.to_dict())

    def predicted_variance(self) -> NDArray[np.float64]:
        """Of every window's count, per person and averaged over the answers: times people, a count's variance."""
        return design.predicted(
            self.groups,
            windows=self.windows,
            changes=self.changes,
            epsilon=self.epsilon,
            answers=len(self.answers),
        )

    def window_at(self, moment: datetime) -> int:
        """The window that a moment lies in; refused outside the survey."""
        if self.start is None or self.every is None:
            raise LocalError("the survey does not say when its windows are: give it start and every")
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        window = (moment - self.start) // self.every
        if not 0 <= window < self.windows:
            raise LocalError("the survey does not run at that time")
        return window


def _checked(*, answers: Sequence[str], windows: int, changes: int, epsilon: Any) -> dict[str, Any]:
    if isinstance(answers, str) or not 1 <= len(answers) <= 254:
        raise LocalError("answers: a list of 1 to 254 texts")
    if len(set(answers)) != len(answers) or not all(isinstance(each, str) and each for each in answers):
        raise LocalError("answers: all different, and none of them empty")
    if not 1 <= windows <= 1 << 16:
        raise LocalError("windows: from 1 to 65536")
    if changes < 1:
        raise LocalError("changes: at least 1, since being there at all is the first change")
    try:
        exact = epsilon if isinstance(epsilon, Fraction) else Fraction(str(epsilon))
    except (ValueError, ZeroDivisionError):
        exact = Fraction(0)
    if exact <= 0:
        raise LocalError("epsilon: a finite number above 0")
    return {"windows": windows, "changes": changes, "epsilon": exact}


def _groups(protocol: str, options: dict[str, Any], **setting: Any) -> tuple[Group, ...]:
    """What the people of a protocol do, with every open parameter at its least predicted error."""
    if unknown := set(options) - PROTOCOLS[protocol]:
        takes = ", ".join(sorted(PROTOCOLS[protocol])) or "none"
        raise LocalError(f"protocol {protocol!r} has no option {sorted(unknown)[0]!r}; it takes {takes}")
    if protocol in {"tilted", DEFAULT}:
        chosen = {"only": options.get("map", ""), "levels": options.get("levels", 0)}
        return design.tilted_groups(**setting, **chosen, snapshots=protocol == DEFAULT)
    if protocol in {"response-dcr", "response-hdcr"}:
        return design.response_groups(**setting, **options, hierarchy=protocol == "response-hdcr")
    kind = "memoized" if protocol == "memoized" else "snapshot"
    answers, life = setting["answers"], {name: setting[name] for name in ("windows", "changes", "answers")}
    each = setting["epsilon"] / responses_of_a_life({"kind": kind}, **life)
    name = options.get("oracle") or best_oracle(epsilon=each, answers=answers).name
    return (Memoized(share=1, oracle=name) if kind == "memoized" else Snapshot(share=1, oracle=name),)


@dataclass(frozen=True)
class Candidate:
    """A protocol and its predicted 95 % half-width of a count, averaged over the windows and in the worst of them."""

    survey: Survey
    people: int

    @cached_property
    def half_widths(self) -> tuple[float, float]:
        """(mean, worst)."""
        each = _Z95 * (self.survey.predicted_variance() * self.people) ** 0.5
        return float(each.mean()), float(each.max())

    def to_dict(self) -> dict[str, Any]:
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
    """The protocols that were considered; the first of the least predicted error is chosen."""

    candidates: tuple[Candidate, ...]
    people: int

    @property
    def chosen(self) -> Candidate:
        """The candidate with the least mean half-width."""
        return min(self.candidates, key=lambda each: each.half_widths[0])

    @property
    def survey(self) -> Survey:
        """The chosen survey."""
        return self.chosen.survey

    @property
    def promise(self) -> str:
        """What a person who takes part is promised."""
        survey = self.survey
        hides = (
            "when they changed is not hidden"
            if survey.reveals_change_times
            else "and about when they changed"
        )
        return (
            f"Whatever anyone makes of all reports of one person's life, it multiplies the odds of any two histories of "
            f"answers by at most e^{survey.epsilon} = {_readable(survey.epsilon)}: about the answers, {hides}.  Nobody "
            "is trusted with an answer."
        )

    def to_dict(self) -> dict[str, Any]:
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
        lines = [
            f"{len(survey.answers)} answers, {survey.windows} windows, at most {survey.changes} changes a life, "
            f"epsilon = {survey.epsilon} for the whole life; {self.people} people.",
            "",
            f"  {'protocol':<{width}}  {'± mean':>10}  {'± worst':>10}",
        ]
        for each in sorted(self.candidates, key=lambda each: each.half_widths[0]):
            mean, worst = each.half_widths
            mark = "*" if each is self.chosen else " "
            lines.append(f"{mark} {each.survey.protocol:<{width}}  {mean:>10.4g}  {worst:>10.4g}")
        return "\n".join(
            [*lines, "", "± is half the width of a count's 95 % interval.  * is chosen.", self.promise]
        )


def _readable(epsilon: Fraction) -> str:
    return f"{math.exp(epsilon):.4g}" if epsilon < 100 else "more than 10^43"
