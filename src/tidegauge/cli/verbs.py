"""tidegauge VERB: every verb is a few lines around the gauge.

A verb imports what it needs when it is called: `--help` and `--version` load no large library.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tidegauge.cli import source
from tidegauge.cli.amend import amend
from tidegauge.cli.audit import audit
from tidegauge.cli.demonstrate import demo
from tidegauge.cli.ending import ENDING
from tidegauge.cli.ledger import ledger
from tidegauge.cli.local import app as local
from tidegauge.cli.options import (
    DEFAULT,
    LISTEN,
    File,
    Json,
    StoreFile,
    open_gauge,
    open_reader,
    print_json,
    require_time,
)
from tidegauge.cli.publishing import publish, serve, show_undelivered
from tidegauge.cli.service import setup_log
from tidegauge.cli.simulate import simulate
from tidegauge.cli.stamp import stamp
from tidegauge.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Publish private statistics of a live database, continuously.",
)

app.add_typer(local, name="local", help="Local differential privacy: no trusted server.")

_STOPPED = "What was committed is kept; the next run goes on from there."
_UNFINISHED = "The finished parts of the history are kept; the next run continues with the others."


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
        typer.Option("--install", help="The same as tidegauge install.", hidden=True),
    ] = False,
) -> None:
    """Write a first tidegauge.toml from a table's columns."""
    from tidegauge.cli.template import report, template, text  # noqa: PLC0415

    if install:
        if table or kind or name or schema:
            raise SpecError(
                f"reads {file.name} and takes no argument but --file. Write {file.name} first (tidegauge "
                "init TABLE), then run: tidegauge install",
                key="--install",
            )
        typer.echo(open_gauge(file).install())
        return
    if file.exists():
        raise SpecError(
            f"{file.name} exists and was not changed. Remove it, or name another file with --file"
        )
    draft = template(table, file.parent, kind=kind, table=name, schema=schema)
    file.write_text(text(draft, now=time.time_ns() // 1000), "utf-8")
    for line in report(draft, terminal=sys.stdout.isatty()):
        typer.echo(line)
    typer.echo(f"Wrote {file}. Edit it, then run: {draft.next}")


@app.command()
def plan(
    also: Annotated[
        list[str] | None, typer.Argument(help="More keys for --what-if.", metavar="KEY=VALUES")
    ] = None,
    file: File = DEFAULT,
    store: StoreFile = None,
    why: Annotated[
        bool,
        typer.Option("--explain", help="Also show every strategy that was considered, with the reasons."),
    ] = False,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            help="Print the noise for other values, for example epsilon=0.5,1,2 at_most=2,4,8",
            metavar="KEY=VALUES",
        ),
    ] = None,
    optimise: Annotated[
        bool,
        typer.Option(
            "--optimise", help="Search for numerically optimal strategies (slow) and keep them for run."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what is protected, the expected noise and the cost.

    Reads no data and spends nothing.
    """
    from tidegauge.cli.planning import show_grid, show_plan  # noqa: PLC0415

    gauge = open_gauge(file, store)
    if what_if or also:
        show_grid(gauge, [*(what_if or ()), *(also or ())], named=bool(what_if), as_json=as_json)
    else:
        show_plan(gauge, why=why, optimise=optimise, as_json=as_json)


app.command()(simulate)


@app.command()
def run(
    file: File = DEFAULT,
    store: StoreFile = None,
    once: Annotated[bool, typer.Option("--once", help="Publish everything that is due, then exit.")] = False,
    until: Annotated[
        str | None, typer.Option(help="Exit once everything up to this time is published.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Commit the plan without asking (for services).")
    ] = False,
    stamped: Annotated[
        Path | None,
        typer.Option(
            help="First run: begin with this folder, which tidegauge stamp wrote.", metavar="FOLDER"
        ),
    ] = None,
    log: Annotated[str, typer.Option(help="Log to stderr: none, text or json.")] = "none",
    serve: Annotated[
        bool, typer.Option("--serve", help="Also serve the public file, in a process of its own.")
    ] = False,
    listen: Annotated[str, typer.Option(help="With --serve: address to listen on, HOST:PORT.")] = LISTEN,
    operator: Annotated[
        str | None,
        typer.Option(
            help="Also serve status and metrics for the operator at this address, HOST:PORT. Needs "
            "TIDEGAUGE_OPERATOR_TOKEN."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Publish every reading when it is due.  The first run commits the plan.

    On a terminal the first run shows the plan and asks before it commits.
    """
    from tidegauge.cli.commit import agreed_plan  # noqa: PLC0415
    from tidegauge.cli.narrate import Narrator  # noqa: PLC0415
    from tidegauge.cli.show import next_due, progress_bar, show_end  # noqa: PLC0415
    from tidegauge.cli.web import beside  # noqa: PLC0415
    from tidegauge.store.secret.unfinished import is_unfinished  # noqa: PLC0415

    setup_log(log)
    require_time(until, "--until")  # before anything is asked
    said = Narrator(aloud=sys.stderr.isatty() and log == "none" and not as_json)
    gauge = open_gauge(file, store, sleep=said.sleep)
    said.due = lambda: next_due(gauge.reader)
    agreed = agreed_plan(gauge, yes=yes)
    with (
        ENDING.careful(partial(_stopped, partial(is_unfinished, gauge.path))),
        beside(gauge, file.parent, listen if serve else None, operator, partial(typer.echo, err=True)),
        progress_bar("Publishing") as progress,
        closing(gauge.run(until, plan=agreed, follow=not once, stamped=stamped, progress=progress)) as found,
    ):
        said.bar = progress
        for reading in found:
            said.saw(reading)
            if as_json:
                typer.echo(json.dumps(reading.as_json(), ensure_ascii=False))
            ENDING.check()
    show_undelivered(gauge.undelivered)
    if not as_json:
        show_end(said, gauge.reader)


def _stopped(unfinished: Callable[[], bool]) -> str:
    """What an interrupted run leaves behind.  Whether its history is large, only a terminal may show."""
    return _UNFINISHED if sys.stderr.isatty() and unfinished() else _STOPPED


app.command()(amend)


@app.command()
def readings(
    release: Annotated[str | None, typer.Argument(help="Only this release.", metavar="RELEASE")] = None,
    file: File = DEFAULT,
    store: StoreFile = None,
    last: Annotated[
        int | None, typer.Option(min=1, help="Only the latest N times of each release.", metavar="N")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format", help="table, csv, json or parquet.  Default: that of --output's name, or table."
        ),
    ] = None,
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
    denoised: Annotated[
        bool, typer.Option("--denoised", help="Also show the estimate of a model, with its own interval.")
    ] = False,
    past_only: Annotated[
        bool, typer.Option("--past-only", help="With --denoised: use no later measurements.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print the published readings.

    Each has a value, its standard error and its noise interval (95 %).
    """
    from tidegauge.cli.show import latest, show_readings  # noqa: PLC0415

    if past_only and not denoised:
        raise SpecError("needs --denoised; plain readings use no later measurements", key="--past-only")
    model: Literal["all", "past"] = "past" if past_only else "all"
    published = open_reader(file, store).published(
        release, smoothed=smoothed, consistent=consistent, denoised=model if denoised else None
    )
    if last is not None:
        published = latest(published, last)
    show_readings(published, "json" if as_json else form, output)


@app.command()
def plot(
    release: Annotated[
        str | None, typer.Argument(help="The release; default: the first.", metavar="RELEASE")
    ] = None,
    file: File = DEFAULT,
    store: StoreFile = None,
    output: Annotated[
        Path | None, typer.Option(help="Write a chart to this file: .svg, .png or .html.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw the published readings in the terminal, or in a file."""
    reader = open_reader(file, store)
    name = release or reader.first_release()
    published = reader.published(name)
    if as_json:
        print_json([reading.as_json() for reading in published])
        return
    from tidegauge.cli.drawing import draw  # noqa: PLC0415

    typer.echo(draw(reader.plan, name or "", published, output))


app.command()(ledger)


@app.command()
def status(file: File = DEFAULT, store: StoreFile = None, as_json: Json = False) -> None:
    """Show progress, dropped changes and bias: for the operator only."""
    from tidegauge.cli.show import show_status  # noqa: PLC0415

    report = open_reader(file, store).status()
    if as_json:
        print_json(report.as_json())
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
    proved = open_reader(file, store).verify(against)
    if as_json:
        print_json(proved.as_json())
        return
    entries = "1 ledger entry" if proved.ledger_entries == 1 else f"{proved.ledger_entries} ledger entries"
    typer.echo(
        f"Proved: {entries} and {proved.measurements:,} measurements match their seals, "
        f"and all {proved.readings:,} readings follow from them."
    )
    if against is not None:
        typer.echo(f"All {proved.compared:,} readings in {against.name} equal those in the store.")


for verb in (audit, stamp, source.doctor, source.install, source.uninstall, publish, serve, demo):
    app.command()(verb)
