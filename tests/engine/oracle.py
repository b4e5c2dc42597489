"""What enforcement and folding mean, in plain Python, one mutation after the other."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tidegauge.model.program import Limit, Program, Scope

Row = dict[str, Any]
Mutation = tuple[int, str | None, str | None, Row | None, str | None, tuple[str, ...]]
"""Time, key (None: the table was emptied), unit, new row, the key before where it changed, and what was left out."""
Order = tuple[int, str]
Change = tuple[Order, str, str, Row | None]
Sees = dict[str, "Callable[[Row | None, Row | None], tuple[int, tuple[int, ...]] | None]"]
"""Release -> what it sees of (before, after): a cell and an amount per component, or nothing."""


@dataclass
class Life:
    """A unit in one scope."""

    moves: int = 0
    first: int | None = None
    label: str | None = None
    left: bool = False
    view: dict[tuple[str, int, int], int] = field(default_factory=dict)


class Oracle:
    def __init__(self, program: Program, sees: Sees) -> None:
        self.program, self.sees = program, sees
        self.releases = {release.name: release for release in program.releases}
        self.rows: dict[str, tuple[str, Row]] = {}
        self.names: dict[str, str] = {}
        self.named = 0
        self.living: dict[str, tuple[str, Row]] = {}
        self.since: dict[tuple[int, str], tuple[int, Order]] = {}
        self.lives: dict[tuple[int, str], Life] = defaultdict(Life)
        self.clips: dict[tuple[str, str, int], set[int]] = defaultdict(set)
        self.totals: dict[tuple[str, int, int, int], int] = defaultdict(int)

    def batch(self, mutations: Iterable[Mutation], watermark: int, upto: int) -> int:
        """Apply mutations in order of arrival; returns the new watermark."""
        arrivals = [(max(told[0], watermark + 1), n, told) for n, told in enumerate(mutations)]
        reached = max([upto, watermark, *(at for at, *_ in arrivals if at == watermark + 1)])
        instants = {at for at, *_ in arrivals}
        for scope, unit in self.lives:
            instants |= {due for due in [self.due(scope, unit)] if due is not None and due <= reached}
        while instants:
            at = min(instants)
            instants.remove(at)
            now = [(n, told) for when, n, told in arrivals if when == at]
            self.instant(at, [change for n, told in now for change in self.changes(n, told)])
            instants |= {
                due
                for s, u in self.lives
                for due in [self.due(s, u)]
                if due is not None and at < due <= reached
            }
        return reached

    def changes(self, n: int, told: Mutation) -> list[Change]:
        """What a mutation does to which row; a row is called by a name of its own that does not change with its key."""
        _, key, unit, row, previous, kept = told
        if key is None:
            doomed = [(one, self.names[one]) for one in sorted(self.names) if self.names[one] in self.living]
            for _, name in doomed:
                del self.living[name]
            return [((n, one), name, name, None) for one, name in doomed]
        done: list[Change] = []
        if previous is not None:
            moving = self.names.pop(previous, None) or self.fresh()
            if self.living.pop(self.names.get(key, ""), None):
                done.append(((n, key), self.names[key], "", None))
            self.names[key] = moving
        name = self.names.setdefault(key, "") or self.fresh()
        self.names[key] = name
        was_unit, was = self.living.pop(name, (None, {}))
        if row is None:
            return [*done, ((n, key), name, "", None)]
        row = {column: was.get(column) if column in kept else value for column, value in row.items()}
        if self.program.max_rows is None:
            unit = name
        elif self.program.owner in kept:
            unit = was_unit
        if unit is None:
            return [*done, ((n, key), name, "", None)]
        self.living[name] = unit, row
        return [*done, ((n, key), name, unit, row)]

    def fresh(self) -> str:
        self.named += 1
        return f"row {self.named}"

    def due(self, scope: int, unit: str) -> int | None:
        life, limit = (
            self.lives[scope, unit],
            self.limit(self.program.scopes[scope], self.lives[scope, unit].label),
        )
        if (
            not self.program.scopes[scope].retire
            or life.left
            or life.first is None
            or limit is None
            or limit.within is None
        ):
            return None
        return life.first + limit.within

    def limit(self, scope: Scope, label: str | None) -> Limit | None:
        return dict(scope.limits).get(label if scope.by else None)

    def instant(self, at: int, arrivals: list[Change]) -> None:
        last = {entry: (seq, unit, row) for seq, entry, unit, row in arrivals}
        changes: dict[str, list[tuple[Order, str, Row | None, Row | None]]] = defaultdict(list)
        for entry, (seq, unit, row) in last.items():
            was_unit, was = self.rows.get(entry, (unit, None))
            if was is not None and (row is None or unit != was_unit):
                changes[was_unit].append((seq, entry, was, None))
            if row is not None:
                changes[unit].append((seq, entry, was if was_unit == unit else None, row))
            self.rows.pop(entry, None)
            if row is not None:
                self.rows[entry] = unit, row
        units = set(changes) | {unit for s, unit in self.lives if self.due(s, unit) == at}
        for number, scope in enumerate(self.program.scopes):
            for unit in units:
                self.move(number, scope, unit, at, sorted(changes[unit], key=lambda c: (c[0], c[1])))

    def move(
        self,
        number: int,
        scope: Scope,
        unit: str,
        at: int,
        changes: list[tuple[Order, str, Row | None, Row | None]],
    ) -> None:
        life = self.lives[number, unit]
        view = self.view(number, scope, unit, at, changes)
        flows = []
        for name in scope.releases:
            if self.releases[name].query.kind == "flow":
                hits = [
                    hit
                    for _, _, old, new in changes
                    if old != new and (hit := self.sees[name](old, new)) and any(hit[1])
                ]
                flows += [(name, *hit) for hit in hits[: self.program.max_rows]]
        raw_before = getattr(life, "raw", {})
        life.raw = view  # type: ignore[attr-defined]
        due = self.due(number, unit) == at
        if view == raw_before and not flows and not due:
            return
        if view != raw_before or flows:
            if life.first is None:
                life.first = at
                if scope.by:
                    _, _, old, new = changes[0]
                    life.label = str((new or old or {})[scope.by])
            life.moves += 1
        limit = self.limit(scope, life.label)
        due = due or self.due(number, unit) == at
        if limit is None or life.left:
            return
        over = limit.at_most is not None and life.moves > limit.at_most
        late = limit.within is not None and at - (life.first or 0) > limit.within
        if over or late:
            return
        if scope.retire and (due or life.moves == limit.at_most):
            view, life.left = {}, True
        for name, cell, amounts in flows:
            release = self.releases[name]
            spot = release.schedule.bin_at(at)
            turns = self.clips[name, unit, spot]
            turns.add(at)
            if release.clip is None or len(turns) <= release.clip:
                for j, amount in enumerate(amounts):
                    self.add(name, j, at, cell, amount)
        for key in view.keys() | life.view.keys():
            name, component, cell = key
            self.add(name, component, at, cell, view.get(key, 0) - life.view.get(key, 0))
        life.view = view

    def view(
        self,
        number: int,
        scope: Scope,
        unit: str,
        at: int,
        changes: list[tuple[Order, str, Row | None, Row | None]],
    ) -> dict[tuple[str, int, int], int]:
        stocks = [name for name in scope.releases if self.releases[name].query.kind == "stock"]
        present: list[tuple[tuple[int, Order], str, list[tuple[str, int, tuple[int, ...]]]]] = []
        seqs = {entry: seq for seq, entry, _, _ in changes}
        for _, entry, _, new in changes:
            if new is None:
                self.since.pop((number, entry), None) if self.rows.get(entry, (unit,))[0] == unit else None
        for entry, (owner, row) in self.rows.items():
            if owner != unit:
                continue
            seen = [(name, *hit) for name in stocks if (hit := self.sees[name](None, row)) and any(hit[1])]
            moved = any(e == entry and old is None for _, e, old, _ in changes)
            if not seen:
                self.since.pop((number, entry), None)
                continue
            if (number, entry) not in self.since or moved:
                self.since[number, entry] = at, seqs.get(entry, (-1, ""))
            present.append((self.since[number, entry], entry, seen))
        view: dict[tuple[str, int, int], int] = defaultdict(int)
        for _, _, seen in sorted(present)[: self.program.max_rows]:
            for name, cell, amounts in seen:
                for j, amount in enumerate(amounts):
                    view[name, j, cell] += amount
        return {key: amount for key, amount in view.items() if amount}

    def add(self, name: str, component: int, at: int, cell: int, amount: int) -> None:
        schedule = self.releases[name].schedule
        spot = schedule.bin_at(at)
        if amount and (schedule.bins is None or spot < schedule.bins):
            self.totals[name, component, spot, cell] += amount
