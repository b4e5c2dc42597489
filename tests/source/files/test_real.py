"""Real changelogs, against a reading with nothing but the standard library."""

from __future__ import annotations

from collections import Counter

import pyarrow.compute as pc
import pytest

from tests import real
from tidegauge.model.quantity import instant
from tidegauge.source.files.source import Files

pytestmark = real.needs_data


@pytest.mark.parametrize(
    ("name", "unit", "column"),
    [
        ("congress_committees", "person", "party"),
        ("oulad", "person", "region"),
        ("traffic_fines", None, "status"),
    ],
)
def test_real_changelog(name: str, unit: str | None, column: str) -> None:
    rows = real.rows(name)
    source = Files(f"{name}.csv.gz", time="ts", key="entry", unit=unit, before="before_", after="after_",
                   base=real.FOLDER, batch_rows=50_000)  # fmt: skip
    batches = list(source.read(None, instant("9999-01-01")))

    assert max(len(batch.rows) for batch in batches) <= 50_000
    assert sum(len(batch.rows) for batch in batches) == len(rows)
    tables = [batch.rows for batch in batches]
    instants = {text: instant(text) for text in {row["ts"] for row in rows}}
    assert [at for table in tables for at in table["time"].to_pylist()] == [
        instants[row["ts"]] for row in rows
    ]
    assert [entry for table in tables for entry in table["entry"].to_pylist()] == [
        row["entry"] for row in rows
    ]
    assert [who for table in tables for who in table["unit"].to_pylist()] == [
        row[unit] if unit else None for row in rows
    ]
    for side, absent in (("before", "I"), ("after", "D")):
        values = [value for table in tables for value in pc.struct_field(table[side], column).to_pylist()]
        assert values == [row[f"{side}_{column}"] or None for row in rows]
        nulls = sum(table[side].null_count for table in tables)
        assert nulls == Counter(row["op"] for row in rows)[absent]
