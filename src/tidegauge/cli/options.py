"""Options that several verbs have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

File = Annotated[Path, typer.Option("--file", "-f", help="The declaration of the gauge.")]
StoreFile = Annotated[
    Path | None, typer.Option("--store", help="The store; default: beside the declaration.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DEFAULT = Path("tidegauge.toml")
LISTEN = "127.0.0.1:8321"
"""Where a server listens if nothing else is said: on this machine alone."""
