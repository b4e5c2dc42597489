"""Whose a change is, in plain Python: which row of which unit, through renames and changes of its unit.

It shares no code with the engine.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegauge.model.schedule import Schedule

Row = dict[str, Any]
Mutation = tuple[int, str | None, str | None, Row | None, str | None, tuple[str, ...]]
"""Time, key (None: the table was emptied), unit, new row, the key before a rename, what was left out."""


@dataclass(eq=False)
class Held:
    """A row as one unit has it; where the unit is the row, the row."""

    unit: str
    row: Row | None = None
    """Its latest version in the log."""
    name: str = ""
    """By which the rows of a unit are ordered when a term begins: the key, or its next generation."""
    latest: int | None = None
    """When its latest change takes effect."""
    came: int = 0
    """The term in which it last came to a key by a rename."""


class Became(NamedTuple):
    """A row of a unit, and what a change makes of it."""

    held: Held
    row: Row | None


class Identity:
    """Whose a change is, where the unit is the row.

    It is of the row that came to the key by a rename and is still there, else of the key's own row.  Where
    constraints renew (`terms`), a row that came in an earlier term is the key's own row from its first change
    in a later one on, unless the row that was it still exists.
    """

    def __init__(self, terms: Schedule | None = None) -> None:
        self.terms = terms
        self.own: dict[str, Held] = {}
        self.guests: dict[str, list[Held]] = defaultdict(list)
        self.everyone: list[Held] = []

    def fresh(self, unit: str | None = None) -> Held:
        """A new row."""
        self.everyone.append(Held(unit or f"row {len(self.everyone)}"))
        return self.everyone[-1]

    def at(self, key: str) -> Held:
        """The row at a key."""
        if self.guests[key]:
            return self.guests[key][-1]
        if key not in self.own:
            self.own[key] = self.fresh()
        return self.own[key]

    def term(self, held: Held, at: int) -> int:
        """The term in which a change of a row takes effect: not before the row's earlier changes."""
        assert self.terms is not None
        at = at if held.latest is None else max(at, held.latest)
        term = 0
        while self.terms.bin_end(term) <= at:
            term += 1
        return term

    def settle(self, key: str, at: int) -> None:
        """Let a row be its key's own one, if it came there in an earlier term."""
        guests, own = self.guests[key], self.own.get(key)
        if self.terms is None or len(guests) != 1 or (own is not None and own.row is not None):
            return
        if guests[0].came < self.term(guests[0], at):
            self.own[key] = guests.pop()

    def emptied(self, at: int) -> list[Became]:
        """The rows that end when the table is emptied."""
        for key in list(self.guests):
            self.settle(key, at)
        self.guests.clear()
        return [Became(held, None) for held in self.everyone if held.row is not None]

    def change(self, mutation: Mutation, at: int) -> list[Became]:
        """The rows that a change is of, and what they become; `at`: its time, if it is not late."""
        _, key, _, row, previous, kept = mutation
        assert key is not None
        self.settle(previous or key, at)
        held = self.at(previous or key)
        if self.terms is not None:
            held.latest, term = max(at, at if held.latest is None else held.latest), self.term(held, at)
            held.came = held.came if previous is None else term
        if previous is not None:
            if self.guests[previous]:
                self.guests[previous].pop()
            else:
                del self.own[previous]
            self.guests[key].append(held)
        if row is None and self.guests[key]:
            self.guests[key].pop()
        return [Became(held, row and complete(row, held.row, kept))]


class OwnedIdentity(Identity):
    """Where units have several rows.

    A row ends in one unit and begins in another, where it is the one that the unit has at the key.
    `renews`: so does a row whose key changes.
    """

    def __init__(self, owner: str | None, *, renews: bool = False) -> None:
        super().__init__()
        self.owner, self.renews = owner, renews
        self.places: dict[str, list[Held]] = defaultdict(list)
        self.named: dict[tuple[str, str], Held] = {}
        self.begun: dict[tuple[str, str], int] = defaultdict(int)

    def emptied(self, at: int) -> list[Became]:
        """The rows that end when the table is emptied."""
        self.places.clear()
        return super().emptied(at)

    def change(self, mutation: Mutation, at: int) -> list[Became]:  # noqa: ARG002
        """The rows that a change is of, and what they become."""
        _, key, unit, row, previous, kept = mutation
        assert key is not None
        place = self.places[previous or key]
        was = place.pop() if place else None
        if self.owner in kept:
            unit = was.unit if was else None
        if row is not None:
            row = complete(row, was.row if was else None, kept)
        if row is None or unit is None:
            return [Became(was, None)] if was else []
        if was is not None and was.unit == unit and not (self.renews and previous):
            if previous is not None and self.named.get((unit, previous)) is was:
                del self.named[unit, previous]
            self.places[key].append(was)
            return [Became(was, row)]
        held = self._of_now(unit, key) if self.renews else self.named.get((unit, key))
        if held is None or held in self.places[key]:
            held = self.named[unit, key] = self.fresh(unit)
            generation = self.begun[unit, key]
            held.name = f"\x1f{generation}\x1f{key}" if generation else key
            self.begun[unit, key] += 1
        self.places[key].append(held)
        return [*([Became(was, None)] if was else []), Became(held, row)]

    def _of_now(self, unit: str, key: str) -> Held:
        """The first of a unit's names for a key that no row at the key has."""
        taken = {held.name for held in self.places[key] if held.unit == unit}
        names = (key if not n else f"\x1f{n}\x1f{key}" for n in count())
        name = next(one for one in names if one not in taken)
        if (unit, name) not in self.named:
            self.named[unit, name] = self.fresh(unit)
            self.named[unit, name].name = name
        return self.named[unit, name]


def complete(
    row: Mapping[str, object], was: Mapping[str, object] | None, kept: tuple[str, ...]
) -> dict[str, object]:
    """A new row with the values that were left out."""
    return {name: (was or {}).get(name) if name in kept else value for name, value in row.items()}


def renamed(mutation: Mutation) -> Mutation:
    """A change in which no key is renamed to itself."""
    return (*mutation[:4], None, mutation[5]) if mutation[4] == mutation[1] else mutation
