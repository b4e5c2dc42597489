"""The declared gauge: what a tidegauge.toml may say, and what is wrong with one that says otherwise."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)

from tidegauge.errors import SpecError
from tidegauge.model.budget import Budget
from tidegauge.model.constraint import AtMost, Both, Constraint, Either, Unconstrained, Within
from tidegauge.model.declared import Name, Table
from tidegauge.model.json import Json
from tidegauge.model.program import Allowance
from tidegauge.model.quantity import Span
from tidegauge.model.query import Value
from tidegauge.plan.spec.auto import require_choice, with_auto
from tidegauge.plan.spec.calendar import CalendarSpec, with_local_starts
from tidegauge.plan.spec.messages import Forms, explain, kinds_there_are
from tidegauge.plan.spec.places import EngineSpec, LedgerSpec, StoreSpec
from tidegauge.plan.spec.publish import DeclaredPublisher
from tidegauge.plan.spec.source import DeclaredSource, ObjectSpec
from tidegauge.plan.spec.values import Duration, Number, Time, a_strategy, an_end, plainly


class AllowanceSpec(Table):
    """What bounds one unit."""

    at_most: Annotated[int, Field(ge=1, strict=True)] | None = None
    within: Duration | None = None

    @property
    def allowance(self) -> Allowance:
        """As an engine enforces it."""
        return Allowance(self.at_most, None if self.within is None else self.within.fixed())

    @property
    def constraint(self) -> Constraint:
        """As theory counts with it."""
        parts: list[Constraint] = [] if self.at_most is None else [AtMost(self.at_most)]
        parts += [] if self.within is None else [Within(self.within)]
        return Both(*parts) if len(parts) == 2 else parts[0] if parts else Unconstrained()


class ConstraintSpec(AllowanceSpec):
    """What bounds every unit, or by a column one of several cases."""

    on_excess: Literal["freeze", "retire"] = "freeze"
    by: Name | None = None
    cases: dict[str, AllowanceSpec] = {}
    auto: Literal[True] | None = None
    """Written as at_most = "auto"."""
    choose_from: Duration | None = None
    choice_share: Number | None = None
    renews: Duration | None = None
    renews_from: Time | None = None

    _auto = model_validator(mode="before")(with_auto)
    _chosen = model_validator(mode="after")(require_choice)

    @model_validator(mode="after")
    def _whole(self) -> ConstraintSpec:
        own = self.at_most is not None or self.within is not None or self.auto is not None
        if (self.by is None) != (not self.cases):
            raise ValueError(
                "'by' (the column that says which case a unit obeys) and [constraint.cases.NAME] go together"
            )
        if self.by is None and not own:
            raise ValueError("give at_most, within, or both")
        if self.by is not None and own:
            raise ValueError("with 'by', write at_most and within inside the cases")
        if self.renews_from is not None and self.renews is None:
            raise ValueError("renews_from: says when the first term begins, and needs 'renews', its length")
        if self.within is not None and self.within.months:
            raise ValueError(f"within: '{self.within}' has no fixed length; write it in days")
        for case in self.cases.values():
            if case.at_most is None and case.within is None:
                raise ValueError("cases: every case needs at_most, within, or both")
        if self.on_excess == "retire" and 1 in {
            self.at_most,
            *(case.at_most for case in self.cases.values()),
        }:
            raise ValueError(
                "with at_most = 1 a unit would retire as it enters, and no unit would ever count; use freeze"
            )
        return self

    def chosen(self, at_most: int, on_excess: str) -> ConstraintSpec:
        """The constraint with a chosen pair in place of "auto"."""
        found = {"at_most": at_most, "within": self.within, "on_excess": on_excess}
        kept = {"renews": self.renews, "renews_from": self.renews_from}
        return ConstraintSpec.model_validate(found).model_copy(update=kept)

    @property
    def allowances(self) -> tuple[tuple[str | None, Allowance], ...]:
        """What units are allowed, by label."""
        if self.by is None:
            return ((None, self.allowance),)
        return tuple((label, case.allowance) for label, case in sorted(self.cases.items()))

    @property
    def constraint(self) -> Constraint:
        """As theory counts with it: of several cases, any may be the worst."""
        if self.by is None:
            return super().constraint
        first, *others = (case.constraint for _, case in sorted(self.cases.items()))
        for other in others:
            first = Either(first, other)
        return first


class BudgetSpec(Table):
    """The lifetime budget, per unit."""

    epsilon: Number | None = None
    delta: Number | None = None
    rho: Number | None = None
    reserve: Number | None = None
    reserve_columns: list[Name] | None = None
    """The columns that added releases may use; None: all."""

    @model_validator(mode="after")
    def _whole(self) -> BudgetSpec:
        if self.reserve_columns is not None and self.reserve is None:
            raise ValueError("reserve_columns: says what added releases may use, and needs 'reserve'")
        return self

    @property
    def budget(self) -> Budget:
        """The exact budget."""
        return Budget(self.epsilon, self.delta, self.rho, self.reserve)


class ReleaseSpec(Table):
    """One thing that is published."""

    sql: Name
    groups: dict[str, list[Value]] = {}
    bounds: dict[str, tuple[Number, Number]] = {}
    grid: dict[str, Number] = {}
    start: Time | None = None
    every: Duration
    for_: Annotated[Span | Literal["ever"], BeforeValidator(an_end), Field(alias="for")] = "ever"
    window: Duration | None = None
    share: Number | None = None
    weight: Number = Fraction(1)
    minimise: Literal["worst", "mean"] = "worst"
    parts_of: Name | None = None
    strategy: Annotated[Name | dict[str, int | float | str] | None, BeforeValidator(a_strategy)] = None
    clip: Annotated[int, Field(ge=1, strict=True)] | None = None
    constraint: ConstraintSpec | None = None

    @model_validator(mode="after")
    def _whole(self) -> ReleaseSpec:
        if self.share is not None and not 0 < self.share <= 1:
            raise ValueError("share: must be more than 0 and at most 1")
        if self.weight <= 0:
            raise ValueError("weight: must be more than 0")
        if isinstance(self.strategy, dict) and "name" not in self.strategy:
            raise ValueError("strategy: needs a name: { name = ..., and all its parameters }")
        return self

    @property
    def pinned(self) -> dict[str, int | float | str] | None:
        """The strategy that the planner must take, with its parameters if they were given."""
        return {"name": self.strategy} if isinstance(self.strategy, str) else self.strategy


class DerivedSpec(Table):
    """Another window of what a release measures, or the same less often."""

    of: Name
    window: Duration | None = None
    every: Duration | None = None


def _way(release: object) -> str:
    """How a release comes about."""
    derived = isinstance(release, DerivedSpec) or (isinstance(release, dict) and "of" in release)
    return "derived" if derived else "measured"


AnyRelease = Annotated[
    Annotated[ReleaseSpec, Tag("measured")] | Annotated[DerivedSpec, Tag("derived")], Discriminator(_way)
]


class GaugeSpec(Table):
    """A whole tidegauge.toml."""

    source: DeclaredSource
    constraint: ConstraintSpec | None = None
    budget: BudgetSpec
    release: Annotated[dict[str, AnyRelease], Field(min_length=1)]
    store: StoreSpec = StoreSpec()
    engine: EngineSpec = EngineSpec()
    calendar: CalendarSpec = CalendarSpec()
    ledger: LedgerSpec | None = None
    publish: dict[str, DeclaredPublisher] = {}

    @model_validator(mode="before")
    @classmethod
    def _local_times(cls, data: Any) -> Any:
        return with_local_starts(data)

    @model_validator(mode="after")
    def _whole(self) -> GaugeSpec:
        if (self.source.unit is None) != (self.source.max_rows is None):
            raise ValueError(
                "source: 'unit' and 'max_rows' go together: without a limit on the rows of one unit that "
                "count at a time, its influence has no bound"
            )
        plainly(lambda spec: spec.budget, self.budget)
        for name, release in self.measured.items():
            if release.constraint is not None and release.constraint.auto:
                raise ValueError(f"release.{name}.constraint.at_most: 'auto' belongs to [constraint] alone")
            self._require_measured(release.parts_of, f"release.{name}.parts_of")
            if release.constraint is not None and release.constraint.renews is not None:
                raise ValueError(
                    f"release.{name}.constraint.renews: belongs in [constraint]: all constraints of a gauge "
                    "renew together, because what is protected is everything a unit does in one term"
                )
        for name, derived in self.derived.items():
            self._require_measured(derived.of, f"release.{name}.of")
        return self

    def _require_measured(self, name: str | None, key: str) -> None:
        if name in self.derived:
            raise ValueError(f"{key}: '{name}' is derived itself; name a release with an sql of its own")
        if name is not None and name not in self.release:
            known = ", ".join(f"'{one}'" for one in self.measured) or "none with an sql of its own"
            raise ValueError(f"{key}: there is no release '{name}'; there is {known}")

    @property
    def measured(self) -> dict[str, ReleaseSpec]:
        """The releases that are measured, and have a part in the budget."""
        return {name: one for name, one in self.release.items() if isinstance(one, ReleaseSpec)}

    @property
    def derived(self) -> dict[str, DerivedSpec]:
        """The releases that are decoded from what others measure."""
        return {name: one for name, one in self.release.items() if isinstance(one, DerivedSpec)}

    def canonical(self, *, defaults: bool = True) -> dict[str, Json]:
        """The declaration in one form for all ways to write it.

        Without `defaults`, keys that have their default are left out.

        How the source is reached is no part of it: passwords, hosts and slots may change in the years of a
        gauge.
        So may publishers: where readings are handed on to changes nothing that is promised.
        The default engine and calendar are left out: gauges from before there was a choice have none.
        """
        left_out: dict[str, Any] = dict.fromkeys(("store", "ledger", "publish"), True)
        left_out["source"] = set(self.source.REACH)
        if self.engine == EngineSpec():
            left_out["engine"] = True
        if self.calendar == CalendarSpec():
            left_out["calendar"] = True
        form: dict[str, Json] = json.loads(
            json.dumps(
                self.model_dump(
                    by_alias=True, exclude_none=True, exclude_defaults=not defaults, exclude=left_out
                ),
                default=str,
                sort_keys=True,
            )
        )
        return form

    @classmethod
    def parse(cls, data: Mapping[str, object]) -> GaugeSpec:
        """Check a declaration; a refusal names every key that is wrong."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            forms = Forms(cls, ReleaseSpec, DerivedSpec)
            raise SpecError("\n".join(explain(forms, problem) for problem in error.errors())) from None


def load(path: Path) -> GaugeSpec:
    """Read a tidegauge.toml, numbers exactly as they were written."""
    try:
        data = tomllib.loads(path.read_text("utf-8"), parse_float=Decimal)
    except FileNotFoundError:
        raise SpecError(
            f"{path} is not here. Write one with: tidegauge init TABLE, or name another with --file"
        ) from None
    except UnicodeDecodeError:
        raise SpecError(f"{path} is not UTF-8 text. Save it as UTF-8") from None
    except OSError as error:
        raise SpecError(f"{path} cannot be read: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise SpecError(
            f"{path} is not valid TOML: {error}. Texts are in quotes, lists in [ ], and every key is given "
            "once"
        ) from None
    try:
        return _written(data)
    except SpecError as error:
        raise SpecError(f"{path} does not declare a gauge:\n  " + str(error).replace("\n", "\n  ")) from None


def _written(data: Mapping[str, object]) -> GaugeSpec:
    """What a file can say; a source that is an object, it cannot."""
    spec = GaugeSpec.parse(data)
    if isinstance(spec.source, ObjectSpec):
        raise SpecError(kinds_there_are(spec.source.kind))
    return spec


def declared_form(constraint: Constraint) -> dict[str, int | str]:
    """A constraint as a file would declare it."""
    match constraint:
        case AtMost(mutations):
            return {"at_most": mutations}
        case Within() if constraint.temporal:
            return {"within": f"{int(constraint.bound)} microseconds"}
        case Both(left, right) if not (declared_form(left).keys() & declared_form(right).keys()):
            return declared_form(left) | declared_form(right)
        case _:
            raise SpecError(
                f"'{constraint}' cannot be enforced as it is: a duration must be one ('30 days'), and where "
                "units obey "
                "one of several constraints a column says which: constraint={'by': COLUMN, 'cases': {VALUE: "
                "{...}}}",
                key="constraint",
            )
