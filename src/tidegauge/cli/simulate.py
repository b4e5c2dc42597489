"""tidegauge simulate: the declared gauge on a known history."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tidegauge.cli.options import DEFAULT, File, Json
from tidegauge.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.model.json import JsonObject
    from tidegauge.plan.spec.declaration import GaugeSpec

_LIST: Final = ", separated by commas"


def simulate(
    file: File = DEFAULT,
    history: Annotated[
        Path | None,
        typer.Option(
            help="The history, if the declared source has none: a changelog (csv, jsonl, parquet), or a "
            "declaration whose [source] is read."
        ),
    ] = None,
    at_most: Annotated[
        str | None,
        typer.Option(help=f"Values to try{_LIST} (none: no such limit). Default: 12 from 1 to 64."),
    ] = None,
    within: Annotated[
        str | None, typer.Option(help=f"Durations to try{_LIST} (none: no such limit). Default: as declared.")
    ] = None,
    on_excess: Annotated[str | None, typer.Option(help="freeze or retire. Default: both.")] = None,
    epsilon: Annotated[str | None, typer.Option(help=f"Budgets to try{_LIST}. Default: as declared.")] = None,
    every: Annotated[
        str | None, typer.Option(help=f"Periods of all releases to try{_LIST}. Default: as declared.")
    ] = None,
    renews: Annotated[
        str | None,
        typer.Option(help=f"Lengths of terms to try{_LIST} (none: no renewal). Default: as declared."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(help="When the gauge starts; default: as declared, or with the history's first change."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="The end of the history; default: its last change.")
    ] = None,
    groups: Annotated[bool, typer.Option("--groups", help="Show every group as well.")] = False,
    chart: Annotated[
        Path | None, typer.Option(help="Also write a chart to this file: error against at_most (svg).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Try constraints on a known history, and show their errors.

    The error of a reading has two parts: noise, and bias from the constraint.

    For the operator only, because biases are exact.  Spends nothing.
    """
    from tidegauge.run.simulate import require_not_amended, simulated  # noqa: PLC0415
    from tidegauge.simulate.grid import Asked  # noqa: PLC0415
    from tidegauge.simulate.report import report  # noqa: PLC0415

    if chart is not None and chart.suffix.lower() != ".svg":
        raise SpecError("must end in .svg", key="--chart")
    spec, base = _declared(file, history)
    require_not_amended(spec, file)
    asked = Asked(*map(_listed, (at_most, within, on_excess, epsilon, every, renews)))
    found = simulated(spec, base, asked, start=start, until=until)
    if chart is not None:
        from tidegauge.simulate.chart import chart as drawn  # noqa: PLC0415

        chart.write_text(drawn(found), "utf-8")
    typer.echo(
        json.dumps(found.as_json(), ensure_ascii=False, indent=2) if as_json else report(found, groups=groups)
    )


def _listed(text: str | None) -> Sequence[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _declared(file: Path, history: Path | None) -> tuple[GaugeSpec, Path]:
    """The declaration, with the history as its source, and the folder that paths are relative to."""
    from tidegauge.plan.spec.declaration import load  # noqa: PLC0415

    spec = load(file)
    if history is None:
        return spec, file.parent
    if history.suffix == ".toml":
        other = load(history)
        return spec.model_copy(update={"source": other.source}), history.parent
    source = _sniffed(history, spec)
    data: dict[str, object] = {
        "source": source,
        "budget": {"epsilon": 1},
        "release": {"any": {"sql": "-", "every": "1 day"}},
    }
    from tidegauge.plan.spec.declaration import GaugeSpec  # noqa: PLC0415

    return spec.model_copy(update={"source": GaugeSpec.parse(data).source}), history.parent


def _sniffed(history: Path, spec: GaugeSpec) -> JsonObject:
    """The [source] that `init` would propose for a changelog, with the declared table, key and unit."""
    from tidegauge.cli.template import template  # noqa: PLC0415
    from tidegauge.source.files.source import stem  # noqa: PLC0415

    declared = spec.source.model_dump()
    table = declared.get("table") or (stem(declared["path"]) if declared.get("path") else None)
    draft = template(str(history), history.parent, kind="files", table=table, schema=None)
    found: JsonObject = tomllib.loads("\n".join(draft.source))["source"]
    own_keys = {
        name: declared[name] for name in ("key", "unit", "max_rows") if declared.get(name) is not None
    }
    source = {**found, **own_keys}
    own = () if spec.source.unit is not None else ("unit", "max_rows")
    return {name: value for name, value in source.items() if name not in own}
