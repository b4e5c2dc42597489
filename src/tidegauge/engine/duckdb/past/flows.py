"""What flows count, over arrays: a change is a pair of rows, the one before and the one after.

Rows with the same values in all columns that the flows of a scope name are of one kind; kind 0 is no row.
Every pair of kinds is looked up in a table: the number of what the flows count of it, 0 if nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tidegauge.engine.duckdb.render import amount, quote, render

if TYPE_CHECKING:
    import duckdb
    from numpy.typing import NDArray

    from tidegauge.engine.duckdb.past.enforce import Ints
    from tidegauge.engine.duckdb.views import Views
    from tidegauge.model.program import Scope

_MOST: Final = 1 << 10
"""So many kinds of rows have a million pairs."""


class TooManyPairs(Exception):
    """The rows differ too much for a table of all pairs: the statements of a tick are used instead."""


@dataclass(frozen=True)
class Flows:
    """What the flows of one scope count."""

    kinds: NDArray[np.int32]
    """Per distinct row: its kind."""
    numbers: NDArray[np.int32]
    """Per pair of kinds (before * all + after): the number of what counts, as a contribution has one."""

    def counted(self, picture: Ints | NDArray[np.int32], fresh: NDArray[np.bool_]) -> NDArray[np.int32]:
        """What counts of each version of a row; `fresh`: which are the first of their row."""
        after = self.kinds[picture].astype(np.int64)
        before = np.append([0], after[:-1])[: len(after)]
        before[fresh] = 0
        size = int(self.kinds.max(initial=0)) + 1
        found: NDArray[np.int32] = self.numbers[before * size + after]
        return found


def flows_of(db: duckdb.DuckDBPyConnection, views: Views, s: int, scope: Scope, first: int) -> Flows | None:
    """The flows of a scope, from `pictures`; adds what they count to `parts_s`, with numbers from `first` on.

    None: the scope has no flows.  Raises TooManyPairs.
    """
    flows = [flow for flow in views.flows if flow.name in scope.releases]
    if not flows:
        return None
    names = sorted({name for flow in flows for name in (*flow.query.before, *flow.query.after)})
    order = ", ".join(f"image.{quote(name)}" for name in names) or "0"
    image = "image" if views.image else "NULL::STRUCT(none INTEGER) AS image"  # no release uses a column
    db.execute(f"""
        CREATE OR REPLACE TEMP TABLE kinds AS
        SELECT number, {image}, CASE WHEN number > 0 THEN dense_rank() OVER (ORDER BY number > 0, {order}) - 1
               ELSE 0 END::INTEGER AS kind
        FROM pictures""")
    kinds = db.sql("SELECT kind FROM kinds ORDER BY number").to_arrow_table()["kind"].to_numpy()
    size = int(kinds.max(initial=0)) + 1
    if size > _MOST:
        raise TooManyPairs
    db.execute(f"""
        CREATE OR REPLACE TEMP TABLE pairs_of_rows AS
        WITH rows AS (
            SELECT kind, CASE WHEN kind > 0 THEN any_value(image) END AS image FROM kinds GROUP BY kind
        )
        SELECT old.kind::BIGINT * {size} + new.kind AS pair, old.image AS "before", new.image AS "after",
               old.kind = 0 OR new.kind = 0 AS whole
        FROM rows old, rows new WHERE old.kind <> new.kind""")
    hits = []
    for flow in flows:
        query, number = flow.query, views.numbers[flow.name]
        differ = [
            f'"before".{quote(name)} IS DISTINCT FROM "after".{quote(name)}' for name in query.watched or ()
        ]
        cell = f"TRY(CAST({render(query.cell)} AS BIGINT))"
        hits += [
            f"""SELECT pair, {number}::BIGINT AS release, {j}::BIGINT AS component, {cell} AS cell,
                       {amount(part)} AS amount
                FROM pairs_of_rows WHERE ({" OR ".join(["whole", *differ])}) AND {cell} IS NOT NULL"""
            for j, part in enumerate(query.components)
        ]
    db.execute(f"""
        CREATE OR REPLACE TEMP TABLE counted_pairs AS
        SELECT pair, parts, ({first - 1} + dense_rank() OVER (ORDER BY parts))::BIGINT AS code FROM (
            SELECT pair, list_sort(list({{'release': release, 'component': component, 'cell': cell,
                                          'amount': amount}})) AS parts
            FROM ({" UNION ALL ".join(hits)}) WHERE amount <> 0 GROUP BY pair)""")
    db.execute(f"""
        INSERT INTO parts_{s} BY NAME
        SELECT code, one.release, one.component, one.cell, one.amount
        FROM (SELECT code, unnest(any_value(parts)) AS one FROM counted_pairs GROUP BY code)""")
    numbers = np.zeros(size * size, np.int32)
    found = db.sql("SELECT pair, code FROM counted_pairs").to_arrow_table()
    numbers[found["pair"].to_numpy()] = found["code"].to_numpy()
    return Flows(kinds.astype(np.int32), numbers)
