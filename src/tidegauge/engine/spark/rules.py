"""What a scope allows a unit, as expressions of Spark's SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.engine.spark.render import literal

if TYPE_CHECKING:
    from tidegauge.model.program import Scope

NEVER: Final = 2**63 - 1
MOST: Final = 2**62
"""Larger numbers in a constraint become this one, so that adding a time cannot overflow: stricter is safe."""


def allowance_sql(s: int, scope: Scope) -> tuple[str, str, str]:
    """SQL: at_most and within of a unit, and whether its label, `limit{s}`, has a limit."""

    def number(value: int | None) -> str:
        return "CAST(NULL AS BIGINT)" if value is None else f"{min(value, MOST)}L"

    if scope.by is None:
        ((_, limit),) = scope.allowances
        return number(limit.at_most), number(limit.within), "TRUE"
    arms = [(f"WHEN limit{s} = {literal(label)} THEN", limit) for label, limit in scope.allowances]
    most = " ".join(f"{arm} {number(limit.at_most)}" for arm, limit in arms)
    within = " ".join(f"{arm} {number(limit.within)}" for arm, limit in arms)
    declared = ", ".join(literal(label) for label, _ in scope.allowances)
    return f"CASE {most} END", f"CASE {within} END", f"coalesce(limit{s} IN ({declared}), FALSE)"
