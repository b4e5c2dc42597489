"""The errors of sources: the place, the reason, and that nothing was published."""

from __future__ import annotations

from tidegauge.errors import SourceError


def refusal(message: str, *, path: str | None = None, line: int | None = None) -> SourceError:
    """The error.  Sources check all of their input before they deliver any of it."""
    return SourceError(f"{message}.\nNothing was published or spent.", path=path, line=line)
