"""The page of one release: chart with bands, ranges, groups, table, downloads, and how it is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.model.quantity import DAY, rfc3339
from tidegauge.publish.chart import line_chart, multiples, standalone_svg, svg
from tidegauge.publish.chart.draw import BAND_LINES, comparable, small_chart
from tidegauge.publish.chart.look import SERIES
from tidegauge.publish.markup import Markup, join, tag
from tidegauge.publish.pages.layout import frame, interval, value
from tidegauge.publish.view import (
    NOISE_INTERVAL,
    TOO_SMALL,
    every_text,
    half_text,
    hidden,
    interval_text,
    number,
    time_text,
    titled,
    value_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.publish.pages.links import Links
    from tidegauge.publish.public.values import ReleaseInfo
    from tidegauge.publish.view import Line, Point, Series, Site

RANGES: Final = (("1 month", 31 * DAY), ("3 months", 92 * DAY), ("1 year", 366 * DAY))
TOGETHER: Final = 6
"""Lines in one chart; the other groups have a panel of their own."""
PANELS: Final = 24
ROWS: Final = 31
COLUMNS: Final = 24
CELLS: Final = 420
"""Rows of the table, groups that have a column in it, and the most numbers in it."""
POINTS: Final = 400
"""Points of one line in a chart; several lines have fewer, so that the page stays small."""
POINTS_TOGETHER: Final = 420


def release(site: Site, series: Series, links: Links) -> str:
    """The page of a series whose lines have all their points."""
    info = site.document.release(series.name)
    lines = [line for line in series.lines if line.points]
    lead = f"{series.what[:1].upper()}{series.what[1:]} in {series.unit}, {every_text(series.every)}"
    return frame(
        site,
        links,
        tag(
            "div",
            tag("p", tag("a", "All statistics", href=links.home), class_="crumb"),
            tag("h1", series.title),
            tag("p", lead, _since(series), ".", class_="lead"),
            class_="intro",
        ),
        join(
            _newest(series, lines[0]) if len(series.lines) == 1 else None,
            _charts(series, lines, links),
            _panels(series, lines) if len(lines) > 1 else None,
            _table(series, lines),
        )
        if lines
        else tag("p", _nothing_yet(series), class_="empty"),
        _downloads(series, links),
        _related(site, series, links),
        _measured(info, series, links) if info is not None else None,
        title=series.title,
        here="",
        about=f"{series.title}: {series.what}, {every_text(series.every)}, with its {NOISE_INTERVAL}.",
        metadata=site.metadata.get(series.name, ""),
    )


def release_chart(series: Series) -> str:
    """The chart as an SVG file: one panel with a legend, or small panels where there are many groups."""
    if len(series.lines) > TOGETHER:
        return standalone_svg(multiples(series))
    return standalone_svg(line_chart(series, legend=True))


def _nothing_yet(series: Series) -> str:
    if series.upcoming is None:
        return "Nothing has been published yet."
    return f"Nothing has been published yet. The first reading is due {time_text(series.upcoming)}."


def _since(series: Series) -> str | None:
    first = min((line.points[0].time for line in series.lines if line.points), default=None)
    return None if first is None else f", since {time_text(first, daily=series.daily)}"


def _newest(series: Series, line: Line) -> Markup:
    point = line.points[-1]
    return tag(
        "p",
        value(point, series.unit, zero_is_nothing=series.zero_is_nothing),
        tag(
            "span",
            interval(point),
            ", " if point.half > 0 else None,
            tag("time", time_text(point.time, daily=series.daily), datetime=rfc3339(point.time)),
            f"; next {time_text(series.upcoming, daily=series.daily)}"
            if series.upcoming is not None
            else None,
            class_="foot",
        ),
        class_="now large",
    )


# -- charts --------------------------------------------------------------------------------------------------


def _charts(series: Series, lines: Sequence[Line], links: Links) -> Markup:
    """A chart for each range; the choice of ranges and lines works without a script."""
    together = sorted(lines, key=_size, reverse=True)[:TOGETHER] if len(lines) > TOGETHER else list(lines)
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
    thin = max(len(line.points) for line in together) > most
    note = f"{_thinned_note(together, most)} " if thin else None
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
        tag(
            "p",
            note,
            f"The {len(together)} largest of {len(lines)} groups; all have a panel below. " if left else None,
            class_="muted small",
        )
        if note or left
        else None,
        _key(links, several=several, narrow=len(together) <= BAND_LINES),
        class_="charts",
        aria_labelledby="chart-head",
    )


def _wide_and_tall(series: Series, lines: Sequence[Line], name: str, most: int) -> Markup:
    """The chart for a wide screen, and one for a phone, of which the style sheet shows one."""
    wide = line_chart(series, lines, most=most)
    tall = line_chart(series, lines, width=400, height=300, most=min(most // 2 + 1, 120))
    return join(
        tag("div", svg(wide, name), class_="plot wide"),
        tag("div", svg(tall, name, said=True), class_="plot tall"),
    )


def _thinned_note(lines: Sequence[Line], most: int) -> str:
    longest = max(len(line.points) for line in lines)
    return f"The chart shows every {_ordinal(-(-longest // most))} reading; the downloads have all."


def _ordinal(count: int) -> str:
    endings = {1: "st", 2: "nd", 3: "rd"}
    ending = "th" if 10 <= count % 100 <= 20 else endings.get(count % 10, "th")
    return "second" if count == 2 else "third" if count == 3 else f"{count}{ending}"


def _from(line: Line, start: int) -> Line:
    return type(line)(line.label, tuple(point for point in line.points if point.time >= start))


def _size(line: Line) -> float:
    return line.points[-1].value or 0.0


def _key(links: Links, *, several: bool, narrow: bool) -> Markup:
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
            tag("a", "Why there is noise", href=links.guarantee),
        ),
        class_="key",
    )


def _panels(series: Series, lines: Sequence[Line]) -> Markup:
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
                        value(
                            line.points[-1], series.unit, zero_is_nothing=series.zero_is_nothing, small=True
                        ),
                    ),
                    svg(
                        small_chart(series, line, 0, shown if shared else [line]),
                        f"panel-{index}",
                        class_="chart panel",
                    ),
                )
                for index, line in enumerate(shown)
            ),
            class_="panels",
        ),
    )


# -- numbers -------------------------------------------------------------------------------------------------


def _table(series: Series, lines: Sequence[Line]) -> Markup:
    times = sorted({point.time for line in lines for point in line.points}, reverse=True)
    times = times[: max(5, min(ROWS, CELLS // min(COLUMNS, len(lines))))]
    total = series.count or len({point.time for line in lines for point in line.points})
    title = (
        f"All {total:,} readings" if total <= len(times) else f"The {len(times)} newest of {total:,} readings"
    )
    shown = list(lines)[:COLUMNS]
    body = (
        _single_rows(series, lines[0], times) if len(series.lines) == 1 else _group_rows(series, shown, times)
    )
    head = (
        ("Time", f"Value ({series.unit})", "±", f"95 % {NOISE_INTERVAL}")
        if len(series.lines) == 1
        else ("Time", *(line.label for line in shown))
    )
    return tag(
        "details",
        tag("summary", f"Table: {title[:1].lower()}{title[1:]}"),
        tag(
            "div",
            tag(
                "table",
                tag("caption", f"{series.title}, in {series.unit}; ± is half of the 95 % {NOISE_INTERVAL}"),
                tag("thead", tag("tr", (tag("th", name, scope="col") for name in head))),
                tag("tbody", body),
                class_="plain numbers",
            ),
            class_="scroll",
            tabindex="0",
            role="region",
            aria_label="Table of readings",
        ),
        tag("p", f"* {TOO_SMALL}: the noise hides the value.", class_="muted small"),
    )


def _time_cell(series: Series, at: int) -> Markup:
    return tag("th", tag("time", time_text(at, daily=series.daily), datetime=rfc3339(at)), scope="row")


def _single_rows(series: Series, line: Line, times: Sequence[int]) -> list[Markup]:
    points = {point.time: point for point in line.points}
    rows = []
    for at in times:
        point = points[at]
        star = "*" if hidden(point, zero_is_nothing=series.zero_is_nothing) else None
        rows.append(
            tag(
                "tr",
                _time_cell(series, at),
                tag("td", value_text(point), star),
                tag("td", half_text(point.half)),
                tag("td", interval_text(point)),
            )
        )
    return rows


def _group_rows(series: Series, lines: Sequence[Line], times: Sequence[int]) -> list[Markup]:
    points = [{point.time: point for point in line.points} for line in lines]
    return [
        tag("tr", _time_cell(series, at), (tag("td", _cell(series, by_time.get(at))) for by_time in points))
        for at in times
    ]


def _cell(series: Series, point: Point | None) -> str:
    if point is None:
        return ""
    star = "*" if hidden(point, zero_is_nothing=series.zero_is_nothing) else ""
    margin = f" ± {half_text(point.half)}" if point.half > 0 and point.value is not None else ""
    return f"{value_text(point)}{margin}{star}"


# -- below the numbers ---------------------------------------------------------------------------------------


def _downloads(series: Series, links: Links) -> Markup:
    forms = (("CSV", "csv"), ("JSON", "json"), ("Parquet", "parquet"))
    return tag(
        "section",
        tag("h2", "Download"),
        tag(
            "p",
            (
                tag("a", name, href=links.readings(series.name, form), class_="button", download=True)
                for name, form in forms
            ),
            tag("a", "Chart (SVG)", href=links.chart(series.name), class_="button", download=True),
            class_="buttons",
        ),
        tag(
            "p",
            "Every reading has its value, its standard error and its 95 % noise interval.",
            class_="muted small",
        ),
    )


def _related(site: Site, series: Series, links: Links) -> Markup | None:
    """The other series of the same measurements: they cost no further privacy."""
    if not series.siblings:
        return None
    whats = {one.name: one.what for one in site.document.releases}
    return tag(
        "section",
        tag("h2", "From the same measurements"),
        tag(
            "ul",
            (
                tag("li", tag("a", titled(name), href=links.release(name)), f": {whats.get(name, '')}")
                for name in series.siblings
            ),
        ),
        tag("p", "These statistics need no further noise and cost no further privacy.", class_="muted small"),
    )


def _measured(info: ReleaseInfo, series: Series, links: Links) -> Markup:
    planned = "without end" if info.count is None else f"{info.count:,} readings"
    accuracy = f"± {number(info.half_width_worst, 1 if info.half_width_worst < 100 else 0)} at most"
    return tag(
        "details",
        tag("summary", "How it is measured"),
        tag(
            "dl",
            _pair("Query", tag("code", info.sql)),
            _pair("Schedule", f"{every_text(info.every)} from {rfc3339(info.start)}, {planned}"),
            _pair("Predicted noise (95 %)", f"{accuracy} {series.unit}"),
            _pair("Strategy", f"{info.strategy}, {info.noise} noise"),
            _pair("Derived from", titled(info.of)) if info.of else None,
            class_="facts",
        ),
        tag(
            "p",
            tag("a", "Sensitivity, noise and composition of all releases", href=f"{links.guarantee}#experts"),
        ),
    )


def _pair(name: str, shown: str) -> Markup:
    return tag("div", tag("dt", name), tag("dd", shown))
