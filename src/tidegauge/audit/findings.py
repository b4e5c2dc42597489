"""What an audit finds: every check returns the discrepancies that it found, as sentences."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Discrepancy(Exception):
    """The installed code does something else than the plan promises."""


@contextmanager
def noted(found: list[str], where: str) -> Iterator[None]:
    """Add what fails inside to `found`.

    An unexpected error is a discrepancy as well.  Its text is left out: it may quote a row, and the same
    code runs on real rows.
    """
    try:
        yield
    except Discrepancy as problem:
        found.append(f"{where}: {problem}")
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        if type(error).__module__ == "tidegauge.cli.ending":  # the user stops the audit
            raise
        found.append(f"{where}: the code stopped with {type(error).__name__}")


def require(condition: object, message: str) -> None:
    """Raise Discrepancy unless the condition holds."""
    if not condition:
        raise Discrepancy(message)


def require_refused(what: str, done: Callable[[], object], refusal: type[Exception]) -> None:
    """Raise Discrepancy unless this is refused, by an error of this type."""
    try:
        done()
    except refusal:
        return
    raise Discrepancy(f"{what} was not refused")
