"""Prints a plan, what would make it better, and a grid of other values."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import typer

from tidegauge.cli.options import print_json
from tidegauge.cli.width import columns
from tidegauge.errors import SpecError
from tidegauge.model.reading import COVERS
from tidegauge.plan.explain import explain
from tidegauge.plan.what_if import noise_of, parsed, smaller, suggested
from tidegauge.plan.wording import wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.plan.spec.declaration import GaugeSpec
    from tidegauge.plan.what_if import Alternative
    from tidegauge.run.gauge import Gauge


def show_plan(gauge: Gauge, *, why: bool, optimise: bool, as_json: bool) -> None:
    """Print the plan; before it is committed, also what would lower the noise."""
    plan = gauge.plan(optimise=optimise)
    if as_json:
        print_json(plan.as_json())
        return
    width = columns(sys.stdout)
    typer.echo(explain(plan, why=why, width=width))
    typer.echo("")
    if plan.committed is not None:
        typer.echo("This plan is committed and cannot be changed. See: tidegauge status")
        return
    noisy = [one.release.name for one in plan.releases if one.chosen.half_width_worst]
    if noisy:
        names = [name for name, one in plan.series.items() if one.plan.release.name in noisy]
        groups = any(len(one.release.query.cells) > 1 for one in plan.releases)
        _show_alternatives(gauge.spec, names, noise_of(plan), gauge.alternatives(plan), width, groups=groups)
    typer.echo("Nothing is spent yet. To commit the plan and publish: tidegauge run")


def _show_alternatives(
    spec: GaugeSpec,
    names: Sequence[str],
    now: dict[str, str],
    found: Sequence[Alternative],
    width: int,
    *,
    groups: bool,
) -> None:
    """One line a release: its noise now, and with one change of the declaration."""
    typer.echo("If that is not good enough, change one of these:")
    labels = [one.label for one in found]
    unsearched = all(label.startswith(("epsilon", "rho", "for", "alone")) for label in labels)
    head = ["", "now", *labels]
    rows = [[name, now[name], *(one.noise.get(name, "-") for one in found)] for name in names]
    for line in table(head, rows, width):
        typer.echo(line)
    hints = [
        "alone: it is the only release." if "alone" in labels else "",
        _FEWER if any(label.startswith(("at_most", "max_rows")) for label in labels) else "",
        "Fewer, larger groups have the same noise each, so a smaller relative error." if groups else "",
        smaller(spec) if unsearched else "",
        "Other values:",
    ]
    for hint in filter(None, hints):
        for line in wrapped("", hint, width, hanging=2):
            typer.echo(line)
    words = suggested(spec)
    while len(words) > 1 and len(_command(words)) > width:
        words.pop()
    typer.echo(_command(words))
    typer.echo("")


def _command(words: Sequence[str]) -> str:
    return f"  tidegauge plan --what-if {' '.join(words)}"


_FEWER: Final = (
    "A smaller at_most or max_rows has less noise, but ignores more (bias): tidegauge simulate shows both."
)


def show_grid(gauge: Gauge, words: Sequence[str], *, named: bool, as_json: bool) -> None:
    """Print the noise of every release for each combination of values."""
    if not named:
        raise SpecError(f"to try other values write: tidegauge plan --what-if {' '.join(words)}")
    wanted = parsed(words)
    choices = gauge.what_if(wanted)
    if as_json:
        print_json([one.as_json() for one in choices])
        return
    width = columns(sys.stdout)
    plans = [one.plan for one in choices if one.plan is not None]
    if not plans:
        raise SpecError(f"none of these can be planned. The first: {choices[0].refused}", key="--what-if")
    names = list(plans[0].series)
    head, rows = [*wanted, *names], []
    for one in choices:
        shown = {} if one.plan is None else noise_of(one.plan)
        rows.append([*one.values.values(), *(shown.get(name, "refused") for name in names)])
    fewer = f" {_FEWER}" if {"at_most", "max_rows"} & wanted.keys() else ""
    for line in wrapped("", f"Noise interval (95 %) at the worst reading. {COVERS}{fewer}", width):
        typer.echo(line)
    typer.echo("Nothing was read or spent.")
    for line in table(head, rows, width, fixed=len(wanted)):
        typer.echo(line)
    for one in choices:
        if one.plan is None:
            values = " ".join(f"{key}={value}" for key, value in one.values.items())
            for line in wrapped(f"{values}: ", one.refused.replace("\n", " "), width, hanging=2):
                typer.echo(line)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, fixed: int = 1) -> list[str]:
    """The table; where it is wider than `width`, several below each other that share the `fixed` columns."""
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    first = sum(widths[:fixed]) + 2 * (fixed - 1)
    blocks: list[list[int]] = [[]]
    for at in range(fixed, len(head)):
        used = first + sum(widths[one] + 2 for one in blocks[-1])
        if blocks[-1] and used + widths[at] + 2 > width:
            blocks.append([])
        blocks[-1].append(at)
    lines = []
    for block in blocks:
        for row in (head, *rows):
            left = "  ".join(row[at].ljust(widths[at]) for at in range(fixed))
            lines.append((left + "".join(f"  {row[at]:>{widths[at]}}" for at in block)).rstrip())
        lines.append("")
    return lines
