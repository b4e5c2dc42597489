"""Readings as a table for a terminal."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.model.reading import Reading

_WIDE: Final = 10_000
"""So many characters fit into a line: a time or a value is never cut, however narrow the terminal."""


def number(value: float | None) -> str:
    """A value as a person reads it."""
    return "-" if value is None else f"{value:,.4g}" if abs(value) < 100 else f"{value:,.1f}"


def as_text(readings: Sequence[Reading]) -> str:
    """One line a reading, in columns."""
    from rich.console import Console  # noqa: PLC0415  (slow to load, and only this needs it)
    from rich.table import Table  # noqa: PLC0415

    if not readings:
        return "Nothing has been published yet.\n"
    table = Table(box=None, pad_edge=False)
    for name in ("release", "time", "group"):
        table.add_column(name)
    biased = any(reading.bias is not None for reading in readings)
    for name in ("value", "stderr", "95 % from", "to", *(["bias"] if biased else [])):
        table.add_column(name, justify="right")
    for reading in readings:
        low, high = reading.interval(0.95)
        group = ", ".join(f"{key}={value}" for key, value in (reading.group or {}).items())
        when = reading.as_json()["time"].removesuffix("T00:00:00Z")
        numbers = (reading.value, reading.stderr, low, high, *([reading.bias] if biased else []))
        table.add_row(reading.release, when, group, *map(number, numbers))
    text = io.StringIO()
    console = Console(file=text, highlight=False, width=_WIDE)
    console.print(table, soft_wrap=True, no_wrap=True, crop=False, overflow="ignore")
    return text.getvalue()
