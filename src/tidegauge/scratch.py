"""Private folders for temporary files.

Every folder is locked while its process runs.  A killed process leaves its folders behind unlocked; the next
process that creates one removes them.

* `ScratchFolder`: a folder for data that does not fit into memory.
* `process_folder`: one folder around all temporary files of a command, the scratch folders included.
* `use_memory`: temporary files go to a file system in memory, so that no row of an encrypted store reaches a
  disk in the clear.

`tempfile` has a setting of its own for the place of temporary files.  The setting belongs to the program that
Tidegauge runs in: only a command of Tidegauge itself changes it (`process_folder`).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import weakref
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from tidegauge.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROCESS: Final = "tidegauge-process-"
"""Start of the name of a folder that holds all temporary files of one process."""
_SCRATCH: Final = "tidegauge-scratch-"
_MOUNTS: Final = Path("/proc/self/mounts")
_SHARED: Final = Path("/dev/shm")  # noqa: S108  (folders of random names in it, for their owner alone)
_MEMORY: Final = frozenset({"tmpfs", "ramfs"})


@dataclass
class _Chosen:
    """Where the temporary files of this process are made."""

    folder: str | None = None
    """The chosen folder; None: where `tempfile` makes its files."""
    own: dict[Path, _Locked] = field(default_factory=dict)
    """The folders of a command, by the folder that each is in; empty for a program that uses Tidegauge."""


_chosen: Final = _Chosen()


def use(folder: str | None) -> None:
    """Make Tidegauge's temporary files in this folder from now on; None: where `tempfile` makes them."""
    _chosen.folder = folder


def temporary_folder() -> str:
    """The folder in which temporary files are made."""
    return _chosen.folder or tempfile.gettempdir()


class _Locked:
    """A new folder that only its owner can enter, locked by this process."""

    def __init__(self, parent: Path, prefix: str) -> None:
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            try:
                self.lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:  # another process removed the folder before it was locked
                continue
            with suppress(OSError):  # a file system without locks: no process removes folders there either
                fcntl.flock(self.lock, fcntl.LOCK_EX)
            if self._in_place():
                return
            os.close(self.lock)  # another process removed the folder before it was locked

    def _in_place(self) -> bool:
        """Whether the locked folder is the one at this path."""
        try:
            return os.path.samestat(os.fstat(self.lock), self.path.stat())
        except FileNotFoundError:
            return False

    def remove(self) -> None:
        """Remove the folder.  The renaming first keeps other threads from adding files meanwhile."""
        gone = self.path.with_name(f"{self.path.name}.gone")
        with suppress(OSError):
            self.path.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


class ScratchFolder:
    """A folder that only its owner can enter, removed with its contents when it is no longer used."""

    def __init__(self) -> None:
        parent = Path(temporary_folder())
        _sweep(parent, _SCRATCH)
        locked = _Locked(parent, _SCRATCH)
        self.name = str(locked.path)
        self._remove = weakref.finalize(self, _closed, locked)

    def cleanup(self) -> None:
        """Remove the folder now."""
        self._remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cleanup()


@contextmanager
def process_folder() -> Iterator[Callable[[], None]]:
    """Make all temporary files of the process in one folder.  Yields a function that removes it early."""
    before = tempfile.tempdir
    parent = Path(tempfile.gettempdir())
    for place in {parent, _SHARED}:
        _sweep(place, PROCESS)
    outer = _chosen.own
    try:
        own = {parent: _Locked(parent, PROCESS)}
    except OSError:  # no space for temporary files: code that needs one reports the error
        yield lambda: None
        return

    def clean() -> None:
        for locked in list(own.values()):
            locked.remove()

    _chosen.own, tempfile.tempdir = own, str(own[parent].path)
    try:
        yield clean
    finally:
        _chosen.own, tempfile.tempdir = outer, before
        use(None)
        for locked in own.values():
            _closed(locked)


def use_memory() -> None:
    """Make Tidegauge's temporary files in memory from now on; in $TMPDIR where that is in memory.

    Raises SpecError where no folder in memory can be written.  A system that does not list its mounts is left
    as it is: docs/guide.md says what its operator has to check.
    """
    if not _MOUNTS.exists():
        return
    mounted = {
        Path(_unescaped(point)): kind
        for _, point, kind, *_ in (line.split(" ") for line in _MOUNTS.read_text().splitlines())
    }
    usual = Path(tempfile.gettempdir()).resolve()
    for folder in (usual, _SHARED):
        point = next((place for place in (folder, *folder.parents) if place in mounted), None)
        if point is not None and mounted[point] in _MEMORY and os.access(folder, os.W_OK | os.X_OK):
            if folder != usual and _chosen.own:  # a command keeps its files together here, too
                if folder not in _chosen.own:
                    _chosen.own[folder] = _Locked(folder, PROCESS)
                folder = _chosen.own[folder].path  # noqa: PLW2901
            use(str(folder))
            return
    raise SpecError(
        "an encrypted store needs a place in memory for temporary files. Set TMPDIR to a folder on a tmpfs",
        key="store.key",
    )


def _unescaped(point: str) -> str:
    """A mount point as it is: blanks are written as octal numbers."""
    return point.encode().decode("unicode_escape").encode("latin-1").decode("utf-8", "surrogateescape")


def _closed(locked: _Locked) -> None:
    locked.remove()
    os.close(locked.lock)


def _sweep(parent: Path, prefix: str) -> None:
    """Remove the folders of processes that have ended."""
    for path in parent.glob(f"{prefix}*"):
        with suppress(OSError):  # another user's, another process's, or gone meanwhile
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(lock).st_uid == os.geteuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)
