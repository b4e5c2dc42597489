"""A flow sees updates of its own columns alone, on Spark as elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engine.watched import by_case, expected, log, program

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("together", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("spark")
def test_spark_gives_the_documented_counts(*, together: bool, tmp_path: Path) -> None:
    from tests.engine.spark.programs import run_spark

    run = run_spark(program(), log(together=together), tmp_path / "gauge.db")
    assert by_case(run.sums) == expected()
    assert by_case(run.true) == expected()
