"""The page of all benchmarks, written from what each script found."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Final

from bench.charts import svg
from bench.result import Result, Table, markdown, result_from

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

WIDTH: Final = 110
HEAD: Final = (
    "`make bench` runs every script in [bench/](../bench) and writes this page and its figures; no number "
    "here was written by hand. Each number is compared with a peer or a limit that was measured in the "
    "same run. Seconds depend on the machine and on what else it does, so read the ratios: both sides of a "
    "ratio ran on the same machine, one after the other. The load is that of the minute before a script, "
    "with work that had ended when the script began."
)


def filled(text: str) -> str:
    """Paragraphs and lists in lines of the width of the docs; tables and headings stay as they are."""
    return "\n\n".join(
        part if part.startswith(("|", "**", "```", "!", "#", "\n")) else _filled(part)
        for part in text.split("\n\n")
    )


def _filled(part: str) -> str:
    indent = "  " if part.startswith("- ") else ""
    items = part.strip("\n").replace("\n- ", "\0- ").split("\0") if indent else [part]
    return "\n".join(
        textwrap.fill(" ".join(one.split()), WIDTH, subsequent_indent=indent, break_on_hyphens=False)
        for one in items
    )


def machines(everything: dict[str, dict[str, Any]]) -> str:
    """The machine, or those of every script where they are not the same."""
    found: dict[str, list[str]] = {}
    for name, one in everything.items():
        words = ", ".join(f"{what} {value}" for what, value in one["machine"].items())
        found.setdefault(words, []).append(name)
    if len(found) == 1:
        return f"Machine: {next(iter(found))}."
    return "\n\n".join(f"Machine of {', '.join(names)}: {words}." for words, names in found.items())


def runs(everything: dict[str, dict[str, Any]]) -> Table:
    """How long each script took, and the load before it."""
    rows = [
        [f"`bench.{name}`", f"{one['seconds']:,.0f} s", f"{one['load']:.1f}", _outcome(one)]
        for name, one in everything.items()
    ]
    return Table("", ["script", "took", "load before", "outcome"], rows)


def _outcome(one: dict[str, Any]) -> str:
    if "failed" in one:
        return "failed"
    found = result_from(one["result"])
    if found.absent and not found.ratios and not found.tables:
        return "not run here"
    missed = sum(not ratio.reached for ratio in found.ratios)
    wanted = sum(ratio.wanted is not None for ratio in found.ratios)
    return f"{wanted - missed} of {wanted} wanted ratios reached" if wanted else "ran"


def section(name: str, one: dict[str, Any], folder: Path, prefix: str) -> str:
    """The heading, tables and figures of one script; writes the figures."""
    if "failed" in one:
        return f"## {name.capitalize()}\n\nNot measured: {one['failed']}"
    found = result_from(one["result"])
    parts = [f"## {found.title or name.capitalize()}"]
    figures = []
    for place, chart in enumerate(found.charts, start=1):
        file = f"{name}-{place}.svg" if len(found.charts) > 1 else f"{name}.svg"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(svg(chart), "utf-8")
        figures.append(f"![{chart.title}]({prefix}/{file})")
    if found.about:
        parts.append(found.about)
    parts += figures
    parts.append(markdown(Result(found.title, "", found.ratios, found.tables, absent=found.absent)))
    parts.append(f"Script: `python -m bench.{name}`.")
    return "\n\n".join(parts)


def write(page: Path, everything: dict[str, dict[str, Any]], never: Sequence[str] = ()) -> None:
    """Write the page, and its figures into a folder of its name beside it.

    `never`: scripts of which nothing is kept.
    """
    folder = page.with_suffix("")
    for old in folder.glob("*.svg"):
        old.unlink()
    sections = [section(name, one, folder, folder.name) for name, one in everything.items()]
    parts = ["# Benchmarks", HEAD, machines(everything), runs(everything).markdown()]
    if never:
        parts.append(f"Not run for this page: {', '.join(f'`bench.{name}`' for name in never)}.")
    parts += sections
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(filled("\n\n".join(parts)) + "\n", "utf-8")
