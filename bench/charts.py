"""Charts of benchmarks as SVG, drawn by the code that draws Tidegauge's own charts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples.paper.figure import Line, Panel, drawing

from bench.result import number
from tidegauge.publish.chart.scale import Scale
from tidegauge.publish.chart.shapes import Area, Drawing, Mark, Stroke, Words
from tidegauge.publish.chart.svg import standalone_svg

if TYPE_CHECKING:
    from bench.result import Chart
    from tidegauge.publish.chart.shapes import Shape

WIDTH, ROW, HEAD = 720.0, 26.0, 46.0
CHARACTER = 6.4


def svg(chart: Chart) -> str:
    """The chart as a file of its own."""
    if chart.bars:
        return _bars(chart)
    lines = [Line(one.label, one.points) for one in chart.lines]
    panel = Panel(chart.title, chart.across, chart.up, lines, log_x=chart.log_x, log_y=chart.log_y)
    return drawing([panel], f"{chart.title}: {chart.up} by {chart.across}")


def _bars(chart: Chart) -> str:
    """One row for each value: its name, a bar from 0, and the number; a line marks 1."""
    left = 16 + CHARACTER * max(len(name) for name, _ in chart.bars)
    most = max(1.0, *(value for _, value in chart.bars))
    across = Scale(0, most, left, WIDTH - 64)
    bottom = HEAD + ROW * len(chart.bars)
    shapes: list[Shape] = [
        Words("head", (0, 18), chart.title),
        Words("note", (0, 36), chart.across),
        Stroke("zero", ((across(1), HEAD - 2), (across(1), bottom))),
        Words("day", (across(1), bottom + 16), "1", "middle"),
    ]
    for row, (name, value) in enumerate(chart.bars):
        top = HEAD + ROW * row + 5
        corners = ((left, top), (across(value), top), (across(value), top + 14), (left, top + 14))
        shapes += [
            Words("tick", (left - 8, top + 12), name, "end"),
            Mark(0, name, (Area("dot", corners),)),
            Words("label", (across(value) + 6, top + 12), number(value)),
        ]
    described = "; ".join(f"{name}: {number(value)}" for name, value in chart.bars)
    return standalone_svg(Drawing(WIDTH, bottom + 26, tuple(shapes), chart.title, described))
