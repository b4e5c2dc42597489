"""Prints why a verb was refused, and ends the process with exit code 2."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

from tidegauge.cli.options import OPENED
from tidegauge.errors import SpecError


def refuse(error: Exception) -> NoReturn:
    """Print the error and the file that it is about."""
    typer.echo(f"{type(error).__name__}: {_place(error)}{error}", err=True)
    sys.exit(2)


def _place(error: Exception) -> str:
    """The file of the key that an error is about; a message about no key names its file itself."""
    key = error.key if isinstance(error, SpecError) else None
    if key is None or key.startswith("-") or not OPENED:
        return ""
    return f"{OPENED[0]}: "
