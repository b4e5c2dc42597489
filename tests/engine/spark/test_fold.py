"""Spark equals the oracle and the embedded engine, integer for integer, on random changelogs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engine.harness import COLUMNS, World, oracle_true, passes, run_engine, run_oracle
from tidegauge.engine.duckdb.engine import DuckEngine

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.usefixtures("spark")
def test_spark_equals_the_oracle_and_duckdb(seed: int, tmp_path: Path) -> None:
    from tests.engine.spark.programs import plain_program, run_spark

    world = World(seed, plain=True)
    program, log = plain_program(world), passes(world.mutations, world.untils)
    run, oracle = run_spark(program, log, tmp_path / "gauge.db"), run_oracle(program, log)
    assert run.sums == {spot: amount for spot, amount in oracle.totals.items() if amount}
    assert {spot: amount for spot, amount in run.true.items() if amount} == oracle_true(oracle)
    with DuckEngine(program, COLUMNS) as engine:
        assert run_engine(engine, log).sums == run.sums


@pytest.mark.parametrize("seed", range(200, 203))
@pytest.mark.usefixtures("spark")
def test_cuts_failures_and_restarts_change_nothing(seed: int, tmp_path: Path) -> None:
    from tests.engine.spark.programs import plain_program, run_spark

    world = World(seed, plain=True)
    program, log = plain_program(world), passes(world.mutations, world.untils)
    rough = run_spark(program, log, tmp_path / "gauge.db", world.cuts[:3], rough=True)
    oracle = run_oracle(program, log)
    assert rough.sums == {spot: amount for spot, amount in oracle.totals.items() if amount}


def test_the_settings_of_the_session_are_put_back(spark: SparkSession, tmp_path: Path) -> None:
    from tests.engine.spark.programs import plain_program, run_spark

    world = World(1, plain=True)
    run_spark(plain_program(world), passes(world.mutations, []), tmp_path / "gauge.db")
    assert spark.conf.get("spark.sql.session.timeZone") == "Pacific/Apia"
