"""The example of docs/sources/spark.md runs as it is written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.docs.blocks import blocks

PAGE = Path(__file__).parents[3] / "docs" / "sources" / "spark.md"


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_the_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = blocks(PAGE)
    (tmp_path / "tidegauge.toml").write_text(next(one.text for one in found if one.language == "toml"))
    (tmp_path / "log").mkdir()
    count = 20
    table = {
        "at": [datetime(2025, 12, 1, tzinfo=UTC) + timedelta(days=n) for n in range(count)],
        "id": list(range(count)),
        "op": ["insert"] * count,
        "region": ["north", "south"] * (count // 2),
        "status": ["infected"] * count,
    }
    pq.write_table(pa.table(table), tmp_path / "log" / "0.parquet")
    monkeypatch.chdir(tmp_path)
    for one in found:
        if one.language == "python":
            exec(compile(one.text, f"spark.md:{one.line}", "exec"), {})
    assert "2026-01-01" in capsys.readouterr().out
