"""A flow sees updates of its own columns alone: DuckDB and the oracle agree on every case."""

from __future__ import annotations

import pytest

from tests.engine.harness import COLUMNS, run_engine
from tests.engine.watched import by_case, expected, in_oracle, log, program
from tidegauge.engine.duckdb.engine import DuckEngine


@pytest.mark.parametrize("together", [True, False])
def test_duckdb_and_the_oracle_give_the_documented_counts(*, together: bool) -> None:
    read = log(together=together)
    assert in_oracle(read) == expected()
    with DuckEngine(program(), COLUMNS) as engine:
        assert by_case(run_engine(engine, read).sums) == expected()
