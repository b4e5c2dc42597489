"""The SQL that enforces and folds; its second half: what limits let pass, and what follows from it.

The tables are listed in tidegauge.engine.duckdb.views.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.engine.duckdb.render import literal, quote
from tidegauge.engine.duckdb.views import BEGINNING, NEVER, Views

if TYPE_CHECKING:
    from tidegauge.model.program import Scope


_MOST: Final = 2**62
"""A limit beyond is this one, so that no time to which it is added overflows; to be stricter is always safe."""


def _capped(limit: int | None) -> str:
    return "NULL::BIGINT" if limit is None else f"{min(limit, _MOST)}::BIGINT"


class Statements(Views):
    """Every statement for one program."""

    def move(self, s: int, scope: Scope) -> str:
        """Number each unit's mutations, find the limit it obeys, and when it must leave if it retires."""
        labels, join, label = "", "", "NULL::VARCHAR"
        if scope.by is not None:
            label = "CASE WHEN known.unit IS NULL THEN labels.label ELSE known.label END"
            join = "LEFT JOIN labels USING (unit)"
            named = f"label{self.labels.index(scope.by)}"  # decides between changes at one place of the log, as names may not
            labels = f"""labels AS (
                SELECT unit, arg_min({named}, (instant, seq, {named})) AS label
                FROM path JOIN times USING (unit, instant) GROUP BY unit
            ),"""
        leaves = "NULL::BIGINT"
        if scope.retire:
            last = "min(instant) FILTER (ord = at_most) OVER (PARTITION BY unit)"
            leaves = f"CASE WHEN open THEN least({last}, first + within, {NEVER}) END"
        limits = ", ".join(
            f"({'NULL' if name is None else literal(name)}::VARCHAR, {_capped(limit.at_most)}, {_capped(limit.within)})"
            for name, limit in scope.limits
        )
        return f"""
            CREATE OR REPLACE TEMP TABLE move_{s} AS
            WITH times AS (
                SELECT unit, instant FROM delta_{s} WHERE instant > {BEGINNING} UNION SELECT unit, instant FROM match_{s}
            ), known AS (
                SELECT * FROM known_units WHERE scope = {s}
            ), {labels} numbered AS (
                SELECT times.unit, instant, row_number() OVER unit_life + coalesce(known.moves, 0) AS ord,
                       coalesce(known.first, min(instant) OVER unit_life) AS first,
                       {label} AS label,
                       known.unit IS NULL OR known.expires IS NOT NULL AS open
                FROM times LEFT JOIN known USING (unit) {join}
                WINDOW unit_life AS (PARTITION BY times.unit ORDER BY instant
                                     ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
            ), due AS (
                SELECT unit, NULL AS instant, moves AS ord, first, label, true AS open FROM known
                WHERE expires IS NOT NULL AND unit NOT IN (SELECT unit FROM times)
            )
            SELECT moved.* EXCLUDE (open), at_most, within,
                   instant IS NOT NULL AND coalesce(ord <= at_most, true) AND coalesce(instant - first <= within, true) AS inside,
                   {leaves} AS leaves
            FROM (SELECT * FROM numbered UNION ALL BY NAME SELECT * FROM due) moved
            JOIN (VALUES {limits}) AS rule(label, at_most, within) ON rule.label IS NULL OR rule.label = moved.label
            UNION ALL BY NAME
            SELECT *, false AS inside FROM (SELECT * EXCLUDE (open) FROM numbered)
            WHERE {"false" if scope.by is None else f"label NOT IN ({', '.join(literal(n or '') for n, _ in scope.limits)})"}"""

    def kept(self, s: int, scope: Scope, upto: int) -> str:
        """What takes effect of the stocks.  Who retires leaves at the last allowed change, or when the time is up."""
        if not scope.retire:
            return f"""
                CREATE OR REPLACE TEMP TABLE kept_{s} AS
                SELECT delta_{s}.* FROM delta_{s} JOIN move_{s} USING (unit, instant) WHERE inside"""
        return f"""
            CREATE OR REPLACE TEMP TABLE kept_{s} AS
            WITH leaving AS (SELECT DISTINCT unit, leaves FROM move_{s} WHERE leaves IS NOT NULL)
            SELECT delta_{s}.* FROM delta_{s} JOIN leaving USING (unit) WHERE instant > {BEGINNING} AND instant < leaves
            UNION ALL
            SELECT unit, leaves AS instant, release, component, cell, -sum(amount)
            FROM delta_{s} JOIN leaving USING (unit) WHERE leaves <= {upto} AND instant < leaves
            GROUP BY unit, leaves, release, component, cell HAVING sum(amount) <> 0"""

    def counted(self, s: int, scope: Scope) -> str:
        """What takes effect of the flows, and in which bin; a clip lets the first mutations of a unit in a bin pass."""
        clips = ", ".join(
            f"({self.numbers[r.name]}, {_capped(r.clip)})" for r in self.flows if r.clip is not None
        )  # fmt: skip
        clips = clips or "(-1, NULL::BIGINT)"
        allowed = "instant <= leaves" if scope.retire else "inside"
        return f"""
            CREATE OR REPLACE TEMP TABLE counted_{s} AS
            WITH allowed AS (
                SELECT match_{s}.* FROM match_{s} JOIN move_{s} USING (unit, instant) WHERE {allowed}
            ), placed AS (
                SELECT allowed.*, bins.bin
                FROM allowed ASOF JOIN bins ON bins.release = allowed.release AND allowed.instant <= bins.ends
            )
            SELECT placed.*, dense_rank() OVER (PARTITION BY placed.unit, placed.release, placed.bin ORDER BY instant)
                             + coalesce(known_used.used, 0) AS turn, clip.most
            FROM placed
            LEFT JOIN known_used USING (unit, release, bin)
            LEFT JOIN (VALUES {clips}) AS clip(release, most) ON clip.release = placed.release"""

    def totals(self) -> str:
        """The exact change of every cell that changed, per bin."""
        scopes = range(len(self.program.scopes))
        stocks = " UNION ALL ".join(
            f"SELECT release, component, cell, instant, amount FROM kept_{s}" for s in scopes
        )
        flows = " UNION ALL ".join(
            f"SELECT release, component, bin, cell, amount FROM counted_{s} WHERE most IS NULL OR turn <= most"
            for s in scopes
        )
        return f"""
            SELECT release, component, bin, cell, sum(amount)::HUGEINT AS amount FROM (
                SELECT kept.release, component, bin, cell, amount
                FROM ({stocks}) kept ASOF JOIN bins ON bins.release = kept.release AND kept.instant <= bins.ends
                UNION ALL {flows}
            ) GROUP BY release, component, bin, cell HAVING sum(amount) <> 0
            ORDER BY release, component, bin, cell"""

    def entries(self) -> str:
        """The state of the rows after the fold, also of those that are no more."""
        scopes = range(len(self.program.scopes)) if self.program.max_rows is not None else []
        something = " OR ".join(f"image.{quote(name)} IS NOT NULL" for name in self.image)
        columns = [
            f"CASE WHEN {something} THEN to_json(image)::VARCHAR END AS image"
            if name == "image"
            else f"life.{name}"
            for name in self.layout.entries
            if not name.startswith(("since", "order"))
        ]
        columns += [f"shown_{s}.since AS since{s}, shown_{s}.order AS order{s}" for s in scopes]
        joins = " ".join(
            f"LEFT JOIN (SELECT unit, entry, max_by(since, instant) AS since, max_by(order_, instant) AS order "
            f"FROM shown_{s} GROUP BY unit, entry) shown_{s} USING (unit, entry)"
            for s in scopes
        )
        return f"""
            SELECT {", ".join(columns)}, alive
            FROM life {joins}
            WHERE last AND (instant > {BEGINNING} OR {self.program.max_rows is not None}) ORDER BY entry, unit"""

    def units(self) -> str:
        """The counters after the fold."""
        return " UNION ALL ".join(
            f"""SELECT unit, {s}::BIGINT AS scope, least(max(ord), coalesce(any_value(at_most), max(ord)))::BIGINT AS moves,
                       any_value(first) AS first, any_value(label) AS label,
                       {"CASE WHEN any_value(leaves) > $upto THEN any_value(leaves) END" if scope.retire else "NULL::BIGINT"}
                       AS expires
                FROM move_{s} GROUP BY unit"""
            for s, scope in enumerate(self.program.scopes)
        )

    def used(self) -> str:
        """The clips used in each unit's last bin."""
        return " UNION ALL ".join(
            f"""SELECT unit, release::BIGINT AS release, max(bin)::BIGINT AS bin, max_by(turn, (bin, turn))::BIGINT AS used
                FROM counted_{s} WHERE most IS NOT NULL GROUP BY unit, release"""
            for s in range(len(self.program.scopes))
        )
