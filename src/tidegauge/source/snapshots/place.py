"""How far a table was read: the position of a source of kind snapshots."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from tidegauge.source.batch.position import Position
from tidegauge.source.files.unread import Unread


@dataclass(frozen=True)
class Place(Position):
    """The image that was last delivered, its time, and the values that did not parse, by column."""

    SOURCE: ClassVar[str] = "a source of snapshots"

    generation: int
    time: int
    unread: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def __str__(self) -> str:
        stored = {"generation": self.generation, "time": self.time}
        return json.dumps(stored | ({"unread": self.unread} if self.unread else {}), separators=(",", ":"))

    @property
    def counts(self) -> dict[str, Unread]:
        """The values that did not parse, by column."""
        return {name: Unread(int(values), int(of)) for name, (values, of) in self.unread.items()}
