"""tidegauge audit: evidence that the installed code keeps what a plan promises."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from tidegauge.cli.ending import ENDING
from tidegauge.cli.options import DEFAULT, File, Json, StoreFile
from tidegauge.errors import SpecError

_STOPPED = "The audit has no result. Nothing was spent."


def audit(
    file: File = DEFAULT,
    store: StoreFile = None,
    cells: Annotated[
        int, typer.Option(min=50, max=50_000, help="Cells of the canaries in each world.")
    ] = 500,
    output: Annotated[
        Path | None, typer.Option(help="Also write the report to this file (.html or .json).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Audit the plan with the installed code; known bugs must be found.

    The parts: replay, distribution of the noise, canaries, positive controls, local surveys.

    Works on invented rows in a folder of its own, reads no data and spends nothing.  Takes a few minutes.
    Exit code 0: passed; 1: failed.
    """
    from tidegauge.audit.audit import audit as run_audit  # noqa: PLC0415
    from tidegauge.audit.report.page import as_html  # noqa: PLC0415
    from tidegauge.audit.report.text import as_text  # noqa: PLC0415
    from tidegauge.audit.worlds.rehearsal import Subject  # noqa: PLC0415
    from tidegauge.cli.show import progress_bar  # noqa: PLC0415
    from tidegauge.run.gauge import Gauge  # noqa: PLC0415

    if output is not None and output.suffix not in (".html", ".json"):
        raise SpecError("write the report to a file that ends with .html or .json", key="--output")
    gauge = Gauge.from_file(file, store=store)
    plan = gauge.plan()
    parts = {"replay": 0.0, "canaries": 0.0, "controls": 0.0, "local surveys": 0.0}
    with ENDING.careful(_STOPPED), progress_bar("Auditing") as progress:

        def show(what: str, done: float) -> None:
            parts[what] = done
            if progress is not None:
                progress(round(1000 * sum(parts.values())), 1000 * len(parts))
            ENDING.check()

        committed = plan.committed is not None
        commits = [entry.body for entry in gauge.ledger()] if committed else []
        hashes = {part.hash for part in plan.parts or (plan,)}
        mine = [one.reserved for one in commits if one.plan in hashes]
        report = run_audit(
            Subject(gauge.spec, plan),
            committed=committed,
            reserved=sum(mine, Fraction(0)) if committed else None,
            cells=cells,
            progress=show,
        )
    document = json.dumps(report.as_json(), ensure_ascii=False, indent=2)
    if output is not None:
        output.write_text(as_html(report) if output.suffix == ".html" else document + "\n", "utf-8")
    typer.echo(document if as_json else as_text(report))
    if not report.passed:
        raise typer.Exit(1)
