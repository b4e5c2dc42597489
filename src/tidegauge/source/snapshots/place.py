"""How far a table was read: the position of a source of kind snapshots."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from tidegauge.model.json import as_list, as_object, as_whole
from tidegauge.source.batch.position import Position
from tidegauge.source.files.unread import Unread

if TYPE_CHECKING:
    from tidegauge.model.json import JsonObject


@dataclass(frozen=True)
class Place(Position):
    """The image that was last delivered, its time, and the values that did not parse, by column."""

    SOURCE: ClassVar[str] = "a source of snapshots"

    generation: int
    time: int
    unread: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @classmethod
    def from_stored(cls, stored: JsonObject) -> Place:
        """The position with these fields; `unread` is there where a value did not parse."""
        unread = as_object(stored.get("unread", {})).items()
        return cls(
            generation=as_whole(stored["generation"]),
            time=as_whole(stored["time"]),
            unread={name: [as_whole(one) for one in as_list(counts)] for name, counts in unread},
        )

    def __str__(self) -> str:
        stored = {"generation": self.generation, "time": self.time}
        return json.dumps(stored | ({"unread": self.unread} if self.unread else {}), separators=(",", ":"))

    @property
    def counts(self) -> dict[str, Unread]:
        """The values that did not parse, by column."""
        return {name: Unread(int(values), int(of)) for name, (values, of) in self.unread.items()}
