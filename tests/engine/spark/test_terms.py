"""Constraints that renew, on Spark: integer for integer what the oracle and the embedded engine give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engine.harness import World
from tests.engine.spark.test_gauge import changes, gauge, read, written

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", range(300, 310))
@pytest.mark.usefixtures("spark")
def test_spark_equals_the_oracle_and_duckdb(seed: int, tmp_path: Path) -> None:
    from tests.engine.spark.programs import require_equal

    require_equal(World(seed, plain=True, renews=True), tmp_path / "gauge.db")


@pytest.mark.parametrize("seed", range(320, 323))
@pytest.mark.usefixtures("spark")
def test_cuts_failures_and_restarts_change_nothing(seed: int, tmp_path: Path) -> None:
    from tests.engine.spark.programs import require_equal_when_rough

    require_equal_when_rough(World(seed, plain=True, renews=True), tmp_path / "gauge.db")


@pytest.mark.parametrize("on_excess", ["freeze", "retire"])
@pytest.mark.usefixtures("spark")
def test_a_gauge_that_renews_has_the_readings_of_the_embedded_engine(on_excess: str, tmp_path: Path) -> None:
    written(changes(40), tmp_path / "log.parquet")
    constraint = {"at_most": 2, "renews": "3 days", "on_excess": on_excess}
    found = {}
    for engine, kind in (("duckdb", "files"), ("spark", "spark")):
        source = {"kind": kind, "path": "log.parquet"}
        for until in ("2026-01-06 12:00", "2026-01-20"):
            found[engine] = read(gauge(tmp_path, source, engine, until, constraint=constraint))
    assert found["spark"] == found["duckdb"]
