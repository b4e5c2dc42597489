"""The unit before and after each change, where units own rows.

A change of a row begins the row in its unit, or changes it there.  If another unit had the row, the row ends
in that one.  The unit before is that of the row's last change in the log: in this batch, among the waiting
changes, or in the state.  A change that no unit sees waits without a unit, so that the next fold counts it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.engine.spark.layout import ALIVE, HANDED, WITH_BEFORE, WITHOUT_BEFORE

if TYPE_CHECKING:
    from tidegauge.engine.spark.layout import Layout

STORED: Final = -2
"""The batch of rows of the state: before all others."""
LOG_ORDER: Final = "place, rank, seq"
_BEGINS, _ENDS, _UNSEEN = 1, 2, 3


def latest(fresh: str, waiting: str | None, state: str | None) -> str:
    """SQL: entry and unit of the rows that exist in the log, among those of new changes."""
    parts = ["SELECT CAST(NULL AS STRING) AS entry, CAST(NULL AS STRING) AS unit, TRUE AS alive, "
             "struct(0L AS place, 0L AS rank, 0L AS seq) AS at WHERE FALSE"]  # fmt: skip
    if waiting is not None:
        parts.append(f"SELECT entry, unit, flags & {ALIVE} <> 0, struct({LOG_ORDER}) FROM {waiting} "
                     "WHERE unit IS NOT NULL")  # fmt: skip
    if state is not None:
        parts.append(f"SELECT entry, unit, TRUE, struct({STORED}L AS place, 0L AS rank, 0L AS seq) "
                     f"FROM {state} WHERE entry IS NOT NULL")  # fmt: skip
    return f"""
        SELECT entry, unit FROM (
            SELECT entry, unit, max_by(alive, at) AS alive FROM ({" UNION ALL ".join(parts)})
            LEFT SEMI JOIN (SELECT DISTINCT entry FROM {fresh}) USING (entry) GROUP BY entry, unit
        ) WHERE alive"""


def resolved(layout: Layout, fresh: str, known: str) -> str:
    """SQL: what new changes are to units, as changes wait; `known`: the rows of `latest`."""
    carried = [*layout.views(), *layout.rest()]
    columns = ["time", "place", "rank", "seq", "flags", *carried]
    nothing = [f"CAST(NULL AS {layout.type_of(name)})" for name in carried]
    stored = ", ".join(["NULL", f"{STORED}L", "0L", "0L", f"{ALIVE}L", *nothing])
    informed = WITH_BEFORE | WITHOUT_BEFORE
    kinds = ", ".join(
        f"CASE WHEN {condition} THEN {kind} END"
        for kind, condition in (
            (_BEGINS, "alive AND unit IS NOT NULL"),
            (_ENDS, "owner IS NOT NULL AND NOT (alive AND unit <=> owner)"),
            (_UNSEEN, "CASE WHEN alive THEN unit IS NULL ELSE owner IS NULL END"),
        )
    )
    flags = f"""CASE kind
        WHEN {_BEGINS} THEN CASE WHEN owner <> unit THEN flags & {~informed}L ELSE flags END
        WHEN {_ENDS} THEN (flags & {informed}L) + CASE WHEN alive THEN {HANDED}L ELSE 0L END
        ELSE flags END"""
    found = {
        "unit": f"CASE kind WHEN {_BEGINS} THEN unit WHEN {_ENDS} THEN owner END",
        "flags": flags,
        **{name: f"CASE WHEN kind = {_BEGINS} THEN {name} END" for name in carried},
    }
    listed = ", ".join(f"{found[name]} AS {name}" if name in found else name for name in layout.changes())
    return f"""
        SELECT {listed} FROM (
            SELECT *, explode(array_compact(array({kinds}))) AS kind FROM (
                SELECT *, lag(CASE WHEN alive THEN unit END) OVER (PARTITION BY entry ORDER BY {LOG_ORDER})
                    AS owner
                FROM (
                    SELECT entry, unit, {", ".join(columns)}, flags & {ALIVE} <> 0 AS alive FROM {fresh}
                    UNION ALL SELECT entry, unit, {stored}, TRUE FROM {known}
                )
            ) WHERE place > {STORED}
        )"""
