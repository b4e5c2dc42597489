"""Files that survive a power cut, and folders that one process uses at a time."""

from __future__ import annotations

import fcntl
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def private_folder(folder: Path) -> None:
    """Create the folder, for its owner alone, if it is missing."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def sync_folder(folder: Path) -> None:
    """Make the names of the files in the folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def replacing(path: Path, *, prefix: str) -> Iterator[IO[bytes]]:
    """Write a file completely and durably, or not at all.

    It is written beside `path`, under a name that begins with `prefix`, which a crash may leave behind.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=prefix)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
        sync_folder(path.parent)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def whole_lines(path: Path) -> bytes:
    """The content of a file of lines.  An incomplete last line, left by a crash, is removed durably."""
    with path.open("rb+") as file:
        data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            file.truncate(len(whole))
            os.fsync(file.fileno())
    return whole


def lock_file(path: Path) -> int:
    """Lock a file until the returned handle is closed.  Raises OSError if another process holds the lock."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle
