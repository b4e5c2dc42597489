"""A process that changes a state and dies by SIGKILL in its last tick:
python -m tests.store.table.dying PATH POINT NTH."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.store.table.test_state_model import KEY, Model
from tidegauge.store.secret.secrets import Secrets
from tidegauge.store.secret.table import sorted_table
from tidegauge.store.secret.table.file import BlockFile

TICKS = 6
POINTS: dict[str, tuple[type, str]] = {
    "write": (BlockFile, "write"),
    "delete": (BlockFile, "delete"),
    "directory": (Secrets, "write"),
}


def lived(path: Path, ticks: int, dying: tuple[str, int] | None = None) -> Model:
    """A state after some ticks, of which the last one may not end."""
    sorted_table.BLOCK = 8  # type: ignore[misc]
    model = Model(path, 7, owned=True, key=KEY)
    for tick in range(ticks):
        if dying and tick == ticks - 1:
            _arm(*dying)
        model.tick(100 if tick == 0 else 9, 80, crash=False)
    return model


def _arm(point: str, nth: int) -> None:
    owner, name = POINTS[point]
    real, left = getattr(owner, name), nth

    def deadly(self: Any, *args: Any) -> Any:
        nonlocal left
        found = real(self, *args)
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(owner, name, deadly)


if __name__ == "__main__":
    lived(Path(sys.argv[1]), TICKS, (sys.argv[2], int(sys.argv[3])))
