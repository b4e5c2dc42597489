"""The declared gauge on a known history, for every combination of a grid: one pass over the data."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from tidegauge.errors import SourceError, SpecError
from tidegauge.model.grid import Timetable
from tidegauge.plan.planner import consider, decide
from tidegauge.simulate.error import Noise, at_readings, errors, readings_of
from tidegauge.simulate.grid import with_values
from tidegauge.simulate.past import read_past, sums_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidegauge.model.json import Json
    from tidegauge.model.quantity import Span
    from tidegauge.model.query import Value
    from tidegauge.model.source import OpenSource
    from tidegauge.plan.plan import Plan
    from tidegauge.plan.planner import Considered
    from tidegauge.plan.spec.declaration import GaugeSpec
    from tidegauge.simulate.error import Errors
    from tidegauge.simulate.grid import Bounds, Grid
    from tidegauge.simulate.past import Past, ReleaseSums


@dataclass(frozen=True)
class Simulated:
    """The errors of one release and group under one combination of the grid."""

    group: Mapping[str, Value] | None
    """None: all groups together."""
    every: Span
    bounds: Bounds
    epsilon: Fraction | None
    """None: the budget is declared as rho."""
    errors: Errors
    readings: int

    def as_json(self) -> dict[str, Json]:
        """The fields that simulate --json shows."""
        bounds, found = self.bounds, self.errors
        return {
            "group": None if self.group is None else dict(self.group),
            "every": str(self.every),
            "at_most": bounds.at_most,
            "within": None if bounds.within is None else str(bounds.within),
            "on_excess": bounds.on_excess,
            "renews": None if bounds.renews is None else str(bounds.renews),
            "epsilon": None if self.epsilon is None else float(self.epsilon),
            "noise_rmse": _shown(found.noise),
            "bias_rmse": _shown(found.bias),
            "rmse": _shown(found.whole),
            "coverage": _shown(found.coverage),
        }


def _shown(value: float) -> float | None:
    return None if value != value else value  # noqa: PLR0124  (not a number)


@dataclass(frozen=True)
class Simulation:
    """What a gauge would have published; secret, because biases are exact."""

    releases: Mapping[str, Sequence[Simulated]]
    first: int
    """The time of the first reading, and ..."""
    last: int
    """... of the last."""

    def as_json(self) -> dict[str, Json]:
        """What simulate --json prints."""
        return {
            "secret": True,
            "releases": {name: [one.as_json() for one in found] for name, found in self.releases.items()},
        }


@dataclass(frozen=True)
class Task:
    """What is simulated: a declaration, the source of its history, the grid, and the clock."""

    spec: GaugeSpec
    source: OpenSource
    grid: Grid
    now: int
    start: int | None = None
    """When the gauge is supposed to have started; None: as declared where the history reaches so far, else
    with its first change."""
    until: int | None = None
    """The end of the history; None: its last change."""

    def considered(self, bounds: Bounds, every: Span | None, starts: Mapping[str, int]) -> Considered:
        """The strategies for one constraint and period; any budget will do."""
        changed = with_values(self.spec, bounds, self.grid.epsilons[0], every, starts)
        return consider(changed, table=self.source.table, columns=self.source.columns, now=self.now)

    def starts(self, past: Past, reached: int) -> dict[str, int]:
        """When each release is supposed to have started.  Raises SpecError if the history ends before."""
        if self.start is not None and self.start > reached:
            raise SpecError("the history ends before this time", key="--start")
        assert past.first is not None
        found = {}
        for name, one in self.spec.measured.items():
            begin = one.start if self.start is None else self.start
            found[name] = begin if begin is not None and begin <= reached else past.first
        return found


def simulate(task: Task) -> Simulation:
    """The errors of every release for every combination of the grid.

    Raises SpecError or SourceError where nothing can be simulated.
    """
    spec, source, grid = task.spec, task.source, task.grid
    limit = task.now if task.until is None else min(task.now, task.until)
    anywhere = dict.fromkeys(spec.measured, task.now)
    program = task.considered(grid.bounds[0], grid.everys[0], anywhere).program(spec, source.columns)
    scopes = [spec.measured[scope.releases[0]].constraint or spec.constraint for scope in program.scopes]
    variants = [grid.variants(one) for one in scopes]
    past = read_past(source, program, variants, kind=spec.engine.kind, now=limit)
    try:
        if past.last is None:
            raise SourceError("the history is empty; there is nothing to simulate")
        reached = past.last if task.until is None else limit
        starts = task.starts(past, reached)
        considered = {
            (every, bounds.for_noise): task.considered(bounds, every, starts)
            for every in grid.everys
            for bounds in {one.for_noise: one for one in grid.bounds}.values()
        }
        first = grid.bounds[0].for_noise
        by_term = {one.renews: one.for_noise for one in grid.bounds}
        timetables = [
            Timetable(
                tuple(considered[every, first].releases.values()),
                tuple(considered[every, by_term[one]].terms for one in grid.renewals),
            )
            for every in grid.everys
        ]
        found = sums_of(past.engine, timetables, reached=reached)
    finally:
        past.engine.close()
    noise = Noise()
    releases: dict[str, list[Simulated]] = {name: [] for name in spec.release}
    times: list[int] = []
    for every, timetable, sums in zip(grid.everys, timetables, found, strict=True):
        exact = dict(zip((one.name for one in timetable.releases), sums, strict=True))
        for n, bounds in enumerate(grid.bounds):
            for epsilon in grid.epsilons:
                changed = with_values(spec, bounds, epsilon, every, starts)
                plan = decide(changed, considered[every, bounds.for_noise], columns=source.columns)
                budget = changed.budget.epsilon
                for name, rows in _plan_errors(plan, exact, (n, grid.renewal(bounds)), noise, times).items():
                    shown = plan.series[name].timetable.every
                    releases[name] += [
                        Simulated(one.group, shown, bounds, budget, one.errors, one.readings) for one in rows
                    ]
    if not times:
        raise SpecError("no reading of any release falls into the history; try --start or a shorter --every")
    return Simulation(releases, min(times), max(times))


@dataclass(frozen=True)
class _CellErrors:
    """The errors of one cell, or of all cells together (group None), over so many readings."""

    group: Mapping[str, Value] | None
    errors: Errors
    readings: int


def _plan_errors(
    plan: Plan,
    exact: Mapping[str, ReleaseSums],
    variant: tuple[int, int],
    noise: Noise,
    times: list[int],
) -> dict[str, list[_CellErrors]]:
    """By series: errors of all cells and of each; `times` gets the first and last time of readings.

    `variant`: its number, and that of its terms.
    """
    number, renewal = variant
    result: dict[str, list[_CellErrors]] = {}
    for release in plan.releases:
        sums = exact[release.release.name]
        truth = sums.truth.array()
        accepted = sums.allowed.array(renewal) - sums.missing.array(number)
        cells = release.release.query.cells
        for series in plan.series_of(release):
            when = readings_of(series, sums.truth.bins)
            if not len(when.bins):
                result[series.name] = []
                continue
            times += [release.release.schedule.bin_end(int(when.bins[at])) for at in (0, -1)]
            stderrs = noise.stderrs(release, when)
            rows = errors(series, at_readings(truth, when), at_readings(accepted, when), stderrs, when.bins)
            result[series.name] = [
                _CellErrors(None if cell is None else cells[cell], one, len(when.bins)) for cell, one in rows
            ]
    return result
