"""The declaration that `init` writes for a changelog in files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.errors import SpecError
from tidegauge.model.source import Draft
from tidegauge.source.batch.draft import line, path_of, relative, source_table, toml_table, unit_lines
from tidegauge.source.files.sniff import sniff

if TYPE_CHECKING:
    from tidegauge.model.source import Asked


def template(asked: Asked) -> Draft:
    """A declaration from a look at the first rows.  Raises SpecError where no column looks like a time or a key."""
    path = path_of(asked)
    found = sniff(path)
    missing = [name for name, column in (("time", found.time), ("key", found.entry)) if column is None]
    if missing:
        raise SpecError(
            f"{path.name} has no column that looks like its {' or its '.join(missing)}. "
            "Write a tidegauge.toml by hand: docs/sources/files.md shows how"
        )
    name = asked.table or path.name.split(".", 1)[0]
    keys = {"path": relative(path, asked.folder), "table": name, "time": found.time, "key": found.entry, "op": found.op,
            "before": found.before, "after": found.after}  # fmt: skip
    lines = [line(key, value) for key, value in keys.items() if value is not None]
    lines += unit_lines([found.unit] if found.unit else [])
    typed = {column: kind for column, kind in found.types.items() if kind != "text"}
    if typed:
        lines.append(f"types = {toml_table(typed)}")
    numbers = tuple(column for column, kind in found.types.items() if kind in ("integer", "number"))
    return Draft(source_table("files", *lines), name, numbers, found.values)
