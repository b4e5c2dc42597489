"""The same history gives the same readings of a flow, from every kind of source."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.source.tables import TABLES, in_every_run, table_of
from tidegauge.run.gauge import Gauge

if TYPE_CHECKING:
    from tests.source.tables import Row, Table

DECLARATION = """
[source]
table = "t"
key = "id"
{source}
[constraint]
at_most = 1000
[budget]
epsilon = 1e15
"""
UPDATES = """
[release.updates]
sql = "SELECT COUNT(*) FROM changes(t) WHERE before.n >= 0 AND after.n >= 0"
every = "1 second"
"""
BESIDE = """
[release.moved]
sql = "SELECT COUNT(*) FROM changes(t) WHERE before.person <> '' AND after.person <> ''"
every = "1 second"
"""
FIRST: list[Row] = [("a", "ann", 1), ("b", "ann", 2), ("c", "ann", 4)]
THEN: list[Row] = [("a", "bob", 1), ("b", "ann", 3), ("c", "ann", 4)]
LAST: list[Row] = [("a", "cid", 5), ("b", "cid", 3), ("c", "bob", 4)]
"""n changes twice, `person` four times."""


@pytest.mark.parametrize("kind", in_every_run(list(TABLES)))
def test_updates_of_other_columns_are_no_changes(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    with table_of(kind, FIRST, monkeypatch, request) as table:
        assert counted(table, UPDATES) == {"updates": 2}, "no release uses `person`"


@pytest.mark.parametrize("kind", ["csv", pytest.param("sqlite", marks=pytest.mark.slow)])
def test_each_flow_sees_updates_of_its_own_columns(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    with table_of(kind, FIRST, monkeypatch, request) as table:
        assert counted(table, UPDATES + BESIDE) == {"updates": 2, "moved": 4}


def counted(table: Table, releases: str) -> dict[str, int]:
    """The sum of all readings of each flow, after two rounds of updates."""
    Path("tidegauge.toml").write_text(DECLARATION.format(source=table.source) + releases)
    table.begin()
    gauge = Gauge.from_file("tidegauge.toml")
    for old, new in ((FIRST, THEN), (THEN, LAST), (LAST, None)):
        list(gauge.run())
        time.sleep(1.05)
        list(gauge.run())
        if new is not None:
            table.change(list(zip(old, new, strict=True)))
    sums: Counter[str] = Counter()
    for reading in gauge.published():
        assert reading.value is not None
        sums[reading.release] += round(reading.value)
    return dict(sums)
