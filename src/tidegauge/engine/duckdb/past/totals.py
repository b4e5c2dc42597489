"""Exact sums per release, component, bin and cell, from the tables of `PastViews`."""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING, Any, Final

import duckdb

from tidegauge.model.program import Total

if TYPE_CHECKING:
    from collections.abc import Sequence

_PLACE: Final = "release, component, bin, cell"


def totals(
    db: duckdb.DuckDBPyConnection, scopes: int, names: Sequence[str]
) -> tuple[list[Total], list[Total]]:
    """The accepted sums, and the true sums less the accepted ones.  `names`: of the releases."""
    columns: Sequence[Sequence[Any]]
    try:  # numbers of 64 bits, whose overflow is an error, are much faster
        found = db.sql(_statement(scopes, "BIGINT")).to_arrow_table()
        columns = [column.to_pylist() for column in found.columns]
    except (duckdb.ConversionException, duckdb.OutOfRangeException):
        rows = db.execute(_statement(scopes, "HUGEINT")).fetchall()
        columns = list(zip(*rows, strict=True))
    release, component, bin_, cell, *sums = columns
    place = (list(map(names.__getitem__, release)), component, bin_, cell)
    accepted, dropped = (list(map(Total, *(compress(one, some) for one in (*place, some)))) for some in sums)
    return accepted, dropped


def _statement(scopes: int, kind: str) -> str:
    """SQL: both sums of every cell of which one is not 0; `kind`: the type in which they are computed."""
    found = " UNION ALL ".join(
        f"""SELECT parts.release, component, places.own AS bin, cell, amount::{kind} AS amount,
                   accepted::{kind} AS accepted, (true_ - accepted)::{kind} AS dropped
            FROM net_{s} net JOIN parts_{s} parts USING (code)
            JOIN places ON places.release = parts.release AND places.bin = net.bin"""
        for s in range(scopes)
    )
    sums = ", ".join(f"sum({one} * amount)::{kind} AS {one}" for one in ("accepted", "dropped"))
    return f"""
        SELECT * FROM (SELECT {_PLACE}, {sums} FROM ({found}) GROUP BY {_PLACE})
        WHERE accepted <> 0 OR dropped <> 0 ORDER BY {_PLACE}"""
