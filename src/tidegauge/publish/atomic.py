"""Files that are written whole: a reader sees the old content or the new one, and never a part."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tidegauge.durable import put_in_place
from tidegauge.errors import PublishError

if TYPE_CHECKING:
    from pathlib import Path


def put(path: Path, content: bytes) -> bool:
    """Write the content in place of the file's; returns whether it was another.

    The content is on the disk before the file is replaced.  Raises PublishError.
    """
    fresh = path.with_name(f".{path.name}.new")
    try:
        if path.is_file() and path.stat().st_size == len(content) and path.read_bytes() == content:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        put_in_place(fresh, path)
    except OSError as error:
        raise PublishError(f"{path.name} cannot be written: {error.strerror}") from None
    return True
