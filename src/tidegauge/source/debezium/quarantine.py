"""The quarantine: a folder for single events that cannot be used, so that other events still count."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from tidegauge.durable import private_folder, sync_folder, whole_lines
from tidegauge.errors import SourceError

_UNSAFE: Final = str.maketrans("/\\\0", "___")


class Quarantine:
    """A folder with one file for each input file or partition, and in it one line for each unusable event.

    A line has the place of the event and the reason.  With `content`, it also has the event itself, for input
    files that are removed once they are read.  An event that is read again after a crash is written once.
    Without a folder, an unusable event raises SourceError.
    """

    def __init__(self, folder: Path | None, *, content: bool = False) -> None:
        self._folder, self._content = folder, content
        self._waiting: dict[str, list[tuple[int, bytes]]] = {}

    def put(self, part: str, place: int, reason: str, line: bytes) -> None:
        """Add the event that ends at this place of this part."""
        if self._folder is None:
            raise SourceError(f"an event {reason}", path=part)
        record: dict[str, object] = {"place": place, "reason": reason}
        if self._content:
            record["event"] = line.decode("utf-8", "backslashreplace")
        name = f"{part.translate(_UNSAFE)}.jsonl"
        self._waiting.setdefault(name, []).append((place, json.dumps(record).encode() + b"\n"))

    def settle(self) -> None:
        """Write the added events; afterwards they survive a power cut."""
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
                "events cannot be set aside: the quarantine folder cannot be written. Nothing after them was "
                "read. Give the gauge's user the right to write there.",
                path=str(self._folder),
            ) from None
        self._waiting = {}


def _last(path: Path) -> int:
    """The last place in a file of the quarantine; an incomplete last line, left by a crash, is removed."""
    if not path.exists():
        return -1
    lines = whole_lines(path).splitlines()
    return int(json.loads(lines[-1])["place"]) if lines else -1


def count(folder: Path) -> int:
    """The number of events in this quarantine."""
    if not folder.is_dir():
        return 0
    return sum(file.read_bytes().count(b"\n") for file in folder.glob("*.jsonl"))
