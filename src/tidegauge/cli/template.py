"""The first tidegauge.toml, from what a table's columns seem to be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.errors import SpecError
from tidegauge.source.sniff import sniff

if TYPE_CHECKING:
    from tidegauge.source.sniff import Suggestion


def template(table: Path, folder: Path) -> str:
    """A declaration that plans as it is, with the rest of what could be said in comments."""
    found = sniff(table)
    missing = [name for name, column in (("time", found.time), ("entry", found.entry)) if column is None]
    if missing:
        raise SpecError(
            f"{table.name} has no column that looks like its {' or its '.join(missing)}. "
            "Write a tidegauge.toml by hand: docs/sources/files.md shows how"
        )
    try:
        path = table.resolve().relative_to(folder.resolve()).as_posix()
    except ValueError:
        path = table.resolve().as_posix()
    name = table.name.split(".", 1)[0]
    return "\n".join([*_source(found, path, name), *_rest(found, name), ""])


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _source(found: Suggestion, path: str, name: str) -> list[str]:
    keys = {"path": path, "table": name, "time": found.time, "entry": found.entry, "op": found.op,
            "before": found.before, "after": found.after}  # fmt: skip
    lines = ["[source]", 'kind = "files"']
    lines += [f"{key} = {_quoted(value)}" for key, value in keys.items() if value is not None]
    if found.unit is not None:
        lines += [
            f"# unit = {_quoted(found.unit)}                 # what privacy protects, if one of them owns several rows",
            "# max_rows = 3                    # of which at most this many count at any time",
        ]
    typed = {column: kind for column, kind in found.types.items() if kind != "text"}
    if typed:
        pairs = ", ".join(f"{_quoted(column)} = {_quoted(kind)}" for column, kind in typed.items())
        lines.append(f"types = {{ {pairs} }}")
    return lines


def _rest(found: Suggestion, name: str) -> list[str]:
    table = '"' + name.replace('"', '""') + '"'
    lines = [
        "",
        "[constraint]                      # what bounds the loss of one unit, for ever",
        "at_most = 4                       # changes that count, the first included",
        '# within = "30 days"              # and / or: all of them so soon after the first',
        'on_excess = "freeze"              # or "retire": leave at the last allowed change',
        "",
        "[budget]                          # for one unit, for all releases together, for ever",
        "epsilon = 1",
        "delta = 1e-6                      # without it: pure epsilon",
        "",
        "[release.total]",
        f"sql = {_quoted(f'SELECT COUNT(*) FROM {table}')}",
        '# start = "2026-01-01"            # the first reading; default: when the plan is committed',
        'every = "1 day"',
        'for = "1 year"                    # or "ever"',
    ]
    for column, values in list(found.values.items())[:1]:
        quoted = '"' + column.replace('"', '""') + '"'
        lines += [
            "",
            f"# [release.by_{column}]           # the groups below were seen in the data: keep only what is public anyway",
            f"# sql = {_quoted(f'SELECT {quoted}, COUNT(*) FROM {table} GROUP BY {quoted}')}",
            f"# groups.{_quoted(column)} = [{', '.join(map(_quoted, values))}]",
            '# every = "1 day"',
        ]
    numbers = [column for column, kind in found.types.items() if kind in ("integer", "number")]
    if numbers:
        column = '"' + numbers[0].replace('"', '""') + '"'
        lines += [
            "",
            f"# [release.mean_{numbers[0]}]",
            f"# sql = {_quoted(f'SELECT AVG({column}) FROM {table}')}",
            f"# bounds.{_quoted(numbers[0])} = [0, 100]   # values are clamped into these; choose them without looking",
            '# every = "1 day"',
        ]
    return lines
