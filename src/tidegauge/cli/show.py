"""Prints readings, ledger, checks and status in a terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from tidegauge.errors import SpecError
from tidegauge.publish.formats import as_csv, as_json, as_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tidegauge.model.reading import Reading
    from tidegauge.model.source import Check
    from tidegauge.store.public.ledger import Entry

_WIDE: Final = 10_000


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


def number(value: float | None) -> str:
    """A number rounded for people; "-" for a missing value."""
    return "-" if value is None else f"{value:,.4g}" if abs(value) < 100 else f"{value:,.1f}"


def show_readings(readings: list[Reading]) -> None:
    """Print readings as a table."""
    if not readings:
        typer.echo("Nothing has been published yet.")
        return
    table = Table(box=None, pad_edge=False)
    for name in ("release", "time", "group"):
        table.add_column(name)
    biased = any(reading.bias is not None for reading in readings)
    for name in ("value", "stderr", "noise 95 %: low", "high", *(["bias"] if biased else [])):
        table.add_column(name, justify="right")
    for reading in readings:
        low, high = reading.interval(0.95)
        group = (
            ""
            if reading.group is None
            else ", ".join(f"{key}={value}" for key, value in reading.group.items())
        )
        when = reading.as_json()["time"].removesuffix("T00:00:00Z")
        table.add_row(
            reading.release,
            when,
            group,
            number(reading.value),
            number(reading.stderr),
            number(low),
            number(high),
            *([number(reading.bias)] if biased else []),
        )
    # wide: a time or a value is never cut, however narrow the terminal
    console = Console(highlight=False, width=_WIDE)
    console.print(table, soft_wrap=True, no_wrap=True, crop=False, overflow="ignore")


def write_readings(readings: list[Reading], form: str, output: Path | None) -> None:
    """Write readings to a file, or as text to stdout.  Raises SpecError for a wrong format."""
    match form:
        case "json":
            text = as_json(readings)
        case "csv":
            text = as_csv(readings)
        case "parquet":
            _write_parquet(readings, output)
            return
        case "table":
            raise SpecError(
                "a table can only be printed; for a file choose csv, json or parquet", key="--format"
            )
        case _:
            raise SpecError("must be table, csv, json or parquet", key="--format")
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, "utf-8")


def _write_parquet(readings: list[Reading], output: Path | None) -> None:
    import pyarrow.parquet as pq  # noqa: PLC0415  (slow to load, and only this needs it)

    if output is None:
        raise SpecError("parquet is not text; name a file with --output", key="--format")
    pq.write_table(as_table(readings), output)


def show_ledger(entries: list[Entry]) -> None:
    """Print one block per ledger entry."""
    if not entries:
        typer.echo("Nothing has been committed.")
    for entry in entries:
        body = entry.body
        typer.echo(f"{entry.seq}  {entry.time}  {entry.kind}  plan {body['plan'][:12]}")
        typer.echo(f"   reserved {body['measure']} = {body['reserved']} of {body['budget']}")
        for name, loss in body["releases"].items():
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
