"""A table and its log, and the same log without one unit.

Everything that is said of a table is written down with the unit it belongs to, at the moment it happens.  The rules by
which a row belongs to a unit are stated here once more, in a dozen lines, and share no code with the engine:

    owned rows   a row belongs to whom its column `owner` names; a row that names nobody belongs to nobody
    plain rows   a key has a native unit; a row that is inserted belongs to the native unit of its key, and takes its unit
                 along when its key changes.  When the native row of a key leaves it, the key gets a new native unit
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

Row = dict[str, Any]
COLUMNS = {"id": "VARCHAR", "owner": "VARCHAR", "s": "VARCHAR", "x": "BIGINT", "k": "VARCHAR"}


@dataclass(frozen=True)
class Event:
    """One line of the log: `arrival` is when it is written, `stamp` is the time that it states."""

    arrival: int
    stamp: int
    key: str | None
    """None: the table was emptied."""
    row: Row | None = None
    previous: str | None = None
    kept: tuple[str, ...] = ()
    """Columns of the row that the log leaves out because they did not change."""
    before: Row | None = None
    ended: str | None = None
    """The unit whose row it was."""
    begun: str | None = None
    """The unit whose row it is now."""


@dataclass
class Table:
    """A table that writes its log."""

    owned: bool
    log: list[Event] = field(default_factory=list)
    rows: dict[str, tuple[str | None, Row]] = field(default_factory=dict)
    natives: dict[str, int] = field(default_factory=dict)

    def native(self, key: str) -> str:
        return f"{key}/{self.natives.get(key, 0)}"

    def put(self, at: tuple[int, int], key: str, row: Row, *, kept: tuple[str, ...] = ()) -> None:
        """Insert or update."""
        ended, before = self.rows.get(key, (None, None))
        begun = row["owner"] if self.owned else ended or self.native(key)
        if self.owned and ended is None:
            kept = ()  # of a row that is nobody's, nothing is known
        if kept:
            assert before is not None
            row = row | {name: before[name] for name in kept}
            begun = row["owner"] if self.owned else begun
        self.rows[key] = begun, row
        self.log.append(Event(*at, key, row | {"id": key}, None, kept, before, ended, begun))

    def delete(self, at: tuple[int, int], key: str) -> None:
        ended, before = self.rows.pop(key, (None if self.owned else self.native(key), None))
        self.log.append(Event(*at, key, before=before, ended=ended))

    def rename(self, at: tuple[int, int], previous: str, key: str, row: Row) -> None:
        """Give a row another key; a row that has it is deleted first, and the log says so."""
        if key in self.rows:
            self.delete(at, key)
        ended, before = self.rows.pop(previous)
        if not self.owned and ended == self.native(previous):
            self.natives[previous] = self.natives.get(previous, 0) + 1
        begun = row["owner"] if self.owned else ended
        self.rows[key] = begun, row
        self.log.append(Event(*at, key, row | {"id": key}, previous, (), before, ended, begun))

    def truncate(self, at: tuple[int, int]) -> None:
        self.rows.clear()
        self.log.append(Event(*at, None))

    @property
    def units(self) -> list[str]:
        found = {unit for event in self.log for unit in (event.ended, event.begun) if unit is not None}
        return sorted(found)


def without(log: Sequence[Event], unit: str) -> list[Event]:
    """The log as it would be if this unit had never been there: all of its events are gone, and no other's."""
    left = []
    for event in log:
        if unit not in (event.ended, event.begun):
            left.append(event)
        elif event.begun not in (unit, None):  # the row came from this unit: it now comes from nowhere
            left.append(replace(event, previous=None, kept=(), before=None, ended=None))
        elif event.ended not in (unit, None):  # the row went to this unit: it now goes away
            gone = event.previous or event.key
            left.append(replace(event, key=gone, row=None, previous=None, kept=(), begun=None))
    return left


def alone(log: Sequence[Event], unit: str) -> list[Event]:
    """The log as it would be if there had never been another unit."""
    others = {one for event in log for one in (event.ended, event.begun) if one not in (unit, None)}
    return reduce(without, sorted(other for other in others if other is not None), list(log))


@dataclass(frozen=True)
class Times:
    """When things happen, in ticks: the public clock is read at `passes`, and bins are `width` long."""

    passes: tuple[int, ...]
    width: int
    tick: int
    """Microseconds."""
    origin: int = 0

    def micros(self, tick: int) -> int:
        return self.origin + tick * self.tick


def random_table(
    rng: random.Random, times: Times, *, owned: bool, values: Sequence[int | None], plain: bool = False
) -> Table:
    """Some thirty changes of a few rows, as badly as any application and any clock could behave.

    `plain`: new rows and deletions alone.
    """
    table = Table(owned)
    keys = [f"k{n}" for n in range(rng.choice((2, 3, 5)))]
    owners = ["u", "v", "w", None][: rng.choice((2, 3, 4))] if owned else ["u"]
    arrivals = sorted(rng.randint(0, times.passes[-1]) for _ in range(rng.randint(6, 32)))
    stamp, busy = 0, rng.random() < 0.4
    hectic = rng.choice(keys) if busy else None
    for arrival in arrivals:
        stamp = _stamp(rng, times, arrival, stamp)
        at = times.micros(arrival), _nudged(rng, times, stamp)
        _happen(rng, table, at, keys=keys, owners=owners, values=values, hectic=hectic, plain=plain)
    return table


def _nudged(rng: random.Random, times: Times, tick: int) -> int:
    """A bin's last microsecond and the next bin's first are where mistakes are made."""
    return times.micros(tick) + (rng.choice((0, 0, 1)) if times.tick > 1 else 0)


def _stamp(rng: random.Random, times: Times, arrival: int, last: int) -> int:
    match rng.randrange(10):
        case 0:
            return last  # a tie
        case 1:
            return rng.randint(-5, arrival)  # late
        case 2:
            return arrival + rng.randint(1, 2 * times.width)  # a clock that is fast
        case 3:
            return arrival // times.width * times.width + rng.choice((0, 1))
        case _:
            return max(0, arrival - rng.randint(0, 2))


def _row(rng: random.Random, owners: Sequence[str | None], values: Sequence[int | None]) -> Row:
    return {
        "owner": rng.choice(owners),
        "s": rng.choice(("a", "b", "a", "b", "c", None)),
        "x": rng.choice(values),
        "k": rng.choice(("p", "q", "p", "q", "?")),
    }


def _happen(
    rng: random.Random,
    table: Table,
    at: tuple[int, int],
    *,
    keys: Sequence[str],
    owners: Sequence[str | None],
    values: Sequence[int | None],
    hectic: str | None,
    plain: bool,
) -> None:
    key = hectic if hectic and rng.random() < 0.5 else rng.choice(keys)
    living, row = sorted(table.rows), _row(rng, owners, values)
    match rng.randrange(12):
        case 0 | 1 if key in table.rows:
            table.delete(at, key)
        case 2 | 3 if living and not plain:
            previous = rng.choice(living)
            if previous != key:
                same = table.rows[previous][1] if rng.random() < 0.6 else row
                table.rename(at, previous, key, same)
        case 4 if living and not plain:
            _visit(rng, table, at, keys, row)
        case 5 if rng.random() < 0.5 and not plain:
            table.truncate(at)
        case 6 | 7 if key in table.rows and not plain:
            kept = tuple(name for name in ("owner", "s", "k") if rng.random() < 0.4)
            table.put(at, key, row, kept=kept)
        case 8 if rng.random() < 0.2:
            table.delete(at, key)
        case _:
            if key in table.rows and rng.random() < 0.7:
                row["owner"] = table.rows[key][1]["owner"]
            table.put(at, key, row)


def _visit(rng: random.Random, table: Table, at: tuple[int, int], keys: Sequence[str], row: Row) -> None:
    """A row takes the keys of rows that are no more, one after the other; then rows are inserted there again."""
    (previous, (_, same)) = rng.choice(sorted(table.rows.items()))
    dead = [key for key in keys if key not in table.rows]
    home = previous
    for key in dead:
        table.rename(at, previous, key, same)
        previous = key
    if dead and rng.random() < 0.7:
        table.rename(at, previous, home if rng.random() < 0.5 else "far", same)
    for key in dead:
        if rng.random() < 0.6 and key not in table.rows:
            table.put(at, key, dict(row))
