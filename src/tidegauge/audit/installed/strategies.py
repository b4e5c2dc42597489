"""Every kind of strategy on small schedules: all paths of one unit, against what the plan reserves.

The planner chooses the parameters, as it would for a gauge.  A kind that is added later is checked as well.
"""

from __future__ import annotations

from itertools import combinations, count, product
from typing import TYPE_CHECKING, Any, Final

from tidegauge.audit.findings import Discrepancy, require
from tidegauge.audit.installed.exercises import COUNT, FLOW, GROUPED, SHARED, SUM, Exercise, toggles
from tidegauge.audit.replay.paths import Change, Search
from tidegauge.audit.worlds.palette import Contribution
from tidegauge.audit.worlds.world import Random
from tidegauge.errors import SpecError
from tidegauge.mechanism.registry import STRATEGIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidegauge.audit.worlds.rehearsal import Subject

_START: Final = "1970-01-01T00:00:00.000030Z"
_RELEASES: Final[tuple[dict[str, Any], ...]] = (
    COUNT,
    GROUPED,
    SUM | {"bounds": {"x": [-2, 3]}, "grid": {"x": 1}},
    COUNT | {"window": "20 microseconds", "start": _START, "for": "20 microseconds"},
    COUNT
    | {"window": "30 microseconds", "every": "20 microseconds", "start": _START, "for": "40 microseconds"},
    FLOW,
    COUNT | {"for": "ever"},
)
_CONSTRAINTS: Final[tuple[dict[str, Any], ...]] = (
    {"at_most": 1},
    {"at_most": 2},
    {"at_most": 3},
    {"within": "20 microseconds"},
)
_RENEWING: Final[tuple[dict[str, Any], dict[str, Any]]] = (
    COUNT | {"start": "1970-01-06T00:00:00Z", "every": "1 day", "for": "9 days"},
    {"at_most": 2, "renews": "7 days"},
)
"""A release over a whole term, which ends on a Monday, and the first days of the next."""
_OF_SEVERAL_ROWS: Final[tuple[tuple[dict[str, Any], dict[str, Any]], ...]] = (
    (COUNT, {"at_most": 2}), _RENEWING,
)  # fmt: skip
"""Of a unit with two rows, which change together."""
_PINNED: Final[dict[str, dict[str, Any]]] = {"autoregressive": SHARED}
"""Parameters that the planner chooses for releases without groups alone."""
_TOLERANCE: Final = 1e-6
_ENDLESS: Final = 8
"""Bins of a release without end that are tried."""


def check_strategy(name: str) -> int:
    """Try every path of one unit in every small plan with this strategy; returns the number of plans."""
    plans = 0
    cases: list[tuple[dict[str, Any], dict[str, Any], int | None]] = [
        (release, allowance, None) for release, allowance in (*product(_RELEASES, _CONSTRAINTS), _RENEWING)
    ]
    cases += [(release, allowance, 2) for release, allowance in _OF_SEVERAL_ROWS]
    if name in _PINNED:
        cases += [(GROUPED | {"strategy": _PINNED[name]}, allowance, None) for allowance in _CONSTRAINTS]
    for (release, allowance, rows), pure in product(cases, (False, True)):
        if "changes" in release["sql"] and "at_most" not in allowance:
            continue
        exercise = Exercise(toggles(), {"strategy": name} | release, allowance, pure=pure, rows=rows)
        try:
            subject = exercise.subject()
        except SpecError:  # not a strategy for this release
            continue
        plans += 1
        ratio = _worst(subject) / float(subject.plan.releases[0].loss)
        if ratio > 1 + _TOLERANCE:
            raise Discrepancy(f"one unit can cost {ratio:.4g} times what is reserved")
    require(plans, "no small plan uses this strategy")
    return plans


def _worst(subject: Subject) -> float:
    (release,) = subject.plan.releases
    schedule, query = release.release.schedule, release.release.query
    (_, allowance), bins = subject.plan.program.scopes[0].allowances[0], schedule.bins or _ENDLESS
    search, flow = Search(release, bins, Random(0)), query.kind == "flow"
    part, rows = query.components[0], subject.plan.program.max_rows or 1
    states = [
        Contribution(cell, (rows * amount,), ())
        for cell in range(len(query.cells))
        for amount in {part.lower, part.upper} - {0}
    ]
    worst, term = 0.0, _term(subject)
    for places in _places(search, bins if term is None else term, allowance, flow=flow):
        for values in _values(states, len(places), flow=flow):
            changes = [Change(bin_, one) for bin_, one in zip(places, values, strict=True)]
            if term is not None and values[-1] is not None:  # what it does in other terms is not protected
                changes.append(Change(term, None))
            worst = max(worst, search.cost(changes))
    return worst


def _term(subject: Subject) -> int | None:
    """How many bins end in the first term; None where the constraint does not renew."""
    (release,), terms = subject.plan.releases, subject.plan.program.terms
    if terms is None:
        return None
    schedule, ends = release.release.schedule, count()
    until = next(end for end in map(terms.bin_end, ends) if end >= schedule.bin_end(0))
    return sum(schedule.bin_end(bin_) <= until for bin_ in range(schedule.bins or _ENDLESS))


def _places(search: Search, bins: int, allowance: Any, *, flow: bool) -> Iterator[tuple[int, ...]]:
    """The bins of the changes of one unit."""
    if flow:
        for places in product(range(bins), repeat=allowance.at_most):
            if list(places) == sorted(places):
                yield places
        return
    most = bins if allowance.at_most is None else min(allowance.at_most, bins)
    for many in range(1, most + 1):
        for chosen in combinations(range(bins), many):
            if chosen[-1] <= search.last_bin(chosen[0], allowance):
                yield chosen


def _values(
    states: Sequence[Contribution], count: int, *, flow: bool
) -> Iterator[tuple[Contribution | None, ...]]:
    """Contributions after each change: no two successive ones are alike, and the first is not nothing."""
    if flow:
        yield (states[0],) * count
        return
    for values in product((*states, None), repeat=count):
        before: Contribution | None = None
        for value in values:
            if value is before:
                break
            before = value
        else:
            yield values


def strategy_checks() -> dict[str, str]:
    """The name of each check, and the kind of strategy that it tries."""
    return {f"strategy {kind.name}, all paths": kind.name for kind in STRATEGIES}
