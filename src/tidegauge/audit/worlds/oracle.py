"""What effective time, enforcement and folding mean, in plain Python, one change after the other.

It shares no code with the engine.  The tests of the engine use it as well.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from tidegauge.audit.worlds.identity import Held, Identity, OwnedIdentity, Row, renamed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tidegauge.audit.worlds.identity import Mutation
    from tidegauge.model.program import Allowance, Program, Scope

Sees = dict[str, "Callable[[Row | None, Row | None], tuple[int, tuple[int, ...]] | None]"]
"""Release -> what it sees of (before, after): a cell and an amount per component, or nothing."""
RowChange = tuple[int, Held, Row | None, Row | None]
"""Place in the log, a row of a unit, and the row before and after."""


@dataclass(frozen=True)
class Event:
    """A change of a unit."""

    place: int
    time: int
    held: Held
    row: Row | None


@dataclass
class UnitInScope:
    """A unit in one scope."""

    changes: int = 0
    first: int | None = None
    label: str | None = None
    left: bool = False
    raw: dict[tuple[str, int, int], int] = field(default_factory=dict)
    """What it would contribute without the constraint."""
    contribution: dict[tuple[str, int, int], int] = field(default_factory=dict)
    """What is accepted of it."""


class Seen(NamedTuple):
    """What a change is to a unit: the new row, and whether the unit had the row before."""

    unit: str
    row: Row | None
    before: bool


class Oracle:
    """One program; `sees`: what each release sees of a change."""

    def __init__(self, program: Program, sees: Sees) -> None:
        self.program, self.sees = program, sees
        self.releases = {release.name: release for release in program.releases}
        self.identity = Identity(program.terms)
        if program.max_rows is not None:
            self.identity = OwnedIdentity(program.owner, renews=program.terms is not None)
        self.places = count()
        self.watermark = -(2**62)
        self.waiting: list[Event] = []
        self.rows: dict[Held, Row] = {}
        self.contributing: list[Row] = []
        """The rows of the unit that was last looked at, in order."""
        self.since: dict[tuple[int, Held], tuple[int, int]] = {}
        self.units: dict[tuple[int, str], UnitInScope] = defaultdict(UnitInScope)
        self.clips: dict[tuple[str, str, int, int], set[int]] = defaultdict(set)
        self.term = 0
        self.totals: dict[tuple[str, int, int, int], int] = defaultdict(int)
        self.true: dict[tuple[str, int, int, int], int] = defaultdict(int)
        """What the totals would be without any constraint."""
        self.accepted: dict[str, list[tuple[str, int, int, int, int]]] = defaultdict(list)
        """Per unit (release, component, instant, cell, amount)."""

    def arrive(self, mutations: Iterable[Mutation], now: int) -> list[list[Seen]]:
        """Let changes wait.

        Returns of each what it is to which units: the new row, and whether the unit had it before.
        """
        became = []
        for mutation in map(renamed, mutations):
            place = next(self.places)
            at = max(min(mutation[0], now), self.watermark + 1)
            changes = self.identity.emptied(at) if mutation[1] is None else self.identity.change(mutation, at)
            became.append([Seen(held.unit, row, held.row is not None) for held, row in changes])
            for held, row in changes:
                held.row = row
                self.waiting.append(Event(place, min(mutation[0], now), held, row))
        return became

    def close(self, reached: int) -> None:
        """Let take effect what does by then."""
        latest: dict[str, int] = {}
        due: dict[int, list[Event]] = defaultdict(list)
        later = []
        for event in self.waiting:
            unit = event.held.unit
            at = latest[unit] = max(latest.get(unit, self.watermark + 1), event.time)
            if at <= reached:
                due[at].append(event)
            else:
                later.append(event)
        self.waiting = later
        terms = self.program.terms
        while True:
            leaving = {
                at
                for s, unit in list(self.units)
                for at in [self.due(s, unit)]
                if at is not None and at <= reached
            }
            renewing = [terms.bin_end(self.term)] if terms and terms.bin_end(self.term) <= reached else []
            if not due and not leaving and not renewing:
                break
            at = min([*due, *leaving, *renewing])
            self.term += at in renewing
            self.instant(at, due.pop(at, []), renews=at in renewing)
        self.watermark = max(self.watermark, reached)

    def due(self, scope: int, unit: str) -> int | None:
        """When a unit that retires must leave because its time is up; None: never."""
        known, rules = self.units[scope, unit], self.program.scopes[scope]
        allowance = self.allowance(rules, known.label)
        if (
            not rules.retire
            or known.left
            or known.first is None
            or allowance is None
            or allowance.within is None
        ):
            return None
        return known.first + allowance.within

    def allowance(self, scope: Scope, label: str | None) -> Allowance | None:
        """What a label allows; None: nothing is declared for it."""
        return dict(scope.allowances).get(label if scope.by else None)

    def instant(self, at: int, events: list[Event], *, renews: bool = False) -> None:
        """Everything that happens at one instant."""
        changes: dict[str, list[RowChange]] = defaultdict(list)
        for held, event in {event.held: event for event in events}.items():
            was = self.rows.pop(held, None)
            if event.row is not None:
                self.rows[held] = event.row
            if was is not None or event.row is not None:
                changes[held.unit].append((event.place, held, was, event.row))
        units = set(changes) | {unit for s, unit in list(self.units) if renews or self.due(s, unit) == at}
        for number, scope in enumerate(self.program.scopes):
            for unit in units:
                own = sorted(changes[unit], key=lambda change: change[0])
                self.without_constraint(scope, at, own)
                if renews:
                    self.renew(number, unit, at)
                self.enforce(number, scope, unit, at, own, renews=renews)

    def without_constraint(self, scope: Scope, at: int, changes: list[RowChange]) -> None:
        """Count changes as if there were no constraint."""
        for name in scope.releases:
            flow, bin_ = self.releases[name].query.kind == "flow", self.releases[name].schedule.bin_at(at)
            for change in changes:
                seen: list[tuple[int, Row | None, Row | None]] = [(-1, None, change[2]), (1, None, change[3])]
                if flow:
                    seen = [(1, change[2], change[3])] if self.alters(name, change) else []
                for sign, before, after in seen:
                    if (flow or after is not None) and (hit := self.sees[name](before, after)):
                        for j, amount in enumerate(hit[1]):
                            self.true[name, j, bin_, hit[0]] += sign * amount

    def alters(self, name: str, change: RowChange) -> bool:
        """Whether a change is one that a flow looks at: of its own columns, if its plan says so."""
        watched, (_, _, old, new) = self.releases[name].query.watched, change
        if watched is None or old is None or new is None:
            return old != new
        return any(old[column] != new[column] for column in watched)

    def renew(self, number: int, unit: str, at: int) -> None:
        """A term begins: forget everything of a unit but its rows, which come in the order of their names."""
        known = self.units[number, unit]
        known.changes, known.first, known.label, known.left = 0, None, None, False
        mine = sorted((held.name, n) for n, held in enumerate(self.rows) if held.unit == unit)
        rows = list(self.rows)
        for rank, (_, n) in enumerate(mine):
            self.since[number, rows[n]] = at, rank

    def enforce(
        self, number: int, scope: Scope, unit: str, at: int, changes: list[RowChange], *, renews: bool
    ) -> None:
        """What becomes of one unit in one scope."""
        known = self.units[number, unit]
        found = self.contribution(number, scope, unit, at, changes)
        if renews and found:
            known.first = at
            if scope.by:
                known.label = str(self.contributing[0][scope.by] or "")
        flows: list[tuple[str, int, tuple[int, ...]]] = []
        for name in scope.releases:
            if self.releases[name].query.kind == "flow":
                hits = [
                    (change[0], *hit)
                    for change in changes
                    if self.alters(name, change) and (hit := self.sees[name](*change[2:])) and any(hit[1])
                ]
                flows += [(name, cell, amounts) for _, cell, amounts in sorted(hits)[: self.program.max_rows]]
        if renews:  # it depends on the row of the term before
            flows = []
        changed = (found != known.raw and not renews) or bool(flows)
        known.raw = found
        due = self.due(number, unit) == at
        if not changed and not due and not renews:
            return
        if changed:
            if known.first is None:
                known.first = at
                if scope.by:
                    labels = (
                        (place, str((new or old or {})[scope.by] or "")) for place, _, old, new in changes
                    )
                    known.label = min(labels)[1]
            known.changes += 1
        allowance = self.allowance(scope, known.label)
        due = due or self.due(number, unit) == at
        if renews and (allowance is None or known.first is None):
            found, flows = {}, []
        elif allowance is None or known.left:
            return
        else:
            over = allowance.at_most is not None and known.changes > allowance.at_most
            late = allowance.within is not None and at - (known.first or 0) > allowance.within
            if over or late:
                return
            if scope.retire and (due or known.changes == allowance.at_most):
                found, known.left = {}, True
        for name, cell, amounts in flows:
            release = self.releases[name]
            bin_ = release.schedule.bin_at(at)
            instants = self.clips[name, unit, bin_, self.term]
            instants.add(at)
            if release.clip is None or len(instants) <= release.clip:
                for j, amount in enumerate(amounts):
                    self.add(unit, (name, j, cell), at, amount)
        for key in sorted(found.keys() | known.contribution.keys()):
            self.add(unit, key, at, found.get(key, 0) - known.contribution.get(key, 0))
        known.contribution = found

    def contribution(
        self, number: int, scope: Scope, unit: str, at: int, changes: list[RowChange]
    ) -> dict[tuple[str, int, int], int]:
        """What a unit contributes: its first rows that contribute."""
        stocks = [name for name in scope.releases if self.releases[name].query.kind == "stock"]
        places = {held: place for place, held, _, _ in changes}
        present: list[tuple[tuple[int, int], list[tuple[str, int, tuple[int, ...]]], Row]] = []
        for held, row in self.rows.items():
            if held.unit != unit:
                continue
            seen = [(name, *hit) for name in stocks if (hit := self.sees[name](None, row)) and any(hit[1])]
            if not seen:
                self.since.pop((number, held), None)
                continue
            if (number, held) not in self.since:
                self.since[number, held] = at, places.get(held, -1)
            present.append((self.since[number, held], seen, row))
        for _, held, _, new in changes:
            if new is None:
                self.since.pop((number, held), None)
        found: dict[tuple[str, int, int], int] = defaultdict(int)
        present.sort(key=lambda one: one[:2])
        self.contributing = [row for _, _, row in present]
        for _, seen, _ in present[: self.program.max_rows]:
            for name, cell, amounts in seen:
                for j, amount in enumerate(amounts):
                    found[name, j, cell] += amount
        return {key: amount for key, amount in found.items() if amount}

    def add(self, unit: str, key: tuple[str, int, int], at: int, amount: int) -> None:
        """Count an accepted change."""
        name, component, cell = key
        schedule = self.releases[name].schedule
        bin_ = schedule.bin_at(at)
        if amount:
            self.accepted[unit].append((name, component, at, cell, amount))
        if amount and (schedule.bins is None or bin_ < schedule.bins):
            self.totals[name, component, bin_, cell] += amount
