"""tidegauge stamp: write the changelog with what enforcement found out about every change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from tidegauge.cli.ending import ENDING
from tidegauge.cli.options import DEFAULT, File, Json, StoreFile, open_gauge, print_json, require_time

_STOPPED: Final = "Nothing was written."


def stamp(
    file: File = DEFAULT,
    store: StoreFile = None,
    output: Annotated[
        Path | None,
        typer.Option(
            help="The folder to create; default: the name of the store with the ending .stamped.",
            metavar="FOLDER",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Stamp the changes up to this time; default: all that are due.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a changelog with the constraint enforced; it is secret.

    Every change gets its number among its unit's changes, for this plan alone.  Any engine then computes
    exact sums with a plain GROUP BY.  Spends nothing.
    """
    from tidegauge.cli.show import progress_bar  # noqa: PLC0415

    require_time(until, "--until")
    gauge = open_gauge(file, store)
    with ENDING.careful(_STOPPED), progress_bar("Stamping") as bar:

        def report(done: int, total: int) -> None:
            ENDING.check()
            if bar is not None:
                bar(done, total)

        folder = gauge.stamp(output, until=until, progress=report)
    plan = gauge.plan().hash
    if as_json:
        print_json({"secret": True, "folder": str(folder), "plan": plan})
        return
    rows = "not encrypted" if gauge.spec.store.key is None else "encrypted with the key of the store"
    typer.echo(f"Wrote {folder} for plan {plan[:12]}. It is secret: it contains the rows, {rows}.")
    typer.echo(f"To begin with it: tidegauge run --stamped {folder}")
