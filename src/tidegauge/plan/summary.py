"""A plan as a person reads it: what is protected, what it costs, and how exact each release will be."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from tidegauge.mechanism.aggregates import aggregate_of
from tidegauge.model.json import as_list, as_object, as_text
from tidegauge.model.quantity import DAY, HOUR, MINUTE, SECOND, Span, rfc3339
from tidegauge.model.reading import COVERS
from tidegauge.plan.choose import grows
from tidegauge.plan.wording import wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegauge.model.program import Allowance, Scope
    from tidegauge.model.schedule import Schedule
    from tidegauge.plan.candidate import Candidate
    from tidegauge.plan.plan import Plan
    from tidegauge.plan.series import Series

_WITHIN: Final = 10
"""A value that is this many times the noise is published within 10 %."""
_RATES: Final = {
    Span(micros=SECOND): "every second",
    Span(micros=MINUTE): "every minute",
    Span(micros=HOUR): "hourly",
    Span(micros=DAY): "daily",
    Span(micros=7 * DAY): "weekly",
    Span(months=1): "monthly",
    Span(months=3): "quarterly",
    Span(months=12): "yearly",
}


def summarise(plan: Plan, width: int | None) -> Iterator[str]:
    """The lines of the summary, none longer than `width` (None: not wrapped)."""
    yield f"Plan {plan.hash[:12]}"
    yield ""
    yield from wrapped("Protects  ", _protected(plan), width)
    for scope in plan.program.scopes:
        yield from wrapped("Accepts   ", _accepted(plan, scope), width)
    yield from wrapped("Costs     ", _cost(plan), width)
    if plan.choice is not None:
        yield from plan.choice.lines(plan.measure)
    for warning in plan.warnings:
        yield from wrapped("Warning   ", warning, width)
    yield ""
    for release in plan.releases:
        for series in plan.series_of(release):
            line, details = _expected(plan, series)
            yield from wrapped("", line, width, hanging=4)
            yield from wrapped("  ", details, width)
    if any(one.chosen.half_width_worst for one in plan.releases):
        yield ""
        yield from wrapped("", _BAND, width)
    if any(release.hint for release in plan.releases):
        yield from wrapped("", _SLOWER, width)


_BAND: Final = f"± is the noise interval (95 %). {COVERS}"
_SLOWER: Final = "A slow search may lower the noise by up to a tenth: tidegauge plan --optimise"


def rate(every: Span) -> str:
    """How often, in a word where there is one."""
    return _RATES.get(every, f"every {every}")


def rounded(value: float) -> str:
    """A size of noise with two or three digits."""
    if value >= 100:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.2g}" if value < 9.95 else f"{value:.0f}"


def _protected(plan: Plan) -> str:
    """What one unit is, and what may be learned about it."""
    budget = str(plan.budget).replace(", delta", " with delta")
    owner = plan.program.owner
    if owner is None:
        key = as_object(plan.declaration["source"]).get("entry", "key")
        named = key if isinstance(key, str) else ", ".join(map(as_text, as_list(key)))
        who = f"one row (one '{named}')"
        rest = " A person who owns several rows is not protected as a whole."
    else:
        who = f"one '{owner}' with all its rows, of which at most {plan.program.max_rows} count at a time"
        rest = ""
    terms = plan.program.terms
    what = "it" if terms is None else f"everything that it does in one term of {terms.every}"
    return f"{who}. All readings of the gauge's whole lifetime reveal at most {budget} about {what}.{rest}"


def _accepted(plan: Plan, scope: Scope) -> str:
    """How many changes of a unit are accepted, and what happens to the others."""
    unit = "row" if plan.program.owner is None else f"'{plan.program.owner}'"
    only = f"{', '.join(scope.releases)}: " if len(plan.program.scopes) > 1 else ""
    if scope.by is not None:
        cases = "; ".join(f"'{label}': {_allowed(allowance, unit)}" for label, allowance in scope.allowances)
        bound = f"by the column '{scope.by}', {cases}"
    elif scope.allowances[0][1].at_most is None and scope.allowances[0][1].within is None:
        return f"{only}every change of one {unit}: without a [constraint] each reading adds to the loss"
    else:
        bound = _allowed(scope.allowances[0][1], unit)
    after = (
        "it leaves with its last accepted change (retire), so counts can be too low"
        if scope.retire
        else "it keeps its last accepted contribution (freeze), so counts can be too high"
    )
    until = "from then on" if plan.program.terms is None else "until the next term"
    return f"{only}{bound}. Any {unit} with more changes is ignored {until}: {after}."


def _allowed(allowance: Allowance, unit: str) -> str:
    soon = "" if allowance.within is None else f" within {Span(micros=allowance.within)} after the first"
    if allowance.at_most is None:
        return f"changes of one {unit}{soon}"
    changes = "1 change" if allowance.at_most == 1 else f"{allowance.at_most} changes"
    return f"at most {changes} of one {unit}{soon}, the first one included"


def _cost(plan: Plan) -> str:
    share = float(plan.reserved / plan.total)
    part = "the whole budget" if share > 0.9999 else f"{share:.0%} of the budget"
    held = ""
    if plan.budget.reserve is not None and plan.amends is None:
        left = float(plan.held_back / plan.total)
        held = f" {left:.0%} is held back for releases that are added later (tidegauge amend)."
    return f"{part} ({plan.budget}). It is reserved when the plan is committed.{held}"


def _expected(plan: Plan, series: Series) -> tuple[str, str]:
    """A release in one line (its noise, how often, and from which size on that is small), and its details."""
    release = series.plan.release
    derived = next((one for one in plan.derived if one.name == series.name), None)
    chosen = series.plan.chosen if derived is None else derived.chosen
    groups, when = len(release.query.cells), rate(series.timetable.every)
    details = [_readings(series)]
    if groups > 1:
        details.insert(0, f"{groups} groups")
    if not series.running:
        what = "total" if release.query.kind == "flow" else "change"
        details.insert(0, f"{what} over {series.window}")
    if grows(chosen.growth):
        details.append(f"the noise is that of the first {chosen.growth[-1][0]:,} readings, and grows slowly")
    elif chosen.growth:
        details.append("the noise never grows")
    if derived is not None:
        details.append(f"derived from {derived.of} at no cost")
    if not chosen.half_width_worst:
        return f"{series.name}: exact, without noise, {when}", "; ".join(details)
    per = " per group" if groups > 1 else ""
    holds = aggregate_of(release.query.aggregate).promise
    if holds:
        return f"{series.name}: expect {_noise(chosen)} ({holds}){per}, {when}", "; ".join(details)
    size = f"{float(f'{_WITHIN * chosen.half_width_worst:.2g}'):,.4g}"
    what = "changes" if not series.running and release.query.kind != "flow" else "groups" if per else "values"
    line = f"{series.name}: expect {_noise(chosen)}{per}, {when}; within 10 % for {what} above {size}"
    return line, "; ".join(details)


def _readings(series: Series) -> str:
    count, start = series.timetable.count, _start(series.timetable)
    if count == 1:
        return f"1 reading at {start}"
    return f"{'readings without end' if count is None else f'{count:,} readings'} from {start}"


def _start(timetable: Schedule) -> str:
    """The first reading; a date at midnight, in the time zone of the calendar."""
    if timetable.zone is None:
        return rfc3339(timetable.start).removesuffix("T00:00:00Z")
    local = timetable.zone.wall(timetable.start).isoformat().removesuffix("T00:00:00")
    return f"{local} ({timetable.zone.name})"


def _noise(chosen: Candidate) -> str:
    mean, worst = chosen.half_width_mean, chosen.half_width_worst
    return f"± {rounded(worst)}" if worst < 1.2 * mean else f"± {rounded(mean)} (at worst ± {rounded(worst)})"


def summary_html(plan: Plan) -> str:
    """The summary for a notebook: its text, and a bar for the noise of each release beside the widest."""
    noise = {one.release.name: one.chosen.half_width_worst for one in plan.releases}
    noise |= {one.name: one.chosen.half_width_worst for one in plan.derived}
    widest = max(noise.values()) or 1.0
    bars = "".join(
        f"<tr><td>{escape(name)}</td><td>± {rounded(noise[name])}</td><td>"
        f'<svg width="{_BAR}" height="12" role="img">'
        f'<rect width="{_BAR * noise[name] / widest:.1f}" height="12" fill="#6baed6"/></svg></td></tr>'
        for name in plan.series
    )
    text = escape("\n".join(summarise(plan, 80)))
    head = "<tr><th>release</th><th>noise interval (95 %)</th><th></th></tr>"
    return f"<pre>{text}</pre><table><thead>{head}</thead><tbody>{bars}</tbody></table>"


_BAR: Final = 160
"""Pixels of the widest bar."""
