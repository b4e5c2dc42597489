"""Prints readings, ledger, checks and status in a terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from tidegauge.publish.registry import FilePublisher, TextPublisher, format_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tidegauge.model.publisher import Publisher
    from tidegauge.model.reading import Reading
    from tidegauge.model.source import Check
    from tidegauge.store.public.ledger import Entry


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar on stderr, or None if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def show_readings(readings: list[Reading], form: str, output: Path | None) -> None:
    """To a file, or as text to stdout; `form` is the name of a format."""
    chosen = format_named(form)
    publisher: Publisher = (
        TextPublisher(chosen, partial(typer.echo, nl=False))
        if output is None
        else FilePublisher(chosen, output)
    )
    publisher.deliver(readings)


def show_ledger(entries: list[Entry]) -> None:
    """Print one block per ledger entry."""
    if not entries:
        typer.echo("Nothing has been committed.")
    for entry in entries:
        body = entry.body
        plan = f"plan {body['plan'][:12]}" if "plan" in body else "of at_most, before the plan"
        typer.echo(f"{entry.seq}  {entry.time}  {entry.kind}  {plan}")
        typer.echo(f"   reserved {body['measure']} = {body['reserved']} of {body['budget']}")
        for name, loss in body.get("releases", {}).items():
            typer.echo(f"     {name}: {loss}")
        typer.echo(f"   seal {entry.hash[:16]} after {entry.previous[:16]}")


def show_checks(checks: list[Check]) -> None:
    """Print one line per check and, below it, how to fix what is missing."""
    for check in checks:
        typer.echo(f"{'ok     ' if check.ok else 'MISSING'} {check.name}: {check.detail}")
        if check.fix:
            typer.echo(f"        {check.fix}")


def show_status(report: dict[str, Any]) -> None:
    """Print the report of `Gauge.status`."""
    typer.echo(f"Plan      {report['plan'] or 'not committed yet'}")
    if report["simulated"]:
        typer.echo("Noise     SIMULATED: these readings are not private")
    typer.echo(f"Processed {report['processed_to'] or 'nothing yet'}")
    for name, release in report["releases"].items():
        total = "of unlimited" if release["readings_total"] is None else f"of {release['readings_total']}"
        upcoming = f", next {release['next']}" if release["next"] else ", finished"
        typer.echo(f"{name}: {release['readings']} readings {total}{upcoming}")
    if report["operator_only"]:
        typer.echo("For the operator only (exact, not private, never publish):")
        for name, amount in report["operator_only"].items():
            typer.echo(f"  {name.replace('_', ' ')}: {amount:,}")
