"""How far files were read: the position of a source of kind files.

A position is a list of marks.  A mark {"files": {name: rows}, "upto": time} covers the first `rows` rows of
each file whose time is not after `upto`; a row that no mark covers is still to be delivered.  If values did
not parse, the position is {"marks": [...], "unread": {column: [values, of]}}.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tidegauge.source.batch.position import position_of
from tidegauge.source.files.unread import Unread

if TYPE_CHECKING:
    from collections.abc import Mapping


class Mark(NamedTuple):
    """The first rows of each file whose time is not after an instant."""

    files: Mapping[str, int]
    upto: int


@dataclass(frozen=True)
class Progress:
    """A position: the marks, and the values that did not parse in all rows read so far, by column."""

    marks: tuple[Mark, ...] = ()
    unread: Mapping[str, Unread] | None = None

    @classmethod
    def parse(cls, position: str | None) -> Progress:
        """Read a stored position.  Raises SourceError if another kind of source wrote it."""
        if position is None:
            return cls()
        with position_of("a source of kind files"):
            stored = json.loads(position)
            marks, unread = (stored, {}) if isinstance(stored, list) else (stored["marks"], stored["unread"])
            return cls(
                tuple(
                    Mark({name: int(rows) for name, rows in mark["files"].items()}, int(mark["upto"]))
                    for mark in marks
                ),
                {name: Unread(int(values), int(of)) for name, (values, of) in unread.items()},
            )

    def __str__(self) -> str:
        marks = [mark._asdict() for mark in self.marks]
        unread = {name: [one.values, one.of] for name, one in (self.unread or {}).items() if one.values}
        return json.dumps({"marks": marks, "unread": unread} if unread else marks)
