"""A plan in words and one table a release: what is protected, what is published, what it costs, how well it tells."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from tidegauge.theory.conversion import rho_to_epsilon

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.model.budget import Budget
    from tidegauge.plan.plan import Plan, ReleasePlan


def explain(plan: Plan) -> str:
    """The text that `tidegauge plan` prints."""
    lines = [
        f"Plan {plan.hash[:12]}",
        "",
        f"Protects  {plan.protects}",
        f"Budget    {plan.budget}{_accounted(plan)}",
    ]
    lines += [
        f"          {number(plan.needed)} of {number(plan.total)} ({plan.measure}) is reserved for the whole life of the gauge"
    ]
    lines += [f"Warning   {warning}" for warning in plan.warnings]
    for release in plan.releases:
        lines += ["", *_release(release, plan)]
    return "\n".join(lines)


def _accounted(plan: Plan) -> str:
    if plan.measure == "epsilon" or plan.budget.rho is not None:
        return "" if plan.budget.rho is None else _equivalent(plan.budget)
    return f", accounted as rho = {number(plan.total)}"


def _equivalent(budget: Budget) -> str:
    assert budget.rho is not None
    return f" (for instance epsilon = {number(rho_to_epsilon(budget.rho, delta=Fraction(1, 10**6)))} at delta = 1e-06)"


def _release(plan: ReleasePlan, whole: Plan) -> list[str]:
    release = plan.release
    cells = len(release.query.cells)
    groups = "" if cells == 1 else f", {cells} groups"
    what = (
        "flow"
        if release.query.kind == "flow"
        else "running value"
        if release.schedule.window is None
        else "change"
    )
    unit = " (of a mean over 1,000 rows)" if release.query.aggregate == "avg" else ""
    ever = "" if release.schedule.count is not None else ", over the first 1,000 readings"
    rows = [
        (
            "*" if candidate is plan.chosen or candidate == plan.chosen else " ",
            candidate.strategy,
            "-" if candidate.folds is None else str(candidate.folds),
            number(candidate.loss),
            f"± {candidate.half_width_worst:,.4g}",
            f"± {candidate.half_width_mean:,.4g}",
            "yes" if candidate.adaptive else "no",
        )
        for candidate in plan.candidates
    ]
    return [
        f"{release.name}: {what}{groups}, {release.schedule}",
        f"  {release.query.text}",
        *_table(("", "strategy", "folds", whole.measure, "worst 95 %", "mean 95 %", "adaptive"), rows),
        f"  95 % half-widths{unit}{ever}. Promise: {plan.promise}.",
    ]


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [head, *rows]
    ]


def number(value: Fraction) -> str:
    """An exact number, or so many digits that it is not mistaken for one."""
    return str(value) if value.denominator < 10_000 else f"{float(value):.6g}"
