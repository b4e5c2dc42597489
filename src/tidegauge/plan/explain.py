"""A plan as text: the summary, and with --explain every strategy that was considered and why."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from tidegauge.mechanism.aggregates import aggregate_of
from tidegauge.mechanism.registry import STRATEGIES
from tidegauge.model.json import tables
from tidegauge.model.quantity import rfc3339
from tidegauge.plan.choose import grows
from tidegauge.plan.summary import summarise
from tidegauge.plan.wording import number, wrapped
from tidegauge.theory.accounting.conversion import rho_to_epsilon

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidegauge.model.budget import Budget
    from tidegauge.model.json import JsonObject
    from tidegauge.plan.candidate import Candidate
    from tidegauge.plan.plan import Derived, Plan, ReleasePlan
    from tidegauge.plan.series import Series


def explain(plan: Plan, *, why: bool = False, width: int | None = None) -> str:
    """The text that `tidegauge plan` prints; with `why`, also every strategy that was considered.

    `width`: the most characters of a line; None: lines are not wrapped.
    """
    lines = list(summarise(plan, width))
    if plan.program.terms is not None:
        lines += ["", *_renewal(plan, width)]
    if why:
        lines += ["", *wrapped("Account   ", _accounted(plan), width)]
        lines += [part for line in _WORDS for part in wrapped("  ", line, width, hanging=4)]
        for release in plan.releases:
            lines += ["", *(part for line in _release(release, plan) for part in _fitted(line, width))]
    return "\n".join(lines)


_WORDS: Final = (
    "noise: standard deviation of one measurement.",
    "worst, mean: half-width of the noise interval (95 %) at the worst reading, and on average.",
    "adaptive: whether the guarantee also holds if the data react to what was published.",
    "memory: exact values that are kept of each group until they are no longer needed.",
)


def _fitted(line: str, width: int | None) -> list[str]:
    """The line, wrapped below its own indent; rows of tables are narrow already."""
    if width is None or len(line) <= width:
        return [line]
    indent = len(line) - len(line.lstrip())
    return wrapped(" " * indent, line.lstrip(), width, hanging=indent + 2)


def _renewal(plan: Plan, width: int | None) -> Iterator[str]:
    """What a unit loses in several terms, and whether a constraint that never renews has less noise."""
    from tidegauge.plan.renewal import stays  # noqa: PLC0415  (renewal reads plans)

    terms = plan.program.terms
    assert terms is not None
    zone = "" if terms.zone is None else f" ({terms.zone.name})"
    yield from wrapped(
        "Renews    ", f"every {terms.every} from {rfc3339(terms.start)}{zone}. {_TERMS}", width
    )
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
    yield from _table(head, rows)
    yield from wrapped("  ", _FROZEN, width)


_TERMS: Final = (
    "A unit that stays for several terms loses more, as below. Beside it: a constraint that never renews, "
    "allows as many changes and loses as much in total (worst half-width of the noise interval, 95 %):"
)
_FROZEN: Final = (
    "A constraint that never renews leaves more units frozen or missing, year after year. That bias is not "
    "in this table; tidegauge status shows it."
)


def _accounted(plan: Plan) -> str:
    reserved = f"{number(plan.reserved)} of {number(plan.total)} ({plan.measure})"
    text = f"{reserved} is reserved for the gauge's whole lifetime; the budget is {plan.budget}"
    if plan.budget.rho is not None:
        return f"{text}{_equivalent(plan.budget)}."
    return f"{text}." if plan.measure == "epsilon" else f"{text}, accounted as rho = {number(plan.total)}."


def _equivalent(budget: Budget) -> str:
    assert budget.rho is not None
    epsilon = rho_to_epsilon(budget.rho, delta=Fraction(1, 10**6))
    return f" (for instance epsilon = {number(epsilon)} at delta = 1e-06)"


def _release(plan: ReleasePlan, whole: Plan) -> list[str]:
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
    head = ("", "strategy", "noise", whole.measure, "worst 95 %", "mean 95 %", "adaptive", "memory")
    rows = [_row(candidate, chosen=candidate == plan.chosen) for candidate in plan.candidates]
    return [
        f"{release.name}: {what}{groups}, {schedule}",
        f"  {release.query.text}",
        *_table(head, rows),
        f"  95 % half-widths in {aggregate.unit}{holds}{ever}. Promise: {plan.promise}.",
        *([f"  {formula}."] if formula else ()),
        *_growth(plan.chosen, plan.candidates),
        *([f"  {plan.hint}."] if plan.hint else ()),
        *_reasons(plan, tables(whole.declaration["release"])[release.name]),
        *_derived(plan, whole),
    ]


def _derived(plan: ReleasePlan, whole: Plan) -> Iterator[str]:
    """Other series that are decoded from the same measurements."""
    derived = whole.derived_of(plan)
    if not derived:
        return
    ever = "" if plan.release.schedule.count is not None else " (errors over the first 1,000 readings)"
    yield f"  Derived from the same measurements, at no further privacy loss{ever}:"
    head = ("", "release", "what", "readings", whole.measure, "worst 95 %", "mean 95 %")
    rows = []
    for one in derived:
        series = one.series(plan)
        rows.append(
            (
                " ",
                one.name,
                _what(plan, series),
                "ever" if series.timetable.count is None else f"{series.timetable.count:,}",
                number(one.chosen.loss),
                f"± {one.chosen.half_width_worst:,.4g}",
                f"± {one.chosen.half_width_mean:,.4g}",
            )
        )
    yield from _table(head, rows)
    for one in derived:
        yield from _far_better(one, plan)
    for one in derived:
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
    yield (
        f"    The strategy is chosen for the error of {plan.release.name}; derived series count half as much."
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


_FAR: Final = 2
"""Times as large an error that is worth a remark."""


def _what(plan: ReleasePlan, series: Series) -> str:
    if series.running:
        return "running total" if plan.release.query.kind == "flow" else "running value"
    return f"{'total' if plan.release.query.kind == 'flow' else 'change'} over {series.window}"


def _row(candidate: Candidate, *, chosen: bool) -> tuple[str, ...]:
    return (
        "*" if chosen else " ",
        candidate.strategy,
        f"{candidate.noise:,.4g}",
        _short(candidate.loss),
        f"± {candidate.half_width_worst:,.4g}",
        f"± {candidate.half_width_mean:,.4g}",
        "yes" if candidate.adaptive else "no",
        f"{candidate.memory:,}",
    )


def _parameters(candidate: Candidate) -> str:
    """The parameters that the schedule does not fix, short ones first."""
    kind = STRATEGIES.find(candidate.strategy)
    fixed = () if kind is None else kind.fixed
    text = ", ".join(
        f"{name}={str(value)[:_SHORT] if name == 'digest' else value}"
        for name, value in sorted(
            candidate.parameters.items(), key=lambda item: (len(str(item[1])) > _SHORT, item[0])
        )
        if name not in fixed
    )
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


_SHORT: Final = 12
"""Digits of a digest that are shown; longer values come last."""
_WIDEST: Final = 120
"""Characters of parameters that are shown."""


def _growth(chosen: Candidate, candidates: Sequence[Candidate]) -> Iterator[str]:
    if not chosen.growth:
        return
    if not grows(chosen.growth):
        yield "  It has no end, and its error does not grow."
        best = min(candidates, key=lambda one: one.half_width_worst)
        if best.half_width_worst * _LEVEL < chosen.half_width_worst:
            yield (
                f"  {best.strategy} has less noise at first (± {best.half_width_worst:,.4g} in the first "
                f"{best.growth[-1][0]:,} readings), and its error grows: pin it by strategy = "
                f"'{best.strategy}', or declare an end with 'for', if the gauge does not run longer."
            )
        return
    points = ", ".join(f"± {width:,.4g} in the first {reading:,}" for reading, width in chosen.growth)
    yield f"  It has no end, and its error grows: {points} readings."
    bounded = next((one for one in candidates if one.growth and not grows(one.growth)), None)
    if bounded is not None:
        yield (
            f"  The error of {bounded.strategy} stays ± {bounded.half_width_worst:,.4g} however long it "
            f"runs: pin it by strategy = '{bounded.strategy}' for a gauge that runs longer."
        )


def _reasons(plan: ReleasePlan, declared: JsonObject) -> Iterator[str]:
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
    if parameters := _parameters(best):
        yield f"    Its parameters: {parameters}."
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
    # a committed plan may name one that this installation does not have
    kind = STRATEGIES.find(candidate.strategy)
    return "is not installed here" if kind is None else kind.describe(plan.release.schedule)


_LEVEL: Final = 1.001
"""Errors that differ by less are as good as equal."""


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [head, *rows]
    ]


def _short(value: Fraction) -> str:
    return str(value) if value.denominator < 100 else f"{float(value):.4g}"
