"""The directory of a table: which blocks it has, and where its merges are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidegauge.errors import StoreCorrupt
from tidegauge.model.json import as_list, as_text, as_whole, lists

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from tidegauge.model.json import Json, JsonObject
    from tidegauge.store.secret.table.hashes import Hashes

END: Final = 2**64
"""The end of all hashes."""
EACH: Final = 2**20
"""A page has the number of its block, times this one, and its own."""


class Range(NamedTuple):
    """From `low` on, up to `high`."""

    low: int
    high: int


class Name(NamedTuple):
    """Where a block is."""

    number: int
    secret: str
    """Random, in hexadecimal; empty in a store without a key."""
    rows: int
    """As many as were written; some may have been erased since."""
    seal: str | None = None
    """A hash of the block as it is, in hexadecimal.  None in format 4; empty in some older stores without a
    key."""
    pages: int = 0
    """As many as it has; 0 up to format 5, which did not keep pages apart."""

    @classmethod
    def from_json(cls, stored: Sequence[Json]) -> Name:
        """As it was stored."""
        number, secret, rows, *more = stored
        seal = as_text(more[0]) if more else None
        return cls(as_whole(number), as_text(secret), as_whole(rows), seal, *map(as_whole, more[1:]))

    def as_json(self) -> list[Json]:
        """For the store."""
        return list(self)


class Based(NamedTuple):
    """A block of the base: the rows from the hash `low` on, up to the next block's."""

    low: int
    name: Name


class Laid(NamedTuple):
    """A block of the overlay, and where the merges were when it was written."""

    round: int
    at: int
    name: Name


@dataclass
class Directory:
    """The blocks of a table, and where the merges are."""

    base: list[Based]
    overlay: list[Laid]
    """The oldest first; their numbers ascend."""
    round: int = 0
    at: int = 0
    """The hash from which the next merge begins."""

    def as_json(self) -> JsonObject:
        """For the store."""
        return {
            "base": [[one.low, *one.name.as_json()] for one in self.base],
            "overlay": [[one.round, one.at, *one.name.as_json()] for one in self.overlay],
            "merged": [self.round, self.at],
        }

    @classmethod
    def from_json(cls, stored: JsonObject) -> Directory:
        """As it was stored."""
        base = [Based(as_whole(one[0]), Name.from_json(one[1:])) for one in lists(stored["base"])]
        overlay = [
            Laid(as_whole(one[0]), as_whole(one[1]), Name.from_json(one[2:]))
            for one in lists(stored["overlay"])
        ]
        round_, at = as_list(stored["merged"])
        return cls(base, overlay, as_whole(round_), as_whole(at))

    @property
    def names(self) -> list[Name]:
        """Every block."""
        return [*(one.name for one in self.base), *(one.name for one in self.overlay)]

    def is_merged(self, one: Laid) -> bool:
        """Whether the base has all rows of a block of the overlay."""
        return (one.round + 1, one.at) <= (self.round, self.at)

    def was_merged(self, one: Laid, hashes: Hashes) -> NDArray[np.bool_]:
        """For each of these hashes, whether it was merged since a block of the overlay was written."""
        reached, since = hashes < np.uint64(self.at), hashes >= np.uint64(one.at)
        return reached & since if one.round == self.round else reached | since


def require_blocks(db: sqlite3.Connection, names: Iterable[Name], *, old: bool) -> None:
    """Raise StoreCorrupt where other blocks than these are there; their contents are not read.

    `old`: the store's format is 4 or 5.
    """
    names = sorted(names, key=lambda name: name.number)
    if old:
        there = db.execute("SELECT number FROM blocks ORDER BY number")
        if [number for (number,) in there] != [name.number for name in names]:
            raise altered()
        return
    at = 0
    for name in names:
        first, last = name.number * EACH, name.number * EACH + name.pages - 1
        if (_page(db, at), _page(db, last)) != (first, last):
            raise altered()
        at = last + 1
    if _page(db, at) is not None:
        raise altered()


def _page(db: sqlite3.Connection, at: int) -> int | None:
    """The number of the first page from this number on."""
    row = db.execute("SELECT number FROM pages WHERE number >= ? ORDER BY number LIMIT 1", (at,)).fetchone()
    return None if row is None else int(row[0])


def altered() -> StoreCorrupt:
    """The refusal of a store whose blocks are not those of its directory."""
    return StoreCorrupt(
        "the store is not as its gauge left it: rows of its secret state were altered, removed or put back "
        "from an older copy. Nothing was read or spent. Bring back the newest copy that tidegauge verify "
        "accepts.",
        advice=None,
    )
