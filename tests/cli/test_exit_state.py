"""How the last run ended, as the next one says to its operator."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from tidegauge.cli.ending import Stopped
from tidegauge.cli.exit_state import KILLED, recorded_end
from tidegauge.errors import SourceError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, 0),
        (SourceError("gone"), 2),
        (KeyboardInterrupt(), 130),
        (Stopped(), 130),
        (ValueError("4711"), 1),
    ],
)
def test_the_next_run_knows_how_the_last_ended(
    tmp_path: Path, error: BaseException | None, code: int
) -> None:
    store = tmp_path / "tidegauge.db"
    with nullcontext() if error is None else pytest.raises(type(error)), recorded_end(store) as before:
        assert before is None
        if error is not None:
            raise error
    record = tmp_path / "tidegauge.db.exit"
    assert record.stat().st_mode & 0o777 == 0o600
    assert b"gone" not in record.read_bytes()
    assert b"4711" not in record.read_bytes()
    with recorded_end(store) as before:
        assert before is not None
        assert before.code == code
        with recorded_end(store) as killed:  # the first has not ended: as if it had been killed
            assert killed is not None
            assert killed.code == KILLED


@pytest.mark.parametrize("content", [b"", b"[]", b'{"at": "x", "code": 1}', b"\xff"])
def test_a_broken_record_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.db.exit").write_bytes(content)
    with recorded_end(tmp_path / "a.db") as before:
        assert before is None
