"""Stamped changes from the statements of a tick, for the programs that are not folded over arrays.

Here a view is how a contribution changes, so each row goes from 0 to a view.  The rows of a scope:

    0   a change of a unit: what the rows that count contribute, and the flows; with its ordinal
    1   what else is true at this instant, such as changes of rows that do not count: with the ordinal 0
    2   what else is accepted, such as the end of what a unit that leaves contributes: without an ordinal
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from tidegauge.engine.duckdb.past.bins import bins_of
from tidegauge.engine.duckdb.past.stamps import SCHEMA, bins_table
from tidegauge.engine.duckdb.views import BEGINNING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import duckdb

    from tidegauge.engine.duckdb.statements import Statements
    from tidegauge.model.program import Folded, Scope

_WHAT: Final = "release, component, cell"
_LARGE: Final = 2**62
"""Larger amounts become several rows of `views`, which has integers of 64 bits."""


class StatementStamps:
    """Makes the stamped changes of one history, fold by fold."""

    def __init__(self, db: duckdb.DuckDBPyConnection, sql: Statements, reached: int) -> None:
        """All changes have arrived, and none has been folded."""
        self._db, self._sql, self._program = db, sql, sql.program
        query = f"SELECT min(time) FROM waiting WHERE time <= {reached}"
        ((earliest,),) = db.execute(query).fetchall()
        self._ends, places = bins_of(self._program, earliest, reached)
        db.register("found", places)
        db.execute("CREATE OR REPLACE TEMP TABLE places AS FROM found")
        db.unregister("found")
        part = "STRUCT(release BIGINT, component BIGINT, cell BIGINT, amount HUGEINT)"
        db.execute(f"""
            CREATE OR REPLACE TEMP TABLE stamped_views (scope INTEGER, view INTEGER, parts {part}[])""")

    def parts(
        self, folds: Iterable[Folded], counts: Mapping[str, int], write: Callable[[pa.Table], None]
    ) -> Iterator[Folded]:
        """The results of the folds; `write` takes the changes of each.  `counts`: of the arrival."""
        for folded in folds:
            for table in self._changes():
                write(table)
            every = Counter(counts)
            every.update(folded.counts)
            yield replace(folded, counts=dict(every))
            counts = {}

    def _changes(self) -> Iterator[pa.Table]:
        """The changes of the last fold."""
        owned = self._program.max_rows is not None
        for s, scope in enumerate(self._program.scopes):
            if owned:
                self._db.execute(self._sql.change(s, scope, every_row=True))
            self._db.execute(_rows(s, scope, true="true_change" if owned else "change"))
            self._db.execute(f"""
                INSERT INTO stamped_views
                SELECT {s}, (SELECT count(*) FROM stamped_views WHERE scope = {s}) + row_number() OVER (),
                       parts
                FROM (SELECT DISTINCT parts FROM stamped_rows) fresh
                WHERE NOT EXISTS (FROM stamped_views
                                  WHERE scope = {s} AND stamped_views.parts = fresh.parts)""")
            found = self._db.sql(f"""
                SELECT unit, instant, ordinal, first, view, accepted
                FROM stamped_rows JOIN stamped_views USING (parts)
                WHERE scope = {s} ORDER BY unit, instant, kind""").to_arrow_table()
            yield self._table(s, found)

    def _table(self, s: int, found: pa.Table) -> pa.Table:
        instant = found["instant"].combine_chunks()
        units = found["unit"].combine_chunks().dictionary_encode()
        if isinstance(units, pa.ChunkedArray):
            units = units.combine_chunks()
        kinds = SCHEMA.field
        columns = {
            "scope": pa.array(np.full(found.num_rows, s, np.int32)),
            "unit": units,
            "time": instant.view(kinds("time").type),
            "ordinal": found["ordinal"].cast(pa.int32()),
            "first": found["first"].combine_chunks().view(kinds("first").type),
            "bin": pa.array(np.searchsorted(self._ends, instant.to_numpy()).astype(np.int32)),
            "was": pa.array(np.zeros(found.num_rows, np.int32)),
            "now": found["view"],
            "accepted": found["accepted"],
        }
        return pa.table(columns, schema=SCHEMA)

    def views(self) -> pa.Table:
        """What each view adds to the sums, once all changes are made."""
        many = f"(abs(amount) // {_LARGE})::BIGINT"
        pieces = f"list_resize([]::HUGEINT[], {many}, (sign(amount) * {_LARGE})::HUGEINT)"
        return self._db.sql(f"""
            SELECT scope, view, release::INTEGER AS release, component::INTEGER AS component, cell,
                   unnest(list_append({pieces}, amount % {_LARGE}))::BIGINT AS amount
            FROM (SELECT scope, view, unnest(parts, recursive := true) FROM stamped_views)
            ORDER BY ALL""").to_arrow_table()

    def bins(self) -> pa.Table:
        """The releases' own bins."""
        return bins_table(self._db)


def _rows(s: int, scope: Scope, *, true: str) -> str:
    """SQL of `stamped_rows`: unit, instant, kind, ordinal, first, accepted and the parts of the view."""
    accepts = "instant < leaves" if scope.retire else "inside"
    columns = f"unit, instant, {_WHAT}, amount"
    stocks = f"SELECT {columns} FROM {{}}_{s} WHERE instant > {BEGINNING}"
    flows = f"SELECT {columns} FROM flow_change_{s}"
    allowed = f"SELECT {columns} FROM accepted_flow_{s} WHERE most IS NULL OR ordinal <= most"
    sides = [
        f"SELECT 0 AS kind, ord AS ordinal, first, accepts AS accepted, {columns} FROM counted",
        f"SELECT 1, 0, instant, false, {columns} FROM (SELECT * FROM truly UNION ALL BY NAME "
        "SELECT * REPLACE (-amount AS amount) FROM counted)",
        f"SELECT 2, NULL, instant, true, {columns} FROM (SELECT * FROM allowed UNION ALL BY NAME "
        "SELECT * REPLACE (-amount AS amount) FROM counted WHERE accepts)",
    ]
    return f"""
        CREATE OR REPLACE TEMP TABLE stamped_rows AS
        WITH numbers AS (
            SELECT unit, instant, ord, first, coalesce({accepts}, false) AS accepts
            FROM numbered_{s} WHERE instant IS NOT NULL
        ), counted AS (
            SELECT * FROM ({stocks.format("change")} UNION ALL {flows} WHERE counts)
            JOIN numbers USING (unit, instant)
        ), truly AS (
            {stocks.format(true)} UNION ALL {flows}
        ), allowed AS (
            SELECT {columns} FROM accepted_{s} UNION ALL {allowed}
        ), netted AS (
            SELECT unit, instant, kind, any_value(ordinal) AS ordinal, any_value(first) AS first,
                   any_value(accepted) AS accepted, {_WHAT}, sum(amount)::HUGEINT AS amount
            FROM ({" UNION ALL ".join(sides)})
            GROUP BY unit, instant, kind, {_WHAT} HAVING sum(amount) <> 0
        )
        SELECT unit, instant, kind, any_value(ordinal) AS ordinal, any_value(first) AS first,
               any_value(accepted) AS accepted,
               list({{'release': release::BIGINT, 'component': component::BIGINT, 'cell': cell::BIGINT,
                      'amount': amount}} ORDER BY {_WHAT}) AS parts
        FROM netted GROUP BY unit, instant, kind"""
