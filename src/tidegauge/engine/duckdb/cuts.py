"""The SQL that cuts numbered changes by many constraints at once.

The tables, besides those of tidegauge.engine.duckdb.views:

    rules_s      one row per variant of scope s and label: retire, most (changes), period (of time)
    changes_s    change_s with the number of the change (ord), the unit's first change and its label
    leaving_s    per variant that retires: when each unit leaves
    missing_s    per variant: the changes of stocks that it leaves out; a unit that retires takes all with it
    placed_s     the changes of flows, with their bin and their number within the bin
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from tidegauge.engine.duckdb.render import literal
from tidegauge.engine.duckdb.statements import capped
from tidegauge.engine.duckdb.views import BEGINNING
from tidegauge.model.grid import PARTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidegauge.model.grid import Clip, Variant
    from tidegauge.model.program import Release, Scope

NOTHING: Final = (
    "SELECT 0 AS variant, 0 AS release, 0 AS component, 0 AS bin, 0 AS cell, 0 AS amount WHERE false"
)
_STOCK: Final = "unit, release, component, cell"
_FLOW: Final = "unit, release, component, cell, bin"


class Cuts:
    """Statements for constraints that do not renew; `reached`: the end of the history."""

    known: ClassVar[str] = ", ord, first, label"
    """The columns of a numbered change, besides its unit and its instant."""
    clip_of: ClassVar[str] = "unit, binned.release, bin"
    """The columns by which a clip counts."""

    def __init__(self, scopes: Sequence[Scope], reached: int) -> None:
        self.scopes, self.reached = scopes, reached

    @property
    def truth(self) -> int:
        """The number of the scope that has every release, all rows and no clip."""
        return len(self.scopes)

    @staticmethod
    def rules(s: int, variants: Sequence[Variant], renewal: int) -> str:
        """SQL of `rules_s`, for the variants with these terms."""
        rows = ", ".join(
            f"({number}, {variant.retire}, {'NULL' if label is None else literal(label)}::VARCHAR, "
            f"{capped(allowance.at_most)}, {capped(allowance.within)})"
            for number, variant in enumerate(variants)
            if variant.renewal == renewal
            for label, allowance in variant.allowances
        )
        return f"""
            CREATE OR REPLACE TEMP TABLE rules_{s} AS
            SELECT * FROM (VALUES {rows}) AS rule(variant, retire, label, most, period)"""

    def changes(self, s: int) -> str:
        """SQL of `changes_s`."""
        return f"""
            CREATE OR REPLACE TEMP TABLE changes_{s} AS
            SELECT change_{s}.*, ord, first, label FROM change_{s} JOIN numbered_{s} USING (unit, instant)
            WHERE instant > {BEGINNING}"""

    def leaving(self, s: int) -> str:
        """SQL of `leaving_s`."""
        return f"""
            CREATE OR REPLACE TEMP TABLE leaving_{s} AS
            SELECT variant, unit, least(min(instant) FILTER (ord = most), any_value(first + period)) AS leaves
            FROM numbered_{s} JOIN rules_{s} AS rule ON rule.label IS NOT DISTINCT FROM numbered_{s}.label
            WHERE retire GROUP BY variant, unit HAVING leaves <= {self.reached}"""

    def missing_stock(self, s: int) -> str:
        """SQL of `missing_s`."""
        return f"""
            CREATE OR REPLACE TEMP VIEW missing_{s} AS {self._frozen(s, f"changes_{s}", _STOCK)}
            UNION ALL SELECT variant, {_STOCK}, greatest(instant, leaves), amount
            FROM changes_{s} JOIN leaving_{s} USING (unit){self._unlabelled(s, f"changes_{s}", _STOCK)}"""

    def _missing_flow(self, s: int) -> str:
        """SQL: the changes of flows that each variant leaves out."""
        return f"""{self._frozen(s, f"placed_{s}", _FLOW)}
            UNION ALL SELECT variant, {_FLOW}, instant, amount FROM placed_{s} JOIN leaving_{s} USING (unit)
            WHERE instant > leaves{self._unlabelled(s, f"placed_{s}", _FLOW)}"""

    @staticmethod
    def _frozen(s: int, changes: str, columns: str, also: str = "") -> str:
        """SQL: the changes beyond the constraints of the variants that freeze."""
        return f"""
            SELECT variant, {columns}, instant, amount
            FROM {changes} JOIN rules_{s} AS rule ON rule.label IS NOT DISTINCT FROM {changes}.label
            WHERE NOT retire{also} AND coalesce(ord > most OR instant - first > period, false)"""

    def _unlabelled(self, s: int, changes: str, columns: str) -> str:
        """SQL: the changes of units whose label is not declared; no variant accepts them."""
        if self.scopes[s].by is None:
            return ""
        return f"""
            UNION ALL
            SELECT variant, {columns}, instant, amount
            FROM {changes} CROSS JOIN (SELECT DISTINCT variant FROM rules_{s})
            WHERE label NOT IN (SELECT label FROM rules_{s})"""

    def placed(self, s: int, releases: Sequence[Release]) -> str:
        """SQL of `placed_s`; the truth has no clip."""
        clips = ", ".join(
            f"({number}, {capped(one.clip)})"
            for number, one in enumerate(releases)
            if one.query.kind == "flow" and one.clip is not None and s != self.truth
        )
        true = s == self.truth
        numbered = "" if true else f"JOIN numbered_{s} USING (unit, instant)"
        counted = "" if true else "WHERE counts"
        return f"""
            CREATE OR REPLACE TEMP TABLE placed_{s} AS
            WITH found AS (
                SELECT flow_change_{s}.*{"" if true else self.known} FROM flow_change_{s} {numbered} {counted}
            ), binned AS (
                SELECT found.*, bins.bin FROM found ASOF JOIN bins
                    ON bins.release = found.release AND found.instant <= bins.ends
            )
            SELECT binned.* FROM binned
            LEFT JOIN (VALUES {clips or "(-1, NULL::BIGINT)"}) AS clip(release, most)
                ON clip.release = binned.release
            QUALIFY most IS NULL OR dense_rank() OVER (
                PARTITION BY {Cuts.clip_of if true else self.clip_of} ORDER BY instant) <= most"""

    @staticmethod
    def plain(s: int, renewal: int) -> str:
        """SQL: the changes of a scope by bin, no constraint enforced."""
        return f"""
            SELECT {renewal} AS variant, release, component, bin, cell, sum(amount)::BIGINT AS amount FROM (
                SELECT changed.release, component, bin, cell, amount
                FROM (SELECT * FROM change_{s} WHERE instant > {BEGINNING}) changed
                ASOF JOIN bins ON bins.release = changed.release AND changed.instant <= bins.ends
                UNION ALL SELECT release, component, bin, cell, amount FROM placed_{s}
            ) GROUP BY ALL HAVING sum(amount) <> 0"""

    def allowed(self, renewal: int) -> str:
        """SQL: the changes of all scopes by bin, no constraint enforced."""
        return " UNION ALL ".join(self.plain(s, renewal) for s in range(self.truth))

    def missing(self) -> str:
        """SQL: what each variant leaves out, by bin."""
        parts = []
        for s in range(self.truth):
            parts.append(
                f"SELECT variant, release, component, bin, cell, amount FROM ({self._missing_flow(s)})"
            )
            parts.append(f"""
                SELECT variant, missing.release, component, bin, cell, amount
                FROM missing_{s} missing ASOF JOIN bins
                    ON bins.release = missing.release AND missing.instant <= bins.ends""")
        return f"""
            SELECT variant, release, component, bin, cell, sum(amount)::BIGINT AS amount
            FROM ({" UNION ALL ".join(parts)}) GROUP BY ALL HAVING sum(amount) <> 0"""

    def clipped(self, releases: Sequence[Release], clips: Mapping[int, Clip], *, max_rows: bool) -> str:
        """SQL: how the amount that each variant leaves out changes with each bin; clips limit units.

        `max_rows`: not all rows of a unit count, and those that do not are left out by every variant.
        A unit with the squared norm q counts floor(sqrt(PARTS^2 most / q)) parts, at most all of them.  The
        root is rounded in floating point, and one part less is taken where that was too much.
        """
        rows = ", ".join(
            f"({number}, {clip.first}, {clip.stride}, {clip.readings}, {clip.step}, "
            f"{PARTS**2 * clip.most}::HUGEINT, {releases[number].schedule.span or 'NULL'}::BIGINT)"
            for number, clip in clips.items()
        )
        stocks = " UNION ALL ".join(
            f"""SELECT variant, unit, missing.release, cell, bin, amount
                FROM missing_{s} missing ASOF JOIN bins
                    ON bins.release = missing.release AND missing.instant <= bins.ends
                WHERE component = 0{self._beyond(s, releases) if max_rows else ""}"""
            for s in range(self.truth)
        )
        who = "variant, unit, release"
        read = "greatest(0, least(readings, ({} - first_read + stride - 1) // stride))"
        return f"""
            WITH clip AS (
                SELECT * FROM (VALUES {rows})
                    AS clip(release, first_read, stride, readings, step, most, span)
            ), net AS (
                SELECT {who}, cell, bin, sum(amount) AS amount FROM ({stocks}) GROUP BY ALL
            ), shifted AS (
                SELECT {who}, cell, bin, sum(amount) AS amount FROM (
                    SELECT * FROM net
                    UNION ALL SELECT {who}, cell, bin + span, -amount FROM net JOIN clip USING (release)
                        WHERE span IS NOT NULL
                ) GROUP BY ALL
            ), running AS (
                SELECT {who}, cell, bin, (sign(sum(amount) OVER so_far)::HUGEINT
                           * (abs(sum(amount) OVER so_far) // step))::HUGEINT AS off,
                       {read.format("coalesce(lead(bin) OVER so_far, first_read + stride * readings)")}
                           - {read.format("bin")} AS long, most
                FROM shifted JOIN clip USING (release)
                WINDOW so_far AS (PARTITION BY {who}, cell ORDER BY bin)
            ), norms AS (
                SELECT {who}, any_value(most) AS most, sum(off * off * long)::HUGEINT AS norm,
                       CASE WHEN norm = 0 THEN {PARTS}
                            ELSE least({PARTS}, floor(sqrt(any_value(most)::DOUBLE / norm::DOUBLE)))
                       END::HUGEINT AS parts
                FROM running GROUP BY {who}
            ), weights AS (
                SELECT {who}, CASE WHEN parts * parts * norm > most THEN parts - 1 ELSE parts END AS weight
                FROM norms
            ), steps AS (
                SELECT running.*, weight * (off - coalesce(lag(off) OVER (
                    PARTITION BY {who}, cell ORDER BY bin), 0)) AS step
                FROM running JOIN weights USING ({who})
            )
            SELECT variant, release, 0 AS component, bin, cell, sum(step)::BIGINT AS amount FROM steps
            GROUP BY ALL HAVING sum(step) <> 0"""

    def _beyond(self, s: int, releases: Sequence[Release]) -> str:
        """SQL: the contributions of rows beyond max_rows; each variant leaves them out."""
        mine = ", ".join(str(n) for n, one in enumerate(releases) if one.name in self.scopes[s].releases)
        changed = f"""
            SELECT changed.unit, changed.release, cell, bin, {{}} AS amount
            FROM (SELECT * FROM change_{{}} WHERE component = 0 AND instant > {BEGINNING}) changed
            ASOF JOIN bins ON bins.release = changed.release AND changed.instant <= bins.ends"""
        return f"""
            UNION ALL SELECT variant, unit, release, cell, bin, amount FROM (
                SELECT unit, release, cell, bin, sum(amount) AS amount
                FROM ({changed.format("amount", self.truth)} UNION ALL {changed.format("-amount", s)})
                WHERE release IN ({mine})
                GROUP BY ALL HAVING sum(amount) <> 0
            ) CROSS JOIN (SELECT DISTINCT variant FROM rules_{s})"""


class TermCuts(Cuts):
    """Statements for constraints that renew: what a term leaves out comes back when the next term begins.

    changes_s and leaving_s also have the term, and when it begins and ends.
    """

    known: ClassVar[str] = ", ord, first, label, term, undeclared"
    clip_of: ClassVar[str] = "unit, binned.release, bin, term"

    def changes(self, s: int) -> str:
        """SQL of `changes_s`; a change at the beginning of a term has no number."""
        return f"""
            CREATE OR REPLACE TEMP TABLE changes_{s} AS
            SELECT placed.*, ord, first, label, coalesce(undeclared, false) AS undeclared
            FROM (
                SELECT changed.*, terms.begins, terms.ends
                FROM (SELECT * FROM change_{s} WHERE instant > {BEGINNING}) changed
                ASOF JOIN terms ON terms.begins <= changed.instant
            ) placed LEFT JOIN (
                SELECT unit, instant, ord, first, label, undeclared FROM numbered_{s}
            ) numbered ON numbered.unit = placed.unit AND numbered.instant = placed.instant"""

    def leaving(self, s: int) -> str:
        """SQL of `leaving_s`; a unit whose label is not declared leaves for the whole term."""
        return f"""
            CREATE OR REPLACE TEMP TABLE leaving_{s} AS
            SELECT variant, unit, term, ends, false AS undeclared,
                   least(min(instant) FILTER (ord = most), any_value(first + period)) AS leaves
            FROM numbered_{s} JOIN rules_{s} AS rule ON rule.label IS NOT DISTINCT FROM numbered_{s}.label
            WHERE retire AND NOT undeclared
            GROUP BY variant, unit, term, ends HAVING leaves < ends AND leaves <= {self.reached}
            UNION ALL
            SELECT DISTINCT variant, unit, term, ends, true, begins
            FROM numbered_{s} CROSS JOIN (SELECT DISTINCT variant FROM rules_{s}) WHERE undeclared"""

    def missing_stock(self, s: int) -> str:
        """SQL of `missing_s`."""
        frozen = f"""
            SELECT variant, {_STOCK}, instant, ends, amount
            FROM changes_{s} JOIN rules_{s} AS rule ON rule.label IS NOT DISTINCT FROM changes_{s}.label
            WHERE NOT retire AND NOT undeclared AND instant > begins
                AND coalesce(ord > most OR instant - first > period, false)"""
        left = f"""
            SELECT variant, {_STOCK}, greatest(instant, leaves), leaving_{s}.ends, amount
            FROM changes_{s} JOIN leaving_{s} USING (unit) WHERE instant < leaving_{s}.ends"""
        return f"""
            CREATE OR REPLACE TEMP VIEW missing_{s} AS
            WITH away AS ({frozen} UNION ALL {left})
            SELECT variant, {_STOCK}, instant, amount FROM away
            UNION ALL SELECT variant, {_STOCK}, ends, -amount FROM away WHERE ends <= {self.reached}"""

    def _missing_flow(self, s: int) -> str:
        """SQL: the changes of flows that each variant leaves out."""
        return f"""{self._frozen(s, f"placed_{s}", _FLOW, " AND NOT undeclared")}
            UNION ALL SELECT variant, {_FLOW}, instant, amount
            FROM placed_{s} JOIN (SELECT variant, unit, term, leaves FROM leaving_{s} WHERE NOT undeclared)
                USING (unit, term) WHERE instant > leaves
            UNION ALL SELECT variant, {_FLOW}, instant, amount
            FROM placed_{s} CROSS JOIN (SELECT DISTINCT variant FROM rules_{s}) WHERE undeclared"""
