"""Readings as Arrow, parquet, csv and json, and back.  A column has the same name in all of them.

A group's column has the name of the group.  Where that is the name of one of the fixed columns (in any case),
or could be mistaken for a name that was changed so, `group_` is put before it: a group called `time` is the
column `group_time`.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol

from tidegauge.model.json import as_object, objects, parse_json
from tidegauge.model.quantity import instant
from tidegauge.model.reading import Reading
from tidegauge.publish.arrow_html import MARK, ZERO

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from tidegauge.model.json import Json, JsonObject

NUMBERS: Final = ("value", "stderr", "low", "high")
MODEL: Final = ("model_value", "model_stderr", "model_low", "model_high")
"""The estimate of a model (`--denoised`), beside the reading."""
_USES: Final = "model_uses"
_FIXED: Final = frozenset({"release", "time", *NUMBERS, "bias", *MODEL, _USES})
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


class Written(Protocol):
    """What can be written: a reading of a gauge, or of a public file."""

    @property
    def time(self) -> datetime | int:
        """The time of the reading; a number counts microseconds since 1970."""
        ...

    def as_json(self) -> dict[str, Json]:
        """The fields of a reading."""
        ...


@dataclass(frozen=True)
class Row:
    """A reading as a file has it; the values of its groups as text, as csv has them."""

    release: str
    time: int
    group: tuple[tuple[str, str], ...]
    value: float | None
    stderr: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, reading: JsonObject) -> Row:
        """The JSON of a reading as a row."""
        return cls._made(reading, _group(reading))

    @classmethod
    def of_columns(cls, columns: Mapping[str, object]) -> Row:
        """A row of a table, in which every group has a column."""
        return cls._made(
            columns, {group(name): value for name, value in columns.items() if name not in _FIXED}
        )

    @classmethod
    def _made(cls, fixed: Mapping[str, object], groups: Mapping[str, object]) -> Row:
        time = fixed["time"]
        if not isinstance(time, str | datetime):
            raise TypeError("a reading has no time")
        named = {name: str(value) for name, value in groups.items() if value not in (None, "")}
        numbers = (_float(fixed[name]) for name in NUMBERS)
        return cls(str(fixed["release"]), instant(time), tuple(sorted(named.items())), *numbers)

    @property
    def name(self) -> tuple[str, int, tuple[tuple[str, str], ...]]:
        """Which reading it is."""
        return self.release, self.time, self.group

    @property
    def numbers(self) -> tuple[float | None, ...]:
        """Its numbers, in the order of NUMBERS."""
        return self.value, self.stderr, self.low, self.high


def as_table(readings: Sequence[Written]) -> pa.Table:
    """Release, time, one column a group, value, stderr, low, high; bias and model where there are any."""
    import pyarrow as pa  # noqa: PLC0415  (slow to load)

    rows = [reading.as_json() for reading in readings]
    groups, numbers = _columns(rows)
    table = {
        "release": pa.array([row["release"] for row in rows], pa.string()),
        "time": pa.array([reading.time for reading in readings], pa.timestamp("us", tz="UTC")),
    }
    for name in groups:
        values = [_group(row).get(name) for row in rows]
        mixed = len({type(value) for value in values if value is not None}) > 1
        table[column(name)] = pa.array(
            [str(value) if mixed and value is not None else value for value in values]
        )
    for name in numbers:
        kind = pa.string() if name == _USES else pa.float64()
        table[name] = pa.array([row.get(name) for row in rows], kind)
    return pa.table(table, metadata={MARK: b"readings", **_zeros(readings)})


def _zeros(readings: Sequence[Written]) -> dict[bytes, bytes]:
    """What 0 means for each release, for those who show the table to people; not known of a public file."""
    zeros = {
        one.release: [one.zero_is_nothing, one.never_negative] for one in readings if isinstance(one, Reading)
    }
    return {ZERO: json.dumps(zeros).encode()} if zeros else {}


def to_csv(readings: Sequence[Written]) -> bytes:
    """The same columns as text, with a line of their names."""
    rows = [reading.as_json() for reading in readings]
    groups, numbers = _columns(rows)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["release", "time", *map(column, groups), *numbers])
    for row in rows:
        values = [_group(row).get(name, "") for name in groups]
        writer.writerow([row["release"], row["time"], *values, *(row.get(name) for name in numbers)])
    return buffer.getvalue().encode()


def from_csv(content: bytes) -> list[Row]:
    """The rows; raises ValueError where it is something else."""
    reader = csv.DictReader(io.StringIO(content.decode("utf-8")))
    try:
        if not {"release", "time", *NUMBERS} <= set(reader.fieldnames or ()):
            raise ValueError("columns are missing")
        return [Row.of_columns(row) for row in reader]
    except csv.Error as error:
        raise ValueError("this is not CSV") from error


def to_json(readings: Sequence[Written]) -> bytes:
    """A list of objects, each with its groups in an object of their own, under their plain names."""
    text = json.dumps([reading.as_json() for reading in readings], ensure_ascii=False, indent=2) + "\n"
    return text.encode()


def from_json(content: bytes) -> list[Row]:
    """The rows of a list, or of objects one a line; raises ValueError where it is something else."""
    text = content.decode("utf-8")
    if text.lstrip().startswith("["):
        return [Row.of(row) for row in objects(parse_json(text))]
    return [Row.of(as_object(parse_json(line))) for line in text.splitlines() if line.strip()]


def to_parquet(readings: Sequence[Written]) -> bytes:
    """The Arrow table as a parquet file."""
    import pyarrow as pa  # noqa: PLC0415  (slow to load)
    import pyarrow.parquet as pq  # noqa: PLC0415

    sink = pa.BufferOutputStream()
    pq.write_table(as_table(readings), sink)
    return bytes(sink.getvalue().to_pybytes())


def from_parquet(content: bytes) -> list[Row]:
    """The rows; raises ValueError where it is something else."""
    import pyarrow as pa  # noqa: PLC0415  (slow to load)
    import pyarrow.parquet as pq  # noqa: PLC0415

    return [Row.of_columns(row) for row in pq.read_table(pa.BufferReader(content)).to_pylist()]


def _group(reading: JsonObject) -> JsonObject:
    """The groups of a reading; empty where it has none."""
    return as_object(reading["group"] or {})


def _float(value: object) -> float | None:
    """A number of a file; None where there is none."""
    if value in (None, ""):
        return None
    if not isinstance(value, str | int | float):
        raise TypeError("a reading has something else in place of a number")
    return float(value)


def _columns(rows: Sequence[JsonObject]) -> tuple[list[str], list[str]]:
    """What readings are grouped by, and their columns: bias and model only where readings have them."""
    groups = list(dict.fromkeys(name for row in rows for name in _group(row)))
    further = [name for name in ("bias", *MODEL, _USES) if any(name in row for row in rows)]
    return groups, [*NUMBERS, *further]
