"""A plan: frozen and content-addressed.  `plan` shows the same object that `run` executes."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Final

from pydantic import TypeAdapter

from tidegauge.mechanism.aggregates import aggregate_of
from tidegauge.mechanism.encode import ComponentPlan
from tidegauge.mechanism.noise.samplers import DiscreteGaussian, DiscreteLaplace, Noise
from tidegauge.mechanism.registry import build
from tidegauge.mechanism.registry import record as strategy_record
from tidegauge.model.budget import Budget
from tidegauge.model.json import as_list, as_object, as_text, as_whole, objects, tables, texts
from tidegauge.model.ledger import Reservation
from tidegauge.model.program import Program, Release
from tidegauge.model.quantity import Span, rfc3339
from tidegauge.plan.candidate import Candidate, Measure, parameters
from tidegauge.plan.choice import Choice
from tidegauge.plan.outline import address
from tidegauge.plan.series import Series, derived_series

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegauge.mechanism.aggregate import Formula
    from tidegauge.mechanism.decode import Decoder
    from tidegauge.model.json import Json, JsonObject

_PROGRAM: Final = TypeAdapter(Program)


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

    def record(self) -> dict[str, Json]:
        """The record from which a later process continues to measure."""
        return {
            "loss": str(self.loss),
            "channels": [_component_plan_record(component_plan) for component_plan in self.component_plans],
            "chosen": self.chosen.record(),
            "candidates": [candidate.record() for candidate in self.candidates],
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

    def record(self) -> dict[str, Json]:
        """The record from which a later process continues to publish it."""
        return {
            "name": self.name,
            "of": self.of,
            "window": None if self.window is None else str(self.window),
            "chosen": self.chosen.record(),
            "candidates": [candidate.record() for candidate in self.candidates],
            **({} if self.every is None else {"every": str(self.every)}),
        }

    @classmethod
    def from_record(cls, record: JsonObject) -> Derived:
        """The derived series that was committed."""
        return cls(
            name=as_text(record["name"]),
            of=as_text(record["of"]),
            window=None if record["window"] is None else Span.parse(as_text(record["window"])),
            chosen=Candidate.from_record(as_object(record["chosen"])),
            candidates=tuple(Candidate.from_record(candidate) for candidate in objects(record["candidates"])),
            every=Span.parse(as_text(record["every"])) if "every" in record else None,
        )


@dataclass(frozen=True)
class Plan:
    """Everything that `run` will do, decided before any data are read."""

    declaration: JsonObject
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
    committed: JsonObject | None = field(default=None, init=False, compare=False, repr=False)
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

    def record(self) -> dict[str, Json]:
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
            "program": _program_record(self.program),
            "releases": {plan.release.name: plan.record() for plan in self.releases},
            "protects": self.protects,
            "warnings": list(self.warnings),
            **({"derived": [one.record() for one in self.derived]} if self.derived else {}),
            **({} if self.choice is None else {"choice": self.choice.record()}),
            **({} if self.amends is None else {"amends": self.amends}),
            **({"matrices": matrices} if matrices else {}),
        }

    @classmethod
    def from_record(cls, record: JsonObject) -> Plan:
        """The committed plan of this record, even if this version would plan differently."""
        program = _program(as_object(record["program"]))
        matrices, recorded = texts(record.get("matrices", {})), tables(record["releases"])
        plan = cls(
            declaration=as_object(record["declaration"]),
            budget=Budget.from_json(as_object(record["budget"])),
            measure="epsilon" if record["measure"] == "epsilon" else "rho",
            total=Fraction(as_text(record["total"])),
            columns=texts(record["columns"]),
            program=program,
            releases=tuple(
                _release(release, recorded[release.name], matrices) for release in program.releases
            ),
            protects=as_text(record["protects"]),
            warnings=tuple(as_text(one) for one in as_list(record["warnings"])),
            derived=tuple(Derived.from_record(one) for one in objects(record.get("derived", ()))),
            choice=Choice.from_record(as_object(record["choice"])) if "choice" in record else None,
            amends=as_text(record["amends"]) if "amends" in record else None,
        )
        object.__setattr__(plan, "committed", record)
        return plan

    def as_json(self) -> dict[str, Json]:
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

    def _renewal(self) -> dict[str, Json]:
        """When constraints renew, and what a unit loses that stays for several terms."""
        from tidegauge.plan.renewal import stays  # noqa: PLC0415  (renewal reads plans)

        if (terms := self.program.terms) is None:
            return {}
        found = [one.as_json(self.measure) for one in stays(self)]
        return {"renewal": {"renews": str(terms.every), "from": rfc3339(terms.start), "stays": found}}

    def _shown(self, series: Series) -> dict[str, Json]:
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


def _program_record(program: Program) -> dict[str, Json]:
    """Without zones, terms and kept columns if there are none: older plans keep their hash.

    Queries of stocks have no `own_columns` for the same reason.

    Allowances have their older name, `limits`.
    """
    record: dict[str, Json] = _PROGRAM.dump_python(program, mode="json")
    for name in ("terms", "keeps", "labels"):
        if not record[name]:
            del record[name]
    return record | {
        "releases": [_without_defaults(release) for release in objects(record["releases"])],
        "scopes": [_renamed(scope, "allowances", "limits") for scope in objects(record["scopes"])],
    }


def _program(record: JsonObject) -> Program:
    scopes = [_renamed(scope, "limits", "allowances") for scope in objects(record["scopes"])]
    return _PROGRAM.validate_python({**record, "scopes": scopes})


def _renamed(table: JsonObject, old: str, new: str) -> dict[str, Json]:
    return {new if name == old else name: value for name, value in table.items()}


def _without_defaults(release: JsonObject) -> dict[str, Json]:
    schedule, query = as_object(release["schedule"]).items(), as_object(release["query"]).items()
    return {
        **release,
        "query": {name: value for name, value in query if (name, value) != ("own_columns", False)},
        "schedule": {name: value for name, value in schedule if (name, value) != ("zone", None)},
    }


def _release(release: Release, record: JsonObject, matrices: Mapping[str, str]) -> ReleasePlan:
    return ReleasePlan(
        release=release,
        loss=Fraction(as_text(record["loss"])),
        component_plans=tuple(
            _component_plan(component_plan, matrices) for component_plan in objects(record["channels"])
        ),
        chosen=Candidate.from_record(as_object(record["chosen"])),
        candidates=tuple(Candidate.from_record(candidate) for candidate in objects(record["candidates"])),
        promise=as_text(record["promise"]),
    )


def _component_plan_record(component_plan: ComponentPlan) -> dict[str, Json]:
    noise = component_plan.noise
    if isinstance(noise, DiscreteLaplace):
        kind = {"kind": "laplace", "scale": str(noise.scale)}
    else:
        assert isinstance(noise, DiscreteGaussian)
        kind = {"kind": "gaussian", "sigma_squared": str(noise.sigma_squared)}
    return {
        "strategy": strategy_record(component_plan.strategy),
        "refine": component_plan.refine,
        "noise": kind,
    }


def _component_plan(record: JsonObject, matrices: Mapping[str, str]) -> ComponentPlan:
    drawn, strategy = as_object(record["noise"]), parameters(record["strategy"])
    noise: Noise = (
        DiscreteLaplace(Fraction(as_text(drawn["scale"])))
        if drawn["kind"] == "laplace"
        else DiscreteGaussian(Fraction(as_text(drawn["sigma_squared"])))
    )
    name = as_text(strategy.pop("name"))
    return ComponentPlan(build(name, strategy, attachments=matrices), as_whole(record["refine"]), noise)
