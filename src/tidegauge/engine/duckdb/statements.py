"""The second half of the SQL that enforces and folds: accepted changes, sums and the new state.

The tables are listed in tidegauge.engine.duckdb.views.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.engine.duckdb.render import literal, quote
from tidegauge.engine.duckdb.views import BEGINNING, NEVER, Views

if TYPE_CHECKING:
    from tidegauge.model.program import Scope


_MOST: Final = 2**62
"""Larger numbers in a constraint become this one, so that adding one to a time cannot overflow.  A stricter
constraint is always safe."""


_EXPIRES: Final = "CASE WHEN any_value(leaves) > $upto THEN any_value(leaves) END"


def capped(most: int | None) -> str:
    """SQL: a number of a constraint; NULL: there is none."""
    return "NULL::BIGINT" if most is None else f"{min(most, _MOST)}::BIGINT"


class Statements(Views):
    """Every statement for one program."""

    @property
    def _term_column(self) -> str:
        """One more column by which a clip counts, with a comma in front: it begins again with each term."""
        return ", term" if self.program.terms is not None else ""

    def numbered(self, s: int, scope: Scope) -> str:
        """SQL of `numbered_s`: each unit's changes, its constraint, and when it leaves if it retires."""
        labels, join, label = "", "", "NULL::VARCHAR"
        if scope.by is not None:
            label = "CASE WHEN known.unit IS NULL THEN labels.label ELSE known.label END"
            join = "LEFT JOIN labels USING (unit)"
            # Of several changes at one position of the log the label decides: row names may not.
            named = f"label{self.labels.index(scope.by)}"
            labels = f"""labels AS (
                SELECT unit, arg_min({named}, (instant, seq, {named})) AS label
                FROM path JOIN times USING (unit, instant) GROUP BY unit
            ),"""
        leaves = "NULL::BIGINT"
        if scope.retire:
            last = "min(instant) FILTER (ord = at_most) OVER (PARTITION BY unit)"
            leaves = f"CASE WHEN open THEN least({last}, first + within, {NEVER}) END"
        allowances = ", ".join(
            f"({literal(label)}::VARCHAR, {capped(allowance.at_most)}, {capped(allowance.within)})"
            for label, allowance in scope.allowances
        )
        declared = ", ".join(literal(name) for name, _ in scope.allowances)
        unlabelled = "false" if scope.by is None else f"label NOT IN ({declared})"
        return f"""
            CREATE OR REPLACE TEMP TABLE numbered_{s} AS
            WITH times AS (
                SELECT unit, instant FROM change_{s} WHERE instant > {BEGINNING} UNION SELECT unit, instant
                    FROM flow_change_{s} WHERE counts
            ), known AS (
                SELECT * FROM known_units WHERE scope = {s}
            ), {labels} numbered AS (
                SELECT times.unit, instant, row_number() OVER unit_changes_so_far + coalesce(known.moves,
                    0) AS ord,
                       coalesce(known.first, min(instant) OVER unit_changes_so_far) AS first,
                       {label} AS label,
                       known.unit IS NULL OR known.expires IS NOT NULL AS open
                FROM times LEFT JOIN known USING (unit) {join}
                WINDOW unit_changes_so_far AS (PARTITION BY times.unit ORDER BY instant
                                     ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
            ), due AS (
                SELECT unit, NULL AS instant, moves AS ord, first, label, true AS open FROM known
                WHERE expires IS NOT NULL AND unit NOT IN (SELECT unit FROM times)
            )
            SELECT unit_changes.* EXCLUDE (open), at_most, within,
                   instant IS NOT NULL AND coalesce(ord <= at_most, true)
                       AND coalesce(instant - first <= within, true) AS inside,
                   {leaves} AS leaves
            FROM (SELECT * FROM numbered UNION ALL BY NAME SELECT * FROM due) unit_changes
            JOIN (VALUES {allowances}) AS rule(label, at_most, within)
                ON rule.label IS NULL OR rule.label = unit_changes.label
            UNION ALL BY NAME
            SELECT *, false AS inside FROM (SELECT * EXCLUDE (open) FROM numbered)
            WHERE {unlabelled}"""

    def accepted(self, s: int, scope: Scope, upto: int) -> str:
        """SQL of `accepted_s`.  A retiring unit leaves at its last allowed change or when its time ends."""
        if not scope.retire:
            return f"""
                CREATE OR REPLACE TEMP TABLE accepted_{s} AS
                SELECT change_{s}.* FROM change_{s} JOIN numbered_{s} USING (unit, instant) WHERE inside"""
        return f"""
            CREATE OR REPLACE TEMP TABLE accepted_{s} AS
            WITH leaving AS (SELECT DISTINCT unit, leaves FROM numbered_{s} WHERE leaves IS NOT NULL)
            SELECT change_{s}.* FROM change_{s} JOIN leaving USING (unit) WHERE instant > {BEGINNING}
                AND instant < leaves
            UNION ALL
            SELECT unit, leaves AS instant, release, component, cell, -sum(amount)
            FROM change_{s} JOIN leaving USING (unit) WHERE leaves <= {upto} AND instant < leaves
            GROUP BY unit, leaves, release, component, cell HAVING sum(amount) <> 0"""

    def accepted_flow(self, s: int, scope: Scope) -> str:
        """SQL of `accepted_flow_s`, with bins; a clip accepts a unit's first changes in a bin."""
        clips = ", ".join(
            f"({self.numbers[r.name]}, {capped(r.clip)})" for r in self.flows if r.clip is not None
        )  # fmt: skip
        clips = clips or "(-1, NULL::BIGINT)"
        term = self._term_column
        allowed = "instant <= leaves" if scope.retire else "inside"
        return f"""
            CREATE OR REPLACE TEMP TABLE accepted_flow_{s} AS
            WITH allowed AS (
                SELECT flow_change_{s}.*{term} FROM flow_change_{s} JOIN numbered_{s} USING (unit, instant)
                    WHERE counts AND {allowed}
            ), placed AS (
                SELECT allowed.*, bins.bin
                FROM allowed ASOF JOIN bins ON bins.release = allowed.release AND allowed.instant <= bins.ends
            )
            SELECT placed.*, dense_rank() OVER (PARTITION BY placed.unit, placed.release, placed.bin{term}
                ORDER BY instant)
                             + coalesce(known_used.used, 0) AS ordinal, clip.most
            FROM placed
            LEFT JOIN known_used USING (unit, release, bin{term})
            LEFT JOIN (VALUES {clips}) AS clip(release, most) ON clip.release = placed.release"""

    def totals(self) -> str:
        """SQL: the exact change of every cell that changed, per bin."""
        scopes = range(len(self.program.scopes))
        stocks = " UNION ALL ".join(
            f"SELECT release, component, cell, instant, amount FROM accepted_{s}" for s in scopes
        )
        flows = " UNION ALL ".join(
            f"SELECT release, component, bin, cell, amount FROM accepted_flow_{s} "
            f"WHERE most IS NULL OR ordinal <= most"
            for s in scopes
        )
        return f"""
            SELECT release, component, bin, cell, sum(amount)::HUGEINT AS amount FROM (
                SELECT accepted.release, component, bin, cell, amount
                FROM ({stocks}) accepted ASOF JOIN bins ON bins.release = accepted.release
                    AND accepted.instant <= bins.ends
                UNION ALL {flows}
            ) GROUP BY release, component, bin, cell HAVING sum(amount) <> 0
            ORDER BY release, component, bin, cell"""

    def entries(self) -> str:
        """SQL: the state of the rows after the fold, deleted ones included."""
        scopes = range(len(self.program.scopes)) if self.program.max_rows is not None else []
        something = " OR ".join(f"image.{quote(name)} IS NOT NULL" for name in self.image)
        columns = [
            f"CASE WHEN {something} THEN to_json(image)::VARCHAR END AS image"
            if name == "image"
            else f"versions.{name}"
            for name in self.layout.entries
            if not name.startswith(("since", "order"))
        ]
        columns += [f"contributing_{s}.since AS since{s}, contributing_{s}.order AS order{s}" for s in scopes]
        joins = " ".join(
            f"LEFT JOIN (SELECT unit, entry, max_by(since, instant) AS since, "
            f"max_by(order_, instant) AS order FROM contributing_{s} GROUP BY unit, entry) contributing_{s} "
            f"USING (unit, entry)"
            for s in scopes
        )
        return f"""
            SELECT {", ".join(columns)}, alive
            FROM versions {joins}
            WHERE last AND (instant > {BEGINNING} OR {self.program.max_rows is not None}) ORDER BY entry,
                unit"""

    def units(self) -> str:
        """SQL: the counters of the units after the fold."""
        return " UNION ALL ".join(
            f"""SELECT unit, {s}::BIGINT AS scope, least(max(ord), coalesce(any_value(at_most),
                max(ord)))::BIGINT AS moves,
                       any_value(first) AS first, any_value(label) AS label,
                       {_EXPIRES if scope.retire else "NULL::BIGINT"} AS expires,
                       any_value(excess) AS excess
                FROM numbered_{s} LEFT JOIN excess_{s} USING (unit) GROUP BY unit"""
            for s, scope in enumerate(self.program.scopes)
        )

    def used(self) -> str:
        """SQL: how much of a clip each unit has used in its last bin."""
        term = self._term_column
        last = ", max(term) AS term" if term else ""
        return " UNION ALL ".join(
            f"""SELECT unit, release::BIGINT AS release, max(bin)::BIGINT AS bin, max_by(ordinal, (bin{term},
                ordinal))::BIGINT AS used{last}
                FROM accepted_flow_{s} WHERE most IS NOT NULL GROUP BY unit, release"""
            for s in range(len(self.program.scopes))
        )
