"""SQL for what the constraint keeps out: the true contribution of a unit less the accepted one.

The state has it as text in `units.excess`, one part per component and cell: release:component:cell:amount,
parts separated by a space, in this order.  A fold builds:

    known_excess     the stored text of the units of the fold, one row a part, with its scope
    excess_s         the new text per unit of scope s
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.engine.duckdb.views import BEGINNING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.model.program import Program

NO_EXCESS: Final = "SELECT ''::VARCHAR AS unit, ''::VARCHAR AS excess WHERE false"


def known_excess() -> str:
    """SQL of `known_excess`."""
    return """
        CREATE OR REPLACE TEMP TABLE known_excess AS
        SELECT unit, scope, part[1]::INTEGER AS release, part[2]::INTEGER AS component,
               part[3]::BIGINT AS cell, part[4]::HUGEINT AS amount
        FROM (SELECT unit, scope, string_split(unnest(string_split(excess, ' ')), ':') AS part
              FROM known_units WHERE excess IS NOT NULL)"""


def any_excess(scopes: Sequence[int], upto: int) -> str:
    """SQL: whether the fold dropped a change, or some unit of it has rows or changes that do not count."""
    parts = [
        f"""EXISTS (FROM numbered_{s} WHERE instant IS NOT NULL AND NOT inside)
            OR EXISTS (FROM numbered_{s} WHERE leaves <= {upto})
            OR EXISTS (FROM contributing_{s} WHERE waits) OR EXISTS (FROM flow_change_{s} WHERE NOT counts)
            OR EXISTS (FROM accepted_flow_{s} WHERE ordinal > most)"""
        for s in scopes
    ]
    return f"SELECT EXISTS (FROM known_excess) OR {' OR '.join(parts)}"


def excess(s: int, *, some: bool) -> str:
    """SQL of `excess_s`: stored, and changes that were not accepted; `some`: whether there can be any."""
    if not some:
        return f"CREATE OR REPLACE TEMP VIEW excess_{s} AS {NO_EXCESS}"
    return f"""
        CREATE OR REPLACE TEMP VIEW excess_{s} AS
        SELECT unit, string_agg(concat_ws(':', release, component, cell, amount), ' '
                                ORDER BY release, component, cell) AS excess
        FROM (
            SELECT unit, release, component, cell, sum(amount) AS amount FROM (
                SELECT unit, release, component, cell, amount FROM known_excess WHERE scope = {s}
                UNION ALL
                SELECT unit, release, component, cell, amount FROM change_{s} WHERE instant > {BEGINNING}
                UNION ALL
                SELECT unit, release, component, cell, -amount FROM accepted_{s}
            ) GROUP BY unit, release, component, cell HAVING sum(amount) <> 0
        ) GROUP BY unit"""


def dropped(program: Program) -> str:
    """SQL: the true change less the accepted change of every cell, per bin."""
    scopes = range(len(program.scopes))
    true = "change" if program.max_rows is None else "true_change"
    changes = " UNION ALL ".join(
        f"""SELECT release, component, cell, instant, amount FROM {true}_{s} WHERE instant > {BEGINNING}
            UNION ALL SELECT release, component, cell, instant, -amount FROM accepted_{s}
            UNION ALL SELECT release, component, cell, instant, amount FROM flow_change_{s}
            UNION ALL SELECT release, component, cell, instant, -amount FROM accepted_flow_{s}
                WHERE most IS NULL OR ordinal <= most"""
        for s in scopes
    )
    return f"""
        SELECT dropped.release, component, bin, cell, sum(amount)::HUGEINT AS amount
        FROM ({changes}) dropped ASOF JOIN bins ON bins.release = dropped.release
            AND dropped.instant <= bins.ends
        GROUP BY dropped.release, component, bin, cell HAVING sum(amount) <> 0
        ORDER BY dropped.release, component, bin, cell"""
