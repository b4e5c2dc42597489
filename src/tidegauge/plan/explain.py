"""A plan as text: what is protected, what is published, its privacy loss and its errors."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tidegauge.mechanism.aggregates import aggregate_of
from tidegauge.mechanism.registry import find
from tidegauge.model.quantity import rfc3339
from tidegauge.theory.accounting.conversion import rho_to_epsilon

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tidegauge.model.budget import Budget
    from tidegauge.plan.plan import Candidate, Derived, Plan, ReleasePlan
    from tidegauge.plan.series import Series


def explain(plan: Plan, *, why: bool = False) -> str:
    """The text that `tidegauge plan` prints; with `why`, also how each strategy was chosen or not."""
    lines = [
        f"Plan {plan.hash[:12]}",
        "",
        f"Protects  {plan.protects}",
        f"Budget    {plan.budget}{_accounted(plan)}",
    ]
    lines += [
        f"          {number(plan.needed)} of {number(plan.total)} ({plan.measure}) is reserved "
        "for the gauge's whole lifetime"
    ]
    lines += _renewal(plan)
    lines += [f"Warning   {warning}" for warning in plan.warnings]
    for release in plan.releases:
        lines += ["", *_release(release, plan, why=why)]
    return "\n".join(lines)


def _renewal(plan: Plan) -> Iterator[str]:
    """What a unit loses in several terms, and whether a constraint that never renews has less noise."""
    from tidegauge.plan.renewal import stays  # noqa: PLC0415  (renewal reads plans)

    terms = plan.program.terms
    if terms is None:
        return
    zone = "" if terms.zone is None else f" ({terms.zone.name})"
    yield f"Renews    every {terms.every} from {rfc3339(terms.start)}{zone}. A unit that stays for several terms"
    yield "          loses more, as below; beside it, a constraint that never renews, allows as many"
    yield "          changes and loses as much in total (worst 95 % half-width of the noise):"
    head = ("terms", plan.measure, "release", "renewal", "lifetime", "at_most", "less noise")
    rows = []
    for stay in stays(plan):
        for n, one in enumerate(stay.alternatives):
            first = (f"{stay.terms}", number(stay.loss)) if n == 0 else ("", "")
            other = one.lifetime_half_width
            rows.append(
                (
                    *first,
                    one.release,
                    f"± {one.half_width:,.4g}",
                    "no bound" if other is None else f"± {other:,.4g}",
                    "-" if one.at_most is None else f"{one.at_most:,}",
                    one.better,
                )
            )
    yield from (f"        {line}" for line in _table(head, rows))
    yield "          A constraint that never renews leaves more units frozen or missing, year after year:"
    yield "          that bias is not in this table (tidegauge status shows it)."


def _accounted(plan: Plan) -> str:
    if plan.measure == "epsilon" or plan.budget.rho is not None:
        return "" if plan.budget.rho is None else _equivalent(plan.budget)
    return f", accounted as rho = {number(plan.total)}"


def _equivalent(budget: Budget) -> str:
    assert budget.rho is not None
    epsilon = rho_to_epsilon(budget.rho, delta=Fraction(1, 10**6))
    return f" (for instance epsilon = {number(epsilon)} at delta = 1e-06)"


def _release(plan: ReleasePlan, whole: Plan, *, why: bool) -> list[str]:
    release = plan.release
    cells = len(release.query.cells)
    groups = "" if cells == 1 else f", {cells} groups"
    what = (
        "flow"
        if release.query.kind == "flow"
        else "running value"
        if release.schedule.window is None
        else "change"
    )
    aggregate, formula = aggregate_of(release.query.aggregate), plan.formula
    holds = f" ({aggregate.promise})" if aggregate.promise else ""
    ever = "" if release.schedule.count is not None else ", over the first 1,000 readings"
    schedule = str(release.schedule)
    if release.query.kind == "flow":
        schedule = schedule.replace("change over", "total over")
    head = (
        "",
        "strategy",
        "parameters",
        "noise",
        whole.measure,
        "worst 95 %",
        "mean 95 %",
        "adaptive",
        "memory",
    )
    rows = [_row(candidate, chosen=candidate == plan.chosen) for candidate in plan.candidates]
    return [
        f"{release.name}: {what}{groups}, {schedule}",
        f"  {release.query.text}",
        *_table(head, rows),
        f"  95 % half-widths in {aggregate.unit}{holds}{ever}. Promise: {plan.promise}.",
        *([f"  {formula}."] if formula else ()),
        *_growth(plan.chosen, plan.candidates),
        *([f"  {plan.hint}."] if plan.hint else ()),
        *(_reasons(plan, whole.declaration["release"][release.name]) if why else ()),
        *_derived(plan, whole, why=why),
    ]


def _derived(plan: ReleasePlan, whole: Plan, *, why: bool) -> Iterator[str]:
    """Other series that are decoded from the same measurements."""
    derived = whole.derived_of(plan)
    if not derived:
        return
    ever = "" if plan.release.schedule.count is not None else " (errors over the first 1,000 readings)"
    yield f"  Derived from the same measurements, at no further privacy loss{ever}:"
    head = ("", "release", "what", "readings", "from", whole.measure, "worst 95 %", "mean 95 %")
    rows = []
    for one in derived:
        series = one.series(plan)
        rows.append(
            (
                " ",
                one.name,
                _what(plan, series),
                "ever" if series.timetable.count is None else f"{series.timetable.count:,}",
                rfc3339(series.timetable.start),
                number(one.chosen.loss),
                f"± {one.chosen.half_width_worst:,.4g}",
                f"± {one.chosen.half_width_mean:,.4g}",
            )
        )
    yield from _table(head, rows)
    for one in derived:
        yield from _far_better(one, plan)
    for one in derived if why else ():
        others = [
            (other, label)
            for other, label in zip(one.candidates, _labels(one.candidates), strict=True)
            if other != one.chosen
        ]
        if others and one.chosen.half_width_worst:
            ratios = (
                f"{other.half_width_worst / one.chosen.half_width_worst:,.2f} with {label}"
                for other, label in others
            )
            yield f"    {one.name} would have a worst error so many times as large: {', '.join(ratios)}."
    if why:
        yield (
            f"    The strategy is chosen for the error of {plan.release.name}; "
            "derived series count half as much."
        )


def _far_better(derived: Derived, plan: ReleasePlan) -> Iterator[str]:
    """A remark where another strategy would give a derived series with a far smaller error."""
    best = min(range(len(plan.candidates)), key=lambda at: derived.candidates[at].half_width_worst)
    other = derived.candidates[best]
    if other.half_width_worst < derived.chosen.half_width_worst / _FAR:
        yield (
            f"    {derived.name} would be ± {other.half_width_worst:,.4g} with "
            f"{_labels(plan.candidates)[best]} (and {plan.release.name} "
            f"± {plan.candidates[best].half_width_worst:,.4g}): pin it by 'strategy', if that matters more."
        )


_FAR = 2
"""Times as large an error that is worth a remark."""


def _what(plan: ReleasePlan, series: Series) -> str:
    if series.level:
        return "running total" if plan.release.query.kind == "flow" else "running value"
    return f"{'total' if plan.release.query.kind == 'flow' else 'change'} over {series.window}"


def _row(candidate: Candidate, *, chosen: bool) -> tuple[str, ...]:
    kind = find(candidate.strategy)
    fixed = () if kind is None else kind.fixed
    parameters = ", ".join(
        f"{name}={str(value)[:_SHORT] if name == 'digest' else value}"
        for name, value in sorted(
            candidate.parameters.items(), key=lambda item: (len(str(item[1])) > _SHORT, item[0])
        )
        if name not in fixed
    )
    return (
        "*" if chosen else " ",
        candidate.strategy,
        parameters if len(parameters) <= _WIDEST else f"{parameters[: _WIDEST - 1]}…",
        f"{candidate.noise:,.4g}",
        number(candidate.loss),
        f"± {candidate.half_width_worst:,.4g}",
        f"± {candidate.half_width_mean:,.4g}",
        "yes" if candidate.adaptive else "no",
        f"{candidate.memory:,}",
    )


_SHORT = 12
"""Digits of a digest that are shown; longer values come last."""
_WIDEST = 44
"""Characters of parameters that are shown."""


def _growth(chosen: Candidate, candidates: Sequence[Candidate]) -> Iterator[str]:
    if not chosen.growth:
        return
    if not _grows(chosen):
        yield "  It has no end, and its error does not grow."
        return
    points = ", ".join(f"± {width:,.4g} in the first {reading:,}" for reading, width in chosen.growth)
    yield f"  It has no end, and its error grows: {points} readings."
    level = next((one for one in candidates if one.growth and not _grows(one)), None)
    if level is not None:
        yield (
            f"  The error of {level.strategy} stays ± {level.half_width_worst:,.4g} however long it runs: "
            f"pin it by strategy = '{level.strategy}' for a gauge that runs longer."
        )


def _grows(candidate: Candidate) -> bool:
    return candidate.growth[-1][1] > candidate.growth[0][1] * _LEVEL


def _reasons(plan: ReleasePlan, declared: Mapping[str, Any]) -> Iterator[str]:
    """Why this strategy was chosen: what each measures, and how its error compares."""
    best, labels = plan.chosen, _labels(plan.candidates)
    if not best.noise:
        yield f"  Why {best.strategy}: for so much privacy loss it has no noise, and adds up whole numbers."
    elif "strategy" in declared:
        yield f"  Why {best.strategy}: it was pinned. It {_described(best, plan)}."
    else:
        yield f"  Why {labels[plan.candidates.index(best)]}: it {_described(best, plan)}."
        mean = declared.get("minimise") == "mean"
        for other, label in zip(plan.candidates, labels, strict=True):
            widths = [one.half_width_mean if mean else one.half_width_worst for one in (other, best)]
            if other != best and widths[1]:
                yield (
                    f"    {label} would have {widths[0] / widths[1]:,.2f} times the "
                    f"{'mean' if mean else 'worst'} error: it {_described(other, plan)}."
                )
    if plan.chosen.folds is not None:
        yield f"    One unit can change at most {plan.chosen.folds} of its measurements."


def _labels(candidates: Sequence[Candidate]) -> list[str]:
    """The name of each, and where several share it, the parameters in which they differ."""
    found = []
    for one in candidates:
        alike = [other.parameters for other in candidates if other.strategy == one.strategy]
        differ = [
            f"{name}={value}"
            for name, value in sorted(one.parameters.items())
            if any(other.get(name) != value for other in alike)
        ]
        found.append(f"{one.strategy} ({', '.join(differ)})" if differ else one.strategy)
    return found


def _described(candidate: Candidate, plan: ReleasePlan) -> str:
    kind = find(candidate.strategy)  # a committed plan may name one that this installation does not have
    return "is not installed here" if kind is None else kind.describe(plan.release.schedule)


_LEVEL = 1.001
"""Errors that differ by less are as good as equal."""


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [head, *rows]
    ]


def number(value: Fraction) -> str:
    """An exact number, or so many digits that it is not mistaken for one."""
    return str(value) if value.denominator < 10_000 else f"{float(value):.6g}"
