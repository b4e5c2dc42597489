"""Arguments of the theorems: whole numbers and lengths, checked once and kept exact."""

from __future__ import annotations

from datetime import datetime, timedelta

from tidegauge.errors import SpecError
from tidegauge.model.quantity import Exact, Number, Span, exact

Length = Number | timedelta | str | Span


def whole(value: int, *, key: str, least: int) -> int:
    """Return the value. Raises SpecError unless it is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SpecError(f"must be a whole number, {least} or more", key=key)
    return value


def length(value: Length, *, key: str, empty: bool = False) -> Exact:
    """A length of time, exactly. Raises SpecError if it is negative, or 0 unless `empty`."""
    if isinstance(value, datetime):
        raise SpecError("must be a length of time, not a moment", key=key)
    number = exact(str(value) if isinstance(value, Span) else value)
    if number.value < 0 or not (number.value or empty):
        raise SpecError(f"must {'not be negative' if empty else 'be greater than 0'}", key=key)
    return number
