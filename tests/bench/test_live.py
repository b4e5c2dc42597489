"""The benchmark of a live server runs, and what it follows is exact."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_a_small_one() -> None:
    words = ["-m", "bench.live", "--quick", "--changes", "40000", "--units", "5000", "--json"]
    done = subprocess.run(
        [sys.executable, *words], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = dict(json.loads(done.stdout)["tables"][0]["rows"])
    assert found["exact"] == "True"
    assert float(found["changes/s"]) > 0
    assert float(found["tick of 10,000 s"]) > 0
