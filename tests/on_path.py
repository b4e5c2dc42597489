"""The commands of Tidegauge on a PATH, for scripts that call them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def under_test(folder: Path) -> dict[str, str]:
    """An environment on whose PATH tidegauge and python are those under test; writes them into the folder."""
    tools = folder / "bin"
    tools.mkdir()
    for name, words in (
        ("tidegauge", '-c "from tidegauge.cli import main; main()" "$@"'),
        ("python", '"$@"'),
    ):
        (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words}\n')
        (tools / name).chmod(0o755)
    return {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
