"""Axes: where a value is drawn, and the round numbers and dates beside them."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Final, NamedTuple

from tidegauge.model.quantity import DAY, HOUR, MINUTE, SECOND, instant, moment
from tidegauge.publish.view import month_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime


@dataclass(frozen=True)
class Scale:
    """Maps [low, high] to [start, end] on the paper."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Where the value is drawn."""
        if self.high == self.low:
            return (self.start + self.end) / 2
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def nice_step(span: float, most: int) -> float:
    """The smallest of 1, 2, 2.5, 5 times a power of ten that makes no more than `most` steps of the span."""
    if span <= 0:
        return 1.0
    raw = span / max(1, most)
    power = 10.0 ** floor(log10(raw))
    return next(power * factor for factor in (1, 2, 2.5, 5, 10, 20) if power * factor >= raw * (1 - 1e-9))


def extent(lows: Sequence[float], highs: Sequence[float], most: int) -> tuple[float, float, float]:
    """Lower end, upper end and step of an axis that has room for all of them.

    The axis begins at 0 unless every value is far above it.
    """
    low, high = min(lows, default=0.0), max(highs, default=1.0)
    if 0 < low < 0.6 * high:
        low = 0.0
    if low * 0.6 > high and high < 0:
        high = 0.0
    if low == high:
        pad = abs(low) * 0.1 or 1.0
        low, high = low - pad, high + pad
    step = nice_step(high - low, most)
    lower, upper = floor(low / step + 1e-9) * step, ceil(high / step - 1e-9) * step
    if low - lower > 0.4 * step:  # half a step without data would be wasted paper
        lower = low - 0.08 * step
    if upper - high > 0.4 * step:
        upper = high + 0.08 * step
    return lower, upper, step


def ticks(low: float, high: float, step: float) -> list[float]:
    """Multiples of the step from low to high."""
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def tick_text(value: float, step: float) -> str:
    """A tick's label: 1,500, 2.5, 40k, 3M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if step >= size or (abs(value) >= size * 10 and step >= size / 10):
            unit = 1e3 if letter == "k" else size
            return _trimmed(value / unit, step / unit) + (letter if value else "")
    return _trimmed(value, step)


def _trimmed(value: float, step: float) -> str:
    decimals = max(0, -floor(log10(step) + 1e-9))
    if abs(step * 10**decimals - round(step * 10**decimals)) > 1e-6:
        decimals += 1
    text = f"{value:,.{decimals}f}"
    if not float(text.replace(",", "")):
        text = "0"
    return text.replace("-", "\N{MINUS SIGN}")


# -- time ----------------------------------------------------------------------------------------------------

_SHORT: Final = [
    *(SECOND * n for n in (1, 5, 15, 30)),
    *(MINUTE * n for n in (1, 5, 15, 30)),
    *(HOUR * n for n in (1, 3, 6, 12)),
    *(DAY * n for n in (1, 2, 7, 14)),
]
_LONG: Final = (1, 2, 3, 6, 12, 24, 60, 120)
"""Months between ticks."""


class TimeTick(NamedTuple):
    """A mark of the time axis."""

    at: int
    label: str


def time_ticks(first: int, last: int, most: int) -> list[TimeTick]:
    """Round instants between these two, no more than `most`, with their labels."""
    for width in _SHORT:
        if (last - first) // width + 1 <= most:
            return _short_ticks(first, last, width)
    for months in _LONG:
        found = list(_months(first, last, months))
        if len(found) <= most:
            return _long_ticks(found, months)
    return _long_ticks(found[:: -(-len(found) // most)], _LONG[-1])


def _short_ticks(first: int, last: int, width: int) -> list[TimeTick]:
    origin = instant("1970-01-05") if width >= 7 * DAY else 0  # weeks begin with Monday
    at = first + (origin - first) % width
    found: list[TimeTick] = []
    year = None
    while at <= last:
        when = moment(at)
        clock = f"{when:%H:%M}" if width >= MINUTE else f"{when:%H:%M:%S}"
        if width < DAY and (found and at % DAY):
            label = clock
        else:
            label = f"{when.day} {month_name(when.month)}"
            if width < DAY and at % DAY:
                label += f" {clock}"
            elif year is not None and when.year != year:
                label += f" {when.year}"
            year = when.year
        found.append(TimeTick(at, label))
        at += width
    return found


def _months(first: int, last: int, months: int) -> Iterator[datetime]:
    when = moment(first).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    index = when.year * 12 + when.month - 1
    index -= index % months
    while True:
        year, month = divmod(index, 12)
        if year > 9999:
            return
        at = when.replace(year=year, month=month + 1)
        if instant(at) > last:
            return
        if instant(at) >= first:
            yield at
        index += months


def _long_ticks(found: Sequence[datetime], months: int) -> list[TimeTick]:
    labels = []
    for number, when in enumerate(found):
        name = month_name(when.month)
        if months >= 12:
            name = str(when.year)
        elif number == 0 or when.month == 1:
            name += f" {when.year}"
        labels.append(TimeTick(instant(when), name))
    return labels
