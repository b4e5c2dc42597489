"""The first and the last time in files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidegauge.source.batch.workbench import scratch
from tidegauge.source.files.layout import instant_of
from tidegauge.source.files.notation import MACROS
from tidegauge.source.files.tabular import numbered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.source.files.notation import Notation
    from tidegauge.source.files.tabular import Tabular

_DISTINCT: Final = 5000
_FAR: Final = "253370764800000000"
"""The year 9999, which means that something has no end."""


@dataclass(frozen=True)
class Times:
    """Instants in microseconds: the first, the last, and all of them if they are few."""

    first: int | None = None
    last: int | None = None
    instants: tuple[int, ...] = ()


def all_times(files: Sequence[Tabular], column: str, notation: Notation, time_unit: str | None) -> Times:
    """Look at one column of all rows."""
    ends: list[int] = []
    distinct: set[int] = set()
    with scratch(MACROS) as engine:
        for file in files:
            found = instant_of(file, column, "c0", notation, time_unit)
            rows = f"SELECT CAST({found} AS BIGINT) AS micros FROM ({file.select([column])})"
            known = f"FROM ({rows}) WHERE in_calendar(micros) AND micros < {_FAR}"
            for block in numbered(file):
                engine.register("block", block)
                first_last = engine.execute(f"SELECT min(micros), max(micros) {known}").fetchall()[0]
                ends += [micros for micros in first_last if micros is not None]
                if len(distinct) <= _DISTINCT:
                    few = engine.execute(f"SELECT DISTINCT micros {known} LIMIT {_DISTINCT + 1}").fetchall()
                    distinct.update(micros for (micros,) in few)
    if not ends:
        return Times()
    return Times(min(ends), max(ends), tuple(sorted(distinct)) if len(distinct) <= _DISTINCT else ())
