"""The verbs that concern the source: doctor, install, uninstall, serve."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegauge.cli.ending import ENDING
from tidegauge.cli.options import DEFAULT, LISTEN, File, Json, open_gauge, print_json


def doctor(file: File = DEFAULT, as_json: Json = False) -> None:
    """Check that the source can be followed.  Prints the SQL that fixes what is missing."""
    from tidegauge.cli.show import show_checks  # noqa: PLC0415

    checks = open_gauge(file).doctor()
    if as_json:
        print_json([vars(check) for check in checks])
    else:
        show_checks(checks)
    if not all(check.ok for check in checks):
        raise typer.Exit(2)


def install(file: File = DEFAULT) -> None:
    """Install what the source needs.

    SQLite needs triggers, PostgreSQL a publication.  The first run creates the replication slot.
    """
    typer.echo(open_gauge(file).install())


def uninstall(file: File = DEFAULT) -> None:
    """Remove from the source what install created."""
    typer.echo(open_gauge(file).uninstall())


def serve(
    file: File = DEFAULT,
    listen: Annotated[str, typer.Option(help="Address to listen on, HOST:PORT.")] = LISTEN,
) -> None:
    """Receive Debezium events over HTTP into an inbox.  Another process runs the gauge."""
    from tidegauge.cli.serving import receive  # noqa: PLC0415
    from tidegauge.plan.spec.declaration import load  # noqa: PLC0415

    with ENDING.careful():
        receive(load(file), file.parent, listen, typer.echo)
