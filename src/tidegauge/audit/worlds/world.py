"""Invented tables and their logs, and the same log without one unit.

Every event is written down with the unit it belongs to when it happens.  The rules by which a row belongs
to a unit are stated here once more and share no code with the engine:

    owned rows   a row belongs to the unit that its unit column names; a row without a name belongs to none
    plain rows   a key has a native unit; a row that is inserted belongs to the native unit of its key, and
                 takes its unit along when its key changes.  When the native row of a key leaves it, the key
                 gets a new native unit.  When a term begins, the rows that exist are those of their keys
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.model.schedule import Schedule

    Row = dict[str, object]

Random = random.Random
"""Randomness of invented worlds; noise never comes from here."""


@dataclass(frozen=True)
class Event:
    """One line of the log: `arrival` is when it is written, `stamp` is the time that it states."""

    arrival: int
    stamp: int
    key: str | None
    """None: the table was emptied."""
    row: Row | None = None
    previous: str | None = None
    before: Row | None = None
    ended: str | None = None
    """The unit whose row it was."""
    begun: str | None = None
    """The unit whose row it is now."""
    kept: tuple[str, ...] = ()
    """Columns of the row that the log leaves out because they did not change."""


@dataclass
class Table:
    """A table that writes its log; `owner`: the column that names the unit, None where it is the row.

    `terms`: when constraints renew; events then have the times of their arrival.
    """

    owner: str | None
    log: list[Event] = field(default_factory=list)
    rows: dict[str, tuple[str | None, Row]] = field(default_factory=dict)
    natives: dict[str, int] = field(default_factory=dict)
    terms: Schedule | None = None
    settled: dict[str, str] = field(default_factory=dict)
    """Key -> its native unit, if a row of another key had it when a term began."""
    term: int = 0

    def _native(self, key: str) -> str:
        return self.settled.get(key, f"{key}/{self.natives.get(key, 0)}")

    def _reach(self, at: int) -> None:
        """Let the terms begin that have begun by then."""
        if self.terms is None or self.owner is not None:
            return
        while self.terms.bin_end(self.term) <= at:
            self.term += 1
            self.settled |= {
                key: unit for key, (unit, _) in self.rows.items() if unit and unit != self._native(key)
            }

    def _unit(self, row: Row) -> str | None:
        assert self.owner is not None
        return None if row[self.owner] is None else str(row[self.owner])

    def put(self, at: tuple[int, int], key: str, row: Row, *, kept: tuple[str, ...] = ()) -> None:
        """Insert or update at (arrival, stamp).  `kept`: columns that do not change and are left out."""
        self._reach(at[0])
        ended, before = self.rows.get(key, (None, None))
        if before is None or (self.owner and ended is None):
            kept = ()  # nothing is known of a row that belongs to no unit
        row = row | {name: (before or {})[name] for name in kept}
        begun = self._unit(row) if self.owner else ended or self._native(key)
        self.rows[key] = begun, row
        self.log.append(Event(*at, key, row, None, before, ended, begun, kept))

    def delete(self, at: tuple[int, int], key: str) -> None:
        """Delete; also a row that is not there."""
        self._reach(at[0])
        ended, before = self.rows.pop(key, (None if self.owner else self._native(key), None))
        self.log.append(Event(*at, key, before=before, ended=ended))

    def rename(self, at: tuple[int, int], previous: str, key: str, row: Row) -> None:
        """Give a row another key; a row that has it is deleted first, and the log says so."""
        self._reach(at[0])
        if key in self.rows:
            self.delete(at, key)
        ended, before = self.rows.pop(previous)
        if not self.owner and ended == self._native(previous):
            self.natives[previous] = self.natives.get(previous, 0) + 1
            self.settled.pop(previous, None)
        begun = self._unit(row) if self.owner else ended
        self.rows[key] = begun, row
        self.log.append(Event(*at, key, row, previous, before, ended, begun))

    def truncate(self, at: tuple[int, int]) -> None:
        """Delete every row."""
        self._reach(at[0])
        self.rows.clear()
        self.log.append(Event(*at, None))

    @property
    def units(self) -> list[str]:
        """Every unit that the log speaks of."""
        return sorted({unit for event in self.log for unit in (event.ended, event.begun) if unit is not None})


def without(log: Sequence[Event], unit: str) -> list[Event]:
    """The log as it would be if this unit had never existed: all of its events are gone, and no others."""
    left = []
    for event in log:
        if unit not in (event.ended, event.begun):
            left.append(event)
        elif event.begun not in (unit, None):  # the row came from this unit: it is inserted
            left.append(replace(event, previous=None, before=None, ended=None, kept=()))
        elif event.ended not in (unit, None):  # the row went to this unit: it is deleted
            gone = event.previous or event.key
            left.append(replace(event, key=gone, row=None, previous=None, begun=None, kept=()))
    return left


def without_term(log: Sequence[Event], unit: str, begins: int, ends: int) -> list[Event]:
    """The log as it would be if this unit had been absent from `begins` until just before `ends`.

    Its rows are deleted when the term begins, and those that exist at its end are inserted then, under the
    keys that they have by then.  Events have the times of their arrival.
    """
    before = [event for event in log if event.arrival < begins]
    inside = [event for event in log if begins <= event.arrival < ends]
    left = _rows_of(before, unit)
    back = _rows_of([*before, *inside], unit)
    gone = [Event(begins, begins, key, before=row, ended=unit) for key, row in left.items()]
    again = [Event(ends, ends, key, row, begun=unit) for key, row in back.items()]
    return [*before, *gone, *without(inside, unit), *again, *(one for one in log if one.arrival >= ends)]


def _rows_of(log: Sequence[Event], unit: str) -> dict[str, Row]:
    """The rows of a unit after these events, by key."""
    rows: dict[str, Row] = {}
    for event in log:
        if event.key is None:
            rows.clear()
            continue
        if event.ended == unit:
            rows.pop(event.previous or event.key, None)
        if event.begun == unit and event.row is not None:
            rows[event.key] = event.row
    return rows


def alone(log: Sequence[Event], unit: str) -> list[Event]:
    """The log as it would be if there had never been another unit."""
    others = {one for event in log for one in (event.ended, event.begun) if one not in (unit, None)}
    return reduce(without, sorted(other for other in others if other is not None), list(log))


@dataclass(frozen=True)
class Times:
    """The ends of the bins, in microseconds, and when the public clock is read."""

    ends: tuple[int, ...]
    passes: tuple[int, ...]


def random_table(
    rng: Random,
    times: Times,
    rows: Sequence[Row],
    *,
    owner: str | None,
    units: Sequence[object],
    orderly: bool = False,
    terms: Schedule | None = None,
) -> Table:
    """Some thirty changes of a few rows, as badly as any application and any clock could behave.

    `units`: three names, as the column `owner` holds them.  `orderly`: times are those of the arrival, keys
    never change, and the table is never emptied.  `terms`: when constraints renew; times are those of the
    arrival.
    """
    table = Table(owner, terms=terms)
    keys = [f"k{n}" for n in range(rng.choice((2, 3, 5)))]
    owners = [*units, None][: rng.choice((2, 3, 4))]
    first, last = times.ends[0] - (times.ends[-1] - times.ends[0]) // 20 - 5, times.passes[-1]
    arrivals = sorted(rng.randint(first, last) for _ in range(rng.randint(8, 32)))
    stamp, hectic = arrivals[0], rng.choice([*keys, None, None])
    for arrival in arrivals:
        stamp = arrival if orderly or terms else _stamp(rng, times, arrival, stamp)
        key = hectic if hectic and rng.random() < 0.5 else rng.choice(keys)
        row = dict(rng.choice(rows))
        if owner is not None:
            known = table.rows.get(key)
            row[owner] = known[1][owner] if known and rng.random() < 0.7 else rng.choice(owners)
        if orderly:
            _happen_orderly(rng, table, arrival, key=key, row=row)
        else:
            _happen(rng, table, (arrival, stamp), key=key, row=row, keys=keys)
    return table


def _happen_orderly(rng: Random, table: Table, at: int, *, key: str, row: Row) -> None:
    if key in table.rows and rng.random() < 0.2:
        table.delete((at, at), key)
    else:
        table.put((at, at), key, row)


def _stamp(rng: Random, times: Times, arrival: int, last: int) -> int:
    width = max(1, (times.ends[-1] - times.ends[0]) // max(1, len(times.ends)))
    match rng.randrange(10):
        case 0:
            return last  # a tie
        case 1:
            return rng.randint(min(times.ends[0] - width, arrival), arrival)  # late
        case 2:
            return arrival + rng.randint(1, 2 * width)  # a clock that is fast
        case 3:  # a bin's last microsecond and the next bin's first are where mistakes are made
            return min(times.ends, key=lambda end: abs(end - arrival)) + rng.choice((0, 1))
        case _:
            return arrival - rng.randint(0, 2)


def _happen(
    rng: Random, table: Table, at: tuple[int, int], *, key: str, row: Row, keys: Sequence[str]
) -> None:
    living = sorted(table.rows)
    match rng.randrange(12):
        case 0 | 1 if key in table.rows:
            table.delete(at, key)
        case 2 | 3 if living:
            previous = rng.choice(living)
            if previous != key:
                table.rename(at, previous, key, table.rows[previous][1] if rng.random() < 0.6 else row)
        case 4 if living:
            visit(rng, table, at, keys, row)
        case 5 if rng.random() < 0.3:
            table.truncate(at)
        case 6 if rng.random() < 0.2:
            table.delete(at, key)
        case _:
            table.put(at, key, row)


def visit(rng: Random, table: Table, at: tuple[int, int], keys: Sequence[str], row: Row) -> None:
    """A row takes the keys of deleted rows, one after the other; then rows are inserted there again."""
    (previous, (_, same)) = rng.choice(sorted(table.rows.items()))
    home, dead = previous, [key for key in keys if key not in table.rows]
    for key in dead:
        table.rename(at, previous, key, same)
        previous = key
    if dead and rng.random() < 0.7:
        table.rename(at, previous, home if rng.random() < 0.5 else "far", same)
    for key in dead:
        if rng.random() < 0.6 and key not in table.rows:
            table.put(at, key, dict(row))
