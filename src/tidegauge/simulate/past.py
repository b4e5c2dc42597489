"""The past: a source that knows its changes, read once into an engine for many constraints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegauge.engine.registry import open_grid
from tidegauge.errors import SourceError
from tidegauge.simulate.error import Sums, collect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidegauge.model.grid import Clip, GridEngine, GridSums, Timetable, Variant
    from tidegauge.model.program import Program, Release
    from tidegauge.model.source import OpenSource


@dataclass(frozen=True)
class Past:
    """A history that was read, and the times of its first and last change; None: it is empty."""

    engine: GridEngine
    first: int | None
    last: int | None


def read_past(
    source: OpenSource,
    program: Program,
    variants: Sequence[Sequence[Variant]],
    *,
    kind: str,
    now: int,
) -> Past:
    """Read everything that the source knows of the time up to `now`.

    Raises SourceError for a source that knows the present alone.
    """
    import pyarrow.compute as pc  # noqa: PLC0415  (slow to load)

    if not source.has_past:
        raise SourceError(
            "this source delivers the table as it is now and what changes from now on; it has no past. "
            "Give a changelog, a table of versions or a public sample with --history"
        )
    source.select(program.used)
    engine = open_grid(kind, program, source.columns, variants)
    first, last = None, None
    try:
        for batch in source.read(None, now):
            engine.add(batch.rows, now=now)
            if batch.rows.num_rows:
                times = pc.min_max(batch.rows["time"]).as_py()
                first = times["min"] if first is None else min(first, times["min"])
                last = times["max"] if last is None else max(last, times["max"])
    except BaseException:
        engine.close()
        raise
    return Past(engine, first, last)


@dataclass(frozen=True)
class ReleaseSums:
    """The exact sums of one release under one timetable."""

    truth: Sums
    allowed: Sums
    missing: Sums
    clipped: Sums


def sums_of(
    engine: GridEngine,
    timetables: Sequence[Timetable],
    *,
    reached: int,
    clips: Mapping[int, Clip] | None = None,
) -> list[list[ReleaseSums]]:
    """The sums of every timetable and release, of the bins that have ended by `reached`."""
    parts: list[list[GridSums]] = [[] for _ in timetables]
    for number, part in engine.sums(timetables, reached=reached, clips=clips):
        parts[number].append(part)
    return [
        [
            ReleaseSums(
                collect(one, n, _ended(one, reached), [part.truth for part in found]),
                collect(one, n, _ended(one, reached), [part.allowed for part in found]),
                collect(one, n, _ended(one, reached), [part.missing for part in found]),
                collect(one, n, _ended(one, reached), [part.clipped for part in found]),
            )
            for n, one in enumerate(timetable.releases)
        ]
        for timetable, found in zip(timetables, parts, strict=True)
    ]


def _ended(release: Release, reached: int) -> int:
    """How many bins have ended by then."""
    ended = release.schedule.bin_at(reached + 1)
    return ended if release.schedule.bins is None else min(ended, release.schedule.bins)
