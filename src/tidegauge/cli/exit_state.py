"""How the last run of a gauge ended, for the operator's metrics: a small file beside the store."""

from __future__ import annotations

import json
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.cli.ending import ENDING, Stopped
from tidegauge.durable import replacing
from tidegauge.errors import TidegaugeError
from tidegauge.serve.operator import Exit

if TYPE_CHECKING:
    from collections.abc import Iterator

KILLED = 137
"""The code of a run that ended without a word: by kill -9, a power cut, or for want of memory."""


@contextmanager
def recorded_end(store: Path) -> Iterator[Exit | None]:
    """A block that records how it ends; gives how the run before it ended, None for the first.

    The record has a time and an exit code, and nothing of the data.
    """
    path = store.with_name(f"{store.name}.exit")
    before = _read(path)
    _write(path, None)
    code = 1
    try:
        yield before
        code = 0
    except TidegaugeError:
        code = 2
        raise
    except (Stopped, KeyboardInterrupt):
        code = 130 if ENDING.signal is None else ENDING.code
        raise
    finally:
        _write(path, code)


def _read(path: Path) -> Exit | None:
    try:
        found = json.loads(path.read_bytes())
        at, code = float(found["at"]), found["code"]
        return Exit(at, KILLED if code is None else int(code))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _write(path: Path, code: int | None) -> None:
    """The time, and the exit code; None: a run has begun."""
    with replacing(path) as file:
        file.write(json.dumps({"at": datetime.now(UTC).timestamp(), "code": code}).encode())
