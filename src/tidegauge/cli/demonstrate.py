"""tidegauge demo: an invented town's year, published and compared with the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    folder: Annotated[Path, typer.Argument(help="The folder to create.", metavar="FOLDER")] = Path("demo"),
    people: Annotated[int, typer.Option(min=1000, help="Number of people in the year.")] = 100_000,
) -> None:
    """Publish an invented town's year and compare it with the truth."""
    from rich.console import Console  # noqa: PLC0415

    from tidegauge.demo import make_demo  # noqa: PLC0415

    class Output(Console):
        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704  (the error that is being handled; Console would end the process with 1)

    make_demo(folder, people=people, console=Output(highlight=False))
