"""A column has one name, in Arrow, parquet and csv,
and `verify --against` reads all of them, old ones too."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegauge.errors import SpecError, StoreBehind
from tidegauge.model.reading import Reading
from tidegauge.publish import verify as proof
from tidegauge.publish.formats import Row, as_table, column, group, to_csv
from tidegauge.publish.registry import (
    FORMATS,
    FilePublisher,
    Format,
    TextPublisher,
    decode_file,
    format_named,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    FilePublisher(FORMATS.named("parquet"), tmp_path / "r.parquet").deliver(readings)
    FilePublisher(FORMATS.named("csv"), tmp_path / "r.csv").deliver(readings)
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
    assert to_csv([reading({"n": 1})]).splitlines()[1].startswith(b"r,2026-01-31T00:00:00Z,1,")


def test_parquet_as_it_was_written_once(tmp_path: Path) -> None:
    readings = [reading({"ward": "a", "n": 7})]
    row = {"release": "r", "time": readings[0].time, "group.ward": "a", "group.n": "7", "value": 1.5,
           "stderr": 0.5, "low": 0.5, "high": 2.5}  # fmt: skip
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "old.parquet")
    assert proof.compare(tmp_path / "old.parquet", readings) == 1
    assert Row.of_columns(row).group == (("n", "7"), ("ward", "a"))


@pytest.mark.parametrize("name", ["csv", "json", "parquet"])
def test_every_format_of_a_file_is_recognised_by_its_content(tmp_path: Path, name: str) -> None:
    for number, readings in enumerate(
        ([], [reading(None)], [reading({"ward": "a"}), reading({"n": 7}, "s")])
    ):
        path = tmp_path / f"{number}.txt"
        delivery = FilePublisher(FORMATS.named(name), path).deliver(readings)
        assert (delivery.readings, delivery.to) == (len(readings), path.name)
        assert decode_file(path) == [Row.of(one.as_json()) for one in readings]


@pytest.mark.parametrize(
    "content", [b"a,b\n1,2\n", b"[1]", b"{}", b"PAR1", b"\xff\xfe", b"release,time\nr,x\n"]
)
def test_anything_else_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "it").write_bytes(content)
    with pytest.raises(SpecError, match=r"is not what 'tidegauge readings' writes \(csv, json or parquet\)"):
        decode_file(tmp_path / "it")


def test_what_a_format_cannot_do_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="must be table, csv, json or parquet"):
        format_named("xml")
    with pytest.raises(SpecError, match="for a file choose csv, json or parquet"):
        FilePublisher(FORMATS.named("table"), tmp_path / "it").deliver([])
    with pytest.raises(SpecError, match="parquet is not text"):
        TextPublisher(FORMATS.named("parquet"), print).deliver([])
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def names() -> Iterator[str]:
    FORMATS.register(
        "names", Format("names", lambda readings: " ".join(one.release for one in readings).encode(), None)
    )
    yield "names"
    FORMATS.unregister("names")


def test_a_format_is_one_registration(names: str) -> None:
    seen: list[str] = []
    delivery = TextPublisher(format_named(names), seen.append).deliver(
        [reading(None, "a"), reading(None, "b")]
    )
    assert delivery.readings == 2
    assert seen == ["a b"]
