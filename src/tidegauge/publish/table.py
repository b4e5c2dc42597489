"""Readings as a table for a terminal."""

from __future__ import annotations

import io
import textwrap
from math import floor, log10
from typing import TYPE_CHECKING, Final

from tidegauge.model.quantity import instant, rfc3339
from tidegauge.model.reading import COVERS, TOO_SMALL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.model.reading import Reading

_WIDE: Final = 10_000
"""So many characters fit into a line: a time or a value is never cut, however narrow the terminal."""
_FOLDED: Final = ("release", "group")
_LEAST: Final = 6
"""Characters that a folded column has at least."""
_EXACT: Final = 1e-3
"""A standard error below this is shown as none."""


def number(value: float | None, digits: int | None = None) -> str:
    """A value as a person reads it; `digits`: decimals that are shown, None: as many as its size needs."""
    if value is None:
        return "-"
    if digits is not None:
        return (
            f"{value:,.{digits}f}".replace("-0", "0") if not round(value, digits) else f"{value:,.{digits}f}"
        )
    return f"{value:,.4g}" if abs(value) < 100 else f"{value:,.1f}"


_NOISE: Final = f"noise interval: 95 %. {COVERS}"
_BIAS: Final = "bias: how much too large a value is on average, because values were made consistent."
_NOTE: Final = 80
"""Characters of a line of notes where the table has no width."""
_MODEL: Final = (
    "MODEL: a model's estimate from {uses}. Its 95 % interval holds if the model\n"
    "       holds; after a sudden change of the series it can be wrong for some time."
)


def precision(reading: Reading) -> int | None:
    """Decimals of a reading that the noise does not hide; None where there is no noise."""
    return decimals(reading.stderr)


def decimals(stderr: float | None) -> int | None:
    """Decimals that noise of this size does not hide; None where there is no noise."""
    return None if not stderr or stderr < _EXACT else max(0, 1 - floor(log10(stderr)))


def as_text(readings: Sequence[Reading], width: int | None = None) -> str:
    """One line a reading, in columns.

    `width`: characters of a line into which releases and groups are folded; times and numbers never are.
    """
    from rich.console import Console  # noqa: PLC0415  (slow to load, and only this needs it)
    from rich.table import Table  # noqa: PLC0415

    if not readings:
        return "Nothing has been published yet. See: tidegauge status\n"
    biased = any(reading.bias is not None for reading in readings)
    modelled = any(reading.model is not None for reading in readings)
    head = ["release", "time", "group", "value", "stderr", "noise interval", *(["bias"] if biased else [])]
    head += ["MODEL value", "MODEL interval"] if modelled else []
    rows = [_row(reading, biased=biased, modelled=modelled) for reading in readings]
    if width is not None and _wide(head, rows) > width:  # the interval says as much
        at = head.index("stderr")
        head, rows = [one for one in head if one != "stderr"], [(*row[:at], *row[at + 1 :]) for row in rows]
    table = Table(box=None, pad_edge=False)
    for at, name in enumerate(head):
        table.add_column(
            name,
            justify="left" if at < 3 else "right",
            overflow="fold",
            no_wrap=name not in _FOLDED,
            min_width=None if name in _FOLDED else max(len(row[at]) for row in [head, *rows]),
        )
    for row in rows:
        table.add_row(*row)
    text = io.StringIO()
    fixed = sum(column.min_width or 0 for column in table.columns) + 2 * (len(head) - 1)
    if width is None or width - fixed < _LEAST * len(_FOLDED):
        console = Console(file=text, highlight=False, width=_WIDE)
        console.print(table, soft_wrap=True, no_wrap=True, crop=False, overflow="ignore")
    else:
        Console(file=text, highlight=False, width=width).print(table)
    uses = {reading.model.uses for reading in readings if reading.model is not None}
    said = [_NOISE, *([_BIAS] if biased else [])]
    notes = [
        *(line for note in said for line in textwrap.wrap(note, width or _NOTE)),
        *(_MODEL.format(uses=one) for one in sorted(uses)),
    ]
    return "".join(f"{line.rstrip()}\n" for line in [*text.getvalue().splitlines(), "", *notes])


def _wide(head: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """The characters of the longest line, with two spaces between columns."""
    return sum(max(len(row[at]) for row in [head, *rows]) + 2 for at in range(len(head))) - 2


def _row(reading: Reading, *, biased: bool, modelled: bool) -> tuple[str, ...]:
    group = ", ".join(
        value if isinstance(value, str) else f"{key}={value}" for key, value in (reading.group or {}).items()
    )
    when = rfc3339(instant(reading.time)).removesuffix("T00:00:00Z")
    digits = precision(reading)
    value = TOO_SMALL if reading.too_small else number(reading.value, digits)
    shown = [value, number(reading.stderr, digits), _interval(*reading.interval(0.95), digits)]
    shown += [number(reading.bias, digits)] if biased else []
    return (reading.release, when, group, *shown, *(_model(reading, digits) if modelled else ()))


def _interval(low: float, high: float, digits: int | None) -> str:
    return f"{number(low, digits)} to {number(high, digits)}"


def _model(reading: Reading, digits: int | None) -> tuple[str, str]:
    """The columns of the model's estimate."""
    model = reading.model
    if model is None:
        return "", ""
    hidden = reading.hides(model.value, model.low, model.high)
    value = TOO_SMALL if hidden else number(model.value, digits)
    return value, _interval(model.low, model.high, digits)
