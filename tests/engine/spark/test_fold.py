"""Spark equals the oracle and the embedded engine, integer for integer, on random changelogs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engine.harness import World, passes

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.usefixtures("spark")
def test_spark_equals_the_oracle_and_duckdb(seed: int, tmp_path: Path) -> None:
    from tests.engine.spark.programs import require_equal

    require_equal(World(seed, plain=True), tmp_path / "gauge.db")


@pytest.mark.parametrize("seed", range(200, 203))
@pytest.mark.usefixtures("spark")
def test_cuts_failures_and_restarts_change_nothing(seed: int, tmp_path: Path) -> None:
    from tests.engine.spark.programs import require_equal_when_rough

    require_equal_when_rough(World(seed, plain=True), tmp_path / "gauge.db")


def test_the_settings_of_the_session_are_put_back(spark: SparkSession, tmp_path: Path) -> None:
    from tests.engine.spark.programs import plain_program, run_spark

    world = World(1, plain=True)
    run_spark(plain_program(world), passes(world.mutations, []), tmp_path / "gauge.db")
    assert spark.conf.get("spark.sql.session.timeZone") == "Pacific/Apia"
