"""Where events are set aside that cannot be used, one by one, so that the others go on being counted."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from tidegauge.durable import private_folder, sync_folder, whole_lines
from tidegauge.errors import SourceError

_UNSAFE: Final = str.maketrans("/\\\0", "___")


class Quarantine:
    """A folder with a file for each file or partition that events were read from, and in it one line for each event set aside.

    A line says where the event is and why it was set aside, and holds the event itself where its file is removed once it is
    read (`content`).  What is read again after a crash is not set aside twice.  Without a folder the event is refused.
    """

    def __init__(self, folder: Path | None, *, content: bool = False) -> None:
        self._folder, self._content = folder, content
        self._waiting: dict[str, list[tuple[int, bytes]]] = {}

    def put(self, part: str, place: int, reason: str, line: bytes) -> None:
        """Set the event aside that ends at this place of this part."""
        if self._folder is None:
            raise SourceError(f"an event {reason}", path=part)
        record: dict[str, object] = {"place": place, "reason": reason}
        if self._content:
            record["event"] = line.decode("utf-8", "backslashreplace")
        name = f"{part.translate(_UNSAFE)}.jsonl"
        self._waiting.setdefault(name, []).append((place, json.dumps(record).encode() + b"\n"))

    def settle(self) -> None:
        """Write what was put; when this returns it survives a power cut."""
        if self._folder is None or not self._waiting:
            return
        try:
            private_folder(self._folder)
            for name, records in self._waiting.items():
                path = self._folder / name
                last = _last(path)
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                with os.fdopen(file, "ab") as stream:
                    stream.writelines(record for place, record in sorted(records) if place > last)
                    stream.flush()
                    os.fsync(stream.fileno())
            sync_folder(self._folder)
        except OSError:
            raise SourceError(
                "events cannot be set aside: the quarantine folder cannot be written. Nothing after them was read.",
                path=str(self._folder),
            ) from None
        self._waiting = {}


def _last(path: Path) -> int:
    """The last place in a file of the quarantine; a line that a crash left half written is cut off."""
    if not path.exists():
        return -1
    lines = whole_lines(path).splitlines()
    return int(json.loads(lines[-1])["place"]) if lines else -1


def count(folder: Path) -> int:
    """How many events are set aside in this folder."""
    if not folder.is_dir():
        return 0
    return sum(file.read_bytes().count(b"\n") for file in folder.glob("*.jsonl"))
