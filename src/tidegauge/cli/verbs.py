"""tidegauge VERB: every verb is a few lines around the gauge.

A verb imports what it needs when it is called: `--help` and `--version` load no large library.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, cast

import typer

from tidegauge.cli.ending import ENDING, Stopped
from tidegauge.cli.local import app as local
from tidegauge.cli.service import internal_error, setup_log
from tidegauge.errors import SpecError, TidegaugeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegauge.model.reading import Reading
    from tidegauge.run.gauge import Gauge

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Publish private statistics of a live database, continuously.",
)

app.add_typer(local, name="local", help="Local differential privacy: no trusted server.")

File = Annotated[Path, typer.Option("--file", "-f", help="The declaration of the gauge.")]
StoreFile = Annotated[
    Path | None, typer.Option("--store", help="The store; default: beside the declaration.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DEFAULT = Path("tidegauge.toml")
_UsageError = cast(
    "type[typer.BadParameter]",
    next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException"),
)
"""The error of an unknown verb or option: click's, or that of the copy of click in newer typer versions."""
_STOPPED = "What was committed is kept; the next run goes on from there."


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def _open(file: Path, store: Path | None = None, *, sleep: Callable[[float], None] = time.sleep) -> Gauge:
    """The gauge that `file` declares; the libraries that it needs are imported here."""
    from tidegauge.run.gauge import Gauge  # noqa: PLC0415

    return Gauge.from_file(file, store=store, sleep=sleep)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version  # noqa: PLC0415

        typer.echo(f"tidegauge {version('tidegauge')}")
        raise typer.Exit


@app.callback()
def tidegauge(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Options that come before the verb."""


@app.command()
def init(
    table: Annotated[
        str | None,
        typer.Argument(
            help="Where the table is: a changelog (csv, jsonl, parquet), an SQLite or DuckDB file, a file or "
            "folder of Debezium events, or env:NAME, the environment variable with the connection string "
            "of a PostgreSQL server.",
            metavar="TABLE",
        ),
    ] = None,
    file: File = DEFAULT,
    kind: Annotated[
        str | None,
        typer.Option(help="The kind of source, if it cannot be recognized from TABLE (snapshots, debezium)."),
    ] = None,
    name: Annotated[str | None, typer.Option("--table", help="The table's name in its database.")] = None,
    schema: Annotated[str | None, typer.Option(help="PostgreSQL: the table's schema, if not public.")] = None,
    install: Annotated[
        bool,
        typer.Option("--install", help="Install what the source needs (triggers, or publication and slot)."),
    ] = False,
) -> None:
    """Write a first tidegauge.toml from a table's columns."""
    from tidegauge.cli.template import template, text  # noqa: PLC0415

    if install:
        if table or kind or name or schema:
            raise SpecError(
                f"reads {file.name} and takes no argument but --file. Write {file.name} first (tidegauge "
                "init TABLE), then run: tidegauge init --install",
                key="--install",
            )
        typer.echo(_open(file).install())
        return
    if file.exists():
        raise SpecError(
            f"{file.name} exists and was not changed. Remove it, or name another file with --file"
        )
    draft = template(table, file.parent, kind=kind, table=name, schema=schema)
    file.write_text(text(draft), "utf-8")
    typer.echo(f"Wrote {file}. Read it and edit it, then run: {draft.next}")


@app.command()
def plan(
    file: File = DEFAULT,
    store: StoreFile = None,
    why: Annotated[
        bool, typer.Option("--explain", help="Also explain why each strategy was chosen or rejected.")
    ] = False,
    optimise: Annotated[
        bool,
        typer.Option(
            "--optimise", help="Search for numerically optimal strategies (slow) and keep them for run."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Explain the plan: predicted errors and privacy loss.  Spends nothing."""
    planned = _open(file, store).plan(optimise=optimise)
    if as_json:
        _print_json(planned.as_json())
    else:
        from tidegauge.plan.explain import explain  # noqa: PLC0415

        typer.echo(explain(planned, why=why))


@app.command()
def run(
    file: File = DEFAULT,
    store: StoreFile = None,
    once: Annotated[bool, typer.Option("--once", help="Publish everything that is due, then exit.")] = False,
    until: Annotated[
        str | None, typer.Option(help="Exit once everything up to this time is published.")
    ] = None,
    log: Annotated[str, typer.Option(help="Log to stderr: none, text or json.")] = "none",
    as_json: Json = False,
) -> None:
    """Publish every reading when it is due.  The first run commits the plan."""
    from tidegauge.cli.show import progress_bar  # noqa: PLC0415

    setup_log(log)
    gauge = _open(file, store, sleep=ENDING.sleep)
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
        count = f"{published:,} reading{'' if published == 1 else 's'}"
        typer.echo(f"{count} published, up to {last.as_json()['time']}. See: tidegauge readings")


@app.command()
def readings(
    release: Annotated[str | None, typer.Argument(help="Only this release.")] = None,
    file: File = DEFAULT,
    store: StoreFile = None,
    last: Annotated[
        int | None, typer.Option(min=1, help="Only this many of the latest times of each release.")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="table, csv, json or parquet.")] = "table",
    output: Annotated[Path | None, typer.Option(help="Write to this file.")] = None,
    smoothed: Annotated[
        bool, typer.Option("--smoothed", help="Re-estimate past values with later measurements.")
    ] = False,
    consistent: Annotated[
        bool,
        typer.Option(
            "--consistent", help="Make groups add up and counts non-negative; adds a column with the bias."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Print the published readings.

    Each has a value, its standard error and its noise interval (95 %).
    """
    from tidegauge.cli.show import show_readings  # noqa: PLC0415

    published = _open(file, store).published(release, smoothed=smoothed, consistent=consistent)
    if last is not None:
        published = _latest(published, last)
    show_readings(published, "json" if as_json else form, output)


def _latest(readings: list[Reading], count: int) -> list[Reading]:
    """The readings at the `count` latest times of each release."""
    latest = {
        name: set(sorted({reading.time for reading in readings if reading.release == name})[-count:])
        for name in {reading.release for reading in readings}
    }
    return [reading for reading in readings if reading.time in latest[reading.release]]


@app.command()
def plot(
    release: Annotated[str | None, typer.Argument(help="The release; default: the first.")] = None,
    file: File = DEFAULT,
    store: StoreFile = None,
    as_json: Json = False,
) -> None:
    """Draw the published readings in the terminal."""
    gauge = _open(file, store)
    name = release or next(iter(gauge.spec.release))
    published = gauge.published(name)
    if as_json:
        _print_json([reading.as_json() for reading in published])
    else:
        from tidegauge.publish.plot import plot as draw  # noqa: PLC0415

        typer.echo(draw(published))


@app.command()
def ledger(file: File = DEFAULT, store: StoreFile = None, as_json: Json = False) -> None:
    """Show the committed plans and the budget reserved for them."""
    from tidegauge.cli.show import show_ledger  # noqa: PLC0415

    entries = _open(file, store).ledger()
    if as_json:
        _print_json([entry.as_json() for entry in entries])
    else:
        show_ledger(entries)


@app.command()
def status(file: File = DEFAULT, store: StoreFile = None, as_json: Json = False) -> None:
    """Show progress; for the operator only: dropped changes and bias."""
    from tidegauge.cli.show import show_status  # noqa: PLC0415

    report = _open(file, store).status()
    if as_json:
        _print_json(report.as_json())
    else:
        show_status(report)


@app.command()
def verify(
    file: File = DEFAULT,
    store: StoreFile = None,
    against: Annotated[
        Path | None,
        typer.Option(help="Also compare with readings that were exported: csv, json or parquet."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check ledger, journal, readings and the store's age.

    The hash chains of ledger and journal must be intact, every reading must follow from the journal, and the
    store must not be older than its witness.
    """
    proved = _open(file, store).verify(against)
    if as_json:
        _print_json(proved.as_json())
        return
    entries = "1 ledger entry" if proved.ledger_entries == 1 else f"{proved.ledger_entries} ledger entries"
    typer.echo(
        f"Proved: {entries} and {proved.measurements:,} measurements match their seals, "
        f"and all {proved.readings:,} readings follow from them."
    )
    if against is not None:
        typer.echo(f"All {proved.compared:,} readings in {against.name} equal those in the store.")


@app.command()
def doctor(file: File = DEFAULT, as_json: Json = False) -> None:
    """Check that the source can be followed.  Prints the SQL that fixes what is missing."""
    from tidegauge.cli.show import show_checks  # noqa: PLC0415

    checks = _open(file).doctor()
    if as_json:
        _print_json([vars(check) for check in checks])
    else:
        show_checks(checks)
    if not all(check.ok for check in checks):
        raise typer.Exit(2)


@app.command()
def uninstall(file: File = DEFAULT) -> None:
    """Remove from the source what init --install created."""
    typer.echo(_open(file).uninstall())


@app.command()
def serve(
    file: File = DEFAULT,
    listen: Annotated[str, typer.Option(help="Address to listen on, HOST:PORT.")] = "127.0.0.1:8321",
) -> None:
    """Receive Debezium events over HTTP into an inbox.  Another process runs the gauge."""
    from tidegauge.cli.serving import receive  # noqa: PLC0415
    from tidegauge.plan.spec.declaration import load  # noqa: PLC0415

    with ENDING.careful():
        receive(load(file), file.parent, listen, typer.echo)


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(help="The folder to create.")] = Path("demo"),
    patients: Annotated[int, typer.Option(min=100, help="Number of patients in the year.")] = 50_000,
) -> None:
    """Publish a year of invented data and compare with the truth."""
    from rich.console import Console  # noqa: PLC0415

    from tidegauge.demo import make_demo  # noqa: PLC0415

    make_demo(folder, patients=patients, console=Console(highlight=False))


def main() -> None:
    """Run a verb.  An error that the user can fix ends with one message and exit code 2.

    Signals are handled by the caller, `tidegauge.cli.main`.
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
    except _UsageError as error:
        typer.echo(f"tidegauge: {error.format_message()}", err=True)
        sys.exit(2)
    except sqlite3.Error as error:
        from tidegauge.store import refusal  # noqa: PLC0415

        _refuse(refusal(error, "the store"))
    except OSError as error:
        _refuse(TidegaugeError(f"{error.filename or 'the system'}: {error.strerror}"))
    except Exception as error:  # noqa: BLE001  (its text may quote data, so it is not printed)
        if ENDING.signal is not None:  # closing a verb that was stopped failed, which changes nothing
            _end()
        typer.echo(internal_error(error), err=True)
        sys.exit(1)


def _end() -> NoReturn:
    """End the process after a signal: one line, and the exit code of that signal."""
    ENDING.say()
    sys.exit(ENDING.code)


def _refuse(error: Exception) -> None:
    typer.echo(f"{type(error).__name__}: {error}", err=True)
    sys.exit(2)
