"""From published readings to the series that charts and pages show."""

from __future__ import annotations

import re
from collections import defaultdict
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

from tidegauge.mechanism.aggregates import AGGREGATES
from tidegauge.model.quantity import instant
from tidegauge.publish.reading import nested
from tidegauge.publish.view import Line, Point, Series, group_label, titled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tidegauge.model.reading import Reading
    from tidegauge.publish.public.values import ModelReading, PublicReading, ReleaseInfo

_ARGUMENT: Final = re.compile(
    r"\b(?:SUM|AVG)\(\s*(?:(?:before|after)\.)?\"?([A-Za-z_][A-Za-z0-9_]*)\"?\s*\)", re.I
)


_HALF: Final = NormalDist().inv_cdf(0.75)


def unit_of(info: ReleaseInfo, table: str) -> str:
    """What the values count: the table's name for a count of rows, else the column that is summed."""
    if info.aggregate == "count":
        return "changes" if "total" in info.what else table.rpartition(".")[2].replace("_", " ")
    found = _ARGUMENT.search(info.sql)
    if found is None:
        return info.unit
    name = found[1].replace("_", " ")
    return f"mean {name}" if info.aggregate == "avg" else name


def zero_is_nothing(info: ReleaseInfo) -> bool:
    """Whether 0 means that there is nothing; a mean of 0 is a value as any other."""
    aggregate = AGGREGATES.find(info.aggregate)  # the public file may be of a gauge with other plug-ins
    return aggregate is None or aggregate.zero_is_nothing


def point_of(reading: PublicReading) -> Point:
    """A published reading as a point."""
    return Point(reading.time, reading.value, reading.low, reading.high, reading.low_50, reading.high_50)


def model_point(estimate: ModelReading) -> Point:
    """A model's estimate as a point; the inner interval is that of a normal error."""
    half = _HALF * estimate.stderr
    inner = estimate.value - half, estimate.value + half
    return Point(estimate.time, estimate.value, estimate.low, estimate.high, *inner)


def points_of(readings: Iterable[Reading]) -> list[Point]:
    """Readings as points.

    The 50 % interval is computed once a time: at one time all groups have the same law of noise.  That of a
    mean follows from its own standard error, as half-widths of a mean at low levels do.
    """
    shares: dict[int, float] = {}
    found = []
    for reading in readings:
        at, (low, high) = instant(reading.time), reading.interval(0.95)
        if reading.value is None:
            found.append(Point(at, None, low, high, low, high))
            continue
        if not reading.zero_is_nothing:
            narrow = nested(reading.value, _HALF * (reading.stderr or 0.0), (low, high))
            found.append(Point(at, reading.value, low, high, *narrow))
            continue
        if at not in shares:
            inner = reading.interval(0.5)
            shares[at] = (inner[1] - inner[0]) / (high - low) if high > low else 0.0
        half = shares[at] * (high - low) / 2
        middle = (low + high) / 2
        found.append(Point(at, reading.value, low, high, middle - half, middle + half))
    return found


def lines_of(labels: Sequence[str], readings: Iterable[tuple[int, Point]]) -> tuple[Line, ...]:
    """One line for each label, in this order, from (number of the label, point), oldest first."""
    found: dict[int, list[Point]] = defaultdict(list)
    for number, point in readings:
        found[number].append(point)
    return tuple(Line(label, tuple(found[number])) for number, label in enumerate(labels))


def series_of(
    info: ReleaseInfo,
    lines: Sequence[Line],
    *,
    table: str,
    count: int | None = None,
    upcoming: int | None = None,
    siblings: Sequence[str] = (),
    hidden_groups: int = 0,
    step: int = 1,
) -> Series:
    """A series of these lines, with the words of its release."""
    return Series(
        name=info.name,
        title=titled(info.name),
        what=info.what,
        unit=unit_of(info, table),
        every=info.every,
        lines=tuple(lines),
        zero_is_nothing=zero_is_nothing(info),
        never_negative=info.never_negative,
        count=count,
        planned=info.count,
        upcoming=upcoming,
        sql=info.sql,
        siblings=tuple(siblings),
        hidden_groups=hidden_groups,
        step=step,
        opening=None if info.level or info.of or info.window not in (None, info.every) else info.start,
    )


def series_of_readings(info: ReleaseInfo, readings: Sequence[Reading], *, table: str) -> Series:
    """The series of one release, for charts of a gauge's own readings."""
    labels = [group_label(cell) for cell in info.cells]
    numbers = {label: number for number, label in enumerate(labels)}
    points = points_of(readings)
    placed = (
        (numbers[group_label(reading.group)], point) for reading, point in zip(readings, points, strict=True)
    )
    lines = lines_of(labels, placed)
    return series_of(info, lines, table=table, count=max((len(line.points) for line in lines), default=0))
