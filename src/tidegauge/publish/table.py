"""Readings as a table for a terminal."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.model.reading import Reading

_WIDE: Final = 10_000
"""So many characters fit into a line: a time or a value is never cut, however narrow the terminal."""


TOO_SMALL: Final = "too small to tell"
"""In place of a count whose noise interval reaches down to 0."""
_MODEL: Final = (
    "value, stderr and the first 95 % interval: as published; the interval covers the noise alone.\n"
    "MODEL: a model's estimate from {uses}. Its 95 % interval holds if the model holds;\n"
    "       after a sudden change of the series the model can be wrong for some time."
)


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
    modelled = any(reading.model is not None for reading in readings)
    further = [*(["bias"] if biased else []), *(["MODEL value", "95 % from", "to"] if modelled else [])]
    for name in ("value", "stderr", "95 % from", "to", *further):
        table.add_column(name, justify="right")
    for reading in readings:
        low, high = reading.interval(0.95)
        group = ", ".join(f"{key}={value}" for key, value in (reading.group or {}).items())
        when = reading.as_json()["time"].removesuffix("T00:00:00Z")
        value = TOO_SMALL if reading.too_small else number(reading.value)
        numbers = (reading.stderr, low, high, *([reading.bias] if biased else []))
        model = _model(reading) if modelled else ()
        table.add_row(reading.release, when, group, value, *map(number, numbers), *model)
    text = io.StringIO()
    console = Console(file=text, highlight=False, width=_WIDE)
    console.print(table, soft_wrap=True, no_wrap=True, crop=False, overflow="ignore")
    uses = {reading.model.uses for reading in readings if reading.model is not None}
    return text.getvalue() + "".join(f"\n{_MODEL.format(uses=one)}\n" for one in sorted(uses))


def _model(reading: Reading) -> tuple[str, str, str]:
    """The columns of the model's estimate."""
    model = reading.model
    if model is None:
        return "", "", ""
    hidden = reading.never_negative and bool(model.stderr) and model.low <= 0
    return TOO_SMALL if hidden else number(model.value), number(model.low), number(model.high)
