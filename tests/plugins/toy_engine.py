"""An engine in plain Python: running values of rows that are their own units,
with at_most, within and freeze."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.engine.reference import evaluate
from tidegauge.errors import QueryError
from tidegauge.model.engine import Engine, StateLayout
from tidegauge.model.program import Arrived, Folded, Total

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tidegauge.model.program import Allowance, Program, State

Contribution = Counter[tuple[int, int, int]]
"""(Number of the release, component, cell) -> amount."""

LAYOUT = StateLayout(
    entries={"entry": "VARCHAR", "contribution": "VARCHAR"},
    units={"unit": "VARCHAR", "scope": "BIGINT", "changes": "BIGINT", "first": "BIGINT", "expires": "BIGINT"},
    used={"unit": "VARCHAR", "release": "BIGINT", "used": "BIGINT"},
)


@dataclass
class Counters:
    """What is known of a unit in a scope."""

    changes: int = 0
    first: int | None = None


@dataclass(frozen=True)
class Change:
    """A change that waits."""

    seq: int
    time: int
    entry: str
    after: dict[str, Any] | None


@dataclass
class Part:
    """What one fold leads to."""

    totals: Counter[tuple[int, int, int, int]] = field(default_factory=Counter)
    counters: dict[tuple[str, int], Counters] = field(default_factory=dict)
    dropped: int = 0


class ToyEngine(Engine):
    """Folds change by change; what waits is kept as a list."""

    def __init__(self, program: Program, columns: Mapping[str, str]) -> None:
        plain = all(release.query.kind == "stock" for release in program.releases)
        if program.max_rows is not None or not plain or any(one.retire or one.by for one in program.scopes):
            raise QueryError("the toy engine counts rows that are their own units", key="engine.kind")
        if program.keeps:
            raise QueryError("the toy engine keeps no rows for releases that are added", key="budget.reserve")
        for release in program.releases:  # a query that cannot be computed fails here, not at the first tick
            for part in (release.query.cell, *(one.value for one in release.query.components)):
                evaluate(part, None, dict.fromkeys(columns))
        self._program = program
        self._row = pa.null()
        self._waiting: list[Change] | None = None

    @property
    def layout(self) -> StateLayout:
        return LAYOUT

    def arrive(self, rows: pa.Table, *, state: State, now: int, arrivals: int) -> Arrived:
        self._row = rows.schema.field("after").type
        waiting = self._load(state)
        for number, row in enumerate(rows.to_pylist()):
            waiting.append(Change(arrivals + number, min(row["time"], now), row["entry"], row["after"]))
        return Arrived({}, {})

    def waiting(self, since: int | None = None) -> pa.Table:
        some = [one for one in self._waiting or [] if since is None or one.seq >= since]
        kinds = {"seq": pa.int64(), "time": pa.int64(), "entry": pa.string(), "after": self._row}
        return pa.table(
            {name: pa.array([getattr(one, name) for one in some], kind) for name, kind in kinds.items()}
        )

    def fold(self, *, state: State, watermark: int, reached: int) -> Iterator[Folded]:
        due: dict[str, dict[int, dict[str, Any] | None]] = {}
        latest: dict[str, int] = {}
        later = []
        for one in self._load(state):
            at = latest[one.entry] = max(latest.get(one.entry, watermark + 1), one.time)
            if at <= reached:
                due.setdefault(one.entry, {})[at] = one.after
            else:
                later.append(one)
        self._waiting = later
        known = {
            row["entry"]: Counter({tuple(cell): amount for *cell, amount in json.loads(row["contribution"])})
            for row in state.entries(list(due)).to_pylist()
        }
        part = Part()
        for row in state.units(list(due)).to_pylist():
            part.counters[row["unit"], row["scope"]] = Counters(row["changes"], row["first"])
        alive: dict[str, Contribution] = {}
        gone: list[tuple[str, ...]] = []
        for entry, changes in due.items():
            contribution = known.get(entry, Counter())
            for at, after in sorted(changes.items()):
                before, contribution = contribution, self._contribution(after)
                self._enforce(entry, at, before, contribution, part)
            if after is not None:
                alive[entry] = contribution
            elif entry in known:
                gone.append((entry,))
        yield Folded(
            totals=[
                Total(self._program.releases[release].name, component, bin_, cell, amount)
                for (release, component, bin_, cell), amount in sorted(part.totals.items())
                if amount
            ],
            entries=_table(LAYOUT.entries, [
                (entry, json.dumps([[*cell, amount] for cell, amount in found.items()]))
                for entry, found in alive.items()
            ]),
            gone=_table({"entry": "VARCHAR"}, gone),
            units=_table(LAYOUT.units, [
                (unit, scope, one.changes, one.first, None)
                for (unit, scope), one in sorted(part.counters.items())
            ]),
            used=_table(LAYOUT.used, []),
            counts={"dropped": part.dropped},
        )  # fmt: skip

    def begin(self, releases: Collection[str], *, state: State) -> None:
        raise AssertionError("no release is added to a program that keeps nothing")

    def forget(self) -> None:
        self._waiting = None

    def close(self) -> None:
        self.forget()

    def _load(self, state: State) -> list[Change]:
        if self._waiting is None:
            self._waiting = [Change(**row) for piece in state.waiting() for row in piece.to_pylist()]
        return self._waiting

    def _contribution(self, row: dict[str, Any] | None) -> Contribution:
        found: Contribution = Counter()
        for number, release in enumerate(self._program.releases if row is not None else ()):
            cell = evaluate(release.query.cell, None, row)
            for j, part in enumerate(release.query.components if cell is not None else ()):
                amount = evaluate(part.value, None, row) or 0
                found[number, j, cell] = min(max(amount, min(part.lower, 0)), max(part.upper, 0))
        return Counter({cell: amount for cell, amount in found.items() if amount})

    def _enforce(self, unit: str, at: int, before: Contribution, after: Contribution, part: Part) -> None:
        """Count the change in every scope whose contribution it changes, and add it up if it is accepted."""
        for number, scope in enumerate(self._program.scopes):
            difference = {
                cell: after[cell] - before[cell]
                for cell in before.keys() | after.keys()
                if after[cell] != before[cell] and self._program.releases[cell[0]].name in scope.releases
            }
            if not difference:
                continue
            counters = part.counters.setdefault((unit, number), Counters())
            counters.changes += 1
            counters.first = at if counters.first is None else counters.first
            if not _accepted(dict(scope.allowances)[None], counters, at):
                part.dropped += 1
                continue
            for (release, component, cell), amount in difference.items():
                schedule = self._program.releases[release].schedule
                bin_ = schedule.bin_at(at)
                if schedule.bins is None or bin_ < schedule.bins:
                    part.totals[release, component, bin_, cell] += amount


def _accepted(limit: Allowance, counters: Counters, at: int) -> bool:
    assert counters.first is not None
    few = limit.at_most is None or counters.changes <= limit.at_most
    return few and (limit.within is None or at - counters.first <= limit.within)


def _table(columns: Mapping[str, str], rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    kinds = {"VARCHAR": pa.string(), "BIGINT": pa.int64()}
    fields = zip(*rows, strict=True) if rows else [()] * len(columns)
    return pa.table({
        name: pa.array(values, kinds[kind])
        for (name, kind), values in zip(columns.items(), fields, strict=True)
    })  # fmt: skip
