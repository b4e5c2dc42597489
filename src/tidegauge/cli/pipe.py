"""Ends a verb whose output is no longer read (`tidegauge readings | head -1`) as other Unix tools end."""

from __future__ import annotations

import os
import select
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn

from tidegauge.cli.refuse import refuse
from tidegauge.errors import TidegaugeError

if TYPE_CHECKING:
    from collections.abc import Iterator

CODE: Final = 141
"""128 + SIGPIPE, which is what a shell reports for a process that the signal ended."""


@contextmanager
def ending_with_its_reader() -> Iterator[None]:
    """A block that ends the process silently, with exit code 141, when stdout or stderr is closed."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()  # here, and not in the interpreter's last moments
    except BrokenPipeError as error:
        _end(error)
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # typer ends the process with 1
            _end(stop.__context__)
        raise


def _end(error: BrokenPipeError) -> NoReturn:
    closed = [file for file in (1, 2) if _is_closed(file)]
    if not closed:  # another pipe or a connection
        refuse(TidegaugeError(f"the system: {error.strerror}"))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for file in closed:  # what is still in a buffer goes there
        os.dup2(nowhere, file)
    sys.exit(CODE)


def _is_closed(file: int) -> bool:
    """Whether no process reads what is written to this file."""
    poll = select.poll()
    poll.register(file, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
