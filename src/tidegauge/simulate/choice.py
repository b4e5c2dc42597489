"""A private choice of at_most and on_excess from the past (T22).

Public: the candidates, the noise that each would have, the readings of the past that are looked at.  Secret:
the bias that each candidate would have left, to which no unit counts for more than a public amount.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING, Final

import numpy as np

from tidegauge.errors import SpecError
from tidegauge.mechanism.noise.selection import NoisyMinimum
from tidegauge.model.grid import PARTS, Clip, Timetable, Variant
from tidegauge.model.quantity import rfc3339
from tidegauge.model.schedule import MOST_BINS
from tidegauge.plan.certify import accounted
from tidegauge.plan.choice import Choice
from tidegauge.plan.choose import HORIZON
from tidegauge.plan.planner import consider, decide
from tidegauge.plan.program import terms_of
from tidegauge.plan.spec.auto import SHARE
from tidegauge.simulate.blind import FAR, coarsest
from tidegauge.simulate.error import Noise, readings_of
from tidegauge.simulate.grid import AT_MOST, ON_EXCESS
from tidegauge.simulate.past import read_past, sums_of
from tidegauge.theory.choice import (
    choice_clip,
    choice_rate,
    choice_sensitivity,
    choice_spread_squared,
    choice_steps,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from tidegauge.model.program import Release, Scope
    from tidegauge.model.source import OpenSource
    from tidegauge.plan.plan import Plan
    from tidegauge.plan.planner import Considered
    from tidegauge.plan.spec.declaration import GaugeSpec
    from tidegauge.simulate.error import Sums

CANDIDATES: Final = tuple(
    (most, mode) for most in (*AT_MOST, 96, 128) for mode in ON_EXCESS if most > 1 or mode == "freeze"
)
"""The public grid: (at_most, on_excess)."""
_STEPS: Final = 1000
"""Steps of a score for the most that one unit can move it: rounding then costs a thousandth."""

_NOISE: Final = Fraction(5, 4)
"""What noise counts in a score, beside the bias: more than once, because a unit that is wrong for long counts
for less than it is wrong."""
_COARSE: Final = 0.2
"""Where more draws than this are far from the best even without any bias, the operator is warned."""
_FINE: Final = 1024
"""Steps of the largest contribution of a row, at most about this many."""
_LEAST: Final = 1e-6
"""The least noise that is compared: a budget can be so large that there is none."""


@dataclass(frozen=True)
class Open:
    """A choice before it is drawn: the plan of every candidate; all of it public."""

    spec: GaugeSpec
    choice: Choice
    considered: Mapping[int, Considered]
    """By at_most."""
    columns: Mapping[str, str]
    leaves_out: int | None

    def plan(self, candidate: int) -> Plan:
        """The plan with this candidate; its declaration is the one with "auto"."""
        most, mode = self.choice.candidates[candidate]
        choice = replace(self.choice, drawn=candidate)
        return self._plan(with_bounds(self.spec, most, mode), most, choice)

    def preview(self) -> Plan:
        """The plan before the draw: that of the largest at_most, whose noise is the largest."""
        most, mode = self.choice.candidates[-1]
        return self._plan(with_bounds(self.spec, most, mode), most, self.choice)

    def _plan(self, spec: GaugeSpec, most: int, choice: Choice) -> Plan:
        plan = decide(
            spec, self.considered[most], columns=self.columns, leaves_out=self.leaves_out, choice=choice
        )
        warnings = (*plan.warnings, *_warnings(plan, choice), *_coarse(self, choice))
        return replace(plan, declaration=self.spec.canonical(), warnings=warnings)


def with_bounds(spec: GaugeSpec, most: int, mode: str) -> GaugeSpec:
    """The declaration with one candidate in place of "auto"."""
    assert spec.constraint is not None
    return spec.model_copy(update={"constraint": spec.constraint.chosen(most, mode)})


def open_choice(
    spec: GaugeSpec, source: OpenSource, *, now: int, candidates: Sequence[tuple[int, str]] = CANDIDATES
) -> Open:
    """What is known before the draw.  Reads no data.  Raises SpecError where nothing can be chosen."""
    assert spec.constraint is not None
    share = spec.constraint.choice_share or SHARE
    considered = {
        most: consider(with_bounds(spec, most, "freeze"), table=source.table, columns=source.columns, now=now)
        for most in dict.fromkeys(most for most, _ in candidates)
    }
    releases = next(iter(considered.values())).releases
    since, until = _period(spec, releases, now)
    choice = Choice(tuple(candidates), share * accounted(spec.budget.budget), since, until)
    opened = Open(spec, choice, considered, dict(source.columns), source.leaves_out)
    shared = _shared(spec, releases)
    if not any(_past(one, since, until) for one in shared):
        raise SpecError(
            "no reading lies in the past that at_most is chosen from; declare a longer choose_from, or "
            "write at_most as a number (tidegauge simulate shows what each would give)",
            key="constraint.choose_from",
        )
    noises = _noises(opened, shared)
    return replace(opened, choice=replace(choice, noise=tuple(noises.items())))


def _shared(spec: GaugeSpec, releases: Mapping[str, Release]) -> list[Release]:
    """The releases that the choice is made for.  Raises SpecError if all of them are flows."""
    shared = [one for name, one in releases.items() if spec.measured[name].constraint is None]
    found = [one for one in shared if one.query.kind == "stock"]
    if not found:
        raise SpecError(
            "'auto' needs a release of rows, such as SELECT COUNT(*) FROM the table: what a constraint "
            "leaves out of changes(...) alone says too little. Write at_most as a number",
            key="constraint.at_most",
        )
    return found


def _period(spec: GaugeSpec, releases: Mapping[str, Release], now: int) -> tuple[int, int]:
    """The past that is looked at: choose_from before now, or before the last planned reading if earlier."""
    assert spec.constraint is not None
    schedules = [one.schedule for one in releases.values()]
    ends = [now if one.bins is None else one.bin_end(one.bins - 1) for one in schedules]
    until = min(now, max(ends))
    if spec.constraint.choose_from is not None:
        return spec.constraint.choose_from.after(until, -1), until
    return min(one.start for one in schedules), until


def _past(release: Release, since: int, until: int) -> Release | None:
    """The release with readings in the past alone, at the times of its schedule continued backwards."""
    schedule, back = release.schedule, 0
    while schedule.bin_end(schedule.bin_of_reading(-back - 1)) >= since:
        back = _counted(back + 1)
    start = schedule.bin_end(schedule.bin_of_reading(-back))
    found = replace(release, schedule=replace(schedule, start=start, count=None))
    return found if _numbers(found, since, until) else None


def _numbers(release: Release, since: int, until: int) -> list[int]:
    """The bins of the readings between these instants."""
    schedule, found, reading = release.schedule, [], 0
    while (end := schedule.bin_end(bin_ := schedule.bin_of_reading(reading))) <= until:
        if end >= since:
            found.append(bin_)
        reading = _counted(reading + 1)
    return found


def _counted(readings: int) -> int:
    if readings > MOST_BINS:
        raise SpecError(f"has more than {MOST_BINS:,} readings; shorten it", key="constraint.choose_from")
    return readings


def _noises(opened: Open, shared: Sequence[Release]) -> dict[str, tuple[float, ...]]:
    """By release: the predicted RMSE of each candidate, over the largest contribution of a unit."""
    noise, known = Noise(), {}
    for number, (most, _) in enumerate(opened.choice.candidates):
        if most in known:
            continue
        errors = {}
        for plan in opened.plan(number).releases:
            if plan.release.name in {one.name for one in shared}:
                count = plan.release.schedule.count or HORIZON
                readings = readings_of(plan.series, plan.release.schedule.bin_of_reading(count - 1) + 1)
                largest = float(plan.release.query.components[0].grid) * _largest(plan.release)
                stderrs = noise.stderrs(plan, readings)[0]
                rmse = float(np.sqrt(np.mean(stderrs**2))) / largest
                errors[plan.release.name] = max(rmse, _LEAST)
        known[most] = errors
    return {one.name: tuple(known[most][one.name] for most, _ in opened.choice.candidates) for one in shared}


@dataclass(frozen=True)
class Scores:
    """The scores of the candidates in whole steps, and the most that one unit can move them; secret."""

    values: tuple[int, ...]
    sensitivity: int

    def law(self, choice: Choice, *, pure: bool) -> NoisyMinimum:
        """The distribution of the draw."""
        return NoisyMinimum(self.sensitivity, choice.cost, pure)


@dataclass(frozen=True)
class Biases:
    """For one release: the squares of what each candidate leaves out, summed, and the public size of it."""

    release: str
    squares: tuple[Fraction, ...]
    readings: int
    cells: int
    spread_squared: Fraction


@dataclass(frozen=True)
class _Look:
    """How one release is looked at: its readings in the past, how much a unit counts, and that it left
    nothing out; all of it public."""

    release: Release
    clip: Clip
    nothing: Biases


def _looks(opened: Open) -> dict[str, _Look]:
    """By release: how it is looked at, where it has readings in the past."""
    spec, choice, found = opened.spec, opened.choice, {}
    renews = spec.constraint is not None and spec.constraint.renews is not None
    for one in _shared(spec, next(iter(opened.considered.values())).releases):
        release = _past(one, choice.since, choice.until)
        if release is None:
            continue
        clip = _clip(opened, release, _numbers(release, choice.since, choice.until), renews=renews)
        cells = len(release.query.cells)
        spread = choice_spread_squared(clip.most, readings=clip.readings, cells=cells, renews=renews)
        none = (Fraction(0),) * len(choice.candidates)
        nothing = Biases(release.name, none, clip.readings, cells, spread / _steps(release) ** 2)
        found[release.name] = _Look(release, clip, nothing)
    return found


def biases(opened: Open, source: OpenSource, *, now: int) -> list[Biases]:
    """What each candidate would have left out of the readings of the past; secret.

    In largest contributions of a row.  No unit counts for more than its clip allows.
    """
    spec, choice, looks = opened.spec, opened.choice, _looks(opened)
    first = next(iter(opened.considered.values()))
    chosen = with_bounds(spec, *choice.candidates[0])
    program = first.program(chosen, source.columns, opened.leaves_out)
    releases = tuple(looks[one.name].release if one.name in looks else one for one in program.releases)
    terms = terms_of(chosen, [one.schedule for one in releases])
    numbered = {n: looks[one.name] for n, one in enumerate(releases) if one.name in looks}
    clips = {n: look.clip for n, look in numbered.items()}
    variants = [_variants(spec, scope, choice) for scope in program.scopes]
    past = read_past(source, program, variants, kind=spec.engine.kind, now=min(now, choice.until))
    try:
        timetable = Timetable(releases, (terms,))
        (found,) = sums_of(past.engine, [timetable], reached=choice.until, clips=clips)
    finally:
        past.engine.close()
    counted = []
    for n, look in numbered.items():
        bins = np.array(_numbers(look.release, choice.since, choice.until))
        scale, many = PARTS * _steps(look.release), range(len(choice.candidates))
        squares = tuple(Fraction(_squared(found[n].clipped, k, bins), scale**2) for k in many)
        counted.append(replace(look.nothing, squares=squares))
    return counted


def _squared(sums: Sums, candidate: int, bins: NDArray[np.int64]) -> int:
    """The sum of the squares of these sums, at the readings that end with these bins."""
    return int((np.cumsum(sums.array(candidate)[0], axis=0)[bins].astype(object) ** 2).sum())


def _clip(opened: Open, release: Release, bins: Sequence[int], *, renews: bool) -> Clip:
    """How much one unit counts in the readings that end with these bins."""
    spec, choice, pure = opened.spec, opened.choice, opened.spec.budget.budget.pure
    noise = dict(choice.noise)[release.name]
    scale = Fraction(min(noise)) * coarsest(noise, weight=float(_NOISE), pure=pure)
    most = choice_clip(
        readings=len(bins),
        cells=len(release.query.cells),
        contribution=(spec.source.max_rows or 1) * _steps(release),
        spread=(scale * choice_rate(choice.cost, pure=pure) / 2 * _steps(release)).limit_denominator(10**12),
        renews=renews,
    )
    return Clip(bins[0], release.schedule.stride, len(bins), _step(release), most)


def _largest(release: Release) -> int:
    """The largest contribution of a row, in units of the grid."""
    part = release.query.components[0]
    return max(abs(part.lower), abs(part.upper), 1)


def _step(release: Release) -> int:
    """A step of what is left out, in units of the grid."""
    return max(1, _largest(release) // _FINE)


def _steps(release: Release) -> int:
    """The largest contribution of a row, in steps, rounded up."""
    return -(-_largest(release) // _step(release))


def scores(choice: Choice, counted: Sequence[Biases]) -> Scores:
    """The score of every candidate: the sum over releases of w (1.25 noise + M).

    w = 1 / noise at the largest at_most.
    """
    noises = dict(choice.noise)
    spread = sum(float(one.spread_squared) ** 0.5 / noises[one.release][-1] for one in counted)
    values, sensitivity = [0] * len(choice.candidates), 0
    for one in counted:
        noise = noises[one.release]
        weight = Fraction(_STEPS / spread / noise[-1]).limit_denominator(10**12)
        sensitivity += choice_sensitivity(one.spread_squared, weight=weight)
        for n in range(len(values)):
            steps = choice_steps(one.squares[n], readings=one.readings, cells=one.cells, weight=weight)
            values[n] += steps + floor(_NOISE * Fraction(noise[n]) * weight)
    return Scores(tuple(values), sensitivity)


def _variants(spec: GaugeSpec, scope: Scope, choice: Choice) -> list[Variant]:
    """The constraint of a scope for each candidate; a scope with a constraint of its own keeps it."""
    own = spec.measured[scope.releases[0]].constraint
    found = []
    for most, mode in choice.candidates:
        declared = own or with_bounds(spec, most, mode).constraint
        assert declared is not None
        found.append(Variant(declared.allowances, declared.on_excess == "retire"))
    return found


def _warnings(plan: Plan, choice: Choice) -> list[str]:
    """A warning where the past is short."""
    known = choice.until - choice.since
    schedules = [one.release.schedule for one in plan.releases]
    ends = [None if one.bins is None else one.bin_end(one.bins - 1) - one.start for one in schedules]
    longest = None if None in ends else max(one for one in ends if one is not None)
    if longest is not None and 2 * known >= longest:
        return []
    share = "less than half" if longest is None else f"{100 * known / longest:.0f} %"
    margin = "" if longest is None else f" (about {ceil(longest / max(known, 1))} times the one chosen)"
    return [
        f"at_most is chosen from {share} of the planned duration, {rfc3339(choice.since)} to "
        f"{rfc3339(choice.until)}. Units go on changing after that: choose from a longer past, or write a "
        f"larger at_most yourself{margin}.",
    ]


def _coarse(opened: Open, choice: Choice) -> list[str]:
    """Warnings where the draw cannot be good, or took the end of the grid; from public numbers alone."""
    if not opened.choice.noise:
        return []
    found, largest = [], max(most for most, _ in choice.candidates)
    blind = scores(choice, [look.nothing for look in _looks(opened).values()])
    law = blind.law(choice, pure=opened.spec.budget.budget.pure)
    values = np.array(blind.values)
    share = float(law.probabilities(blind.values)[values > FAR * values.min()].sum())
    if choice.chosen is None and share > _COARSE:
        found.append(
            f"at_most is chosen with much noise: even if no unit changed too often, {100 * share:.0f} % of "
            f"draws would take an at_most with more than {FAR} times the least noise. Raise choice_share or "
            "the budget, or write at_most as a number."
        )
    if choice.chosen is not None and choice.chosen[0] == largest:
        found.append(
            f"The largest at_most that can be chosen was drawn, {largest}. Units may change more often than "
            "that; then a larger number, which you write yourself, has a smaller error."
        )
    return found
