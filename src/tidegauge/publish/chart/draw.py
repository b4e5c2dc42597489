"""From series to shapes: the line with its bands, small multiples, and the small chart of an overview."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Final

from tidegauge.model.quantity import DAY, SECOND
from tidegauge.publish.chart.scale import Scale, extent, tick_text, ticks, time_ticks
from tidegauge.publish.chart.shapes import Area, Dot, Drawing, Mark, Stroke, Words
from tidegauge.publish.view import digits, every_text, spoken, thinned, time_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.publish.chart.shapes import XY, Shape
    from tidegauge.publish.view import Line, Point, Series

_CHARACTER: Final = 6.6
"""Width of a digit of a tick's label."""
BAND_LINES: Final = 3
"""Where more lines share a chart, only the wide band of each is drawn, and thinner lines."""
ROW: Final = 22
"""Height of a row of the legend that is drawn into a chart."""


@dataclass(frozen=True)
class Frame:
    """A part of the paper with its two axes."""

    x: Scale
    y: Scale
    step: float

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """Left, top, right, bottom."""
        return self.x.start, self.y.end, self.x.end, self.y.start


def line_chart(
    series: Series,
    lines: Sequence[Line] | None = None,
    *,
    width: float = 880,
    height: float = 380,
    most: int = 400,
    legend: bool = False,
    truth: Sequence[tuple[int, float]] = (),
) -> Drawing:
    """Lines with their 95 % and 50 % noise intervals over time.

    `lines`: those to draw; default all of the series.  `most`: points of each line that are drawn.
    `legend`: draw a head and a legend, for a chart that is not on a page.  `truth`: drawn as a line, where a
    demonstration knows it.
    """
    chosen = series.lines if lines is None else tuple(lines)
    drawn = [thinned(series.drawn(line), most) for line in chosen]
    shapes: list[Shape] = []
    top = 26.0
    if legend:
        head, top = _head(series, chosen, width, truth=bool(truth))
        shapes += head
        height += top - 26
    frame = _frame(drawn, (0, top, width, height), ticks_y=5, right=14, more=truth)
    shapes += _axes(frame, most_x=max(3, int(width // 80)))
    shapes.append(Words("label", (frame.x.start, top - 10), series.unit))
    few = len(chosen) <= BAND_LINES
    shapes += [
        _mark(index, series, line, points, frame, kind="line" if few else "thin", narrow=few)
        for index, (line, points) in enumerate(zip(chosen, drawn, strict=True))
    ]
    if truth:
        shapes.append(Stroke("truth", tuple((frame.x(at), frame.y(value)) for at, value in truth)))
    return Drawing(
        width, height, tuple(shapes), _title(series), describe(series, chosen), _script_data(frame, drawn)
    )


def small_chart(
    series: Series,
    line: Line,
    index: int,
    together: Sequence[Line],
    *,
    width: float = 260,
    height: float = 130,
    most: int = 50,
) -> Drawing:
    """One panel of small multiples, whose axes have room for all lines of `together`."""
    drawn = thinned(series.drawn(line), most)
    every = [thinned(series.drawn(one), most) for one in together]
    frame = _frame(every, (0, 8, width, height), ticks_y=3, right=8)
    shapes: list[Shape] = [
        *_axes(frame, most_x=3),
        _mark(index, series, line, drawn, frame, kind="thin", narrow=False),
    ]
    title = f"{series.title}, {line.label}" if line.label else series.title
    said = describe(series, [line])
    return Drawing(width, height, tuple(shapes), title, said, _script_data(frame, [drawn]))


def multiples(series: Series, *, columns: int = 3, most: int = 120) -> Drawing:
    """All groups as small panels in one drawing, for a file of its own."""
    wide, high, gap = 290.0, 150.0, 14.0
    lines = series.lines
    columns = min(columns, max(1, len(lines)))
    width = columns * wide + (columns - 1) * gap
    shapes, top = _head(series, lines[:1], width, truth=False, labels=False)
    drawn = [thinned(series.drawn(line), most) for line in lines]
    shared = comparable(lines)
    for number, (line, points) in enumerate(zip(lines, drawn, strict=True)):
        row, column = divmod(number, columns)
        left, upper = column * (wide + gap), top + row * (high + gap)
        frame = _frame(
            drawn if shared else [points], (left, upper + 24, left + wide, upper + high), ticks_y=3, right=8
        )
        shapes.append(Words("panel", (frame.x.start, upper + 12), line.label))
        shapes += _axes(frame, most_x=3)
        shapes.append(_mark(0, series, line, points, frame, kind="thin", narrow=True))
    rows = -(-len(lines) // columns)
    height = top + rows * (high + gap)
    return Drawing(width, height, tuple(shapes), _title(series), describe(series, lines))


def spark(series: Series, line: Line, index: int = 0, *, width: float = 240, height: float = 56) -> Drawing:
    """The line and its 95 % band without axes, and a dot at the newest value."""
    points = thinned(series.drawn(line), 60 if width > 150 else 30)
    lows, highs = _range([points])
    low, high = min(lows, default=0.0), max(highs, default=1.0)
    times = [point.time for point in points] or [0]
    frame = Frame(
        Scale(min(times), max(times), 3, width - 5), Scale(low, high, height - 4, 4), (high - low) or 1.0
    )
    kind = "line" if height > 40 else "thin"
    mark = _mark(index, series, line, points, frame, kind=kind, narrow=False, script=False)
    last = points[-1] if points else None
    dots: tuple[Dot, ...] = ()
    if last is not None and last.value is not None:
        dots = (Dot("dot", (frame.x(last.time), frame.y(last.value)), 3.5 if height > 40 else 2.5),)
    shapes = Mark(mark.index, mark.label, (*mark.shapes, *dots))
    title = f"{series.title}, {line.label}" if line.label else series.title
    return Drawing(width, height, (shapes,), title, describe(series, [line]))


def comparable(lines: Sequence[Line]) -> bool:
    """Whether one value axis suits all lines: the largest is not many times as large as the smallest."""
    peaks = [max((abs(point.high) for point in line.points), default=0.0) for line in lines]
    return max(peaks, default=0.0) <= 4 * min((peak for peak in peaks if peak > 0), default=0.0)


def describe(series: Series, lines: Sequence[Line]) -> str:
    """What a chart shows, in words: from when to when, and the newest value of each line."""
    times = [point.time for line in lines for point in line.points]
    if not times:
        return "Nothing has been published yet."
    daily = series.daily
    first, last = time_text(min(times), daily=daily), time_text(max(times), daily=daily)
    said = [f"{series.what[:1].upper()}{series.what[1:]} from {first} to {last}."]
    said += [
        f"{line.label or 'Newest value'}: {spoken(series, line.points[-1])}."
        for line in lines[:8]
        if line.points
    ]
    if len(lines) > 8:
        said.append(f"And {len(lines) - 8} more groups, which the table has.")
    return " ".join(said)


# -- parts ---------------------------------------------------------------------------------------------------


def _title(series: Series) -> str:
    return f"{series.title}: {series.what}, {every_text(series.every)}"


def _range(drawn: Sequence[Sequence[Point]]) -> tuple[list[float], list[float]]:
    shown = [point for points in drawn for point in points if point.value is not None]
    return [point.low for point in shown], [point.high for point in shown]


def _frame(
    drawn: Sequence[Sequence[Point]],
    box: tuple[float, float, float, float],
    *,
    ticks_y: int,
    right: float,
    more: Sequence[tuple[int, float]] = (),
) -> Frame:
    """Axes with room for all points, inside of a box that also holds their labels."""
    lows, highs = _range(drawn)
    extra = [value for _, value in more]
    low, high, step = extent([*lows, *extra], [*highs, *extra], ticks_y)
    labels = [tick_text(value, step) for value in ticks(low, high, step)]
    left = max(len(label) for label in labels) * _CHARACTER + 14
    times = [point.time for points in drawn for point in points] or [0]
    first, last = min(times), max(times)
    if first == last:
        first, last = first - DAY, last + DAY
    x0, y0, x1, y1 = box
    return Frame(Scale(first, last, x0 + left, x1 - right), Scale(low, high, y1 - 24, y0), step)


def _axes(frame: Frame, *, most_x: int) -> list[Shape]:
    left, _, right, bottom = frame.bounds
    shapes: list[Shape] = []
    for value in ticks(frame.y.low, frame.y.high, frame.step):
        y = frame.y(value)
        kind = "zero" if abs(value) < frame.step / 1e6 else "grid"
        shapes.append(Stroke(kind, ((left, y), (right, y))))
        shapes.append(Words("tick", (left - 8, y + 4), tick_text(value, frame.step), "end"))
    free = left - 40
    for at, label in time_ticks(int(frame.x.low), int(frame.x.high), most_x):
        x = frame.x(at)
        shapes.append(Stroke("axis", ((x, bottom), (x, bottom + 5))))
        room = len(label) * _CHARACTER
        begin = min(max(x - room / 2, left - 8), right + 8 - room)
        if begin >= free:  # a label never covers the one before it
            shapes.append(Words("day", (begin + room / 2, bottom + 19), label, "middle"))
            free = begin + room + 8
    return shapes


def _mark(
    index: int,
    series: Series,
    line: Line,
    points: Sequence[Point],
    frame: Frame,
    *,
    kind: str,
    narrow: bool,
    script: bool = True,
) -> Mark:
    """A line with its bands; `script`: also with the values that a pointer shows."""
    shapes: list[Stroke | Area | Dot] = []
    runs = [list(run) for shown, run in groupby(points, lambda point: point.value is not None) if shown]
    for run in runs:
        if any(point.half > 0 for point in run):
            shapes.append(_band("band95", [(p.time, p.low, p.high) for p in run], frame))
            if narrow:
                shapes.append(_band("band50", [(p.time, p.low50, p.high50) for p in run], frame))
    for run in runs:
        corners = tuple((frame.x(point.time), frame.y(point.value or 0.0)) for point in run)
        shapes.append(Stroke(kind, corners) if len(run) > 1 else Dot("dot", corners[0], 2.5))
    if not script:
        return Mark(index, line.label, tuple(shapes))
    return Mark(index, line.label, tuple(shapes), _values(points), _halves(points), _small(series, points))


def _band(kind: str, limits: Sequence[tuple[int, float, float]], frame: Frame) -> Area:
    """The band between two limits; a single reading gets a bar."""
    upper: list[XY] = [(frame.x(at), frame.y(high)) for at, _, high in limits]
    lower: list[XY] = [(frame.x(at), frame.y(low)) for at, low, _ in reversed(limits)]
    if len(limits) == 1:
        (x, y), (_, z) = upper[0], lower[0]
        return Area(kind, ((x - 3, y), (x + 3, y), (x + 3, z), (x - 3, z)))
    return Area(kind, (*upper, *lower))


def _head(
    series: Series, lines: Sequence[Line], width: float, *, truth: bool, labels: bool = True
) -> tuple[list[Shape], float]:
    """Title, what is shown, and a legend that breaks where the paper ends; and where the chart begins."""
    shapes: list[Shape] = [
        Words("head", (8, 22), series.title),
        Words("note", (8, 42), f"{series.what}, {every_text(series.every)}, in {series.unit}"),
    ]
    entries: list[tuple[int, str, str]] = [
        (index, "line", _cut(line.label) or "published value") for index, line in enumerate(lines) if labels
    ] or [(0, "line", "published value")]
    narrow = len(lines) <= BAND_LINES
    noisy = any(point.half > 0 for line in series.lines for point in line.points)
    if noisy:
        entries.append((0, "band95", "95 % noise interval"))
        if narrow:
            entries.append((0, "band50", "50 %"))
    if truth:
        entries.append((0, "truth", "truth"))
    x, y = 8.0, 64.0
    for index, kind, text in entries:
        room = 26 + len(text) * 6.8 + 18
        if x + room > width and x > 8:
            x, y = 8.0, y + ROW
        swatch: Stroke | Area = (
            Area(kind, ((x, y - 10), (x + 18, y - 10), (x + 18, y + 1), (x, y + 1)))
            if kind.startswith("band")
            else Stroke(kind, ((x, y - 4), (x + 18, y - 4)))
        )
        shapes.append(Mark(index, "", (swatch,)))
        shapes.append(Words("note", (x + 24, y), text))
        x += room
    return shapes, y + 36


def _cut(label: str) -> str:
    """A label that fits into a legend."""
    return label if len(label) <= 40 else f"{label[:39]}…"


# -- for the script of a page --------------------------------------------------------------------------------


def _script_data(frame: Frame, drawn: Sequence[Sequence[Point]]) -> tuple[tuple[str, str], ...]:
    """Where times and values are drawn, and the times: the script reads the same numbers that are drawn."""
    longest: Sequence[Point] = max(drawn, key=len, default=())
    left, top, right, bottom = frame.bounds
    return (
        ("box", " ".join(f"{edge:.1f}" for edge in (left, top, right, bottom))),
        ("span", f"{int(frame.x.low) // SECOND} {int(frame.x.high) // SECOND}"),
        ("scale", f"{frame.y.low:.10g} {frame.y.high:.10g}"),
        ("times", _runs([point.time // SECOND for point in longest])),
    )


def _runs(times: Sequence[int]) -> str:
    """The first time, then the steps between times: '1735689600 86400*363'."""
    if not times:
        return ""
    steps = [later - earlier for earlier, later in pairwise(times)]
    return " ".join([str(times[0]), *_counted([str(step) for step in steps])])


def _counted(words: Sequence[str]) -> list[str]:
    return [
        word if count == 1 else f"{word}*{count}"
        for word, run in groupby(words)
        for count in [sum(1 for _ in run)]
    ]


def _values(points: Sequence[Point]) -> str:
    return " ".join("-" if point.value is None else _rounded(point.value, point.half) for point in points)


def _halves(points: Sequence[Point]) -> str:
    return " ".join(_counted([_rounded(point.half, point.half) for point in points]))


def _small(series: Series, points: Sequence[Point]) -> str:
    """'0*360 1*5': the last five are too small to tell; empty where none is."""
    found = ["1" if series.hides(point) else "0" for point in points]
    return " ".join(_counted(found)) if "1" in found else ""


def _rounded(value: float, half: float) -> str:
    text = f"{value:.{digits(half)}f}"
    return text.rstrip("0").rstrip(".") if "." in text and half <= 0 else text
