"""A column has one name, in Arrow, parquet and csv, and `verify --against` reads all of them, old ones too."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegauge.cli.show import write_readings
from tidegauge.errors import StoreBehind
from tidegauge.model.reading import Reading
from tidegauge.publish import verify as proof
from tidegauge.publish.formats import as_csv, as_table, column, flat, group

NAMES = [
    "ward",
    "time",
    "Value",
    "group_time",
    "group_ward",
    "bias",
    "group.x",
    "group_group.x",
    "group_bias",
]


def reading(groups: dict[str, str | int | bool] | None, release: str = "r") -> Reading:
    at = datetime(2026, 1, 31, tzinfo=UTC)
    return Reading(release, at, groups, 1.5, 0.5, lambda _: (0.5, 2.5))


def test_a_plain_name_stays_and_one_that_is_taken_gets_a_prefix() -> None:
    assert [column(name) for name in NAMES[:4]] == ["ward", "group_time", "group_Value", "group_group_time"]
    assert [group(column(name)) for name in NAMES] == NAMES
    assert len({column(name).lower() for name in NAMES} | {"time", "value", "bias"}) == len(NAMES) + 3


def test_the_same_columns_everywhere(tmp_path: Path) -> None:
    readings = [reading({name: f"in {name}" for name in NAMES}), reading(None, "total")]
    write_readings(readings, "parquet", tmp_path / "r.parquet")
    write_readings(readings, "csv", tmp_path / "r.csv")
    table = as_table(readings)
    header, first, second = csv.reader(io.StringIO((tmp_path / "r.csv").read_text()))
    assert table.column_names == pq.read_table(tmp_path / "r.parquet").column_names == header
    assert header == ["release", "time", *map(column, NAMES), "value", "stderr", "low", "high"]
    assert dict(zip(header, first, strict=True))["group_time"] == table["group_time"][0].as_py() == "in time"
    assert second[2] == ""
    assert table["ward"].to_pylist() == ["in ward", None]
    for path in ("r.parquet", "r.csv"):
        assert proof.compare(tmp_path / path, readings) == 2
        with pytest.raises(StoreBehind):
            proof.compare(tmp_path / path, readings[:1])


def test_types_are_those_of_the_groups_and_text_where_releases_differ() -> None:
    table = as_table([reading({"n": 1, "m": 1}), reading({"n": 2, "m": "b"})])
    assert table.schema.field("n").type == pa.int64()
    assert table["m"].to_pylist() == ["1", "b"]
    assert as_csv([reading({"n": 1})]).splitlines()[1].startswith("r,2026-01-31T00:00:00Z,1,")


def test_parquet_as_it_was_written_once(tmp_path: Path) -> None:
    readings = [reading({"ward": "a", "n": 7})]
    row = {"release": "r", "time": readings[0].time, "group.ward": "a", "group.n": "7", "value": 1.5,
           "stderr": 0.5, "low": 0.5, "high": 2.5}  # fmt: skip
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "old.parquet")
    assert proof.compare(tmp_path / "old.parquet", readings) == 1
    assert flat(row)["group"] == {"ward": "a", "n": "7"}
