"""Run one verb, and end the process: with one message where it fails, and with an exit code that says why.

An error that the user can fix ends with exit code 2, an internal error with 1, a signal with its own code.
"""

from __future__ import annotations

import sqlite3
import sys
from typing import NoReturn, cast

import typer

from tidegauge.cli.ending import ENDING, Stopped
from tidegauge.cli.pipe import ending_with_its_reader
from tidegauge.cli.refuse import refuse
from tidegauge.cli.service import internal_error
from tidegauge.cli.verbs import app
from tidegauge.errors import TidegaugeError

_UsageError = cast(
    "type[typer.BadParameter]",
    next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException"),
)
"""The error of an unknown verb or option: click's, or that of the copy of click in newer typer versions."""


def main() -> None:
    """Run the verb that the arguments name.

    Signals are handled by the caller, `tidegauge.cli.main`.
    """
    with ending_with_its_reader():
        _carry_out()


def _carry_out() -> None:
    try:
        code = app(standalone_mode=False)  # what a verb, or an interrupt, ended with
        if code:
            sys.exit(code)
    except typer.Exit as stop:
        sys.exit(stop.exit_code)
    except typer.Abort:
        sys.exit(130)
    except KeyboardInterrupt:
        sys.exit(130)
    except Stopped:
        _end()
    except TidegaugeError as error:
        refuse(error)
    except _UsageError as error:
        said = error.format_message()  # without a verb, it is the whole help
        if not said.startswith("Usage:"):
            said = (
                f"tidegauge: {said if said.endswith(('.', '?')) else said + '.'} See: {_verb(error)} --help"
            )
        typer.echo(said, err=True)
        sys.exit(2)
    except sqlite3.Error as error:
        from tidegauge.store.database import refusal  # noqa: PLC0415

        refuse(refusal(error, "the store"))
    except OSError as error:
        refuse(TidegaugeError(f"{error.filename or 'the system'}: {error.strerror}"))
    except Exception as error:  # noqa: BLE001  (its text may quote data, so it is not printed)
        if ENDING.signal is not None:  # closing a verb that was stopped failed, which changes nothing
            _end()
        typer.echo(internal_error(error), err=True)
        sys.exit(1)


def _verb(error: typer.BadParameter) -> str:
    """The verb that was called with wrong arguments, or `tidegauge` where there is none."""
    words: list[str] = []
    context = error.ctx
    while context is not None and context.parent is not None:
        words.insert(0, context.info_name or "")
        context = context.parent
    return " ".join(["tidegauge", *words])


def _end() -> NoReturn:
    """End the process after a signal: one line, and the exit code of that signal."""
    ENDING.say()
    sys.exit(ENDING.code)
