"""The page of one release: chart with bands, ranges, groups, table, downloads, and how it is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.model.quantity import rfc3339
from tidegauge.model.reading import COVERS, TOO_SMALL
from tidegauge.publish.chart import line_chart, multiples, standalone_svg
from tidegauge.publish.markup import Markup, join, tag
from tidegauge.publish.pages.figures import TOGETHER, charts, model, panels
from tidegauge.publish.pages.layout import frame, interval, value
from tidegauge.publish.view import (
    NOISE_INTERVAL,
    every_text,
    half_text,
    interval_text,
    time_text,
    titled,
    value_text,
)
from tidegauge.publish.view import (
    number as rounded,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.publish.pages.links import Links
    from tidegauge.publish.public.values import ReleaseInfo
    from tidegauge.publish.view import Line, Point, Series, Site

ROWS: Final = 31
COLUMNS: Final = 24
CELLS: Final = 420
"""Rows of the table, groups that have a column in it, and the most numbers in it."""


def release(site: Site, series: Series, links: Links) -> str:
    """The page of a series whose lines have all their points."""
    info = site.document.release(series.name)
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
        numbers(series, links),
        _downloads(series, links),
        _related(site, series, links),
        _measured(info, series, links) if info is not None else None,
        title=series.title,
        here="",
        about=f"{series.title}: {series.what}, {every_text(series.every)}, with its {NOISE_INTERVAL}.",
        metadata=site.metadata.get(series.name, ""),
    )


def numbers(series: Series, links: Links | None) -> Markup:
    """Newest value, charts and table; without links where the page is a file of its own."""
    lines = [line for line in series.lines if line.points]
    if not lines:
        return tag("p", _nothing_yet(series), class_="empty")
    return join(
        _newest(series, lines[0]) if len(series.lines) == 1 else None,
        charts(series, lines, links),
        model(series) if series.model else None,
        panels(series, lines) if len(lines) > 1 else None,
        _table(series, lines),
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
        value(series, point),
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


# -- numbers -------------------------------------------------------------------------------------------------


def _table(series: Series, lines: Sequence[Line]) -> Markup:
    times = sorted({point.time for line in lines for point in line.points}, reverse=True)
    times = times[: max(5, min(ROWS, CELLS // min(COLUMNS, len(lines))))]
    total = series.count or len({point.time for line in lines for point in line.points})
    title = (
        f"All {total:,} readings" if total <= len(times) else f"The {len(times)} newest of {total:,} readings"
    )
    if series.step > 1:
        title = f"{len(times)} of {total:,} readings"
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
        tag(
            "p",
            f"* {TOO_SMALL}: the noise hides the value.",
            f" The first {len(shown)} of {len(lines)} groups; the downloads have all."
            if len(lines) > len(shown)
            else None,
            class_="muted small",
        ),
    )


def _time_cell(series: Series, at: int) -> Markup:
    return tag("th", tag("time", time_text(at, daily=series.daily), datetime=rfc3339(at)), scope="row")


def _single_rows(series: Series, line: Line, times: Sequence[int]) -> list[Markup]:
    points = {point.time: point for point in line.points}
    rows = []
    for at in times:
        point = points[at]
        star = "*" if series.hides(point) else None
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
    star = "*" if series.hides(point) else ""
    margin = f" ± {half_text(point.half)}" if point.half > 0 and point.value is not None else ""
    return f"{value_text(point)}{margin}{star}"


# -- below the numbers ---------------------------------------------------------------------------------------


def _downloads(series: Series, links: Links) -> Markup:
    names = {"csv": "CSV", "json": "JSON", "parquet": "Parquet", "arrow": "Arrow"}
    return tag(
        "section",
        tag("h2", "Download"),
        tag(
            "p",
            (
                tag(
                    "a",
                    names[form],
                    href=links.readings(series.name, form),
                    class_="button",
                    download=links.files or form != "json",
                )
                for form in links.forms
            ),
            tag("a", "Chart (SVG)", href=links.chart(series.name), class_="button", download=True),
            class_="buttons",
        ),
        tag(
            "p",
            f"Every reading has its value, its standard error and its 95 % {NOISE_INTERVAL}. {COVERS}",
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
    accuracy = f"± {rounded(info.half_width_worst, 1 if info.half_width_worst < 100 else 0)} at most"
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
