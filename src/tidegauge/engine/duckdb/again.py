"""Rows of the state, delivered once more: the first changes of releases that were added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.engine.duckdb.render import quote

if TYPE_CHECKING:
    from collections.abc import Collection

    from tidegauge.engine.duckdb.views import Views

AGAIN: Final = -1
"""Rows that are delivered once more have numbers below this one: before all changes."""
_EARLIEST: Final = -(2**62)
"""Their time; they take effect right after the watermark."""


def rows_again(sql: Views, columns: Collection[str], shape: str) -> str:
    """SQL: every row of `recalled` as a change that changes nothing, in the order of the names of rows.

    `columns`: those of a waiting row; `shape`: its type.  Every row has the digest that is stored, so no flow
    sees a change.  No release that has begun sees one either, because the row contributes what it did.  A
    release that begins has no contribution of the row yet, so this is the row's first change there.
    """
    unit = "entry" if sql.program.max_rows is None else "unit"
    nothing = f"CAST(row({', '.join('NULL' for _ in columns) or 'true'}) AS {shape})"
    fields = ", ".join(f"{quote(name)} := image.{quote(name)}" for name in columns)
    after = f"CASE WHEN image IS NULL THEN {nothing} ELSE struct_pack({fields}) END" if fields else nothing
    image = f", {sql.from_state('image')}" if fields else ""
    return f"""
        INSERT INTO waiting BY NAME
        SELECT {AGAIN} - row_number() OVER (ORDER BY entry DESC, unit DESC) AS seq, {_EARLIEST} AS time,
               entry, unit, {after} AS "after", digest, false AS informed
        FROM (SELECT entry, {unit} AS unit, digest{image} FROM recalled)"""
