"""SQL over the distinct rows of a history: what each contributes, and what sums of contributions amount to.

The tables:

    pictures    the distinct rows: number, the columns of a new version of a row, outside (for how many stocks
                of the program the row is outside of the declared cells)
    view_s      the distinct contributions in scope s: code (from 1), and cell and amounts of its stocks
    parts_s     the same, one row per component: code, release, component, cell, amount
    net_s       per bin and contribution: how often it was added less how often taken away, by accepted
                changes (`accepted`) and by all changes (`true`)
    places      per release and bin of the history: the release's own bin
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.engine.duckdb.past.distinct import can_encode
from tidegauge.engine.duckdb.render import quote, render

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegauge.engine.duckdb.views import Views
    from tidegauge.model.program import Program, Release, Scope


class PastViews:
    """The statements for one program over rows with these columns (name -> SQL type)."""

    def __init__(self, views: Views, columns: Mapping[str, str]) -> None:
        self._views, self._columns = views, columns

    def pictures(self) -> str:
        """SQL of `pictures`, from the table `combinations`: number, u0, u1, ..."""
        fields = [
            f"{quote(name)} := CAST(u{n} AS {kind})" for n, (name, kind) in enumerate(self._columns.items())
        ]
        shape = ", ".join(f"{quote(name)} {kind}" for name, kind in self._columns.items()) or "_ BOOLEAN"
        packed = f"struct_pack({', '.join(fields) or '_ := true'})"
        outside = " + ".join(
            f"coalesce({render(stock.query.outside)}, false)::INTEGER" for stock in self._views.stocks
        )
        return f"""
            CREATE OR REPLACE TEMP TABLE pictures AS
            SELECT number, {", ".join(self._views.computed())}, {outside or "0"} AS outside FROM (
                SELECT 0::BIGINT AS number, NULL::STRUCT({shape}) AS "after",
                       NULL::STRUCT({shape}) AS "before", NULL::BIGINT AS digest
                UNION ALL
                SELECT number, {packed}, NULL, NULL FROM combinations
            ) ORDER BY number"""

    def contributions(self, s: int, scope: Scope) -> str:
        """SQL of `view_s`; the same rows get the same codes again."""
        columns = self._seen(scope)
        order = f"ORDER BY {', '.join(columns)}" if columns else ""
        some = " OR ".join(f"{cell} IS NOT NULL" for cell in self._cells(scope)) or "false"
        return f"""
            CREATE OR REPLACE TEMP TABLE view_{s} AS
            SELECT row_number() OVER ({order}) AS code, * FROM (
                SELECT DISTINCT {", ".join(f"{value} AS {name}" for name, value in columns.items()) or "0"}
                FROM pictures WHERE number > 0 AND ({some}))"""

    def codes(self, s: int, scope: Scope) -> str:
        """SQL: the contribution of every distinct row, in the order of their numbers; 0: nothing."""
        same = " AND ".join(
            f"view_{s}.{name} IS NOT DISTINCT FROM {value}"
            for name, value in self._seen(scope, "one").items()
        )
        some = " OR ".join(f"one.{cell} IS NOT NULL" for cell in self._cells(scope)) or "false"
        return f"""
            SELECT CASE WHEN one.number > 0 AND ({some}) THEN code ELSE 0 END::INTEGER AS code
            FROM pictures one LEFT JOIN view_{s} ON {same or "false"} ORDER BY one.number"""

    def parts(self, s: int, scope: Scope) -> str:
        """SQL of `parts_s`."""
        found = [
            f"SELECT code, {self._views.numbers[stock.name]}::BIGINT AS release, {j}::BIGINT AS component, "
            f"{cell} AS cell, {value} AS amount FROM view_{s} WHERE {cell} IS NOT NULL AND {value} <> 0"
            for stock in self._stocks(scope)
            for cell, *values in [self._views.view(stock)]
            for j, value in enumerate(values)
        ]
        nothing = "SELECT 0::BIGINT AS code, 0::BIGINT AS release, 0::BIGINT AS component, " \
                  "0::BIGINT AS cell, 0::BIGINT AS amount WHERE false"  # fmt: skip
        return f"CREATE OR REPLACE TEMP TABLE parts_{s} AS {' UNION ALL '.join([nothing, *found])}"

    def stored(self) -> str:
        """SQL: the distinct rows as the state has them, in the order of their numbers."""
        image = ""
        if self._views.image:
            some = " OR ".join(f"image.{quote(name)} IS NOT NULL" for name in self._views.image)
            image = f"REPLACE (CASE WHEN {some} THEN to_json(image)::VARCHAR END AS image)"
        return f"SELECT * {image} FROM pictures ORDER BY number"

    @staticmethod
    def net(s: int) -> str:
        """SQL of `net_s`, from the table `moved`: place, accepted, true_.  `$width`: see `Enforced`."""
        return f"""
            CREATE OR REPLACE TEMP TABLE net_{s} AS
            SELECT place // $width AS bin, place % $width AS code, sum(accepted) AS accepted,
                   sum(true_) AS true_
            FROM moved GROUP BY place HAVING sum(accepted) <> 0 OR sum(true_) <> 0"""

    @staticmethod
    def excess(s: int) -> str:
        """SQL: the text of `units.excess` for every pair of the table `pairs`: number, true_, accepted."""
        return f"""
            SELECT number, string_agg(concat_ws(':', release, component, cell, amount), ' '
                                      ORDER BY release, component, cell) AS excess
            FROM (
                SELECT number, release, component, cell, sum(amount) AS amount FROM (
                    SELECT number, release, component, cell, amount
                    FROM pairs JOIN parts_{s} parts ON parts.code = pairs.true_
                    UNION ALL
                    SELECT number, release, component, cell, -amount
                    FROM pairs JOIN parts_{s} parts ON parts.code = pairs.accepted
                ) GROUP BY number, release, component, cell HAVING sum(amount) <> 0
            ) GROUP BY number ORDER BY number"""

    def _stocks(self, scope: Scope) -> list[Release]:
        return [stock for stock in self._views.stocks if stock.name in scope.releases]

    def _cells(self, scope: Scope) -> list[str]:
        return [self._views.view(stock)[0] for stock in self._stocks(scope)]

    def _seen(self, scope: Scope, table: str = "pictures") -> dict[str, str]:
        """Columns of a contribution, each with its SQL: amounts are NULL where there is no cell."""
        found = {}
        for stock in self._stocks(scope):
            cell, *values = self._views.view(stock)
            found[cell] = f"{table}.{cell}"
            found |= {
                value: f"CASE WHEN {table}.{cell} IS NOT NULL THEN {table}.{value} END" for value in values
            }
        return found


def can_fold(program: Program, views: Views, columns: Mapping[str, str]) -> bool:
    """Whether histories of this program are folded over arrays; others go through the statements of a tick.

    `columns`: the columns that the program uses, name -> SQL type.
    """
    several = program.max_rows is not None
    return (
        not (several and (program.terms is not None or views.flows or views.image))
        and all(flow.clip is None and flow.query.watched is not None for flow in views.flows)
        and all(map(can_encode, columns.values()))
    )
