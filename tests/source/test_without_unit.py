"""Rows without a unit or without a key: with every source they count nowhere, and block nothing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.source.tables import TABLES, PostgresFull, in_every_run, table_of
from tidegauge.run.gauge import Gauge

if TYPE_CHECKING:
    from tests.source.tables import Row, Table

DECLARATION = """
[source]
table = "t"
entry = "id"
unit = "person"
max_rows = 100
{source}
[constraint]
at_most = 1000
[budget]
epsilon = 1e15
[release.total]
sql = "SELECT COUNT(*) FROM t"
every = "1 second"
[release.sum]
sql = "SELECT SUM(n) FROM t"
bounds.n = [0, 1000]
every = "1 second"
"""
FIRST: list[Row] = [("a", "ann", 1), (None, "ann", 2), ("c", None, 4), ("", "bob", 8), ("e", "", 16),
                    (None, None, 32), ("g", "bob", 64)]  # fmt: skip
THEN: list[Row] = [("a", "", 1), (None, "ann", 3), ("c", "cid", 4), ("", "bob", 9), ("e", "eve", 16),
                   (None, None, 33), ("h", "bob", 128)]  # fmt: skip
"""a loses its unit, c and e find one, g becomes h; what has no key changes too."""


@pytest.mark.parametrize("kind", in_every_run(list(TABLES)))
def test_a_row_without_a_unit_or_a_key_counts_nowhere(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    with table_of(kind, FIRST, monkeypatch, request) as table:
        follow(table)


def follow(table: Table) -> None:
    Path("tidegauge.toml").write_text(DECLARATION.format(source=table.source))
    table.begin()
    gauge = Gauge.from_file("tidegauge.toml")
    first = FIRST[:3] if isinstance(table, PostgresFull) else FIRST
    for rows in (first, THEN):
        for _ in range(2):
            list(gauge.run())
            time.sleep(1.05)
        list(gauge.run())
        assert said(gauge) == pytest.approx(_sums(rows), abs=0.1)
        if rows is first:
            table.change(list(zip(FIRST, THEN, strict=True)))


def _sums(rows: list[Row]) -> list[float]:
    counted = [n for key, person, n in rows if key and person]
    return [sum(counted), len(counted)]


def said(gauge: Gauge) -> list[float | None]:
    readings = gauge.published()
    newest = max(reading.time for reading in readings)
    return [reading.value for reading in readings if reading.time == newest]
