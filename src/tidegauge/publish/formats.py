"""Readings as Arrow, parquet, csv and json.  A column has the same name in all of them.

A group's column has the name of the group.  Where that is the name of one of the fixed columns (in any case), or could be
mistaken for a name that was changed so, `group_` is put before it: a group called `time` is the column `group_time`.
"""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from tidegauge.model.reading import Reading

NUMBERS: Final = ("value", "stderr", "low", "high")
_FIXED: Final = frozenset({"release", "time", *NUMBERS, "bias"})
_APART: Final = "group_"
_OLD: Final = "group."
"""What stood before every group's name in parquet, once."""


def column(group: str) -> str:
    """The column that holds this group's values."""
    return f"{_APART}{group}" if _taken(group) else group


def group(column: str) -> str:
    """The group whose values a column holds; also as parquet files had it once."""
    if column.startswith(_OLD):
        return column.removeprefix(_OLD)
    return column.removeprefix(_APART) if _taken(column) else column


def _taken(name: str) -> bool:
    bare = name
    while bare.startswith(_APART):
        bare = bare.removeprefix(_APART)
    return bare.lower() in _FIXED or bare.startswith(_OLD)


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a table as the JSON of a reading: its groups in one object."""
    fixed = ("release", "time", *NUMBERS)
    values = {group(name): value for name, value in row.items() if name not in _FIXED}
    return {name: row[name] for name in fixed} | {"group": values}


def as_table(readings: Sequence[Reading]) -> pa.Table:
    """Release, time, one column a group, value, stderr, low, high; and bias where readings have it."""
    import pyarrow as pa  # noqa: PLC0415  (slow to load)

    rows = [reading.as_json() for reading in readings]
    groups, numbers = _columns(rows)
    table: dict[str, Any] = {
        "release": pa.array([row["release"] for row in rows], pa.string()),
        "time": pa.array([reading.time for reading in readings], pa.timestamp("us", tz="UTC")),
    }
    for name in groups:
        values = [(row["group"] or {}).get(name) for row in rows]
        mixed = len({type(value) for value in values if value is not None}) > 1
        table[column(name)] = pa.array(
            [str(value) if mixed and value is not None else value for value in values]
        )
    for name in numbers:
        table[name] = pa.array([row.get(name) for row in rows], pa.float64())
    return pa.table(table)


def as_csv(readings: Sequence[Reading]) -> str:
    """The same as text."""
    rows = [reading.as_json() for reading in readings]
    groups, numbers = _columns(rows)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["release", "time", *map(column, groups), *numbers])
    for row in rows:
        values = [(row["group"] or {}).get(name, "") for name in groups]
        writer.writerow([row["release"], row["time"], *values, *(row.get(name) for name in numbers)])
    return buffer.getvalue()


def as_json(readings: Sequence[Reading]) -> str:
    """A list of objects, each with its groups in an object of their own, under their plain names."""
    return json.dumps([reading.as_json() for reading in readings], ensure_ascii=False, indent=2) + "\n"


def _columns(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """What readings are grouped by, and their numbers: the bias only of those that were made consistent."""
    groups = list(dict.fromkeys(name for row in rows for name in row["group"] or {}))
    return groups, [*NUMBERS, *(["bias"] if any("bias" in row for row in rows) else [])]
