"""The history of parquet files comes in the order of the files, however many threads read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import parquet

from tidegauge.source.files.source import Files

if TYPE_CHECKING:
    from pathlib import Path

CHANGES = 400_000
INSTANT = 1_735_689_600_000_000


def test_every_scan_has_the_order_of_the_files(tmp_path: Path) -> None:
    """All changes have one time, so their order is the only one there is."""
    half = CHANGES // 2
    for name, first in (("a.parquet", 0), ("b.parquet", half)):
        table = pa.table({
            "time": pa.array([INSTANT] * half, pa.timestamp("us")),
            "id": pa.array(range(first, first + half), pa.int64()),
            "after_x": pa.array(range(half), pa.int64()),
        })  # fmt: skip
        parquet.write_table(table, tmp_path / name, row_group_size=2_000)
    source = Files(str(tmp_path / "*.parquet"), time="time", key="id", table="t", after="after_")
    history = source.history(INSTANT)
    try:
        for columns in ({"key": "key"}, {"key": "key", "digest": 'hash("after")'}) * 2:
            keys = [key for block in history.scan(columns) for key in block["key"].to_pylist()]
            assert keys == list(range(CHANGES))
    finally:
        history.close()
