"""One folder for all temporary files of a process, removed when the process ends.

A killed process cannot remove its folder; the next process does.
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

from tidegauge.scratch import OWN_FOLDER, use

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MEMORY: Final = Path("/dev/shm")  # noqa: S108  (a folder of a random name in it)
_YOUNG: Final = 60.0
"""Age in seconds below which an unlocked folder is kept: its process may just be starting."""


@contextmanager
def together() -> Iterator[Callable[[], None]]:
    """Create the folder and make `tempfile` use it.  Yields a function that removes it early."""
    before = tempfile.tempdir
    place = tempfile.gettempdir()
    for one in {Path(place), _MEMORY}:
        _sweep(one)
    try:
        folder = Path(tempfile.mkdtemp(prefix=OWN_FOLDER, dir=place))
        held = os.open(folder, os.O_RDONLY)
    except OSError:  # no space for temporary files: code that needs one reports the error
        yield lambda: None
        return
    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def clean() -> None:
        for one in (folder, _MEMORY / folder.name):  # the second holds the files of an encrypted store
            gone = one.with_name(f"{one.name}.gone")  # so that no other thread can add files to it
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
    """Remove folders of killed processes: ours, older than a minute, and not locked."""
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
