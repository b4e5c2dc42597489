"""Exact sums per release, component, bin and cell, from the tables of `PastViews`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.model.program import Total

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

_PLACE = "release, component, bin, cell"
_KINDS = ("accepted", "dropped")


def totals(
    db: duckdb.DuckDBPyConnection, scopes: int, names: Sequence[str]
) -> tuple[list[Total], list[Total]]:
    """The accepted sums, and the true sums less the accepted ones.  `names`: of the releases."""
    db.execute(f"CREATE OR REPLACE TEMP TABLE totals AS {_statement(scopes)}")
    accepted, dropped = (_fetched(db, kind, names) for kind in _KINDS)
    return accepted, dropped


def _statement(scopes: int) -> str:
    found = " UNION ALL ".join(
        f"""SELECT parts.release, component, places.own AS bin, cell, amount, accepted,
                   true_ - accepted AS dropped
            FROM net_{s} net JOIN parts_{s} parts USING (code)
            JOIN places ON places.release = parts.release AND places.bin = net.bin"""
        for s in range(scopes)
    )
    sums = ", ".join(f"sum({kind}::HUGEINT * amount)::HUGEINT AS {kind}" for kind in _KINDS)
    return f"SELECT {_PLACE}, {sums} FROM ({found}) GROUP BY {_PLACE}"


def _fetched(db: duckdb.DuckDBPyConnection, kind: str, names: Sequence[str]) -> list[Total]:
    """One kind of sums, as columns of 64-bit integers if all of them fit."""
    chosen = f"FROM totals WHERE {kind} <> 0 ORDER BY {_PLACE}"
    found = db.sql(f"SELECT {_PLACE}, TRY_CAST({kind} AS BIGINT) AS amount {chosen}").to_arrow_table()
    release, *place, amount = (found[name].to_pylist() for name in found.column_names)
    if found["amount"].null_count:
        amount = [int(one) for (one,) in db.execute(f"SELECT {kind} {chosen}").fetchall()]
    return list(map(Total, map(names.__getitem__, release), *place, amount))
