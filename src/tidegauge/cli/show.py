"""Prints readings, ledger, checks and status in a terminal."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import typer

from tidegauge.cli.width import columns
from tidegauge.errors import SpecError
from tidegauge.model.history import Narrating
from tidegauge.model.quantity import rfc3339
from tidegauge.plan.wording import number as exact
from tidegauge.plan.wording import wrapped
from tidegauge.publish.registry import FORMATS, FilePublisher, TextPublisher, format_named
from tidegauge.publish.table import as_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rich.progress import Progress, TaskID

    from tidegauge.cli.narrate import Narrator
    from tidegauge.model.ledger import LedgerEntry
    from tidegauge.model.reading import Reading
    from tidegauge.model.source import Check
    from tidegauge.model.status import Status, WholeError
    from tidegauge.run.reader import Reader


@dataclass(frozen=True)
class Bar(Narrating):
    """A progress bar; called with what is done and the total."""

    progress: Progress
    task: TaskID

    def __call__(self, done: int, total: int) -> None:
        """Show this progress."""
        self.progress.update(self.task, completed=done, total=total)

    def says(self, text: str) -> None:
        """Print a sentence above the bar."""
        self.progress.console.print(text, highlight=False)

    def stop(self) -> None:
        """Take the bar away."""
        self.progress.stop()


@contextmanager
def progress_bar(label: str) -> Iterator[Bar | None]:
    """A progress bar on stderr, or None if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415  (slow to load, and only this needs it)
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield Bar(bar, bar.add_task(label, total=None))


def show_readings(readings: list[Reading], form: str | None, output: Path | None) -> None:
    """To a file, or as text to stdout; `form` is the name of a format, None: that of the file's name."""
    chosen = format_named(form or _format_of(output))
    if output is not None:
        delivery = FilePublisher(chosen, output).deliver(readings)
        typer.echo(f"Wrote {delivery.readings:,} readings to {output} ({chosen.name}).", err=True)
    elif chosen.name == "table":
        fits = sys.stdout.isatty() or "COLUMNS" in os.environ
        typer.echo(as_text(readings, columns(sys.stdout) if fits else None), nl=False)
    else:
        TextPublisher(chosen, partial(typer.echo, nl=False)).deliver(readings)


def _format_of(output: Path | None) -> str:
    """The format that the name of a file asks for.  Raises SpecError if its ending names none."""
    if output is None:
        return "table"
    ending = output.suffix.removeprefix(".").lower()
    found = FORMATS.find(ending)
    if found is None or found.decode is None:
        raise SpecError(
            f"'{output.name}' does not end in .csv, .json or .parquet; rename it or add --format",
            key="--output",
        )
    return ending


def show_end(said: Narrator, reader: Reader) -> None:
    """Print what a run has published, or when its first reading is due."""
    if said.last is not None:
        typer.echo(f"{said.summary()} See: tidegauge readings")
        return
    typer.echo(f"Nothing was due. {next_due(reader)} See: tidegauge status")


def next_due(reader: Reader) -> str:
    """When the next reading is due, as a sentence."""
    due = sorted(one.next for one in reader.status().releases.values() if one.next is not None)
    return f"The next reading is due at {rfc3339(due[0])}." if due else "Every reading is published."


def latest(readings: list[Reading], count: int) -> list[Reading]:
    """The readings at the `count` latest times of each release."""
    times = {
        name: set(sorted({reading.time for reading in readings if reading.release == name})[-count:])
        for name in {reading.release for reading in readings}
    }
    return [reading for reading in readings if reading.time in times[reading.release]]


def show_ledger(entries: list[LedgerEntry]) -> None:
    """Print one block per ledger entry."""
    if not entries:
        typer.echo("Nothing has been committed.")
    for entry in entries:
        body = entry.body
        plan = f"plan {body.plan[:12]}" if body.plan else "of at_most, before the plan"
        typer.echo(f"{entry.seq}  {entry.time}  {entry.kind}  {plan}")
        typer.echo(f"   reserved {body.measure} = {exact(body.reserved)} of {exact(body.budget)}")
        for name, loss in body.releases.items():
            typer.echo(f"     {name}: {exact(loss)}")
        typer.echo(f"   seal {entry.hash[:16]} after {entry.previous[:16]}")


def show_checks(checks: list[Check]) -> None:
    """Print one line per check and, below it, how to fix what is missing."""
    for check in checks:
        typer.echo(f"{'ok     ' if check.ok else 'MISSING'} {check.name}: {check.detail}")
        if check.fix:
            typer.echo(f"        {check.fix}")


def show_status(report: Status) -> None:
    """Print the report of `Reader.status`."""
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
        width = columns(sys.stdout)
        typer.echo("SECRET, for the operator only (exact, not private, never publish):")
        for name, amount in report.operator_only.items():
            meaning = MEANINGS.get(name, "")
            label = f"  {name.replace('_', ' ')}: {amount:,}"
            text = f"{label}  ({meaning})" if meaning else label
            for line in wrapped("", text.strip(), width - 2, hanging=4):
                typer.echo(f"  {line}")
    if report.whole_error is not None and report.whole_error.releases:
        _show_whole_error(report.whole_error)


MEANINGS: Final = {
    "outside_domain": "changes to a group that is not declared",
    "dropped": "changes ignored because of [constraint]: their units are frozen or have retired",
    "late": "changes that arrived after their window was measured; they count in the next one",
    "without_unit": "changes of rows without a unit, which do not count",
    "unknown_before": "updates of unknown rows, treated as insertions",
    "inserted_twice": "insertions of known rows, treated as updates",
    "other_before": "changes whose old row differs from the stored one, which is used",
    "deleted_unknown": "deletions of unknown rows, ignored",
    "unknown_kept": "unchanged long values that the log left out and the store does not have: NULL",
    "displaced": "rows whose key was taken by another row before their deletion was reported",
}
"""What each count of `status` counts."""


_PARTS: Final = (
    "noise: noise interval (95 %), the noise alone. bias: accepted less true, in no published interval. "
    "The whole error of a reading is noise and bias. units off: when everything processed is counted."
)


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
    for line in wrapped("  ", _PARTS, columns(sys.stdout)):
        typer.echo(line)
    if report.since is not None:
        typer.echo(f"  Changes that were dropped are not known before {rfc3339(report.since)}.")
    for warning in report.warnings:
        for line in wrapped("", f"Warning: {warning}.", columns(sys.stdout), hanging=9):
            typer.echo(line)
