"""Private folders for data that does not fit into memory.

A folder is locked while its process runs.  A killed process leaves its folder behind unlocked; the next
process that creates a folder removes it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

OWN_FOLDER: Final = "tidegauge-process-"
"""Start of the name of the folder that holds all temporary files of one process."""
_PREFIX: Final = "tidegauge-scratch-"


_chosen: list[str] = []
"""The folder for temporary files, where one was chosen.  `tempfile` has a setting of its own, which belongs
to the process that Tidegauge runs in and is left alone."""


def use(folder: str | None) -> None:
    """Make Tidegauge's temporary files in this folder from now on; None: where `tempfile` makes them."""
    _chosen[:] = [] if folder is None else [folder]


def temporary_folder() -> str:
    """The folder in which temporary files are made."""
    return _chosen[0] if _chosen else tempfile.gettempdir()


class ScratchFolder:
    """A folder that only its owner can enter, removed with its contents when it is no longer used."""

    def __init__(self) -> None:
        _sweep(Path(temporary_folder()))
        while True:
            self.name = tempfile.mkdtemp(prefix=_PREFIX, dir=temporary_folder())
            try:
                lock = os.open(self.name, os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:  # another process swept it before it was locked
                continue
            with suppress(OSError):  # a file system without locks: nobody can sweep there either
                fcntl.flock(lock, fcntl.LOCK_EX)
            if _is_at(lock, Path(self.name)):
                break
            os.close(lock)  # another process removed it before it was locked
        self._remove = weakref.finalize(self, _removed, self.name, lock)

    def cleanup(self) -> None:
        """Remove it now."""
        self._remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cleanup()


def _removed(name: str, lock: int) -> None:
    shutil.rmtree(name, ignore_errors=True)
    os.close(lock)


def _is_at(lock: int, path: Path) -> bool:
    """Whether the open folder is the one at this path (not removed or replaced)."""
    try:
        return os.path.samestat(os.fstat(lock), path.stat())
    except FileNotFoundError:
        return False


def _sweep(parent: Path) -> None:
    """Remove the folders of processes that have ended."""
    for path in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another user's, another process's, or gone meanwhile
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(lock).st_uid == os.geteuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)
