"""Empties an outbox and dies by SIGKILL at a given point: python -m tests.publish.dying FOLDER POINT NTH."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.publish.ward import START, Ward
from tidegauge.model.quantity import DAY
from tidegauge.publish.command import CommandPublisher
from tidegauge.publish.folder import FolderPublisher
from tidegauge.publish.public import writer
from tidegauge.publish.public.kind import PublicPublisher
from tidegauge.store.public.outbox import Cursors

PUBLISH: dict[str, dict[str, Any]] = {
    "page": {"kind": "public"},
    "files": {"kind": "folder"},
    "program": {"kind": "command", "command": ["/bin/sh", "-c", 'cat >> got; echo "$TIDEGAUGE_KEY" >> keys']},
}
POINTS = {
    "file written": (writer, "put_in_place", "before"),
    "file in place": (writer, "put_in_place", "after"),
    "file half written": (writer, "_write_document", "after"),
    "month half written": (os, "fsync", "before"),
    "delivered": (Cursors, "put", "before"),
    "cursor moved": (Cursors, "put", "after"),
    "program done": (CommandPublisher, "deliver", "after"),
    "folder done": (FolderPublisher, "deliver", "after"),
    "public done": (PublicPublisher, "deliver", "before"),
}


def arm(point: str, nth: int) -> None:
    home, name, when = POINTS[point]
    original, left = getattr(home, name), nth

    def dying(*given: Any, **named: Any) -> Any:
        nonlocal left
        left -= 1
        if not left and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        done = original(*given, **named)
        if not left and when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    setattr(home, name, dying)


if __name__ == "__main__":
    ward = Ward(Path(sys.argv[1]), PUBLISH)
    ward.clock.now = START + 20 * DAY
    arm(sys.argv[2], int(sys.argv[3]))
    ward.gauge().publish()
