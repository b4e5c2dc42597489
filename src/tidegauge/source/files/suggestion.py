"""What `init` understood of a file, and what it is unsure about."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegauge.source.files.notation import Notation
from tidegauge.source.files.times import Times

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegauge.source.files.tabular import Tabular


class Shape(enum.Enum):
    """What a row of the file is."""

    CHANGES = "one row per change"
    VERSIONS = "one row per version, with the time from and to which it is valid"
    """Or with the time from which it is valid, and a mark on the current one."""
    PICTURES = "the whole table, written down on several dates"
    TABLE = "one row per row of the table, without a time"


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """The keys of a [source] as far as they can be guessed; None where nothing was found."""

    file: Tabular
    shape: Shape
    notation: Notation = field(default_factory=Notation)
    time: str | None = None
    time_unit: str | None = None
    key: str | None = None
    unit: str | None = None
    max_rows: int = 3
    op: str | None = None
    before: str | None = None
    after: str | None = None
    valid_from: str | None = None
    valid_to: str | None = None
    inclusive: bool = False
    current: str | None = None
    deleted: str | None = None
    every: str | None = None
    zoned: bool = False
    """Whether every time has an offset, or counts from 1970."""
    changes: int = 4
    """How many changes 99 of 100 units have at most, rounded up."""
    types: Mapping[str, str] = field(default_factory=dict)
    """Text column without its affix -> the type of all its values in the first rows."""
    numbers: tuple[str, ...] = ()
    """Columns with numbers."""
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Text column -> its values in the first rows, if they are few."""
    times: Times = field(default_factory=Times)
    """The first and the last time in all files."""
    unsure: tuple[str, ...] = ()
    """Decisions that the operator should check, one sentence each, without data."""
