"""The directory of a table: which blocks it has, and where its merges are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidegauge.errors import StoreCorrupt
from tidegauge.model.json import as_list, as_text, as_whole, lists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tidegauge.model.json import Json, JsonObject
    from tidegauge.store.secret.table.hashes import Hashes

END: Final = 2**64
"""The end of all hashes."""


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
    """A hash of the block as it is, in hexadecimal; empty in a store without a key.

    None: written by format 4, which could not erase a row in its place.
    """

    @classmethod
    def from_json(cls, stored: Sequence[Json]) -> Name:
        """As it was stored."""
        number, secret, rows, *seal = stored
        return cls(as_whole(number), as_text(secret), as_whole(rows), as_text(seal[0]) if seal else None)

    def as_json(self) -> list[Json]:
        """For the store."""
        return list(self if self.seal is not None else self[:3])


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


def altered() -> StoreCorrupt:
    """The refusal of a store whose blocks are not those of its directory."""
    return StoreCorrupt(
        "the store is not as its gauge left it: rows of its secret state were altered, removed or put back "
        "from an older copy. Nothing was read or spent. Bring back the newest copy that tidegauge verify "
        "accepts.",
        advice=None,
    )
