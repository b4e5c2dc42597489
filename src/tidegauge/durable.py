"""Files that survive a power cut, and files that one process uses at a time."""

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


def private_file(path: Path) -> int:
    """Open a file that only its owner can read and write; make it where it is missing.

    The mode does not depend on the umask.  The caller closes the returned descriptor.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.fchmod(handle, 0o600)
    except OSError:
        os.close(handle)
        raise
    return handle


def sync_file(path: Path) -> None:
    """Make the content of a file, or the names in a folder, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Make the names of the files in the folder durable."""
    sync_file(folder)


def put_in_place(written: Path, path: Path) -> None:
    """Give a file that was written completely the name `path`, durably, in place of the file there."""
    sync_file(written)
    written.replace(path)
    sync_folder(path.parent)


@contextmanager
def replacing(path: Path, *, prefix: str | None = None) -> Iterator[IO[bytes]]:
    """Write a file completely and durably, or not at all.

    The content is written beside `path` first, and a crash may leave that file behind.  Its name is `path`
    with `.new` at the end: one file at most is left, and the next call overwrites it.  Where several
    processes may replace the same file, `prefix` gives each a name of its own that begins so.
    """
    if prefix is None:
        beside = path.with_name(f"{path.name}.new")
        handle = private_file(beside)
    else:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=prefix)
        beside = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.truncate()
            yield file
            file.flush()
        put_in_place(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
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
    """Lock a file for this process, until the returned descriptor is closed or the process ends.

    Raises BlockingIOError where another process has the lock, and any other OSError where the file cannot be
    opened or locked at all.
    """
    return _locked(private_file(path))


def lock_folder(path: Path) -> int:
    """Lock a folder for this process, as `lock_file` locks a file."""
    return _locked(os.open(path, os.O_RDONLY | os.O_DIRECTORY))


def _locked(handle: int) -> int:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle
