"""How a source refuses: where, why, and that nothing happened."""

from __future__ import annotations

from tidegauge.errors import SourceError


def refusal(message: str, *, path: str | None = None, line: int | None = None) -> SourceError:
    """Build the error; sources look at all of their input before they deliver any of it."""
    return SourceError(f"{message}.\nNothing was published or spent.", path=path, line=line)
