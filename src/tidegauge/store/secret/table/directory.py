"""The directory of a table: which blocks it has, and where its merges are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tidegauge.errors import StoreCorrupt

END: Final = 2**64
"""The end of all hashes."""


class Name(NamedTuple):
    """Where a block is.  `secret`: random, in hexadecimal; empty in a store without a key."""

    number: int
    secret: str
    rows: int


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

    def as_json(self) -> dict[str, Any]:
        """For the store."""
        return {
            "base": [[one.low, *one.name] for one in self.base],
            "overlay": [[one.round, one.at, *one.name] for one in self.overlay],
            "merged": [self.round, self.at],
        }

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Directory:
        """As it was stored."""
        base = [Based(low, Name(*name)) for low, *name in stored["base"]]
        overlay = [Laid(round_, at, Name(*name)) for round_, at, *name in stored["overlay"]]
        return cls(base, overlay, *stored["merged"])

    @property
    def names(self) -> list[Name]:
        """Every block."""
        return [*(one.name for one in self.base), *(one.name for one in self.overlay)]

    def is_merged(self, one: Laid) -> bool:
        """Whether the base has all rows of a block of the overlay."""
        return (one.round + 1, one.at) <= (self.round, self.at)

    def merged_since(self, one: Laid) -> list[tuple[int, int]]:
        """The hashes that were merged since a block of the overlay was written."""
        if one.round == self.round:
            return [(one.at, self.at)]
        return [(one.at, END), (0, self.at)]


def altered() -> StoreCorrupt:
    """The refusal of a store whose blocks are not those of its directory."""
    return StoreCorrupt(
        "the store is not as its gauge left it: rows of its secret state were altered, removed or put back "
        "from an older copy. Nothing was read or spent. Bring back the newest copy that tidegauge verify "
        "accepts."
    )
