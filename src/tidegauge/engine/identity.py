"""Which row a change belongs to: rows through their keys, in the order of the log.

A row has a name that stays with it.  The row that is inserted under a key is called by the key; if rows with that name were
renamed away, the next one gets the next generation of the name.  Only keys that a rename touched have a record (docs/decisions/
0013 says why the rules are as they are); all other changes belong to the row that is called like their key, and are
not looked at here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tidegauge.model.program import Record

MARK: Final = "\x1f"
"""Begins a name that is not just a key; a key that begins with it is marked as well, so that names never collide."""


def native(key: str, generation: int = 0) -> str:
    """The name of a row that is inserted under this key."""
    return f"{MARK}{generation}{MARK}{key}" if generation or key.startswith(MARK) else key


class Change(NamedTuple):
    """What matters of a change here; a key of None is a truncation."""

    seq: int
    key: str | None
    previous: str | None
    unit: str | None
    gone: bool
    same_unit: bool
    """Whether the unit was left out because it did not change."""


class Belongs(NamedTuple):
    """The row that a change belongs to."""

    seq: int
    name: str | None
    """What the row is called after the change; None where no unit has it."""
    ended: str | None
    """What the row was called before, in the unit it was in."""
    thread: str
    """The same for all changes of one row, also where it goes from one unit to another."""


class RowKeys:
    """Where the unit is the row.

    A record is [generation of the key's own row, rows that were renamed onto the key and are there, the last one on top].
    A change at a key belongs to the row on top, else to the key's own row, dead or alive.
    """

    def __init__(self, records: Mapping[str, Record], alive: Iterable[str]) -> None:
        self._known = {key: [record[0], list(record[1])] for key, record in records.items()}
        self._alive = set(alive)
        self.displaced = 0

    def resolve(self, change: Change) -> Belongs | None:
        """Follow one change; None for a truncation."""
        if change.key is None:
            for record in self._known.values():
                record[1].clear()
            self._alive.clear()
            return None
        if change.previous is None:
            name = self._at(change.key)
        else:
            name = self._leave(change.previous)
            self.displaced += self._at(change.key) in self._alive
            self._record(change.key)[1].append(name)
        guests = self._record(change.key)[1]
        if change.gone:
            self._alive.discard(name)
            if guests:
                guests.pop()
        else:
            self._alive.add(name)
        return Belongs(change.seq, name, name, name)

    def records(self) -> dict[str, Record | None]:
        """The records as they are now; None where there is nothing to remember."""
        return {key: record if record[0] or record[1] else None for key, record in self._known.items()}

    def _record(self, key: str) -> Record:
        return self._known.setdefault(key, [0, []])

    def _at(self, key: str) -> str:
        generation, guests = self._record(key)
        return str(guests[-1]) if guests else native(key, generation)

    def _leave(self, key: str) -> str:
        name, record = self._at(key), self._record(key)
        if record[1]:
            record[1].pop()
        else:
            record[0] += 1
        return name


@dataclass
class _Occupant:
    unit: str
    name: str
    thread: str


@dataclass
class _Place:
    """A key: generations by unit, and the rows that are there, the last one on top."""

    generations: dict[str, int] = field(default_factory=dict)
    rows: list[_Occupant] = field(default_factory=list)


class UnitKeys:
    """Where units own rows: a row has its name within its unit, so that no other unit's changes decide on it.

    A record is [generations by unit, [unit, name] of the rows that are there, the last one on top].
    """

    def __init__(
        self,
        records: Mapping[str, Record],
        touched: Iterable[str],
        alive: Iterable[tuple[str, str]],
    ) -> None:
        owners = dict(alive)
        self._places: dict[str, _Place] = {}
        self.threads: dict[tuple[str, str], str] = {}
        """Threads of the rows that were there before, by name and unit."""
        for key in {*touched, *records}:
            if key in records:
                generations, rows = records[key]
            else:
                name = native(key)
                generations, rows = {}, [[owners[name], name]] if name in owners else []
            self._places[key] = _Place(dict(generations), [self._occupant(*row) for row in rows])
        self.displaced = 0

    def resolve(self, change: Change) -> Belongs | None:
        """Follow one change; None for a truncation."""
        if change.key is None:
            for place in self._places.values():
                place.rows.clear()
            return None
        origin = self._place(change.previous or change.key)
        here = self._place(change.key)
        row = origin.rows[-1] if origin.rows else None
        unit = None if change.gone else change.unit
        if change.same_unit and not change.gone:
            unit = row.unit if row else None
        if row is None:
            thread = f"+{change.seq}"
            return Belongs(change.seq, self._begin(change.key, unit, thread), None, thread)
        if change.previous is not None or unit != row.unit:
            origin.rows.pop()
        if unit != row.unit:
            return Belongs(change.seq, self._begin(change.key, unit, row.thread), row.name, row.thread)
        if change.previous is not None:
            generation = origin.generations.get(unit, 0)
            if row.name == native(change.previous, generation):
                origin.generations[unit] = generation + 1
            self.displaced += bool(here.rows)
            here.rows.append(row)
        return Belongs(change.seq, row.name, row.name, row.thread)

    def records(self) -> dict[str, Record | None]:
        """The records as they are now; None where there is nothing to remember."""
        return {key: self._recorded(key, place) for key, place in self._places.items()}

    @staticmethod
    def _recorded(key: str, place: _Place) -> Record | None:
        own = not place.rows or (len(place.rows) == 1 and place.rows[0].name == native(key))
        if own and not place.generations:
            return None
        return [place.generations, [[row.unit, row.name] for row in place.rows]]

    def _place(self, key: str) -> _Place:
        return self._places.setdefault(key, _Place())

    def _occupant(self, unit: str, name: str) -> _Occupant:
        thread = f"={len(unit)}:{unit}{name}"
        self.threads[name, unit] = thread
        return _Occupant(unit, name, thread)

    def _begin(self, key: str, unit: str | None, thread: str) -> str | None:
        """Let a row begin in a unit, under the name that the key has for it."""
        if unit is None:
            return None
        place = self._place(key)
        self.displaced += bool(place.rows)
        generation = place.generations.get(unit, 0)
        while any(row.unit == unit and row.name == native(key, generation) for row in place.rows):
            generation += 1
            place.generations[unit] = generation
        name = native(key, generation)
        place.rows.append(_Occupant(unit, name, thread))
        return name
