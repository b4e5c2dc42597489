"""tidegauge amend: commit added releases against the reserve of the budget."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tidegauge.cli.ending import ENDING
from tidegauge.cli.options import DEFAULT, File, Json, StoreFile, open_gauge, print_json

if TYPE_CHECKING:
    from tidegauge.model.json import JsonObject
    from tidegauge.plan.plan import Plan

_QUESTION: Final = "Commit these releases? They cannot be changed later. [y/N] "
_NOTHING: Final = "Nothing was committed or spent."


def amend(
    file: File = DEFAULT,
    store: StoreFile = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Commit without asking (for services).")] = False,
    show: Annotated[
        bool, typer.Option("--show", help="Show what would be committed, and commit nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Commit added releases, against the budget's reserve.

    On a terminal it shows them and asks before it commits.
    """
    from tidegauge.cli.width import columns  # noqa: PLC0415
    from tidegauge.plan.explain import explain  # noqa: PLC0415

    gauge = open_gauge(file, store)
    plan, before = gauge.amendment(), gauge.reader.plan()
    if as_json and show:
        print_json(_as_json(plan, before, committed=False))
        return
    if not as_json:
        typer.echo(explain(plan, width=columns(sys.stdout)))
        typer.echo("")
        typer.echo(_left(plan, before))
    if show:
        typer.echo(f"{_NOTHING} To commit: tidegauge amend")
        return
    if not yes and sys.stdin.isatty() and sys.stderr.isatty():
        _ask()
    with ENDING.careful("The releases are committed, or nothing is: see tidegauge ledger."):
        gauge.amend(plan)
    if as_json:
        print_json(_as_json(plan, before, committed=True))
    else:
        typer.echo("Committed. To publish, go on with: tidegauge run")


def _ask() -> None:
    """Raise typer.Exit with code 2 unless the user agrees."""
    with ENDING.careful(_NOTHING):
        typer.echo(_QUESTION, nl=False, err=True)
        answer = sys.stdin.readline()
        ENDING.check()
    if answer.strip().lower() not in ("y", "yes"):
        if not answer.endswith("\n"):  # the end of the input, not a line
            typer.echo("", err=True)
        typer.echo(_NOTHING, err=True)
        raise typer.Exit(2)


def _left(plan: Plan, before: Plan) -> str:
    """What is held back before and after, as a sentence."""
    left = before.held_back - plan.needed
    shown = [f"{float(amount / plan.total):.4g}" for amount in (before.held_back, plan.needed, left)]
    rest = "" if left else " A share (share = 0.1, of the whole budget) would leave something for later."
    return (
        f"Reserve: {shown[0]} of the budget is held back; this takes {shown[1]} and leaves {shown[2]}.{rest}"
    )


def _as_json(plan: Plan, before: Plan, *, committed: bool) -> JsonObject:
    """What amend --json prints: the plan, and what is held back before and after."""
    left = before.held_back - plan.needed
    shown = dict(plan.as_json())
    shown["reserve"] = {"before": float(before.held_back), "after": float(left)}
    shown["committed"] = committed
    return shown
