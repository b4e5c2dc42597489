"""The SQL that differs where constraints renew.  [T15]

When a term begins, every unit contributes again what it truly contributes, free of charge.  Its counters, the
order of its rows and its label begin again, from its rows as they are then, in the order of their keys.

A fold processes the units that change and those whose contribution moves by the new term alone (`expires` is
then the end of their term).  All other units are as the new term finds them: their stored counters belong to
an earlier `term` and are not used.  One more table:

    terms   the terms of the fold: number, begins, ends, and whether the term begins in this fold (`fresh`);
            the first one is the term in which the last fold ended
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tidegauge.engine.duckdb.render import literal
from tidegauge.engine.duckdb.statements import Statements, capped
from tidegauge.engine.duckdb.views import BEGINNING, NEVER

if TYPE_CHECKING:
    from tidegauge.model.program import Scope
    from tidegauge.model.schedule import Schedule

_MOST_PARTS: Final = 64
"""Every part reads all changes once more."""


def terms_table(terms: Schedule, watermark: int, reached: int) -> pa.Table:
    """The terms from the watermark to `reached`; term n has n beginnings up to its own."""
    first, last = (terms.bin_at(at + 1) for at in (watermark, reached))
    numbers = range(first, last + 1)
    begins = [terms.bin_end(number - 1) if number else BEGINNING for number in numbers]
    return pa.table(
        {
            "term": pa.array(numbers, pa.int64()),
            "begins": pa.array(begins, pa.int64()),
            "ends": pa.array([terms.bin_end(number) for number in numbers], pa.int64()),
            "fresh": pa.array([begin > watermark for begin in begins], pa.bool_()),
        }
    )


def parts_of(terms: Schedule | None, watermark: int, reached: int, *, due: int, most: int) -> int:
    """Into how many parts a fold of so many changes is divided, so that each has about `most`.

    A unit has a life in every term of the fold, and the lives of a part are in memory together.
    """
    parts = max(1, -(-due // most))
    if terms is None:
        return parts
    lives = due * (1 + terms.bin_at(reached + 1) - terms.bin_at(watermark + 1))
    return max(parts, min(_MOST_PARTS, lives // most))


class TermStatements(Statements):
    """Every statement for a program whose constraints renew."""

    def order_again(self) -> str | None:
        """SQL: order the stored rows by key where the last fold of their unit was in an earlier term."""
        if self.program.max_rows is None:
            return None
        begin = "(SELECT min(begins) FROM terms)"
        again = ", ".join(
            f"CASE WHEN since{s} < {begin} THEN row_number() OVER in_order ELSE order{s} END AS order{s}, "
            f"greatest(since{s}, {begin}) AS since{s}"
            for s in range(len(self.program.scopes))
        )
        return f"""
            CREATE OR REPLACE TEMP TABLE known_entries AS
            SELECT * REPLACE ({again}) FROM known_entries
            WINDOW in_order AS (PARTITION BY unit ORDER BY entry)"""

    def _placed_rows(self) -> str:
        """SQL: the path; where a term begins, every row once more (`renewed`), in the order of the keys."""
        return """
            SELECT *, false AS renewed, NULL::BIGINT AS key_order FROM path
                WHERE instant NOT IN (SELECT begins FROM terms WHERE fresh)
            UNION ALL BY NAME
            SELECT path.* REPLACE (begun.begins AS instant), true AS renewed,
                   row_number() OVER (PARTITION BY path.unit, begun.begins ORDER BY path.entry) AS key_order
            FROM (SELECT DISTINCT unit, entry, begins FROM path, terms WHERE fresh) begun
            ASOF JOIN path ON path.unit = begun.unit AND path.entry = begun.entry
                AND path.instant <= begun.begins"""

    def numbered(self, s: int, scope: Scope) -> str:
        """SQL of `numbered_s`: per unit and term the changes, at least one row, and the constraint.

        A change at the instant at which a term begins is part of the re-entry and does not count, also for a
        flow: it depends on the row of the term before.
        """
        label, labels = "NULL::VARCHAR", ""
        rules = "(SELECT NULL::VARCHAR AS label, {}, {}, true AS declared) rule ON true".format(
            *(f"{capped(most)} AS {name}" for name, most in vars(scope.allowances[0][1]).items())
        )
        if scope.by is not None:
            named = f"label{self.labels.index(scope.by)}"
            cells = [self.view(r)[0] for r in self.stocks if r.name in scope.releases]
            counted = " OR ".join(f"{cell} IS NOT NULL" for cell in cells) or "false"
            label = """CASE WHEN same AND known_first IS NOT NULL THEN known_label
                            WHEN here AND NOT same THEN standing.label ELSE first_labels.label END"""
            labels = f"""
                LEFT JOIN (
                    SELECT unit, term, arg_min({named}, entry) AS label FROM (
                        SELECT rows.*, terms.term FROM contributing_{s} rows JOIN terms
                            ON rows.instant <= terms.begins
                        QUALIFY row_number() OVER (PARTITION BY unit, entry, terms.term
                                                   ORDER BY instant DESC) = 1
                    ) WHERE {counted} GROUP BY unit, term
                ) standing USING (unit, term)
                LEFT JOIN (
                    SELECT unit, term, arg_min({named}, (instant, seq, {named})) AS label
                    FROM path JOIN times USING (unit, instant) GROUP BY unit, term
                ) first_labels USING (unit, term)"""
            allowances = ", ".join(
                f"({literal(label)}, {capped(allowance.at_most)}, {capped(allowance.within)}, true)"
                for label, allowance in scope.allowances
            )
            rules = (
                f"(VALUES {allowances}) rule(label, at_most, within, declared) ON rule.label = units.label"
            )
        leaves = "NULL::BIGINT"
        if scope.retire:
            last = "min(instant) FILTER (ord = at_most) OVER (PARTITION BY unit, term)"
            leaves = f"CASE WHEN open AND NOT undeclared THEN least({last}, first + within, {NEVER}) END"
        return f"""
            CREATE OR REPLACE TEMP TABLE numbered_{s} AS
            WITH times AS (
                SELECT unit, instant, term FROM (
                    SELECT unit, instant FROM change_{s}
                        WHERE instant > {BEGINNING} AND instant NOT IN (SELECT begins FROM terms)
                    UNION SELECT unit, instant FROM flow_change_{s}
                        WHERE counts AND instant NOT IN (SELECT begins FROM terms)
                ) changes ASOF JOIN terms ON terms.begins <= changes.instant
            ), known AS (
                SELECT * FROM known_units WHERE scope = {s}
            ), present AS (
                SELECT DISTINCT unit, term FROM (
                    SELECT unit, term FROM change_{s} JOIN terms
                        ON change_{s}.instant <= terms.begins AND terms.begins > {BEGINNING}
                    GROUP BY unit, term, release, component, cell HAVING sum(amount) <> 0
                )
            ), unit_terms AS (
                SELECT everyone.unit, terms.term, begins, ends, fresh,
                       known.unit IS NOT NULL AS recorded,
                       coalesce(known.term = terms.term, false) AS same,
                       known.moves, known.first AS known_first, known.label AS known_label,
                       known.leaves AS known_leaves, present.unit IS NOT NULL AS here
                FROM (SELECT unit FROM times UNION SELECT unit FROM known UNION SELECT unit FROM change_{s})
                    everyone
                CROSS JOIN terms LEFT JOIN known USING (unit)
                LEFT JOIN present ON present.unit = everyone.unit AND present.term = terms.term
            ), units AS (
                SELECT unit_terms.unit, unit_terms.term, begins, ends, fresh, recorded, instant,
                       CASE WHEN same THEN moves ELSE 0 END + count(instant) OVER so_far AS ord,
                       coalesce(CASE WHEN same THEN known_first WHEN here THEN begins END,
                                min(instant) OVER (PARTITION BY unit_terms.unit, unit_terms.term)) AS first,
                       {label} AS label,
                       NOT same OR known_leaves IS NOT NULL AS open
                FROM unit_terms LEFT JOIN times USING (unit, term) {labels}
                WINDOW so_far AS (PARTITION BY unit_terms.unit, unit_terms.term ORDER BY instant
                                  ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
            ), ruled AS (
                SELECT units.*, at_most, within,
                       units.label IS NOT NULL AND declared IS NULL AS undeclared
                FROM units LEFT JOIN {rules}
            ), leaving AS (
                SELECT *, {leaves} AS ought FROM ruled
            )
            SELECT * EXCLUDE (ought, open), CASE WHEN ought >= ends THEN {NEVER} ELSE ought END AS leaves,
                   instant IS NOT NULL AND NOT undeclared AND coalesce(ord <= at_most, true)
                       AND coalesce(instant - first <= within, true) AS inside
            FROM leaving"""

    def accepted(self, s: int, scope: Scope, upto: int) -> str:
        """SQL of `accepted_s`.  What a term drops is made up for when the next begins.

        A unit is withdrawn when it retires, and for a whole term where its label is not declared.
        """
        inside, mine = "coalesce(inside, false)", f"numbered_{s} mine USING (unit, instant)"
        withdrawn = (
            f"SELECT DISTINCT unit, begins, ends, begins AS leaves FROM numbered_{s} "
            "WHERE undeclared AND fresh"
        )
        if scope.retire:
            inside = "coalesce(instant < leaves, false)"
            mine = f"(SELECT DISTINCT unit, term, leaves FROM numbered_{s}) mine USING (unit, term)"
            withdrawn += f""" UNION ALL
                SELECT DISTINCT unit, begins, ends, leaves FROM numbered_{s} WHERE leaves <= {upto}"""
        what = "release, component, cell"
        return f"""
            CREATE OR REPLACE TEMP TABLE accepted_{s} AS
            WITH placed AS (
                SELECT changes.*, terms.begins, terms.ends, terms.term
                FROM (SELECT * FROM change_{s} WHERE instant > {BEGINNING}) changes
                ASOF JOIN terms ON terms.begins <= changes.instant
            ), judged AS (
                SELECT placed.unit, placed.instant, {what}, amount, placed.ends,
                       placed.instant = placed.begins OR {inside} AS accepts
                FROM placed LEFT JOIN {mine}
            ), withdrawals AS (
                SELECT away.unit, away.leaves, away.ends, {what}, sum(amount) AS amount
                FROM ({withdrawn}) away JOIN change_{s} earlier
                  ON earlier.unit = away.unit
                     AND (earlier.instant < away.leaves
                          OR (away.leaves = away.begins AND earlier.instant = away.leaves))
                GROUP BY away.unit, away.leaves, away.ends, {what}
            )
            SELECT unit, instant, {what}, sum(amount) AS amount FROM (
                SELECT unit, CASE WHEN accepts THEN instant ELSE ends END AS instant, {what}, amount
                    FROM judged
                UNION ALL SELECT unit, leaves, {what}, -amount FROM withdrawals
                UNION ALL SELECT unit, ends, {what}, amount FROM withdrawals
                UNION ALL SELECT unit, (SELECT min(ends) FROM terms), {what}, amount FROM known_excess
                    WHERE scope = {s}
            ) WHERE instant <= {upto} GROUP BY unit, instant, {what} HAVING sum(amount) <> 0"""

    def units(self) -> str:
        """SQL: the counters of the units after the fold, in its last term.

        A unit is processed when its next term begins (`expires`) where its contribution can then change.
        """
        found = []
        for s, scope in enumerate(self.program.scopes):
            always = scope.by is not None or (
                scope.retire and any(one.within is not None for _, one in scope.allowances)
            )
            some = f"""
                SELECT DISTINCT unit FROM (
                    SELECT unit FROM change_{s} GROUP BY unit, release, component, cell
                    HAVING sum(amount) <> 0)""" if always else f"""
                SELECT unit FROM (
                    SELECT unit, max_by(waits, instant) AS waits FROM contributing_{s} GROUP BY unit, entry
                ) GROUP BY unit HAVING bool_or(waits)"""  # fmt: skip
            found.append(f"""
                SELECT unit, {s}::BIGINT AS scope, least(max(ord), coalesce(any_value(at_most),
                    max(ord)))::BIGINT AS moves,
                    any_value(first) AS first, any_value(label) AS label,
                    least(any_value(CASE WHEN leaves > $upto AND leaves < {NEVER} THEN leaves END),
                          any_value(CASE WHEN excess IS NOT NULL OR moving.unit IS NOT NULL THEN ends END)
                         ) AS expires,
                    any_value(excess) AS excess,
                    any_value(CASE WHEN leaves > $upto THEN leaves END) AS leaves, any_value(term) AS term
                FROM numbered_{s} LEFT JOIN excess_{s} USING (unit) LEFT JOIN ({some}) moving USING (unit)
                WHERE term = (SELECT max(term) FROM terms)
                GROUP BY unit HAVING bool_or(recorded) OR max(ord) > 0 OR any_value(first) IS NOT NULL
                    OR any_value(excess) IS NOT NULL""")
        return " UNION ALL ".join(found)
