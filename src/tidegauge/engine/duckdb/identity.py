"""The row that each change belongs to, found by the row's key in the order of the log.

A row has a name that it keeps.  A row that is inserted under a key gets the key as its name; if a row of that
name was renamed away, the next one gets the next generation of the name.  Only keys that a rename touched
have a record (docs/decisions/0013 says why).  All other changes belong to the row that has their key as its
name; they are not handled here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tidegauge.model.program import Record
    from tidegauge.model.schedule import Schedule

MARK: Final = "\x1f"
"""The first character of a name that is not just a key; keys that begin with it get it too."""


def native(key: str, generation: int = 0) -> str:
    """The name of a row that is inserted under this key."""
    return f"{MARK}{generation}{MARK}{key}" if generation or key.startswith(MARK) else key


class Change(NamedTuple):
    """The parts of a change that decide its row.  A key of None is a truncation."""

    seq: int
    time: int
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
    lineage: str
    """The same for all changes of one row, also where it goes from one unit to another."""


@dataclass
class _Stack:
    """Whose the changes at a key are: those of the row on top, else those of the key's own row."""

    generation: int = 0
    guests: list[str] = field(default_factory=list)
    """Rows that were renamed onto the key and exist, the last one on top."""
    renamed: str | None = None
    """The key's own row, where it came to the key by a rename in an earlier term; None: a row of the key's
    name."""
    term: int = -1
    """The term in which the last guest came; -1: there is none, or an earlier version did not record it."""

    def own(self, key: str) -> str:
        return native(key, self.generation) if self.renamed is None else self.renamed

    def record(self, *, renews: bool) -> Record | None:
        if not (self.generation or self.guests or self.renamed):
            return None
        found: Record = [self.generation, self.guests]
        if renews:
            found += [self.renamed, self.term if self.guests else -1]
        return found


def stored_names(key: str, record: Record) -> set[str]:
    """The names in a record of rows that are their own units: all rows that a change at the key can have."""
    stack = _Stack(*record)
    return {*stack.guests, stack.own(key)}


@dataclass
class RowTerms:
    """In which term the changes of rows take effect."""

    terms: Schedule | None
    """None: constraints never renew, and everything is in one term."""
    first: int
    """No change takes effect before this instant."""
    latest: dict[str, int]
    """When the last waiting change of a row takes effect; no later one does so before it."""

    def of(self, name: str, time: int) -> int:
        """The term of a change of this row; the instant at which a term begins is in the term."""
        if self.terms is None:
            return 0
        return self.terms.bin_at(max(time, self.first, self.latest.get(name, time)) + 1)

    def note(self, name: str, time: int) -> None:
        """Take in a change of this row."""
        self.latest[name] = max(time, self.latest.get(name, time))


class RowKeys:
    """Follows rows that are their own units.

    A record is [generation of the key's own row, rows that were renamed onto the key and exist, the last one
    on top].  A change at a key belongs to the row on top, else to the key's own row, whether it exists or
    not.

    Where constraints renew, which row a change belongs to must not depend on earlier terms.  So a row that
    was renamed onto a key becomes the key's own row with its first change in a later term.  A record then
    also has the key's own row, if it came by a rename, and the term of the last guest.
    """

    def __init__(self, records: Mapping[str, Record], alive: Iterable[str], clock: RowTerms) -> None:
        self._known = {
            key: _Stack(record[0], list(record[1]), *record[2:]) for key, record in records.items()
        }
        self._alive, self._clock = set(alive), clock
        self.displaced = 0

    def resolve(self, change: Change) -> Belongs | None:
        """Follow one change; None for a truncation."""
        if change.key is None:
            for key, stack in self._known.items():
                self._settle(key, change.time)
                stack.guests.clear()
            self._alive.clear()
            return None
        origin = change.previous or change.key
        self._settle(origin, change.time)
        name = self._at(origin)
        self._clock.note(name, change.time)
        here = self._stack(change.key)
        if change.previous is not None:
            self._leave(change.previous)
            self.displaced += self._at(change.key) in self._alive
            here.guests.append(name)
            here.term = self._clock.of(name, change.time)
        if change.gone:
            self._alive.discard(name)
            if here.guests:
                here.guests.pop()
        else:
            self._alive.add(name)
        return Belongs(change.seq, name, name, name)

    def records(self) -> dict[str, Record | None]:
        """The records as they are now; None where there is nothing to remember."""
        renews = self._clock.terms is not None
        return {key: stack.record(renews=renews) for key, stack in self._known.items()}

    def _stack(self, key: str) -> _Stack:
        return self._known.setdefault(key, _Stack())

    def _at(self, key: str) -> str:
        stack = self._stack(key)
        return stack.guests[-1] if stack.guests else stack.own(key)

    def _leave(self, key: str) -> None:
        stack = self._stack(key)
        if stack.guests:
            stack.guests.pop()
        else:
            stack.generation += 1
            stack.renamed = None

    def _settle(self, key: str, time: int) -> None:
        """Make the row at a key its own row, if it came in an earlier term.  [T15]

        A row that exists and was displaced at the key remains: the changes after the guest are its changes.
        """
        stack = self._stack(key)
        if self._clock.terms is None or len(stack.guests) != 1 or stack.own(key) in self._alive:
            return
        (guest,) = stack.guests
        if self._clock.of(guest, time) > stack.term:
            stack.guests, stack.renamed = [], guest


@dataclass
class _RowAtKey:
    unit: str
    name: str
    lineage: str


@dataclass
class _KeyState:
    """Generations of a key by unit, and the rows at the key, the last one on top."""

    generations: dict[str, int] = field(default_factory=dict)
    rows: list[_RowAtKey] = field(default_factory=list)


class UnitKeys:
    """Follows rows that units own: names are unique within a unit, so that no other unit influences them.

    A record is [generations by unit, [unit, name] of the rows that are there, the last one on top].

    `renews`: where constraints renew, names decide which rows count in a new term, so a name must not depend
    on earlier terms.  A row whose key changes ends, and another one begins that has its new key as its name.
    """

    def __init__(
        self,
        records: Mapping[str, Record],
        touched: Iterable[str],
        alive: Iterable[tuple[str, str]],
        *,
        renews: bool = False,
    ) -> None:
        self._renews = renews
        owners = dict(alive)
        self._keys: dict[str, _KeyState] = {}
        self.lineages: dict[tuple[str, str], str] = {}
        """Lineages of the rows that existed before, by name and unit."""
        for key in {*touched, *records}:
            if key in records:
                generations, rows = records[key]
            else:
                name = native(key)
                generations, rows = {}, [[owners[name], name]] if name in owners else []
            self._keys[key] = _KeyState(dict(generations), [self._row_at_key(*row) for row in rows])
        self.displaced = 0

    def resolve(self, change: Change) -> Belongs | None:
        """Follow one change; None for a truncation."""
        if change.key is None:
            for key_state in self._keys.values():
                key_state.rows.clear()
            return None
        origin = self._key(change.previous or change.key)
        here = self._key(change.key)
        row = origin.rows[-1] if origin.rows else None
        unit = None if change.gone else change.unit
        if change.same_unit and not change.gone:
            unit = row.unit if row else None
        if row is None:
            lineage = f"+{change.seq}"
            return Belongs(change.seq, self._begin(change.key, unit, lineage), None, lineage)
        if change.previous is not None or unit != row.unit:
            origin.rows.pop()
        if unit != row.unit or (self._renews and change.previous is not None):
            return Belongs(change.seq, self._begin(change.key, unit, row.lineage), row.name, row.lineage)
        if change.previous is not None:
            generation = origin.generations.get(unit, 0)
            if row.name == native(change.previous, generation):
                origin.generations[unit] = generation + 1
            self.displaced += bool(here.rows)
            here.rows.append(row)
        return Belongs(change.seq, row.name, row.name, row.lineage)

    def records(self) -> dict[str, Record | None]:
        """The records as they are now; None where there is nothing to remember."""
        return {key: self._recorded(key, key_state) for key, key_state in self._keys.items()}

    @staticmethod
    def _recorded(key: str, key_state: _KeyState) -> Record | None:
        own = not key_state.rows or (len(key_state.rows) == 1 and key_state.rows[0].name == native(key))
        if own and not key_state.generations:
            return None
        return [key_state.generations, [[row.unit, row.name] for row in key_state.rows]]

    def _key(self, key: str) -> _KeyState:
        return self._keys.setdefault(key, _KeyState())

    def _row_at_key(self, unit: str, name: str) -> _RowAtKey:
        lineage = f"={len(unit)}:{unit}{name}"
        self.lineages[name, unit] = lineage
        return _RowAtKey(unit, name, lineage)

    def _begin(self, key: str, unit: str | None, lineage: str) -> str | None:
        """Begin a row in a unit; returns the name that the key has for it."""
        if unit is None:
            return None
        key_state = self._key(key)
        self.displaced += bool(key_state.rows)
        generation = key_state.generations.get(unit, 0)  # if it renews: of an earlier version
        while any(row.unit == unit and row.name == native(key, generation) for row in key_state.rows):
            generation += 1
            if not self._renews:
                key_state.generations[unit] = generation
        name = native(key, generation)
        key_state.rows.append(_RowAtKey(unit, name, lineage))
        return name


def named_in_sql(key: str) -> str:
    """SQL: what `native` makes of a key without an owner."""
    mark = f"chr({ord(MARK)})"
    return f"CASE WHEN starts_with({key}, {mark}) THEN {mark} || '0' || {mark} || {key} ELSE {key} END"
