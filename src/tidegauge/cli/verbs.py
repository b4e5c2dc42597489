"""tidegauge VERB: every verb is a few lines around the gauge."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from tidegauge.cli.ending import ENDING, Stopped
from tidegauge.cli.local import app as local
from tidegauge.cli.service import setup_log, unforeseen
from tidegauge.cli.serving import receive
from tidegauge.cli.show import (
    progress_bar,
    show_checks,
    show_ledger,
    show_readings,
    show_status,
)
from tidegauge.cli.template import template, text
from tidegauge.demo import make_demo
from tidegauge.errors import SpecError, TidegaugeError
from tidegauge.plan.explain import explain
from tidegauge.plan.spec.declaration import load
from tidegauge.publish.plot import plot as draw
from tidegauge.run.gauge import Gauge
from tidegauge.store import refusal

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Keep publishing how a changing database stands, under one differential-privacy guarantee per person.",
)

app.add_typer(local, name="local", help="People report for themselves, and no one is trusted.")

File = Annotated[Path, typer.Option("--file", "-f", help="The declaration of the gauge.")]
StoreFile = Annotated[
    Path | None, typer.Option("--store", help="The store; default: beside the declaration.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DEFAULT = Path("tidegauge.toml")
_STOPPED = "What was committed is kept; the next run goes on from there."


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


@app.command()
def init(
    table: Annotated[
        str | None,
        typer.Argument(
            help="Where the table is: a changelog (csv, jsonl, parquet), an SQLite or DuckDB file, a file or folder of "
            "Debezium's events, or env:NAME for the connection string of a PostgreSQL server.",
            metavar="TABLE",
        ),
    ] = None,
    file: File = DEFAULT,
    kind: Annotated[
        str | None,
        typer.Option(
            help="The kind of source, where it is not what TABLE seems to be (snapshots, debezium)."
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--table", help="The table's name in its database.")] = None,
    schema: Annotated[str | None, typer.Option(help="PostgreSQL: its schema, if not public.")] = None,
    install: Annotated[
        bool,
        typer.Option("--install", help="Instead: make in the declared source what following it needs."),
    ] = False,
) -> None:
    """Write a tidegauge.toml to start from, from a table's columns."""
    if install:
        if table or kind or name or schema:
            raise SpecError(
                f"installs what {file.name} declares, and stands alone. Write that first, without --install; then: "
                "tidegauge init --install",
                key="--install",
            )
        typer.echo(Gauge.from_file(file).install())
        return
    if file.exists():
        raise SpecError(
            f"{file.name} is already here, and was left as it is. Remove it or name another with --file"
        )
    draft = template(table, file.parent, kind=kind, table=name, schema=schema)
    file.write_text(text(draft), "utf-8")
    typer.echo(f"Wrote {file}. Read it, change what is not as you want it, then: {draft.next}")


@app.command()
def plan(
    file: File = DEFAULT,
    store: StoreFile = None,
    why: Annotated[
        bool, typer.Option("--explain", help="Also say why each strategy was chosen or not.")
    ] = False,
    optimise: Annotated[
        bool,
        typer.Option(
            "--optimise", help="Find numerical optima, however long it takes, and keep them for run."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Explain what run will do, its predicted error and its lifetime loss; spends nothing."""
    planned = Gauge.from_file(file, store=store).plan(optimise=optimise)
    if as_json:
        _print_json(planned.as_json())
    else:
        typer.echo(explain(planned, why=why))


@app.command()
def run(
    file: File = DEFAULT,
    store: StoreFile = None,
    once: Annotated[bool, typer.Option("--once", help="Catch up to now, then end.")] = False,
    until: Annotated[
        str | None, typer.Option(help="End once everything up to this time is published.")
    ] = None,
    log: Annotated[str, typer.Option(help="What happens, to stderr: none, text or json.")] = "none",
    as_json: Json = False,
) -> None:
    """Commit the plan on the first run, then carry it out: catch up, and go on as time passes."""
    setup_log(log)
    gauge = Gauge.from_file(file, store=store, sleep=ENDING.sleep)
    published, last = 0, None
    with (
        ENDING.careful(_STOPPED),
        progress_bar("Publishing") as progress,
        closing(gauge.run(until, follow=not once, progress=progress)) as found,
    ):
        for reading in found:
            published, last = published + 1, reading
            if as_json:
                typer.echo(json.dumps(reading.as_json(), ensure_ascii=False))
            ENDING.check()
    if as_json:
        return
    if last is None:
        typer.echo("Nothing was due. See: tidegauge status")
    else:
        typer.echo(
            f"{published:,} reading{'' if published == 1 else 's'} published, up to {last.as_json()['time']}. See: tidegauge readings"
        )


@app.command()
def readings(
    release: Annotated[str | None, typer.Argument(help="Only this release.")] = None,
    file: File = DEFAULT,
    store: StoreFile = None,
    last: Annotated[
        int | None, typer.Option(min=1, help="Only the last so many times of each release.")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="table, csv, json or parquet.")] = "table",
    output: Annotated[Path | None, typer.Option(help="Write to this file.")] = None,
    smoothed: Annotated[
        bool, typer.Option("--smoothed", help="As all that is known by now would have it; revises the past.")
    ] = False,
    consistent: Annotated[
        bool, typer.Option("--consistent", help="Parts add up, counts are not negative; tells the bias.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print what was published: value, standard error and 95 % interval."""
    gauge = Gauge.from_file(file, store=store)
    published = gauge.published(release, smoothed=smoothed, consistent=consistent)
    if last is not None:
        keep: dict[str, set[Any]] = {}
        for name in {reading.release for reading in published}:
            keep[name] = set(sorted({r.time for r in published if r.release == name})[-last:])
        published = [reading for reading in published if reading.time in keep[reading.release]]
    show_readings(published, "json" if as_json else form, output)


@app.command()
def plot(
    release: Annotated[str | None, typer.Argument(help="The release; default: the first.")] = None,
    file: File = DEFAULT,
    store: StoreFile = None,
    as_json: Json = False,
) -> None:
    """Draw what was published in the terminal."""
    gauge = Gauge.from_file(file, store=store)
    name = release or next(iter(gauge.spec.release))
    published = gauge.published(name)
    if as_json:
        _print_json([reading.as_json() for reading in published])
    else:
        typer.echo(draw(published))


@app.command()
def ledger(file: File = DEFAULT, store: StoreFile = None, as_json: Json = False) -> None:
    """Show what was promised and reserved."""
    entries = Gauge.from_file(file, store=store).ledger()
    if as_json:
        _print_json([entry.as_json() for entry in entries])
    else:
        show_ledger(entries)


@app.command()
def status(file: File = DEFAULT, store: StoreFile = None, as_json: Json = False) -> None:
    """Show how far the gauge has come, and, for the operator alone, what did not count and why."""
    report = Gauge.from_file(file, store=store).status()
    if as_json:
        _print_json(report)
    else:
        show_status(report)


@app.command()
def verify(
    file: File = DEFAULT,
    store: StoreFile = None,
    against: Annotated[
        Path | None,
        typer.Option(help="Also compare with readings that were handed on: csv, json or parquet."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Prove the chain of ledger and journal, that every reading follows from the journal, and that the store is the newest."""
    proved = Gauge.from_file(file, store=store).verify(against)
    if as_json:
        _print_json(proved.as_json())
        return
    typer.echo(
        f"Proved: {proved.ledger_entries} ledger {'entry' if proved.ledger_entries == 1 else 'entries'} and {proved.measurements:,} measurements are as they were "
        f"sealed, and all {proved.readings:,} readings follow from them."
    )
    if against is not None:
        typer.echo(
            f"All {proved.compared:,} readings in {against.name} are in the store as they were handed on."
        )


@app.command()
def doctor(file: File = DEFAULT, as_json: Json = False) -> None:
    """Check what the source needs, and print the exact SQL that brings what is missing."""
    checks = Gauge.from_file(file).doctor()
    if as_json:
        _print_json([vars(check) for check in checks])
    else:
        show_checks(checks)
    if not all(check.ok for check in checks):
        raise typer.Exit(2)


@app.command()
def uninstall(file: File = DEFAULT) -> None:
    """Remove from the source what init --install made there."""
    typer.echo(Gauge.from_file(file).uninstall())


@app.command()
def serve(
    file: File = DEFAULT,
    listen: Annotated[str, typer.Option(help="Where: HOST:PORT.")] = "127.0.0.1:8321",
) -> None:
    """Receive change events over HTTP for a source with an inbox; run, in a process of its own, reads them."""
    with ENDING.careful():
        receive(load(file), file.parent, listen, typer.echo)


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(help="Where to put it.")] = Path("demo"),
    patients: Annotated[int, typer.Option(min=100, help="How many patients in the year.")] = 50_000,
) -> None:
    """Build an invented hospital's year, publish it, and compare with the truth."""
    make_demo(folder, patients=patients, console=Console(highlight=False))


def main() -> None:
    """Run a verb; what the user can fix ends with exit code 2 and one message.

    Signals are answered by whoever calls this: `tidegauge.cli.main`.
    """
    try:
        code = app(standalone_mode=False)  # what a verb, or an interrupt, ended with
        if code:
            sys.exit(code)
    except typer.Exit as stop:
        sys.exit(stop.exit_code)
    except typer.Abort:
        sys.exit(130)
    except KeyboardInterrupt:
        sys.exit(130)
    except Stopped:
        _end()
    except BrokenPipeError:
        sys.exit(0)
    except TidegaugeError as error:
        _refuse(error)
    except sqlite3.Error as error:
        _refuse(refusal(error, "the store"))
    except OSError as error:
        _refuse(TidegaugeError(f"{error.filename or 'the system'}: {error.strerror}"))
    except Exception as error:  # noqa: BLE001  (whatever it is, its words may be data)
        if ENDING.signal is not None:  # closing what was under way went wrong, which changes nothing
            _end()
        if type(error).__module__.startswith(("click", "typer")) and hasattr(error, "format_message"):
            typer.echo(f"tidegauge: {error.format_message()}", err=True)
            sys.exit(2)
        typer.echo(unforeseen(error), err=True)
        sys.exit(1)


def _end() -> NoReturn:
    """A signal came: one line, and the exit code that belongs to it."""
    ENDING.say()
    sys.exit(ENDING.code)


def _refuse(error: Exception) -> None:
    typer.echo(f"{type(error).__name__}: {error}", err=True)
    sys.exit(2)
