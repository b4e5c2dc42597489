"""Options that several verbs have, and what every verb does with them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tidegauge.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegauge.run.gauge import Gauge
    from tidegauge.run.reader import Reader

File = Annotated[Path, typer.Option("--file", "-f", help="The declaration of the gauge.")]
StoreFile = Annotated[
    Path | None, typer.Option("--store", help="The store; default: beside the declaration.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DEFAULT = Path("tidegauge.toml")
LISTEN = "127.0.0.1:8321"
"""Where a server listens if nothing else is said: on this machine alone."""


OPENED: Final[list[Path]] = []
"""The declaration that the verb has opened, for messages about one of its keys."""


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def open_gauge(
    file: Path, store: Path | None = None, *, sleep: Callable[[float], None] = time.sleep
) -> Gauge:
    """The gauge that `file` declares; the libraries that it needs are imported here."""
    from tidegauge.run.gauge import Gauge  # noqa: PLC0415

    OPENED[:] = [file]
    return Gauge.from_file(file, store=store, sleep=sleep)


def require_time(text: str | None, option: str) -> None:
    """Raise SpecError with the name of the option if the text is no date or time."""
    from tidegauge.model.quantity import instant  # noqa: PLC0415

    if text is not None:
        try:
            instant(text)
        except SpecError as error:
            raise SpecError(str(error), key=option) from None


def open_reader(file: Path, store: Path | None = None) -> Reader:
    """A reader of the store, by its committed plan; says on stderr if `file` differs from that plan."""
    from tidegauge.run.reader import Reader  # noqa: PLC0415

    reader = Reader.from_file(file, store)
    if reader.note:
        typer.echo(reader.note, err=True)
    return reader
