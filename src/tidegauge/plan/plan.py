"""A plan: frozen and content-addressed.  `plan` shows the same object that `run` executes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from tidegauge.mechanism.aggregates import aggregate_of
from tidegauge.mechanism.encode import ComponentPlan
from tidegauge.model.budget import Budget
from tidegauge.model.ledger import Reservation
from tidegauge.model.program import Program, Release
from tidegauge.model.quantity import Span, rfc3339
from tidegauge.plan.choice import Choice
from tidegauge.plan.records import PROGRAM, component_plan, component_plan_record, program_record
from tidegauge.plan.series import Series, derived_series

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegauge.mechanism.aggregate import Formula
    from tidegauge.mechanism.decode import Decoder

Measure = Literal["epsilon", "rho"]


@dataclass(frozen=True)
class Candidate:
    """A strategy that was considered, with its privacy loss and predicted error."""

    strategy: str
    parameters: dict[str, int | float | str]
    folds: int | None
    """Measurements that one unit can change, where the strategy counts them."""
    loss: Fraction
    half_width_worst: float
    half_width_mean: float
    adaptive: bool
    noise: float
    """Standard deviation of one measurement, in published units of what it measures."""
    memory: int
    """Exact numbers that are stored per cell."""
    growth: tuple[tuple[int, float], ...] = ()
    """For a release without an end: (n, worst 95 % half-width of the first n readings)."""

    def as_json(self, measure: Measure) -> dict[str, Any]:
        """The fields that plan --json shows."""
        return {
            "strategy": self.strategy,
            "parameters": self.parameters,
            "folds": self.folds,
            measure: float(self.loss),
            "half_width_worst": self.half_width_worst,
            "half_width_mean": self.half_width_mean,
            "adaptive": self.adaptive,
            "noise": self.noise,
            "memory": self.memory,
            **({"growth": [list(point) for point in self.growth]} if self.growth else {}),
        }


@dataclass(frozen=True)
class ReleasePlan:
    """How one release is measured."""

    release: Release
    loss: Fraction
    component_plans: tuple[ComponentPlan, ...]
    chosen: Candidate
    candidates: tuple[Candidate, ...]
    promise: str
    hint: str = ""
    """A longer search that the user can ask for; empty: none.  Not part of a committed plan."""

    @property
    def series(self) -> Series:
        """The series that is published under the name of the release."""
        schedule = self.release.schedule
        return Series(self.release.name, self, schedule.window, schedule.span)

    @property
    def decoder(self) -> Decoder:
        """Decodes the measurements into readings."""
        return self.series.decoder

    @property
    def formula(self) -> Formula | None:
        """How the error depends on the number of rows of a reading; None if it does not."""
        query, bin_ = self.release.query, self.release.schedule.bin_of_reading(0)
        errors = [self.decoder.error(component, bin_) for component in range(len(self.component_plans))]
        worst = self.chosen.half_width_worst
        return aggregate_of(query.aggregate).formula(query.components[0], errors, worst)

    def record(self) -> dict[str, Any]:
        """The record from which a later process continues to measure."""
        return {
            "loss": str(self.loss),
            "channels": [component_plan_record(component_plan) for component_plan in self.component_plans],
            "chosen": _candidate_record(self.chosen),
            "candidates": [_candidate_record(candidate) for candidate in self.candidates],
            "promise": self.promise,
        }


@dataclass(frozen=True)
class Derived:
    """Another series of a measured release, without privacy loss: another window, or its running value."""

    name: str
    of: str
    window: Span | None
    chosen: Candidate
    """The error under the chosen strategy of the release, and ..."""
    candidates: tuple[Candidate, ...]
    """... under every candidate."""
    every: Span | None = None
    """How often it is read, where that is less often than the release."""

    def series(self, plan: ReleasePlan) -> Series:
        """The series that is published under this name."""
        return derived_series(self.name, plan, self.window, self.every)

    def record(self) -> dict[str, Any]:
        """The record from which a later process continues to publish it."""
        return {
            "name": self.name,
            "of": self.of,
            "window": None if self.window is None else str(self.window),
            "chosen": _candidate_record(self.chosen),
            "candidates": [_candidate_record(candidate) for candidate in self.candidates],
            **({} if self.every is None else {"every": str(self.every)}),
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Derived:
        """The derived series that was committed."""
        return cls(
            name=record["name"],
            of=record["of"],
            window=None if record["window"] is None else Span.parse(record["window"]),
            chosen=_candidate(record["chosen"]),
            candidates=tuple(_candidate(candidate) for candidate in record["candidates"]),
            every=Span.parse(record["every"]) if "every" in record else None,
        )


@dataclass(frozen=True)
class Plan:
    """Everything that `run` will do, decided before any data are read."""

    declaration: dict[str, Any]
    budget: Budget
    measure: Measure
    total: Fraction
    """The budget as one number, in the unit of `measure`."""
    columns: dict[str, str]
    program: Program
    releases: tuple[ReleasePlan, ...]
    protects: str
    warnings: tuple[str, ...] = ()
    derived: tuple[Derived, ...] = ()
    choice: Choice | None = None
    """How at_most was chosen, where it was left to be chosen."""
    amends: str | None = None
    """The hash of the plan before, where this one adds releases to a gauge."""
    parts: tuple[Plan, ...] = field(default=(), compare=False, repr=False)
    """The plans of an amended gauge, oldest first, if this plan is all of them together."""
    committed: Mapping[str, Any] | None = field(default=None, init=False, compare=False, repr=False)
    """The record of a committed plan; None for a new plan."""

    @cached_property
    def series(self) -> dict[str, Series]:
        """All published series by name: every release, followed by the series derived from it."""
        return {one.name: one for release in self.releases for one in self.series_of(release)}

    def series_of(self, release: ReleasePlan) -> tuple[Series, ...]:
        """The series of a release: its own, and those derived from it."""
        return (release.series, *(one.series(release) for one in self.derived_of(release)))

    def derived_of(self, release: ReleasePlan) -> tuple[Derived, ...]:
        """The series derived from a release."""
        return tuple(one for one in self.derived if one.of == release.release.name)

    @property
    def begins(self) -> int:
        """The last instant before the first bin of any release ends.

        Releases that are added begin with the rows as they are then.
        """
        return min(plan.release.schedule.bin_end(0) for plan in self.releases) - 1

    @property
    def held_back(self) -> Fraction:
        """The loss that is still held back for releases that are added later."""
        added = sum((part.needed for part in self.parts[1:]), Fraction(0))
        return self.total * self.budget.held_back - added

    @property
    def needed(self) -> Fraction:
        """The privacy loss over the whole lifetime of the gauge."""
        return sum((release.loss for release in self.releases), Fraction(0))

    @property
    def reservation(self) -> Reservation:
        """What the ledger reserves for it."""
        return Reservation(
            plan=self.hash,
            measure=self.measure,
            budget=self.total,
            reserved=self.needed,
            releases={release.release.name: release.loss for release in self.releases},
        )

    @property
    def reserved(self) -> Fraction:
        """The whole lifetime loss, with that of the choice of at_most."""
        return self.needed + (0 if self.choice is None else self.choice.cost)

    @property
    def hash(self) -> str:
        """The hash of the record: equal plans have equal hashes."""
        return address(self.record())

    def record(self) -> dict[str, Any]:
        """The plan as it is committed, with the attachments of its strategies.

        For a committed plan this is the stored record, so that a field added by a later version never changes
        the hash.
        """
        if self.committed is not None:
            return dict(self.committed)
        matrices = {
            digest: text
            for plan in self.releases
            for component_plan in plan.component_plans
            for digest, text in component_plan.strategy.attachments.items()
        }
        return {
            "declaration": self.declaration,
            "budget": {name: str(value) for name, value in vars(self.budget).items() if value is not None},
            "measure": self.measure,
            "total": str(self.total),
            "columns": self.columns,
            "program": program_record(self.program),
            "releases": {plan.release.name: plan.record() for plan in self.releases},
            "protects": self.protects,
            "warnings": list(self.warnings),
            **({"derived": [one.record() for one in self.derived]} if self.derived else {}),
            **({} if self.choice is None else {"choice": self.choice.record()}),
            **({} if self.amends is None else {"amends": self.amends}),
            **({"matrices": matrices} if matrices else {}),
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Plan:
        """The committed plan of this record, even if this version would plan differently."""
        program = PROGRAM.validate_python(record["program"])
        matrices = record.get("matrices", {})
        plan = cls(
            declaration=record["declaration"],
            budget=Budget(**record["budget"]),
            measure=record["measure"],
            total=Fraction(record["total"]),
            columns=record["columns"],
            program=program,
            releases=tuple(
                _release(release, record["releases"][release.name], matrices) for release in program.releases
            ),
            protects=record["protects"],
            warnings=tuple(record["warnings"]),
            derived=tuple(Derived.from_record(one) for one in record.get("derived", ())),
            choice=Choice.from_record(record["choice"]) if "choice" in record else None,
            amends=record.get("amends"),
        )
        object.__setattr__(plan, "committed", record)
        return plan

    def as_json(self) -> dict[str, Any]:
        """What plan --json prints."""
        return {
            "budget": {
                **{name: float(value) for name, value in vars(self.budget).items() if value is not None},
                "measure": self.measure,
                "total": float(self.total),
                "reserved": float(self.reserved),
            },
            **({} if self.choice is None else {"choice": self.choice.as_json()}),
            "hash": self.hash,
            "protects": self.protects,
            "warnings": list(self.warnings),
            **self._renewal(),
            "releases": {name: self._shown(one) for name, one in self.series.items()},
        }

    def _renewal(self) -> dict[str, Any]:
        """When constraints renew, and what a unit loses that stays for several terms."""
        from tidegauge.plan.renewal import stays  # noqa: PLC0415  (renewal reads plans)

        if (terms := self.program.terms) is None:
            return {}
        found = [one.as_json(self.measure) for one in stays(self)]
        return {"renewal": {"renews": str(terms.every), "from": rfc3339(terms.start), "stays": found}}

    def _shown(self, series: Series) -> dict[str, Any]:
        plan = series.plan
        derived = next((one for one in self.derived if one.name == series.name), None)
        shown: ReleasePlan | Derived = derived or plan
        return {
            **({"of": derived.of} if derived else {}),
            "chosen": shown.chosen.as_json(self.measure),
            "candidates": [candidate.as_json(self.measure) for candidate in shown.candidates],
            "promise": plan.promise,
            **({} if derived or (formula := plan.formula) is None else {"mean": formula.as_json()}),
            "schedule": series.schedule_text,
        }

    def __str__(self) -> str:
        from tidegauge.plan.explain import explain  # noqa: PLC0415  (explain reads plans)

        return explain(self, width=80)

    def _repr_html_(self) -> str:
        """For notebooks: the summary, and the noise of every release as a bar."""
        from tidegauge.plan.summary import summary_html  # noqa: PLC0415  (the summary reads plans)

        return summary_html(self)


def address(record: Mapping[str, Any]) -> str:
    """The hash that identifies the plan of this record."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _release(release: Release, record: dict[str, Any], matrices: Mapping[str, str]) -> ReleasePlan:
    return ReleasePlan(
        release=release,
        loss=Fraction(record["loss"]),
        component_plans=tuple(component_plan(channel, matrices) for channel in record["channels"]),
        chosen=_candidate(record["chosen"]),
        candidates=tuple(_candidate(candidate) for candidate in record["candidates"]),
        promise=record["promise"],
    )


def _candidate_record(candidate: Candidate) -> dict[str, Any]:
    return {
        **vars(candidate),
        "loss": str(candidate.loss),
        "growth": [list(point) for point in candidate.growth],
    }


def _candidate(record: dict[str, Any]) -> Candidate:
    growth = tuple((int(reading), float(width)) for reading, width in record["growth"])
    return Candidate(**{**record, "loss": Fraction(record["loss"]), "growth": growth})
