"""Stamped changes: written by the fold of a history, folded again by a plain GROUP BY."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb
import numpy as np
import pyarrow as pa

from tidegauge.engine.duckdb.past.totals import totals
from tidegauge.engine.duckdb.views import arrow_schema
from tidegauge.model.program import Folded
from tidegauge.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tidegauge.engine.duckdb.past.enforce import Flags, Ints
    from tidegauge.model.engine import StateLayout
    from tidegauge.model.program import Program, Total
    from tidegauge.model.stamp import Stamped

_TIME: Final = pa.timestamp("us", tz="UTC")
SCHEMA: Final = pa.schema(
    {
        "scope": pa.int32(),
        "unit": pa.dictionary(pa.int32(), pa.string()),
        "time": _TIME,
        "ordinal": pa.int32(),
        "first": _TIME,
        "bin": pa.int32(),
        "was": pa.int32(),
        "now": pa.int32(),
        "accepted": pa.bool_(),
    }
)
"""The columns of stamped changes."""
_DENSE: Final = 20
"""Up to 2^20 combinations of bin and contribution are counted in an array, not in a hash table."""


_SUMMED: Final = ("scope", "ordinal", "bin", "was", "now", "accepted")
"""The columns that sums are computed from."""
NO_CHANGE: Final = -1
"""The ordinal, before it is written as null, of what the constraint does: it is no change of the log."""
NOT_COUNTED: Final = 0
"""The ordinal of a change of the log that is true, free of charge and not accepted by itself."""


@dataclass(frozen=True)
class Stamps:
    """Rows of the stamped changes of one scope: the true sums are of those that have an ordinal."""

    key: NDArray[Any]
    time: Ints
    ordinal: Ints
    first: Ints
    bin: NDArray[Any]
    was: NDArray[Any]
    now: NDArray[Any]
    accepted: Flags

    @classmethod
    def joined(cls, *some: Stamps) -> Stamps:
        """All of them."""
        return cls(*(np.concatenate([getattr(one, each.name) for one in some]) for each in fields(cls)))

    @classmethod
    def like(
        cls, key: Any, time: Ints, bins: Any, was: Any, now: Any, *, ordinal: int, first: Ints | None = None
    ) -> Stamps:
        """Rows with one ordinal: accepted if they are no changes; `first`: their own time by default."""
        count = len(time)
        own = time if first is None else first
        accepted = np.full(count, ordinal == NO_CHANGE)
        return cls(key, time, np.full(count, ordinal), own, bins, was, now, accepted)

    def take(self, places: Any) -> Stamps:
        """Some of them."""
        return Stamps(*(getattr(self, each.name)[places] for each in fields(self)))

    def with_flows(self, flow: NDArray[np.int32] | None, accepted: Flags) -> Stamps:
        """These changes, and a row of its own for what flows count of each: from 0 to its number.

        `flow`: these numbers, 0 where they count nothing; `accepted`: whether what they count is accepted.
        """
        if flow is None:
            return self
        some = np.flatnonzero(flow)
        counted = replace(
            self.take(some), was=np.zeros(len(some), np.int32), now=flow[some], accepted=accepted[some]
        )
        return Stamps.joined(self.take(self.was != self.now), counted)


def stamped(s: int, names: pa.Array, found: Stamps | None) -> pa.Table:
    """The changes of the units of a part in scope s.  `names`: of the keys of the part."""
    assert found is not None
    count = len(found.key)
    columns = {
        "scope": pa.array(np.full(count, s, np.int32)),
        "unit": pa.DictionaryArray.from_arrays(pa.array(found.key.astype(np.int32)), names),
        "time": pa.array(found.time).view(_TIME),
        "ordinal": pa.array(found.ordinal.astype(np.int32), mask=found.ordinal == NO_CHANGE),
        "first": pa.array(found.first).view(_TIME),
        "bin": pa.array(found.bin.astype(np.int32)),
        "was": pa.array(found.was.astype(np.int32)),
        "now": pa.array(found.now.astype(np.int32)),
        "accepted": pa.array(found.accepted),
    }
    return pa.table(columns, schema=SCHEMA)


def views_table(db: duckdb.DuckDBPyConnection, scopes: int) -> pa.Table:
    """What each contribution adds to the sums, from the tables of a fold."""
    found = " UNION ALL ".join(
        f"SELECT {s}::INTEGER AS scope, code::INTEGER AS view, release::INTEGER AS release, "
        f"component::INTEGER AS component, cell::BIGINT AS cell, amount::BIGINT AS amount FROM parts_{s}"
        for s in range(scopes)
    )
    return db.sql(f"SELECT * FROM ({found}) ORDER BY ALL").to_arrow_table()


def bins_table(db: duckdb.DuckDBPyConnection) -> pa.Table:
    """The releases' own bins, from the tables of a fold."""
    return db.sql(
        """SELECT bin::INTEGER AS bin, release::INTEGER AS release, own::BIGINT AS number
           FROM places ORDER BY ALL"""
    ).to_arrow_table()


class StampedFold:
    """Folds stamped changes of one program."""

    def __init__(self, program: Program, layout: StateLayout) -> None:
        self._program, self._layout = program, layout

    def fold(self, found: Stamped) -> Iterator[Folded]:
        """The result of the history; the last part has the sums and counts of all."""
        entries, units, used = (
            arrow_schema(columns) for columns in (self._layout.entries, self._layout.units, self._layout.used)
        )
        gone = entries.empty_table().select([name for name in ("entry", "unit") if name in entries.names])

        def folded(part: tuple[pa.Table, pa.Table, pa.Table]) -> Folded:
            rows, counters, clips = part
            return Folded(
                totals=[],
                entries=rows.cast(entries),
                gone=gone,
                units=counters.cast(units),
                used=clips.cast(used),
                counts={},
                dropped=[],
            )

        with ThreadPoolExecutor(2) as pool:  # the state is read and handed over while sums are computed
            summed = pool.submit(self._sums, found)
            parts = found.parts()
            ahead = pool.submit(next, parts, None)
            last = None
            while (part := ahead.result()) is not None:
                ahead = pool.submit(next, parts, None)
                if last is not None:
                    yield last
                last = folded(part)
            assert last is not None
            accepted, dropped = summed.result()
            found.intact()
            yield replace(last, totals=accepted, dropped=dropped, counts=dict(found.counts))

    def _sums(self, found: Stamped) -> tuple[list[Total], list[Total]]:
        """The accepted sums, and the true sums less the accepted ones."""
        scopes = range(len(self._program.scopes))
        with ScratchFolder() as spill, duckdb.connect(config=_settings(spill.name)) as db:
            db.execute("SET enable_progress_bar = false")
            db.execute(f"SET perfect_ht_threshold = {_DENSE}")
            db.register("views", found.views)
            db.register("bins", found.bins)
            if isinstance(found.changes, Path):
                changes = db.read_parquet(_pattern(str(found.changes)), hive_partitioning=False)
                changes.create_view("changes")
            db.execute("CREATE TEMP TABLE places AS SELECT release, bin, number AS own FROM bins")
            for s in scopes:
                db.execute(f"""
                    CREATE TEMP TABLE parts_{s} AS SELECT view AS code, release, component, cell, amount
                    FROM views WHERE scope = {s}""")
                if not isinstance(found.changes, Path):
                    db.register("changes", found.changes(_SUMMED))
                db.execute(_net(s, alone=len(scopes) == 1))
            db.execute("RESET perfect_ht_threshold")  # few numbers remain, and an array is filled with zeros
            return totals(db, len(scopes), [release.name for release in self._program.releases])


def _net(s: int, *, alone: bool) -> str:
    """SQL of `net_s`, as PastViews has it, in one scan.  `alone`: all changes are of this scope."""
    mine = "" if alone else f"WHERE scope = {s}"
    sign = "1 - 2 * grouping(now)"
    return f"""
        CREATE TEMP TABLE net_{s} AS
        SELECT bin, code, sum(accepted) AS accepted, sum(true_) AS true_ FROM (
            SELECT bin, CASE WHEN grouping(now) = 0 THEN now ELSE was END AS code,
                   ({sign}) * count(*) FILTER (accepted) AS accepted, ({sign}) * count(ordinal) AS true_
            FROM changes {mine} GROUP BY GROUPING SETS ((bin, now), (bin, was))
        ) WHERE code <> 0
        GROUP BY bin, code HAVING sum(accepted) <> 0 OR sum(true_) <> 0"""


def _settings(spill: str) -> dict[str, str | bool | int | float | list[str]]:
    return {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "preserve_insertion_order": "false",
        "temp_directory": spill,
    }


def _pattern(path: str) -> str:
    """A pattern that matches this path and nothing else."""
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in path)
