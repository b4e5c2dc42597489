"""The question before the first run commits a plan, which cannot be undone."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import typer

from tidegauge.cli.ending import ENDING

if TYPE_CHECKING:
    from tidegauge.plan.plan import Plan
    from tidegauge.run.gauge import Gauge

QUESTION: Final = "Commit this plan? It cannot be changed later. [y/N] "
_HIDDEN: Final = "{}: every group is smaller than its noise (secret: this follows from the data)."
_NOTHING: Final = "Nothing was committed or spent."


def agreed_plan(gauge: Gauge, *, yes: bool) -> Plan | None:
    """The plan that the user has agreed to commit; None if there is nothing to ask.

    The user is asked if no plan was committed yet, both stdin and stderr are terminals, and `yes` is not
    set.  Raises typer.Exit with code 2 if the answer is not yes.
    """
    if yes or not (sys.stdin.isatty() and sys.stderr.isatty()) or gauge.committed:
        return None
    from tidegauge.cli.width import columns  # noqa: PLC0415
    from tidegauge.plan.explain import explain  # noqa: PLC0415
    from tidegauge.plan.wording import wrapped  # noqa: PLC0415

    plan = gauge.plan()
    width = columns(sys.stderr)
    typer.echo(explain(plan, width=width), err=True)
    warnings = [*plan.warnings, *(_HIDDEN.format(name) for name in gauge.too_small(plan))]
    for line in (line for warning in warnings for line in wrapped("Warning   ", warning, width)):
        typer.echo(line, err=True)
    typer.echo("", err=True)
    with ENDING.careful(_NOTHING):
        typer.echo(QUESTION, nl=False, err=True)
        answer = sys.stdin.readline()
        ENDING.check()
    if answer.strip().lower() in ("y", "yes"):
        return plan
    if not answer.endswith("\n"):  # the end of the input, not a line
        typer.echo("", err=True)
    typer.echo(f"{_NOTHING} Edit the declaration, then look again: tidegauge plan", err=True)
    raise typer.Exit(2)
