"""Replay: the audited plan on pairs of neighbours, with noise frozen."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from tidegauge.audit.findings import Discrepancy, noted, require
from tidegauge.audit.installed.definitions import delta_of
from tidegauge.audit.replay.pairs import ROUNDING, Stage
from tidegauge.audit.replay.paths import LONGEST, Search, horizon
from tidegauge.audit.replay.terms import TermSearch, terms_between
from tidegauge.audit.worlds.palette import held, palette
from tidegauge.audit.worlds.world import Random, Table, Times, random_table
from tidegauge.theory.sensitivity import sensitivity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from fractions import Fraction

    from tidegauge.audit.replay.paths import Path
    from tidegauge.audit.worlds.palette import Palette
    from tidegauge.audit.worlds.rehearsal import Subject
    from tidegauge.audit.worlds.world import Row
    from tidegauge.model.program import Allowance, Scope
    from tidegauge.plan.plan import Plan, ReleasePlan

_TIGHT: Final = 1 - 1e-6
_SHORT: Final = 60
"""Bins over which random neighbours live."""
_MEASURED: Final = 120_000
"""Measurements of a replayed world; of a plan with many cells, fewer bins are replayed."""


@dataclass
class Replayed:
    """What replay found."""

    pairs: int = 0
    worst_ratio: float = 0.0
    """The largest part of a reservation that one unit's changes cost."""
    releases: dict[str, float] = field(default_factory=dict)
    """The same for the worst path of each release."""
    tight: list[str] = field(default_factory=list)
    """Releases whose worst path costs all that is reserved, as the theory says."""
    found: list[str] = field(default_factory=list)
    bins: int = 0


def replay(subject: Subject, *, seed: int, random_pairs: int, progress: Callable[[float], None]) -> Replayed:
    """The worst paths of every release, then random neighbours."""
    result, rng, plan = Replayed(), Random(seed), subject.plan
    rows = palette(plan, seed)
    steps = len(plan.releases) + random_pairs
    for n, release in enumerate(plan.releases):
        with noted(result.found, f"worst path of '{release.release.name}'"):
            _replay_worst(subject, release, rows, rng, result)
        progress((n + 1) / steps)
    for n in range(random_pairs):
        with noted(result.found, f"random neighbours {n + 1}"):
            _replay_random(subject, rows, Random(seed * 1000 + n), result)
        progress((len(plan.releases) + n + 1) / steps)
    return result


def scope_of(subject: Subject, release: str) -> Scope:
    """The scope in which a unit's changes of this release are counted."""
    return next(scope for scope in subject.plan.program.scopes if release in scope.releases)


def worst_path(subject: Subject, release: ReleasePlan, rows: Palette, rng: Random, bins: int) -> Path:
    """The path of one unit with the largest cost that the search finds."""
    scope, program = scope_of(subject, release.release.name), subject.plan.program
    search = Search(release, bins, rng, rows=program.max_rows or 1)
    contributions = rows.extremes(release.release.name)
    if program.terms is not None:
        return TermSearch(search, release, program, bins=bins, rng=rng).worst(scope, contributions)
    return search.worst(scope.allowances, contributions, retire=scope.retire)


def _replay_worst(
    subject: Subject, release: ReleasePlan, rows: Palette, rng: Random, result: Replayed
) -> None:
    schedule, name = release.release.schedule, release.release.name
    bins = horizon(schedule, _affordable(subject, LONGEST))
    result.bins = max(result.bins, bins)
    path = worst_path(subject, release, rows, rng, bins)
    if not path.changes:
        result.releases[name] = 0.0
        return
    table = Table(subject.plan.program.owner)
    _others(table, subject.plan, rows, schedule.bin_end(0), rng)
    unit = write(table, subject, release, path, number=0)
    last = schedule.bin_end(bins - 1)
    log = sorted(table.log, key=lambda event: event.arrival)
    passes = sorted({schedule.bin_end(bins // 3), schedule.bin_end(2 * bins // 3), last + 1})
    stage = Stage(subject, log, passes, rng.getrandbits(30), informed=rng.random() < 0.5)
    pair = stage.remove(unit, local=False)
    ratio = float(pair.losses[name] / pair.reserved[name])
    result.pairs += 1
    result.releases[name] = ratio
    result.worst_ratio = max(result.worst_ratio, pair.ratio)
    if is_tight(subject, release, rows, bins):
        require(ratio >= _TIGHT, f"the worst path costs {ratio:.6f} of what is reserved, and should cost all")
        result.tight.append(name)


def _affordable(subject: Subject, most: int) -> int:
    """Bins that are replayed: at most so many, fewer where each has many measurements."""
    each = sum(len(one.release.query.cells) * len(one.component_plans) for one in subject.plan.releases)
    return max(6, min(most, _MEASURED // each))


def require_within_budget(plan: Plan, reserved: Fraction | None = None) -> None:
    """All releases together need no more than the declared budget, by the definition of each measure.

    `reserved`: what the ledger of the store reserves for the plan.
    """
    budget = plan.budget
    require(reserved is None or plan.needed <= reserved, "the ledger reserves less than the plan needs")
    require(plan.needed <= plan.total * (1 + ROUNDING), "the releases need more than the budget")
    if budget.rho is not None:
        require(plan.total <= budget.rho, "the plan accounts with a larger rho than was declared")
        return
    assert budget.epsilon is not None
    if budget.delta is None:
        require(plan.total <= budget.epsilon, "the plan accounts with a larger epsilon than was declared")
        return
    least = delta_of(float(plan.total), float(budget.epsilon))
    require(least <= float(budget.delta) * 1.001, "the plan's rho is too large for the declared epsilon")


def is_tight(subject: Subject, release: ReleasePlan, rows: Palette, bins: int) -> bool:
    """Whether theory says that some path costs all that is reserved, and rows can follow it.  [T9]"""
    scope, part = scope_of(subject, release.release.name), release.release.query.components
    strategy, schedule = release.component_plans[0].strategy, release.release.schedule
    if strategy.name != "disjoint" or len(part) > 1 or scope.retire or len(scope.allowances) > 1:
        return False
    if subject.plan.program.terms is not None:
        return False
    if schedule.base or schedule.bin_width.months or bins < (schedule.bins or bins + 1):
        return False
    reached = rows.extremes(release.release.name)
    amounts = [one.amounts[0] for one in reached]
    low, high = part[0].lower, part[0].upper
    most = sensitivity(kind="flow", mutations=1, lower=low, upper=high).l1
    if release.release.query.kind == "flow":
        alone = len(scope.releases) == 1 and release.release.clip is None and bool(reached)
        allowance = scope.allowances[0][1]
        plain = release.release.query.aggregate == "count" and len(release.release.query.cells) == 1
        return alone and plain and allowance.at_most is not None and allowance.within is None
    if not amounts or max(map(abs, amounts)) < most:
        return False
    if len(release.release.query.cells) == 1:
        return max([*amounts, 0]) == max(high, 0) and min([*amounts, 0]) == min(low, 0)
    return low * high >= 0 and len({one.cell for one in reached if abs(one.amounts[0]) == most}) > 1


def _others(table: Table, plan: Plan, rows: Palette, at: int, rng: Random) -> None:
    """A few other units, so that sums are not empty."""
    for n in range(3):
        row = dict(rng.choice(rows.rows))
        if table.owner is not None:
            row[table.owner] = held(plan, table.owner, 10**6 + n)
        table.put((at - n, at - n), f"o{n}", row)


def write(table: Table, subject: Subject, release: ReleasePlan, path: Path, *, number: int) -> str:
    """Write a path into a table's log, and after it changes that must not count; returns the unit.

    Every row of the unit does the same; one row more than counts tries to count as well.
    """
    program, scope = subject.plan.program, scope_of(subject, release.release.name)
    allowance = dict(scope.allowances)[path.label]
    name = f"w{number}"
    keys = [name] if program.max_rows is None else [f"{name}{n}" for n in range(program.max_rows + 1)]

    def dressed(row: Row) -> Row:
        found = dict(row)
        if program.owner is not None:
            found[program.owner] = held(subject.plan, program.owner, number)
        if scope.by is not None:
            found[scope.by] = held(subject.plan, scope.by, path.label)
        return found

    flow = release.release.query.kind == "flow"
    instants = path.instants or _instants(release, path, allowance, flow=flow)
    states: list[_State] = []
    for at, change in zip(instants, path.changes, strict=True):
        one = change.contribution
        if flow and one is not None:
            before, after = one.rows
            if states[-1:] != [] and states[-1].row is before:
                states.append(_State(at, after))
            else:
                states += [_State(at - 1, before), _State(at, after)]
        else:
            states.append(_State(at, None if one is None else one.rows[0]))
    states = _complete(release, states, allowance, path)
    for at, row in states:
        for key in keys:
            if row is not None:
                table.put((at, at), key, dressed(row))
            elif key in table.rows:
                table.delete((at, at), key)
    if program.owner is not None:
        return str(held(subject.plan, program.owner, number))
    return f"{name}/0"


def _instants(release: ReleasePlan, path: Path, allowance: Allowance, *, flow: bool) -> list[int]:
    """When the changes happen: as late in their bins as the constraint allows."""
    schedule = release.release.schedule
    first = schedule.bin_end(path.changes[0].bin)
    latest = None if allowance.within is None else first + allowance.within
    if not flow:
        ends = [schedule.bin_end(change.bin) for change in path.changes]
        return [end if latest is None else min(end, latest) for end in ends]
    found: list[int] = []
    for n, change in enumerate(path.changes):
        start = schedule.bin_end(change.bin) - 2 * sum(1 for one in path.changes if one.bin == change.bin)
        place = sum(1 for one in path.changes[:n] if one.bin == change.bin)
        found.append(start + 2 * (place + 1))
    for before, after in pairwise(found):
        if after <= before:
            raise Discrepancy("bins are too short for so many changes")
    return found


class _State(NamedTuple):
    """The row of a unit from an instant on; None: it has none."""

    at: int
    row: Row | None


def _complete(release: ReleasePlan, states: list[_State], allowance: Allowance, path: Path) -> list[_State]:
    """The states of a unit, and further changes, which must not count; a unit is gone when its term ends."""
    if path.ends is None:
        return states + _excess(release, states, allowance)
    gone = [one for one in states[-1:] if one.row is None and one.at >= path.ends]
    kept = states[: len(states) - len(gone)]
    more = _excess(release, kept, allowance) if path.full and kept else []
    kept += [one for one in more if one.at < path.ends]
    if not gone and kept and kept[-1].row is not None:
        gone = [_State(path.ends, None)]
    return kept + gone


def _excess(release: ReleasePlan, states: Sequence[_State], allowance: Allowance) -> list[_State]:
    """Further changes, which the constraint forbids: just after its end, and in later bins."""
    if allowance.at_most is None and allowance.within is None:
        return []
    schedule = release.release.schedule
    known = [one.row for one in states]
    last, here = states[-1]
    other = next((row for row in reversed(known) if row is not here), None)
    times = [last + 1]
    if allowance.within is not None:
        late = states[0].at + allowance.within + 1
        times = [late] if late > last else times
    bin_ = schedule.bin_at(times[0])
    times += [schedule.bin_end(bin_ + n) for n in (0, 1, 2) if schedule.bin_end(bin_ + n) > times[0]]
    if allowance.at_most is None:
        times = [at for at in times if at > states[0].at + (allowance.within or 0)]
    return [_State(at, (other, here)[n % 2]) for n, at in enumerate(times)]


def _replay_random(subject: Subject, rows: Palette, rng: Random, result: Replayed) -> None:
    """One random log, and the same without one of its units."""
    schedules = [one.release.schedule for one in subject.plan.releases]
    start = min(schedule.bin_end(0) for schedule in schedules)
    ends: set[int] = set()
    for schedule in schedules:
        bins = horizon(schedule, _affordable(subject, _SHORT))
        ends |= {schedule.bin_end(bin_) for bin_ in range(bins)}
    known = sorted(end for end in ends if end >= start)[: _affordable(subject, _SHORT)]
    if len(known) == 1:
        known.append(known[0] + 10)
    last = known[-1] + 1
    passes = sorted({*(rng.randint(known[0], last) for _ in range(2)), last})
    useful = [one.rows[-1] for each in rows.by_release.values() for one in each if one.rows[-1] is not None]
    chosen = [rng.choice(useful or rows.rows) for _ in range(12)] + [rng.choice(rows.rows) for _ in range(4)]
    owner = subject.plan.program.owner
    units = [owner and held(subject.plan, owner, n) for n in range(3)]
    terms = subject.plan.program.terms
    table = random_table(
        rng, Times(tuple(known), tuple(passes)), chosen, owner=owner, units=units, terms=terms
    )
    if not table.units:
        return
    log, unit = sorted(table.log, key=lambda event: event.arrival), rng.choice(table.units)
    stage = Stage(subject, log, passes, rng.getrandbits(30), informed=rng.random() < 0.5)
    stage.crash = rng.choice((None, 0, 1))
    if terms is None:
        pair = stage.remove(unit)
    else:
        term = rng.choice(terms_between(terms, log[0].arrival, log[-1].arrival))
        begins = log[0].arrival if term.begins is None else term.begins
        pair = stage.remove_in_term(unit, begins, term.ends)
    result.pairs += 1
    result.worst_ratio = max(result.worst_ratio, pair.ratio)
