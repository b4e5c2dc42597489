"""Prints why a verb was refused, and ends the process with exit code 2."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

from tidegauge.cli.options import OPENED
from tidegauge.errors import SpecError, StoreCorrupt


def refuse(error: Exception) -> NoReturn:
    """Print the error, the file that it is about, and what to do about an altered store."""
    typer.echo(f"{type(error).__name__}: {_place(error)}{error}{_advice(error)}", err=True)
    sys.exit(2)


def _place(error: Exception) -> str:
    """The file of the key that an error is about, if the message does not name it."""
    key = error.key if isinstance(error, SpecError) else None
    if key is None or key.startswith("-") or not OPENED or str(OPENED[0]) in str(error):
        return ""
    return f"{OPENED[0]}: "


def _advice(error: Exception) -> str:
    """What to do about an altered store, if the message does not say it."""
    if not isinstance(error, StoreCorrupt) or "copy" in str(error):
        return ""
    return "\nThe store was altered or damaged. Bring back the newest copy that tidegauge verify accepts."
