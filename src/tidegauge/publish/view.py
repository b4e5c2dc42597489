"""What a page or a chart shows: frozen values and the words for them, without input or output.

A value is rounded to what its noise lets a reader see: 394.2 with a half-width of 48.3 is 394 ± 48.
A value that noise hides is "too small to tell", by the rule of model.reading.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import floor, isfinite, log10
from typing import TYPE_CHECKING, Final, NamedTuple

from tidegauge.model.quantity import DAY, MINUTE, moment
from tidegauge.model.reading import TOO_SMALL, noise_hides

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidegauge.model.query import Value
    from tidegauge.publish.public.values import Document

NOISE_INTERVAL: Final = "noise interval"
MODEL_INTERVAL: Final = "model interval"
_MINUS: Final = "\N{MINUS SIGN}"
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Point(NamedTuple):
    """One reading in a chart: its time, its value and its noise intervals (95 % and 50 %)."""

    time: int
    value: float | None
    low: float
    high: float
    low50: float
    high50: float

    @property
    def half(self) -> float:
        """Half of the width of the 95 % noise interval."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Line:
    """The readings of one group, oldest first; a release without groups has one line without a label."""

    label: str
    points: tuple[Point, ...]

    @property
    def latest(self) -> Point | None:
        """The newest reading."""
        return self.points[-1] if self.points else None


@dataclass(frozen=True)
class Series:
    """What is published under one name, as far as a reader sees it."""

    name: str
    title: str
    what: str
    """'running value', 'change over 7 days', 'total over 1 day', ..."""
    unit: str
    """What the values count: 'patients'."""
    every: str
    lines: tuple[Line, ...]
    zero_is_nothing: bool = True
    """Whether 0 means that there is nothing; a mean of 0 is a value as any other."""
    never_negative: bool = False
    """Whether exact values cannot be below 0: a count."""
    count: int | None = None
    """Readings of each group that were published; the lines may have fewer."""
    planned: int | None = None
    """Readings that will ever be published; None: without an end."""
    upcoming: int | None = None
    """When the next reading is due."""
    sql: str = ""
    siblings: tuple[str, ...] = ()
    """Names of the other series of the same measurements."""
    hidden_groups: int = 0
    """Groups that are published and have no line here."""
    step: int = 1
    """The lines have every so-many-th reading."""
    interval: str = NOISE_INTERVAL
    """What the intervals of its points are called."""
    model: tuple[Line, ...] = ()
    """What a model makes of each line; empty where that is not published."""
    opening: int | None = None
    """The time of the first reading, if it covers everything before it and not only one window."""

    def drawn(self, line: Line) -> tuple[Point, ...]:
        """The readings that a chart shows: without the opening one, beside which the others would be flat."""
        points = line.points
        return points[1:] if len(points) > 1 and points[0].time == self.opening else points

    def hides(self, point: Point) -> bool:
        """Whether noise hides the value, which then is too small to tell."""
        return noise_hides(
            point.value,
            point.low,
            point.high,
            zero_is_nothing=self.zero_is_nothing,
            never_negative=self.never_negative,
        )

    @property
    def latest(self) -> int | None:
        """The time of the newest reading."""
        return max((line.points[-1].time for line in self.lines if line.points), default=None)

    @cached_property
    def daily(self) -> bool:
        """Whether every reading is at midnight, so that a date says it all."""
        longest = max((line.points for line in self.lines), key=len, default=())
        return all(point.time % DAY == 0 for point in longest)


@dataclass(frozen=True)
class Site:
    """Everything that the pages of one gauge show."""

    document: Document
    series: tuple[Series, ...]
    seal: str = ""
    """The seal of the last tick: two equal seals, two equal sites."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """JSON-LD by the name of a series; '' is that of the whole gauge."""

    @property
    def updated(self) -> int | None:
        """The time of the newest reading."""
        return max((one.latest for one in self.series if one.latest is not None), default=None)


@dataclass(frozen=True)
class Progress:
    """How far one series is, for the operator."""

    name: str
    readings: int
    planned: int | None
    upcoming: str | None


@dataclass(frozen=True)
class Status:
    """The operator's view of a gauge; `secret` holds exact counts that are never published."""

    plan: str | None
    processed_to: str | None
    simulated: bool
    series: tuple[Progress, ...]
    secret: tuple[tuple[str, str], ...]
    checks: tuple[tuple[str, bool, str], ...] = ()
    """(name, good, detail) of everything that the loop watches."""


# -- numbers in words ----------------------------------------------------------------------------------------


def digits(half: float) -> int:
    """How many decimals to show of a value with this half-width."""
    if not isfinite(half) or half <= 0:
        return 2
    return min(6, max(0, 1 - floor(log10(half))))


def number(value: float, decimals: int) -> str:
    """The value with thousands separators and a real minus sign."""
    text = f"{value:,.{decimals}f}"
    if not float(text.replace(",", "")):
        text = text.removeprefix("-")
    return text.replace("-", _MINUS)


def plain(value: float) -> str:
    """A value without noise: no more decimals than it has."""
    text = number(value, 2)
    return text.rstrip("0").rstrip(".") if "." in text else text


def half_text(half: float) -> str:
    """A half-width with two significant digits."""
    return plain(half) if half <= 0 else number(half, digits(half))


def value_text(point: Point) -> str:
    """The value, rounded to its noise; '–' where there is none."""
    if point.value is None:
        return "\N{EN DASH}"
    return plain(point.value) if point.half <= 0 else number(point.value, digits(point.half))


def interval_text(point: Point) -> str:
    """'346 to 442', the 95 % noise interval."""
    if point.half <= 0:
        return plain(point.low)
    decimals = digits(point.half)
    return f"{number(point.low, decimals)} to {number(point.high, decimals)}"


def spoken(series: Series, point: Point) -> str:
    """The reading in words, as a screen reader says it."""
    if point.value is None:
        return TOO_SMALL
    said = f"{value_text(point)} {series.unit}".strip()
    if point.half > 0:
        said += f", 95 % {series.interval} {interval_text(point)}"
    return f"{TOO_SMALL} ({said})" if series.hides(point) else said


# -- times in words ------------------------------------------------------------------------------------------


def day_text(at: int) -> str:
    """'5 Jan 2026'."""
    when = moment(at)
    return f"{when.day} {_MONTHS[when.month - 1]} {when.year}"


def time_text(at: int, *, daily: bool = False) -> str:
    """'5 Jan 2026', or with the time of day in UTC where readings are not daily."""
    if daily:
        return day_text(at)
    when = moment(at)
    clock = f"{when:%H:%M}" if at % MINUTE == 0 else f"{when:%H:%M:%S}"
    return f"{day_text(at)}, {clock} UTC"


def every_text(every: str) -> str:
    """'every day' of '1 day', 'every 7 days' of '7 days'."""
    return f"every {every.removeprefix('1 ')}"


def month_name(month: int) -> str:
    """'Jan' of 1."""
    return _MONTHS[month - 1]


def titled(name: str) -> str:
    """'Infected now' of infected_now."""
    words = name.replace("_", " ").replace("-", " ").strip() or name
    return words[:1].upper() + words[1:]


def group_label(group: Mapping[str, Value] | None) -> str:
    """'north' of one group column, 'north, a' of two; empty without groups."""
    return ", ".join(
        str(value).lower() if isinstance(value, bool) else str(value) for value in (group or {}).values()
    )


def thinned(points: Sequence[Point], most: int) -> tuple[Point, ...]:
    """Every n-th point, the newest always among them, so that no more than `most` are left."""
    if len(points) <= most:
        return tuple(points)
    step = -(-len(points) // most)
    return tuple(points[(len(points) - 1) % step :: step])
