"""Prints readings, ledger, checks and status in a terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from tidegauge.model.quantity import rfc3339
from tidegauge.publish.registry import FilePublisher, TextPublisher, format_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tidegauge.model.ledger import LedgerEntry
    from tidegauge.model.publisher import Publisher
    from tidegauge.model.reading import Reading
    from tidegauge.model.source import Check
    from tidegauge.model.status import Status, WholeError


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


def show_ledger(entries: list[LedgerEntry]) -> None:
    """Print one block per ledger entry."""
    if not entries:
        typer.echo("Nothing has been committed.")
    for entry in entries:
        body = entry.body
        typer.echo(f"{entry.seq}  {entry.time}  {entry.kind}  plan {body.plan[:12]}")
        typer.echo(f"   reserved {body.measure} = {body.reserved} of {body.budget}")
        for name, loss in body.releases.items():
            typer.echo(f"     {name}: {loss}")
        typer.echo(f"   seal {entry.hash[:16]} after {entry.previous[:16]}")


def show_checks(checks: list[Check]) -> None:
    """Print one line per check and, below it, how to fix what is missing."""
    for check in checks:
        typer.echo(f"{'ok     ' if check.ok else 'MISSING'} {check.name}: {check.detail}")
        if check.fix:
            typer.echo(f"        {check.fix}")


def show_status(report: Status) -> None:
    """Print the report of `Gauge.status`."""
    reached = "nothing yet" if report.processed_to is None else rfc3339(report.processed_to)
    typer.echo(f"Plan      {report.plan or 'not committed yet'}")
    if report.simulated:
        typer.echo("Noise     SIMULATED: these readings are not private")
    typer.echo(f"Processed {reached}")
    for name, release in report.releases.items():
        total = "of unlimited" if release.readings_total is None else f"of {release.readings_total}"
        upcoming = ", finished" if release.next is None else f", next {rfc3339(release.next)}"
        typer.echo(f"{name}: {release.readings} readings {total}{upcoming}")
    if report.operator_only:
        typer.echo("For the operator only (exact, not private, never publish):")
        for name, amount in report.operator_only.items():
            typer.echo(f"  {name.replace('_', ' ')}: {amount:,}")
    if report.whole_error is not None and report.whole_error.releases:
        _show_whole_error(report.whole_error)


def _show_whole_error(report: WholeError) -> None:
    """Print the accepted and the true value of the latest readings, and warn of a bias above the noise."""
    typer.echo("Latest readings, for the operator only (exact, SECRET, never publish):")
    head = ("release", "group", "accepted", "true", "bias", "noise", "units off")
    rows: list[tuple[str, ...]] = [head]
    for name, cells in report.releases.items():
        for one in cells:
            group = "" if not one.group else ", ".join(map(str, one.group.values()))
            numbers = (
                "-" if value is None else f"{value:,.6g}" for value in (one.accepted, one.true, one.bias)
            )
            rows.append((name, group, *numbers, f"± {one.noise:,.4g}", f"{one.units:,}"))
    widths = [max(len(row[n]) for row in rows) for n in range(len(head))]
    for row in rows:
        texts = (cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True))
        right = (cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True))
        typer.echo(f"  {'  '.join((*texts, *right)).rstrip()}")
    if report.since is not None:
        typer.echo(f"  Changes that were dropped are not known before {rfc3339(report.since)}.")
    for warning in report.warnings:
        typer.echo(f"Warning: {warning}.")
