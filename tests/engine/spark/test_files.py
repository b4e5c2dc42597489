"""The folder of the state after a kill; no Spark is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tidegauge.engine.spark.files import StateFiles, Version
from tidegauge.errors import StoreCorrupt

if TYPE_CHECKING:
    from pathlib import Path


def files(folder: Path) -> StateFiles:
    session: Any = None
    return StateFiles(session, folder)


def test_what_a_write_that_was_killed_left_is_removed(tmp_path: Path) -> None:
    """Spark writes into folders inside of the folder, and moves the files when it has all."""
    (tmp_path / "state-00000001").mkdir()
    (tmp_path / "state-00000001" / "_SUCCESS").touch()
    task = tmp_path / "state-00000002" / "_temporary" / "0" / "task_0"
    task.mkdir(parents=True)
    (task / "part-0.parquet").write_bytes(b"PAR1")
    files(tmp_path).require(Version(1, state=("state-00000001",)))
    assert [path.name for path in tmp_path.iterdir()] == ["state-00000001"]


def test_a_folder_that_is_missing_or_not_complete_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state-00000001" / "_temporary").mkdir(parents=True)
    for name in ("state-00000001", "state-00000002"):
        with pytest.raises(StoreCorrupt, match="not complete"):
            files(tmp_path).require(Version(1, state=(name,)))


def test_versions_of_plain_and_encrypted_stores_are_read_back() -> None:
    plain = Version(3, ("state-00000002",), ("waiting-00000003",), 7)
    assert str(plain) == '[3, ["state-00000002"], ["waiting-00000003"], 7]'
    sealed = Version(3, ("state-00000002",), (), 7, {"state-00000002": "ab"})
    for one in (plain, sealed, Version()):
        assert Version.parse(str(one)) == one
