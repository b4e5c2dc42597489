"""tidegauge local: plan a survey, simulate it, collect its reports, print its estimates.

Each verb imports what it needs when it is called: `tidegauge --help` loads this module.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegauge.errors import LocalError

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegauge.local import Collector

app = typer.Typer(help="Local differential privacy: no trusted server.", no_args_is_help=True)

Z95 = 1.959963984540054
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SurveyFile = Annotated[
    Path,
    typer.Argument(
        help="A survey file written by `plan --out`.", exists=True, dir_okay=False, metavar="SURVEY"
    ),
]


class Format(StrEnum):
    """The formats in which readings are printed."""

    table = "table"
    csv = "csv"
    json = "json"
    parquet = "parquet"


@app.command()
def plan(
    *,
    answers: Annotated[str, typer.Option(help="The possible answers, separated by commas.")],
    windows: Annotated[int, typer.Option(help="Number of windows of the survey.")],
    changes: Annotated[
        int,
        typer.Option(
            help="Most changes of one person's answer over the whole survey, the first answer included."
        ),
    ],
    epsilon: Annotated[str, typer.Option(help="Privacy loss of all reports of one person together.")],
    people: Annotated[int, typer.Option(help="Number of people for which the error is predicted.")] = 10_000,
    protocol: Annotated[
        str | None, typer.Option(help="Use this protocol instead of the most accurate one.")
    ] = None,
    seed: Annotated[str, typer.Option(help="Public seed that assigns roles to people.")] = "",
    reveals_change_times: Annotated[
        bool,
        typer.Option(
            "--reveals-change-times", help="Also consider protocols that reveal when an answer changes."
        ),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the survey to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare the protocols by predicted error and choose one."""
    from tidegauge.local import Survey  # noqa: PLC0415

    setting: dict[str, Any] = {
        "answers": [each.strip() for each in answers.split(",")],
        "windows": windows,
        "changes": changes,
        "epsilon": epsilon,
        "seed": seed,
        "reveals_change_times": reveals_change_times,
    }
    found = Survey.plan(people=people, **setting)
    survey = found.survey if protocol is None else Survey(protocol=protocol, **setting)
    if out is not None:
        out.write_text(survey.to_json())
    shown = found.to_dict() | {"survey": survey.hash, "protocol": survey.protocol}
    print(json.dumps(shown, indent=2) if as_json else found)
    if protocol is not None and not as_json:
        print(f"Protocol chosen by --protocol: {survey.protocol}.")
    if out is not None and not as_json:
        print(f"Survey {survey.hash[:16]} written to {out}.")


@app.command()
def simulate(
    *,
    survey_file: SurveyFile,
    people: Annotated[int, typer.Option(help="Number of simulated people.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of the simulated people and reports.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Run a survey on simulated people and show its error.

    The noise comes from a seed: do not use it for real reports.
    """
    import numpy as np  # noqa: PLC0415

    from tidegauge.local import Collector, Survey  # noqa: PLC0415
    from tidegauge.local.simulate import invent_lives, simulated_tally, true_histogram  # noqa: PLC0415

    survey = Survey.from_json(survey_file.read_text("utf-8", "replace"))
    random, z = np.random.default_rng(seed), len(survey.answers)
    lives = invent_lives(
        people=people, windows=survey.windows, answers=z, changes=survey.changes, random=random
    )
    truth, collector = true_histogram(lives, z), Collector(survey)
    collector.tally = simulated_tally(survey, lives, random)
    found = collector.histogram()
    error = found.value - truth
    known = np.isfinite(error)
    result = {
        "protocol": survey.protocol,
        "people": people,
        "rmse": float(np.sqrt(np.mean(error[known] ** 2))),
        "predicted_rmse": float(np.sqrt(survey.predicted_variance().mean() * people)),
        "covered_95": float(np.mean(np.abs(error[known]) <= Z95 * found.stderr[known])),
    }
    if as_json:
        print(json.dumps(result, indent=2))
        return
    print(f"{survey.protocol}, {people} people (simulated, seed {seed}):")
    predicted = result["predicted_rmse"]
    print(
        f"  root mean squared error of a count            {result['rmse']:.4g}   (predicted {predicted:.4g})"
    )
    print(f"  noise intervals that contain the true value   {result['covered_95']:.1%}   (95 % expected)")


@app.command()
def collect(
    *,
    survey_file: SurveyFile,
    store: Annotated[Path, typer.Option(help="The collector's file; created if it does not exist.")],
    reports: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Files of concatenated reports, or .jsonl files; - reads stdin.", metavar="REPORTS"
        ),
    ] = None,
    merge: Annotated[
        list[Path] | None, typer.Option(help="Add the counts of another collector's file.")
    ] = None,
    close: Annotated[
        int | None, typer.Option(help="Accept no more reports for windows up to this one.")
    ] = None,
    listen: Annotated[
        str | None, typer.Option(help="Then receive reports at HOST:PORT until interrupted.")
    ] = None,
    origin: Annotated[
        list[str] | None, typer.Option(help="A web origin (CORS) whose pages may send reports.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Count reports into a collector's file.

    Each report counts once; rejected reports are counted by reason.
    """
    from tidegauge.local import Collector, Receipt, Survey  # noqa: PLC0415

    collector = Collector(Survey.from_json(survey_file.read_text("utf-8", "replace")), path=store)
    try:
        total = Receipt()
        for path in reports or []:
            total += collector.add(_reports(path))
        for path in merge or []:
            collector.merge(Collector.load(path))
        if close is not None:
            collector.close_through(close)
        shown = asdict(total)
        print(json.dumps(shown) if as_json else ", ".join(f"{name} {count}" for name, count in shown.items()))
        if listen is not None:
            _serve(collector, listen, origin or [])
    finally:
        collector.close()


def _reports(path: Path) -> bytes | list[bytes]:
    from tidegauge.local import ReporterError, report_from_json  # noqa: PLC0415

    if str(path) == "-":
        return sys.stdin.buffer.read()
    if path.suffix != ".jsonl":
        return path.read_bytes()
    reports = []
    for line in path.read_text("utf-8", "replace").splitlines():
        try:
            reports.append(report_from_json(line))
        except ReporterError:
            reports.append(b"")
    return reports


def _serve(collector: Collector, listen: str, origins: list[str]) -> None:
    try:
        import uvicorn  # noqa: PLC0415 - the extra `serve` is not needed for anything else here

        from tidegauge.receive.app import create_app  # noqa: PLC0415
    except ImportError:
        raise LocalError("--listen needs the extra 'serve': pip install '.[serve]'") from None
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit():
        raise LocalError("--listen must be HOST:PORT, for example 127.0.0.1:8000")
    app = create_app(collector=collector, origins=origins)
    uvicorn.run(app, host=host, port=int(port), access_log=False, log_level="warning", proxy_headers=False)


@app.command()
def readings(
    *,
    store: Annotated[Path, typer.Argument(help="A collector's file.", metavar="PATH")],
    output: Annotated[Format, typer.Option("--format", help="Output format.")] = Format.table,
    out: Annotated[Path | None, typer.Option(help="Write to this file; required for parquet.")] = None,
    simplex: Annotated[
        bool, typer.Option("--simplex", help="Project to the nearest possible counts (biased).")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the estimated histogram of every window."""
    from pyarrow import parquet  # noqa: PLC0415

    from tidegauge.local import Collector  # noqa: PLC0415

    collector = Collector.load(store)
    table = _with_interval(collector.estimate(simplex=simplex))
    chosen = Format.json if as_json else output
    if chosen is Format.parquet:
        if out is None:
            raise LocalError("--format parquet needs --out FILE")
        parquet.write_table(table, out)
        return
    text = _text(table, chosen)
    if out is None:
        print(text)
    else:
        out.write_text(text + "\n")


def _with_interval(table: pa.Table) -> pa.Table:
    import numpy as np  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415

    value, half = (np.array(table[name].to_numpy()) for name in ("value", "stderr"))
    half = half * Z95
    for name, edge in (("low", value - half), ("high", value + half)):
        table = table.append_column(name, pa.array(edge, from_pandas=True))
    return table


def _text(table: pa.Table, output: Format) -> str:
    if output is Format.csv:
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow import csv  # noqa: PLC0415

        sink = pa.BufferOutputStream()
        csv.write_csv(table, sink)
        return str(sink.getvalue().to_pybytes(), "utf-8").rstrip("\n")
    if output is Format.json:
        return json.dumps(table.to_pylist(), indent=2)
    width = max(6, *(len(answer) for answer in table["answer"].unique().to_pylist()))
    lines = [f"{'window':>6}  {'answer':<{width}}  {'value':>12}  {'± 95 %':>12}"]
    for row in table.to_pylist():
        shown = (
            ["unknown", ""] if row["value"] is None else [f"{row['value']:.1f}", f"{Z95 * row['stderr']:.1f}"]
        )
        lines.append(f"{row['window']:>6}  {row['answer']:<{width}}  {shown[0]:>12}  {shown[1]:>12}")
    return "\n".join(lines)
