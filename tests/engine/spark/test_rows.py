"""Units that own several rows, on Spark: integer for integer what the oracle and the embedded engine give."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.harness import World, run_oracle
from tests.engine.spark.killing import IN_A_COMMIT
from tests.engine.spark.test_gauge import changes, gauge, read, written

if TYPE_CHECKING:
    from tests.engine.harness import Passes

OWNED = {"unit": "ward", "max_rows": 4}
KINDS = {"duckdb": "files", "spark": "spark"}


@pytest.mark.usefixtures("spark")
def test_a_small_gauge_of_units_with_several_rows_has_the_readings_of_the_embedded_engine(
    tmp_path: Path,
) -> None:
    written(changes(6, 60), tmp_path / "log.parquet")
    found = {
        engine: read(gauge(tmp_path, {"kind": kind, "path": "log.parquet", **OWNED}, engine))
        for engine, kind in KINDS.items()
    }
    assert len(found["spark"]) > 20
    assert found["spark"] == found["duckdb"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(400, 412))
@pytest.mark.usefixtures("spark")
def test_spark_equals_the_oracle_and_duckdb(seed: int, tmp_path: Path) -> None:
    from tests.engine.spark.programs import require_equal

    require_equal(World(seed, plain=True), tmp_path / "gauge.db", rows=seed % 3 + 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(420, 430))
@pytest.mark.usefixtures("spark")
def test_constraints_that_renew(seed: int, tmp_path: Path) -> None:
    from tests.engine.spark.programs import require_equal

    require_equal(World(seed, plain=True, renews=True), tmp_path / "gauge.db", rows=seed % 3 + 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(440, 446))
@pytest.mark.usefixtures("spark")
def test_cuts_failures_and_restarts_change_nothing(seed: int, tmp_path: Path) -> None:
    from tests.engine.spark.programs import require_equal_when_rough

    world = World(seed, plain=True, renews=seed % 2 == 0)
    require_equal_when_rough(world, tmp_path / "gauge.db", rows=seed % 3 + 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(450, 453))
@pytest.mark.usefixtures("spark")
def test_units_that_may_have_many_rows(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.engine.spark.programs import require_equal
    from tidegauge.engine.spark import rows

    monkeypatch.setattr(rows, "_FEW", 0)
    require_equal(World(seed, plain=True), tmp_path / "gauge.db", rows=seed % 3 + 1)


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_a_row_goes_from_unit_to_unit_while_its_changes_wait(tmp_path: Path) -> None:
    """The unit before a change is found in the batch, among the waiting changes, and in the state."""
    from dataclasses import replace

    from tests.engine.spark.programs import plain_program, run_spark
    from tidegauge.model.program import Allowance, Scope

    world = World(3, plain=True)
    scope = Scope(tuple(one.name for one in world.program.releases), ((None, Allowance(at_most=5)),))
    program = replace(plain_program(world, 1), scopes=(scope,), terms=None)
    row = {"s": "a", "x": 2, "k": "p"}
    log: Passes = [
        ([(1, "e1", "u", row, None, ()), (40, "e1", "w", row, None, ()), (2, "e2", "w", row, None, ())], 41,
         12),
        ([(50, "e1", "u", row, None, ()), (3, "e1", None, row, None, ()), (51, "e2", None, None, None, ())],
         60, 30),
        ([(61, "e1", "v", row, None, ()), (62, "e1", None, None, None, ()), (62, "e9", "u", None, None, ())],
         70, 70),
    ]  # fmt: skip
    run, oracle = run_spark(program, log, tmp_path / "gauge.db"), run_oracle(program, log)
    assert run.sums == {spot: amount for spot, amount in oracle.totals.items() if amount}
    assert (run.counts["without_unit"], run.counts["deleted_unknown"]) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("constraint", [
    {"at_most": 6, "on_excess": "retire", "within": "5 days"},
    {"at_most": 5, "renews": "3 days"},
    {"at_most": 5, "renews": "4 days", "on_excess": "retire"},
])  # fmt: skip
@pytest.mark.usefixtures("spark")
def test_gauges_over_several_passes(constraint: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    rows, found = changes(50), {}
    for n, until in enumerate(("2026-01-04", "2026-01-09 12:00", "2026-01-20")):
        written(rows[n * 100 : n * 100 + 100], tmp_path / "log" / f"{n}.parquet")
        for engine, kind in KINDS.items():
            source = {"kind": kind, "path": "log/*.parquet", **OWNED}
            found[engine] = read(gauge(tmp_path, source, engine, until, constraint=constraint))
        assert found["spark"] == found["duckdb"]


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_added_releases_have_the_readings_of_the_embedded_engine(tmp_path: Path) -> None:
    from tests.engine.spark.test_gauge import RELEASES
    from tests.engine.spark.test_grown import ADDED, UNTILS

    (tmp_path / "log").mkdir()
    rows, found = changes(21, 400), {}
    for number, until in enumerate(UNTILS):
        written(rows[number * 130 : number * 130 + 130], tmp_path / "log" / f"{number}.parquet")
        releases = RELEASES | {name: one for part in ADDED[:number] for name, one in part.items()}
        for engine, kind in KINDS.items():
            source = {"kind": kind, "path": "log/*.parquet", **OWNED}
            budget = {"epsilon": 1_000_000_000, "reserve": "1/2"}
            one = gauge(tmp_path, source, engine, until, releases=releases, budget=budget)
            if number:
                one.amend()
            found[engine] = read(one)
        assert found["spark"] == found["duckdb"]
    assert {row[0] for row in found["spark"]} == {"now", "age", "out", "moved", "ages"}


KILLED = (
    IN_A_COMMIT
    + """
from tests.engine.spark.test_gauge import gauge
from tests.engine.spark.test_rows import OWNED
source = {"kind": "spark", "path": "log/*.parquet", **OWNED}
list(gauge(Path(sys.argv[1]), source, "spark", sys.argv[3]).run())
"""
)


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_a_kill_between_the_state_and_the_ledger_loses_and_doubles_nothing(tmp_path: Path) -> None:
    rows = sorted(changes(4, 200), key=lambda row: row["at"])
    (tmp_path / "log").mkdir()
    written(rows[:100], tmp_path / "log" / "0.parquet")
    declared = {"kind": "spark", "path": "log/*.parquet", **OWNED}
    first = read(gauge(tmp_path, declared, "spark", "2026-01-06"))
    written(rows[100:], tmp_path / "log" / "1.parquet")
    command = [sys.executable, "-c", KILLED, str(tmp_path), "1", "2026-01-20"]
    ended = subprocess.run(command, capture_output=True, check=False, cwd=Path(__file__).parents[3])
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()[-2000:]
    found = read(gauge(tmp_path, declared, "spark"))
    assert set(first) <= set(found)
    written(rows, tmp_path / "log.parquet")
    assert found == read(gauge(tmp_path, {"kind": "files", "path": "log.parquet", **OWNED}, "duckdb"))
