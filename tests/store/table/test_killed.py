"""kill -9 between the blocks of a tick and its commit leaves the state as it was."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.table.dying import TICKS, lived
from tests.store.table.test_state_model import KEY
from tidegauge.store.secret.table import sorted_table
from tidegauge.store.store import Store


@pytest.mark.parametrize(
    ("point", "nth"),
    [
        ("write", 1),
        ("directory", 1),
        pytest.param("write", 3, marks=pytest.mark.slow),
        pytest.param("delete", 1, marks=pytest.mark.slow),
        pytest.param("delete", 4, marks=pytest.mark.slow),
    ],
)
def test_a_killed_tick_leaves_the_old_state(
    tmp_path: Path, point: str, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorted_table, "BLOCK", 8)
    path = tmp_path / "killed.db"
    program = [sys.executable, "-m", "tests.store.table.dying", str(path), point, str(nth)]
    done = subprocess.run(program, cwd=Path(__file__).parents[3], check=False, timeout=600)
    assert done.returncode == -signal.SIGKILL
    model = lived(tmp_path / "calm.db", TICKS - 1)
    blocks = len(model.store.secret.tables.use(model.layout)["entries"].directory.base)
    assert blocks > 4, "the tick merges a part of the table"
    model.store.close()
    model.path, model.store = path, Store(path, write=True, key=KEY)
    try:
        model.compare(80)
        model.store.require_rows()
        model.tick(9, 80, crash=False)  # it goes on
        model.open_again()
        model.compare(80)
    finally:
        model.store.close()
