"""A chart of lines and points, drawn as SVG by the code that draws Tidegauge's own charts."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from math import ceil, floor, log10
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.publish.chart.scale import Scale, extent, tick_text, ticks
from tidegauge.publish.chart.shapes import Area, Dot, Drawing, Mark, Stroke, Words
from tidegauge.publish.chart.svg import standalone_svg

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidegauge.publish.chart.shapes import Shape

    Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 720.0, 320.0, 64.0, 64.0, 48.0
DOCS = Path(__file__).parents[2] / "docs" / "paper"


@dataclass(frozen=True)
class Line:
    """One series: a line, or points, or a band between two lines."""

    label: str
    points: Points
    dots: bool = False
    to: Points = ()
    """The other side of a band."""


@dataclass(frozen=True)
class Panel:
    """One chart of a figure; logarithmic axes have ticks at powers of ten, short ones at 2 and 5 too."""

    title: str
    across: str
    up: str
    lines: Sequence[Line]
    log_x: bool = False
    log_y: bool = False
    notes: Sequence[tuple[float, str]] = field(default_factory=tuple)
    """Vertical lines at these x, with their words."""


def _axis(values: list[float], logarithmic: bool) -> tuple[float, float, list[tuple[float, str]]]:
    """Both ends of an axis, and its ticks with their labels."""
    if logarithmic:
        first, last = floor(log10(min(values)) + 1e-9), ceil(log10(max(values)) - 1e-9)
        last = max(last, first + 1)
        steps = (1, 2, 5) if last - first <= 2 else (1,)
        marks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
        start = max((one for one in marks if one <= min(values) * (1 + 1e-9)), default=marks[0])
        end = min((one for one in marks if one >= max(values) * (1 - 1e-9)), default=marks[-1])
        end = max(end, marks[marks.index(start) + 1])
        return log10(start), log10(end), [(log10(one), f"{one:,g}") for one in marks if start <= one <= end]
    low, high, step = extent(values, values, 6)
    return low, high, [(value, tick_text(value, step)) for value in ticks(low, high, step)]


def _panel(panel: Panel, top: float) -> list[Shape]:
    every = [point for line in panel.lines for point in (*line.points, *line.to)]
    low_x, high_x, ticks_x = _axis([x for x, _ in every], panel.log_x)
    low_y, high_y, ticks_y = _axis([y for _, y in every], panel.log_y)
    x_scale = Scale(low_x, high_x, LEFT, WIDTH - 12)
    places, more = _legend(panel.lines)
    y_scale = Scale(low_y, high_y, top + HEIGHT - BOTTOM, top + TOP + more)

    def at(point: tuple[float, float]) -> tuple[float, float]:
        x, y = point
        return x_scale(log10(x) if panel.log_x else x), y_scale(log10(y) if panel.log_y else y)

    shapes: list[Shape] = [Words("head", (0, top + 18), panel.title)]
    for value, text in ticks_y:
        y = y_scale(value)
        shapes += [
            Stroke("grid", ((LEFT, y), (WIDTH - 12, y))),
            Words("tick", (LEFT - 8, y + 4), text, "end"),
        ]
    for value, text in ticks_x:
        x = x_scale(value)
        shapes.append(Words("day", (x, y_scale.start + 18), text, "middle"))
    shapes += [
        Stroke("axis", ((LEFT, y_scale.start), (WIDTH - 12, y_scale.start))),
        Words("day", ((LEFT + WIDTH) / 2, y_scale.start + 38), panel.across, "middle"),
        Words("note", (0, top + 54 + more), panel.up),
    ]
    for value, text in panel.notes:
        x = x_scale(log10(value) if panel.log_x else value)
        shapes += [
            Stroke("zero", ((x, y_scale.start), (x, y_scale.end))),
            Words("note", (x + 6, y_scale.end + 10), text),
        ]
    for number, (line, (place, below)) in enumerate(zip(panel.lines, places, strict=True)):
        points = tuple(map(at, line.points))
        base = top + 36 + below
        drawn: list[Stroke | Area | Dot] = []
        if line.to:
            corners = (*points, *map(at, reversed(line.to)))
            drawn.append(Area("band95", corners))
            drawn.append(
                Area(
                    "band95",
                    tuple((place + dx, base + dy) for dx, dy in ((0, -8), (14, -8), (14, 0), (0, 0))),
                )
            )
        elif line.dots:
            drawn += [Dot("dot", point, 3.0) for point in points]
            drawn.append(Dot("dot", (place + 7, base - 4), 3.0))
        else:
            drawn += [Stroke("line", points), Stroke("line", ((place, base - 4), (place + 14, base - 4)))]
        shapes += [Mark(number, line.label, tuple(drawn)), Words("label", (place + 20, base), line.label)]
    return shapes


def _legend(lines: Sequence[Line]) -> tuple[list[tuple[float, float]], float]:
    """Where the name of each line is put, and how much further down the chart begins."""
    places: list[tuple[float, float]] = []
    x, y = 0.0, 0.0
    for line in lines:
        width = 36 + 6.6 * len(line.label)
        if places and x + width > WIDTH + 16:
            x, y = 0.0, y + 18
        places.append((x, y))
        x += width
    return places, y


def drawing(panels: Sequence[Panel], about: str) -> str:
    """The panels below each other, as an SVG file."""
    shapes = [shape for number, panel in enumerate(panels) for shape in _panel(panel, number * (HEIGHT + 20))]
    height = len(panels) * (HEIGHT + 20) - 20
    return standalone_svg(Drawing(WIDTH, height, tuple(shapes), panels[0].title, about))


def main(name: str, about: str, panels: Callable[[bool], Sequence[Panel]]) -> None:
    """Draw a figure: `--small` does less work, for tests; `--output` writes to another file."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--small", action="store_true", help="less work and fewer points")
    parser.add_argument("--output", type=Path, default=DOCS / name)
    wanted = parser.parse_args()
    wanted.output.write_text(drawing(panels(wanted.small), about), "utf-8")
    print(f"{wanted.output}: {about}")
