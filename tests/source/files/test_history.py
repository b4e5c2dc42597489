"""The history of parquet files: in the order of the files, whatever reads them; damage is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

from tidegauge.errors import SourceError
from tidegauge.source.files import past
from tidegauge.source.files.source import Files

if TYPE_CHECKING:
    from pathlib import Path

    from tidegauge.model.history import History

CHANGES = 400_000
INSTANT = 1_735_689_600_000_000


@pytest.mark.parametrize("op", [None, "op"])
def test_every_scan_has_the_order_of_the_files(op: str | None, tmp_path: Path) -> None:
    """All changes have one time, so their order is the only one there is."""
    half = CHANGES // 2
    for name, first in (("a.parquet", 0), ("b.parquet", half)):
        table = pa.table({
            "time": pa.array([INSTANT] * half, pa.timestamp("us")),
            "id": pa.array(range(first, first + half), pa.int64()),
            "after_x": pa.array(range(half), pa.int64()),
            "op": ["u"] * half,
        })  # fmt: skip
        parquet.write_table(table, tmp_path / name, row_group_size=2_000)
    source = Files(str(tmp_path / "*.parquet"), time="time", key="id", table="t", after="after_", op=op)
    history = source.history(INSTANT)
    try:
        for columns in ({"key": "key"}, {"key": "key", "digest": 'hash("after")'}) * 2:
            keys = [key for block in history.scan(columns) for key in block["key"].to_pylist()]
            assert keys == list(range(CHANGES))
    finally:
        history.close()


@pytest.mark.parametrize("folder", ["x=other", "x=1/id=2", "more=1", "x[0]*"])
def test_the_names_of_folders_are_no_values(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(parents=True)
    table = pa.table({"time": pa.array([INSTANT], pa.timestamp("us")), "id": ["one"], "x": ["own"]})
    parquet.write_table(table, tmp_path / folder / "a.parquet")
    source = Files(str(tmp_path / folder / "a.parquet"), time="time", key="id", table="t")
    history = source.history(INSTANT)
    try:
        (block,) = history.scan({"entry": "entry", "new": "new"})
        assert block.to_pylist() == [{"entry": "one", "new": {"id": "one", "x": "own"}}]
    finally:
        history.close()


@pytest.mark.parametrize("column", ["time", "id", "x"])
def test_a_damaged_column_is_refused_without_quoting_a_value(tmp_path: Path, column: str) -> None:
    """The first check reads only the columns that it needs, so damage may be met during the scan."""
    path, rows = tmp_path / "a.parquet", 500
    table = pa.table({
        "time": pa.array(range(INSTANT, INSTANT + rows), pa.timestamp("us")),
        "id": [f"secret {n}" for n in range(rows)],
        "x": [f"secret {n}" for n in range(rows)],
    })  # fmt: skip
    parquet.write_table(table, path, use_dictionary=False)
    content, group = bytearray(path.read_bytes()), parquet.read_metadata(path).row_group(0)
    (chunk,) = (one for one in map(group.column, range(group.num_columns)) if one.path_in_schema == column)
    middle = chunk.data_page_offset + chunk.total_compressed_size // 2
    content[middle : middle + 40] = bytes(byte ^ 255 for byte in content[middle : middle + 40])
    path.write_bytes(content)
    source = Files(str(path), time="time", key="id", table="t")
    with pytest.raises(SourceError, match=r"a\.parquet: the file is not an intact parquet file") as error:
        read(source.history(INSTANT + rows))
    assert "secret" not in str(error.value)


def test_text_that_is_not_utf_8_is_refused_without_quoting_it(tmp_path: Path) -> None:
    place = pa.array(range(0, 3 * 41, 3), pa.int32()).buffers()[1]
    texts = pa.Array.from_buffers(pa.string(), 40, [None, place, pa.py_buffer(b"a\xffb" * 40)])
    table = pa.table({"time": pa.array([INSTANT] * 40, pa.timestamp("us")), "id": range(40), "x": texts})
    parquet.write_table(table, tmp_path / "a.parquet")
    source = Files(str(tmp_path / "a.parquet"), time="time", key="id", table="t")
    with pytest.raises(SourceError, match=r"a\.parquet: the file is not an intact parquet file"):
        read(source.history(INSTANT))


@pytest.mark.parametrize("how", ["length", "text"])
def test_a_file_that_is_damaged_behind_the_first_block_is_refused(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors of the engine then come through Arrow; with `op` the first check reads no values."""
    monkeypatch.setattr(past, "_BLOCK", 1000)
    path, rows = tmp_path / "a.parquet", 250_000
    texts = [f"secret {n:06}" for n in range(rows)]
    table = pa.table({
        "time": pa.array(range(INSTANT, INSTANT + rows), pa.timestamp("us")),
        "id": range(rows),
        "op": ["u"] * rows,
        "x": texts,
    })  # fmt: skip
    parquet.write_table(table, path, use_dictionary=False, compression="none", row_group_size=50_000)
    content = bytearray(path.read_bytes())
    column = parquet.read_metadata(path).row_group(4).column(3)
    at = content.index(texts[-1000].encode(), column.data_page_offset)
    content[at - 4 if how == "length" else at + 5] = 255
    path.write_bytes(content)
    source = Files(str(path), time="time", key="id", table="t", op="op")
    history = source.history(INSTANT + rows)
    with pytest.raises(SourceError, match=r"a\.parquet: the file is not an intact parquet file") as error:
        read(history)
    assert "secret" not in str(error.value)


def read(history: History) -> None:
    try:
        for _ in history.scan({"key": "key", "new": "new", "after": '"after"'}):
            pass
    finally:
        history.close()
