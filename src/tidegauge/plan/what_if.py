"""The noise of a gauge under other values of a few keys: one plan for each combination."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from tidegauge.errors import BudgetExceeded, SpecError
from tidegauge.model.quantity import DAY, Span, rfc3339
from tidegauge.plan.spec.declaration import BudgetSpec, ConstraintSpec, GaugeSpec, ReleaseSpec
from tidegauge.plan.summary import rate, rounded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tidegauge.model.declared import Table
    from tidegauge.model.json import Json
    from tidegauge.plan.candidate import Candidate
    from tidegauge.plan.plan import Plan

    Planned = Callable[[GaugeSpec], Plan]
    """What makes a plan of a declaration."""

BUDGET: Final = ("epsilon", "delta", "rho")
CONSTRAINT: Final = ("at_most", "within")
RELEASE: Final = ("every", "for", "window", "clip")
KEYS: Final = (*BUDGET, *CONSTRAINT, *RELEASE, "max_rows")
MOST: Final = 100
"""Combinations that are planned at once."""
_SMALL: Final = 2000
"""Bins of all releases together up to which alternatives are searched for without being asked."""


@dataclass(frozen=True)
class Choice:
    """One combination of values, and the plan that it would give."""

    values: Mapping[str, str]
    plan: Plan | None
    refused: str = ""
    """Why there is no plan."""

    def as_json(self) -> dict[str, Json]:
        """The fields that plan --what-if --json shows."""
        if self.plan is None:
            return {"values": self.values, "refused": self.refused}
        return {
            "values": self.values,
            "releases": {
                name: {"half_width_worst": one.half_width_worst, "half_width_mean": one.half_width_mean}
                for name, one in _errors(self.plan).items()
            },
        }


def noise_of(plan: Plan) -> dict[str, str]:
    """The noise of every release as a table shows it."""
    return {
        name: f"± {rounded(one.half_width_worst)}" if one.half_width_worst else "exact"
        for name, one in _errors(plan).items()
    }


def _errors(plan: Plan) -> dict[str, Candidate]:
    found = {one.release.name: one.chosen for one in plan.releases}
    found |= {one.name: one.chosen for one in plan.derived}
    return {name: found[name] for name in plan.series}


def parsed(words: Sequence[str]) -> dict[str, list[str]]:
    """The keys and values of KEY=VALUE,VALUE...  Raises SpecError."""
    found: dict[str, list[str]] = {}
    for word in words:
        key, equals, values = word.partition("=")
        listed = [value.strip() for value in values.split(",") if value.strip()]
        if not equals or not listed:
            raise SpecError(f"'{word}' has no values; write for example epsilon=0.5,1,2", key="--what-if")
        if key.strip() not in KEYS:
            raise SpecError(f"'{key}' is not one of {', '.join(KEYS)}", key="--what-if")
        found[key.strip()] = listed
    if (count := prod(map(len, found.values()))) > MOST:
        raise SpecError(f"asks for {count} plans; {MOST} is the most", key="--what-if")
    return found


def grid(spec: GaugeSpec, wanted: Mapping[str, Sequence[str]], planned: Planned) -> list[Choice]:
    """A choice for every combination of the values.  Raises SpecError for a value that is none."""
    choices = []
    for combination in product(*wanted.values()):
        values = dict(zip(wanted, combination, strict=True))
        changed = with_values(spec, values)
        try:
            choices.append(Choice(values, planned(changed)))
        except (SpecError, BudgetExceeded) as error:
            choices.append(Choice(values, None, str(error)))
    return choices


def with_values(spec: GaugeSpec, values: Mapping[str, str]) -> GaugeSpec:
    """The declaration with these values in place of its own.

    Keys of a release are changed in every release that measures; at_most and within in [constraint], or in
    the constraint of each release that has its own.
    """
    data: dict[str, Any] = {}
    budget = {key: value for key, value in values.items() if key in BUDGET}
    if budget:
        data["budget"] = _changed(spec.budget, BudgetSpec, budget, "budget")
    allowed = {key: _number(key, value) for key, value in values.items() if key in CONSTRAINT}
    timing = {key: _number(key, value) for key, value in values.items() if key in RELEASE}
    if allowed and spec.constraint is None and not any(one.constraint for one in spec.measured.values()):
        data["constraint"] = _changed(ConstraintSpec(at_most=1), ConstraintSpec, {"at_most": None, **allowed})
    elif allowed and spec.constraint is not None:
        data["constraint"] = _changed(spec.constraint, ConstraintSpec, allowed, "constraint")
    if allowed or timing:
        releases: dict[str, Any] = dict(spec.release)
        for name, one in spec.measured.items():
            new: dict[str, Any] = dict(timing)
            if allowed and one.constraint is not None:
                new["constraint"] = _changed(one.constraint, ConstraintSpec, allowed, f"release.{name}")
            releases[name] = _changed(one, ReleaseSpec, new, f"release.{name}")
        data["release"] = releases
    if "max_rows" in values:
        rows = _number("max_rows", values["max_rows"])
        if spec.source.unit is None or not isinstance(rows, int):
            raise SpecError("max_rows goes with 'unit' in [source], and is a number", key="--what-if")
        data["source"] = spec.source.model_copy(update={"max_rows": rows})
    return spec.model_copy(update=data)


def _number(key: str, value: str) -> int | str:
    return int(value) if key in ("at_most", "clip", "max_rows") and value.isdigit() else value


def _changed(old: Table, model: type[Table], new: Mapping[str, object], place: str = "constraint") -> Table:
    """The table with these values, checked as if it were declared so."""
    fields = type(old).model_fields
    data = {(field.alias or name): getattr(old, name) for name, field in fields.items()} | dict(new)
    if isinstance(data.get("start"), int):
        data["start"] = rfc3339(data["start"])
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problem = error.errors()[0]
        reason = str(problem.get("ctx", {}).get("error") or problem["msg"])
        raise SpecError(f"{place}: {reason}", key="--what-if") from None


_LONG: Final = "10 years"
"""An end to compare with: an error that never grows costs accuracy."""


# -- what to change --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Alternative:
    """One change of the declaration, and the noise of every release that it gives."""

    label: str
    noise: Mapping[str, str]


def alternatives(spec: GaugeSpec, plan: Plan, planned: Planned) -> list[Alternative]:
    """What would lower the noise: a larger budget, fewer changes or rows, fewer readings, fewer releases.

    Alternatives that need a search are left out for releases of many bins.
    """
    found = []
    for label, changed in _changes(spec, plan):
        try:
            found.append(Alternative(label, noise_of(planned(changed()))))
        except (SpecError, BudgetExceeded):
            continue
    if len(spec.measured) > 1:
        alone: dict[str, str] = {}
        for name in spec.measured:
            own = {name} | {also for also, one in spec.derived.items() if one.of == name}
            releases = {one: spec.release[one] for one in spec.release if one in own}
            only = releases | {name: spec.measured[name].model_copy(update={"share": None, "parts_of": None})}
            try:
                alone |= noise_of(planned(spec.model_copy(update={"release": only})))
            except (SpecError, BudgetExceeded):
                continue
        found.append(Alternative("alone", alone))
    return found


def _changes(spec: GaugeSpec, plan: Plan) -> Iterator[tuple[str, Callable[[], GaugeSpec]]]:
    """A label, and what makes the changed declaration; that may be refused."""
    budget = spec.budget
    for key in ("epsilon", "rho"):
        value = getattr(budget, key)
        if value is not None:
            twice = float(2 * value)
            yield f"{key} = {twice:g}", partial(with_values, spec, {key: str(2 * value)})
    if _bounded_for_ever(spec, plan):
        yield f"for = {_LONG}", partial(with_values, spec, {"for": _LONG})
    if sum(one.release.schedule.bins or _SMALL for one in plan.releases) > _SMALL:
        return
    most = None if spec.constraint is None else spec.constraint.at_most
    if most is not None and most > 2:
        yield f"at_most = {most // 2}", partial(with_values, spec, {"at_most": str(most // 2)})
    if (half := _half_of_within(spec)) is not None:
        yield f"within = {half}", partial(with_values, spec, {"within": str(half)})
    rows = spec.source.max_rows if spec.source.unit is not None else None
    if rows is not None and rows > 1:
        yield f"max_rows = {rows // 2}", partial(with_values, spec, {"max_rows": str(rows // 2)})
    seldom = {
        name: one.model_copy(update={"every": type(one.every)(7 * one.every.months, 7 * one.every.micros)})
        for name, one in spec.measured.items()
        if one.window is None
    }
    rates = {rate(one.every) for one in seldom.values()}
    if seldom:
        label = rates.pop() if len(rates) == 1 else "1/7 as often"
        yield label, partial(spec.model_copy, update={"release": {**spec.release, **seldom}})


def _half_of_within(spec: GaugeSpec) -> Span | None:
    """Half of the time that changes may take, where nothing else bounds them."""
    one = spec.constraint
    if one is None or one.within is None or one.at_most is not None or one.auto:
        return None
    return Span(micros=one.within.fixed() // 2)


def smaller(spec: GaugeSpec) -> str:
    """What lowers the noise beside a larger budget, in words."""
    if spec.constraint is not None and (spec.constraint.at_most or 0) > 1:
        return "Fewer readings (every) or a smaller at_most lower the noise too."
    if _half_of_within(spec) is not None:
        return "Fewer readings (every) or a shorter within lower the noise too."
    return "Fewer readings (every) lower the noise too."


def suggested(spec: GaugeSpec) -> list[str]:
    """Words for --what-if that suit the declaration: values around its own, none of which it refuses."""
    found = []
    for key in ("epsilon", "rho"):
        value = getattr(spec.budget, key)
        if value is not None:
            found.append(f"{key}={','.join(_plain(value * times) for times in (Fraction(1, 2), 1, 2))}")
    one = spec.constraint
    if one is not None and one.at_most is not None:
        values = [value for value in (one.at_most // 2, one.at_most, 2 * one.at_most) if value > 1]
        found.append(f"at_most={','.join(map(str, values))}")
    elif one is not None and (half := _half_of_within(spec)) is not None:
        found.append(f"within='{half},{one.within}'")
    elif one is None and not any(release.constraint for release in spec.measured.values()):
        found.append("at_most=2,4,8")
    periods = {str(release.every): release.every for release in spec.measured.values()}
    if len(periods) == 1 and not any(release.window for release in spec.measured.values()):
        (every,) = periods.values()
        found.append(f"every='{Span(7 * every.months, 7 * every.micros)}'")
    return found


def _plain(value: Fraction) -> str:
    text = f"{float(value):g}"
    return text if Fraction(text) == value else str(value)


def _bounded_for_ever(spec: GaugeSpec, plan: Plan) -> bool:
    """Whether all releases have no end and an error that never grows, and at most one reading a day."""
    return (
        spec.constraint is not None
        and spec.constraint.renews is not None
        and all(one.release.schedule.bins is None for one in plan.releases)
        and all(one.every.after(0) >= DAY for one in spec.measured.values())
    )
