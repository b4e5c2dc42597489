"""Temporary files go into memory while a store is encrypted, so that no row reaches a disk in the clear."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

from tidegauge.errors import SpecError
from tidegauge.scratch import OWN_FOLDER, use

_MOUNTS: Final = Path("/proc/self/mounts")
_SHARED: Final = Path("/dev/shm")  # noqa: S108  (looked at, not trusted)
_MEMORY: Final = frozenset({"tmpfs", "ramfs"})


def use_memory() -> None:
    """Let Tidegauge make its temporary files in memory from now on; in $TMPDIR where that is in memory."""
    if not _MOUNTS.exists():  # another system: docs/guide.md says what to see to
        return
    mounted = {
        Path(_unescaped(point)): kind
        for _, point, kind, *_ in (line.split(" ") for line in _MOUNTS.read_text().splitlines())
    }
    for folder in (Path(tempfile.gettempdir()).resolve(), _SHARED):
        point = next((place for place in (folder, *folder.parents) if place in mounted), None)
        if point is not None and mounted[point] in _MEMORY and os.access(folder, os.W_OK | os.X_OK):
            own = Path(tempfile.gettempdir())
            apart = folder != own.resolve() and own.name.startswith(OWN_FOLDER)
            chosen = (
                folder / own.name if apart else folder
            )  # a process with a folder of its own goes on to have one
            chosen.mkdir(mode=0o700, exist_ok=True)
            use(str(chosen))
            return
    raise SpecError(
        "an encrypted store needs a place in memory for temporary files. Set TMPDIR to a folder on a tmpfs",
        key="store.key",
    )


def _unescaped(point: str) -> str:
    """A mount point as it is: blanks are written as octal numbers."""
    return point.encode().decode("unicode_escape").encode("latin-1").decode("utf-8", "surrogateescape")
