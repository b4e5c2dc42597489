"""Parts of a fold that wait on disk: the same readings, one part in memory, nothing left behind."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.run.gauge_life import COLUMNS, gauge, life
from tidegauge.engine.duckdb.engine import DuckEngine
from tidegauge.model.program import Folded
from tidegauge.run.spill import spilled
from tidegauge.store.store import Store
from tidegauge.testing import Script

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tidegauge.model.tick import TickResult

ROWS = 100_000


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def parts(count: int) -> Iterator[Folded]:
    for number in range(count):
        names = pa.array([f"row {number} {n}" for n in range(ROWS)])
        some = pa.table({"entry": names.slice(0, 3)})
        yield Folded([], pa.table({"entry": names, "n": pa.array(range(ROWS))}), some, some, some, {})


def test_memory_holds_the_last_part_alone(scratch: Path) -> None:
    before = pa.total_allocated_bytes()
    with ExitStack() as until:
        found = spilled(parts(6), until)
        held = pa.total_allocated_bytes() - before
        assert held < 1.5 * found[-1].entries.nbytes
        assert [part.entries["entry"][7].as_py() for part in found] == [f"row {n} 7" for n in range(6)]
        assert [part.gone.num_rows for part in found] == [3] * 6
        (folder,) = scratch.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("count", [0, 1])
def test_one_part_stays_where_it_is(scratch: Path, count: int) -> None:
    with ExitStack() as until:
        assert len(spilled(parts(count), until)) == count
        assert list(scratch.iterdir()) == []


def test_a_gauge_that_folds_in_parts_keeps_the_same_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most, real = [0], Store.commit

    def commit(self: Store, result: TickResult) -> None:
        most[0] = max(most[0], len(result.folded))
        real(self, result)

    monkeypatch.setattr(Store, "commit", commit)
    found, begin = [], DuckEngine.__init__
    for part in (1_000_000, 1):
        with monkeypatch.context() as patched:
            patched.setattr(
                DuckEngine,
                "__init__",
                lambda self, program, columns, p=part: begin(self, program, columns, part=p),
            )
            folder = tmp_path / str(part)
            folder.mkdir()
            list(gauge(folder, Script(COLUMNS, life())).run())
        with Store(next(folder.glob("*.db"))) as store:
            state = store.secret.state()
            found.append((store.secret.counts(), state.all_entries().sort_by("entry").to_pylist()))
    assert found[0] == found[1]
    assert most[0] > 1, "several parts"
