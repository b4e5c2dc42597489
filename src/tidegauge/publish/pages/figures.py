"""The charts on the page of a release: ranges and groups to choose from, and a panel for each group."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tidegauge.model.quantity import DAY
from tidegauge.publish.chart import line_chart, svg
from tidegauge.publish.chart.draw import BAND_LINES, comparable, small_chart
from tidegauge.publish.chart.look import SERIES
from tidegauge.publish.markup import Markup, join, tag
from tidegauge.publish.pages.layout import value
from tidegauge.publish.view import MODEL_INTERVAL, NOISE_INTERVAL, time_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.publish.pages.links import Links
    from tidegauge.publish.view import Line, Series

RANGES: Final = (("1 month", 31 * DAY), ("3 months", 92 * DAY), ("1 year", 366 * DAY))
TOGETHER: Final = 6
"""Lines in one chart; the other groups have a panel of their own."""
PANELS: Final = 24
POINTS: Final = 400
"""Points of one line in a chart; several lines have fewer, so that the page stays small."""
POINTS_TOGETHER: Final = 420
_MODEL: Final = "a model's estimate"
_REST: Final = "; the downloads have all"


def charts(series: Series, lines: Sequence[Line], links: Links | None) -> Markup:
    """A chart for each range; the choice of ranges and lines works without a script."""
    together = _together(lines)
    most = min(POINTS, POINTS_TOGETHER // len(together))
    last = max(line.points[-1].time for line in together)
    first = min(line.points[0].time for line in together)
    ranges = [(name, last - width) for name, width in RANGES if first < last - width]
    ranges = [*ranges, ("All", first)]
    several = len(together) > 1
    choices = join(
        (
            join(
                tag(
                    "input",
                    type="radio",
                    name="range",
                    id=f"range-{index}",
                    class_=f"pick r{index}",
                    checked=index == len(ranges) - 1,
                ),
                tag("label", name, for_=f"range-{index}"),
            )
            for index, (name, _) in enumerate(ranges)
        )
        if len(ranges) > 1
        else None,
    )
    legend = (
        join(
            tag("input", type="checkbox", id=f"line-{index}", class_=f"pick l{index}", checked=True),
            tag(
                "label",
                tag("span", class_=f"swatch s{index % SERIES}"),
                line.label,
                for_=f"line-{index}",
            ),
        )
        for index, line in enumerate(together)
    )
    left = len(lines) - len(together)
    return tag(
        "section",
        tag("h2", "Chart", id="chart-head", class_="hide"),
        tag("span", "Range", class_="pick-name") if len(ranges) > 1 else None,
        choices,
        tag("br", class_="break") if several and len(ranges) > 1 else None,
        tag("span", "Groups", class_="pick-name") if several else None,
        legend if several else None,
        (
            tag(
                "figure",
                _wide_and_tall(series, [_from(line, start) for line in together], f"chart-{index}", most),
                class_=f"range f{index}" if len(ranges) > 1 else "range only",
            )
            for index, (_, start) in enumerate(ranges)
        ),
        tag("p", _left_out(len(together), len(lines)), class_="muted small") if left else None,
        _opening(series, together),
        _key(links, several=several, narrow=len(together) <= BAND_LINES),
        class_="charts",
        aria_labelledby="chart-head",
    )


def _wide_and_tall(series: Series, lines: Sequence[Line], name: str, most: int, rest: str = _REST) -> Markup:
    """The chart for a wide screen, and one for a phone, of which the style sheet shows one.

    `rest`: where the points are that a chart leaves out.
    """
    fewer = min(most // 2 + 1, 120)
    wide = line_chart(series, lines, most=most)
    tall = line_chart(series, lines, width=340, height=270, most=fewer)
    return join(
        tag("div", svg(wide, name), _thinned(series, lines, most, rest), class_="plot wide"),
        tag("div", svg(tall, name, said=True), _thinned(series, lines, fewer, rest), class_="plot tall"),
    )


def _thinned(series: Series, lines: Sequence[Line], most: int, rest: str) -> Markup | None:
    """Says which readings this very chart leaves out; each range and each width draws its own."""
    every = series.step * -(-max(len(line.points) for line in lines) // most)
    if every <= 1:
        return None
    words = f"The chart shows every {_ordinal(every)} reading{rest}."
    return tag("p", words, class_="muted small")


def _together(lines: Sequence[Line]) -> list[Line]:
    """The lines that share a chart: all, or the largest where there are many."""
    return sorted(lines, key=_size, reverse=True)[:TOGETHER] if len(lines) > TOGETHER else list(lines)


def _left_out(drawn: int, groups: int) -> str:
    panels = "all have a panel below" if groups <= PANELS else f"the {PANELS} largest have a panel below"
    return f"The {drawn} largest of {groups} groups; {panels}."


def _opening(series: Series, lines: Sequence[Line]) -> Markup | None:
    """Says that the first reading is not drawn, and why."""
    if all(series.drawn(line) == line.points for line in lines):
        return None
    day = time_text(series.opening or 0, daily=series.daily)
    words = f"The first reading covers everything up to {day} and is not drawn{_REST}."
    return tag("p", words, class_="muted small")


def _ordinal(count: int) -> str:
    endings = {1: "st", 2: "nd", 3: "rd"}
    ending = "th" if 10 <= count % 100 <= 20 else endings.get(count % 10, "th")
    return "second" if count == 2 else "third" if count == 3 else f"{count}{ending}"


def _from(line: Line, start: int) -> Line:
    return type(line)(line.label, tuple(point for point in line.points if point.time >= start))


def _size(line: Line) -> float:
    return line.points[-1].value or 0.0


def _key(links: Links | None, *, several: bool, narrow: bool) -> Markup:
    """What the line and the bands mean."""
    return tag(
        "ul",
        None if several else tag("li", tag("span", class_="swatch line s0"), "published value"),
        tag(
            "li", tag("span", class_="swatch wide s0"), f"95 % {NOISE_INTERVAL}: holds in 95 of 100 readings"
        ),
        tag("li", tag("span", class_="swatch narrow s0"), "50 %: in half of the readings")
        if narrow
        else None,
        tag(
            "li",
            "Intervals cover the noise that was added, and no other error. ",
            None if links is None else tag("a", "Why there is noise", href=links.guarantee),
        ),
        class_="key",
    )


def model(series: Series) -> Markup:
    """What a model makes of the readings, on a chart of its own: no line on it was measured.

    It has the groups of the chart of the readings, in the same order, so a color is one group.
    """
    together = _together([line for line in series.lines if line.points])
    lines = [series.model[series.lines.index(line)] for line in together]
    most = min(POINTS, POINTS_TOGETHER // len(lines)) // 2
    shown = replace(series, title=f"{series.title}, denoised", what=_MODEL, interval=MODEL_INTERVAL)
    left = len(series.model) - len(lines)
    return tag(
        "section",
        tag("h2", "Denoised by a model"),
        tag(
            "p",
            "A model of how such numbers move estimates each value from all published readings. It costs no "
            "privacy, and is often closer to the truth than a single reading. It is still only an estimate: "
            f"past values change when new readings arrive, and the 95 % {MODEL_INTERVAL} holds only as far "
            "as the model does.",
            class_="muted small",
        ),
        tag("figure", _wide_and_tall(shown, lines, "model", most, rest=""), class_="range only"),
        tag(
            "ul",
            (
                tag("li", tag("span", class_=f"swatch line s{index % SERIES}"), line.label or "estimate")
                for index, line in enumerate(lines)
            ),
            tag("li", tag("span", class_="swatch wide s0"), f"95 % {MODEL_INTERVAL}"),
            class_="key",
        ),
        tag("p", f"The {len(lines)} largest of {len(series.model)} groups.", class_="muted small")
        if left
        else None,
        class_="charts",
    )


def panels(series: Series, lines: Sequence[Line]) -> Markup:
    """A small chart for each group, the largest first where there are many."""
    shown = list(lines) if len(lines) <= PANELS else sorted(lines, key=_size, reverse=True)[:PANELS]
    shared = comparable(shown)
    left = len(lines) - len(shown)
    scale = "All panels have the same scale." if shared else "Each panel has a scale of its own."
    more = f" The {left} smaller groups are in the downloads." if left else ""
    return tag(
        "section",
        tag("h2", "Group by group"),
        tag("p", f"{scale}{more}", class_="muted small"),
        tag(
            "div",
            (
                tag(
                    "figure",
                    tag(
                        "figcaption",
                        tag("strong", line.label),
                        " ",
                        value(series, line.points[-1], small=True),
                    ),
                    tag(
                        "div",
                        svg(small_chart(series, line, 0, shown if shared else [line]), f"panel-{index}"),
                        class_="plot",
                    ),
                )
                for index, line in enumerate(shown)
            ),
            class_="panels",
        ),
    )
