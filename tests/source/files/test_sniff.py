"""What a file's columns are taken for."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegauge.errors import SourceError
from tidegauge.source.files.sniff import sniff
from tidegauge.source.files.source import Files


def test_a_value_change_log(tmp_path: Path) -> None:
    rows = ["2026-01-01,7,I,p1,,,ill,30,true,007,2026-01-01", "2026-01-02,7,u,p1,ill,30,well,31,false,008,2026-01-02",
            "2026-01-03,7,D,p1,well,31,,,,,"]  # fmt: skip
    head = "ts,entry,op,person,before_status,before_age,after_status,after_age,after_new,after_zip,after_seen"
    (tmp_path / "t.csv").write_text("\n".join([head, *rows]))
    found = sniff(tmp_path / "t.csv")
    assert (found.time, found.key, found.unit, found.op) == ("ts", "entry", "person", "op")
    assert (found.before, found.after) == ("before_", "after_")
    assert found.types == {"person": "text", "status": "text", "age": "integer", "new": "boolean", "zip": "text",
                           "seen": "date"}  # fmt: skip
    assert found.values == {"person": ("p1",), "status": ("ill", "well"), "zip": ("007", "008")}
    source = Files("t.csv", time="ts", key="entry", unit=found.unit, op=found.op, before=found.before,
                   after=found.after, types=found.types, base=tmp_path)  # fmt: skip
    assert list(source.columns) == ["entry", *found.types]
    assert not any(one.values for one in source.unread().values())


def test_new_values_without_a_prefix(tmp_path: Path) -> None:
    lines = [
        f'{{"at": "2026-01-01T00:00:{place:02}Z", "id": {place}, "x": {place}.5, "n": "name {place}"}}'
        for place in range(30)
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    found = sniff(tmp_path / "t.jsonl")
    assert (found.time, found.key, found.unit, found.op, found.before, found.after) == (
        "at",
        "id",
        *[None] * 4,
    )
    assert found.types == {"x": "number", "n": "text"}
    assert found.values == {}


def test_parquet_has_types_of_its_own(tmp_path: Path) -> None:
    table = pa.table(
        {"updated_at": pa.array([0], pa.timestamp("us")), "pk": [1], "new_user_id": ["u"], "new_n": [5]}
    )
    pq.write_table(table, tmp_path / "t.parquet")
    found = sniff(tmp_path / "t.parquet")
    assert (found.time, found.key, found.unit, found.after) == ("updated_at", "pk", "user_id", "new_")
    assert found.types == {"user_id": "text"}


@pytest.mark.parametrize(("name", "content"), [("t.csv", "a,b\n"), ("t.jsonl", "")])
def test_nothing_to_look_at(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    found = sniff(tmp_path / name)
    assert found.time is None
    assert found.key == ("a" if content else None)


def test_not_there(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="there is no such file"):
        sniff(tmp_path / "t.csv")
