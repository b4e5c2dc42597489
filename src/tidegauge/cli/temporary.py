"""One folder for all temporary files of a process, removed however the process ends.

A process that is killed cannot remove its folder; the next one does.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegauge.scratch import use
from tidegauge.store.scratch import OWN_FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MEMORY: Final = Path("/dev/shm")  # noqa: S108  (a folder of a random name in it)
_YOUNG: Final = 60.0
"""Seconds in which a folder is left alone even if no process holds it: its process may just be starting."""


@contextmanager
def together() -> Iterator[Callable[[], None]]:
    """Make the folder and let `tempfile` use it; yields what removes it, for a process that ends in the middle."""
    before = tempfile.tempdir
    place = tempfile.gettempdir()
    for one in {Path(place), _MEMORY}:
        _sweep(one)
    try:
        folder = Path(tempfile.mkdtemp(prefix=OWN_FOLDER, dir=place))
        held = os.open(folder, os.O_RDONLY)
    except OSError:  # there is no room for temporary files: whoever needs one says so
        yield lambda: None
        return
    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def clean() -> None:
        for one in (folder, _MEMORY / folder.name):  # the second is where an encrypted store has its files
            gone = one.with_name(f"{one.name}.gone")  # so that no other thread can add to it meanwhile
            with suppress(OSError):
                one.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)

    tempfile.tempdir = str(folder)
    try:
        yield clean
    finally:
        tempfile.tempdir = before
        use(None)
        clean()
        os.close(held)


def _sweep(place: Path) -> None:
    """Remove what killed processes left: folders of ours that are old and that no process holds."""
    for folder in place.glob(f"{OWN_FOLDER}*"):
        with suppress(OSError):
            known = folder.lstat()
            if known.st_uid != os.geteuid() or time.time() - known.st_mtime < _YOUNG:
                continue
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(held)
