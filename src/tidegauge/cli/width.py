"""How many columns a text may have where it is printed."""

from __future__ import annotations

import os
from typing import IO, Final

USUAL: Final = 80
LEAST: Final = 60
MOST: Final = 110


def columns(stream: IO[str]) -> int:
    """The width of the terminal behind this stream, between 60 and 110; 80 if it is not a terminal.

    The environment variable COLUMNS is used instead, if it is set.
    """
    try:
        found = int(os.environ.get("COLUMNS", "")) or USUAL
    except ValueError:
        try:
            found = os.get_terminal_size(stream.fileno()).columns or USUAL
        except (OSError, ValueError):  # not a terminal, or not a file at all
            found = USUAL
    return min(MOST, max(LEAST, found))
